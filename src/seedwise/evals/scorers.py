"""Scorers of best-of-k: each says which of a problem's samples looks best without knowing which is right.

Adding one takes a function, its name in ``SCORERS``, and the name in ``study.Scorer``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Samples = Sequence[Mapping[str, Any]]


class Scorer(Protocol):
    """Says which of a problem's samples looks best, for best-of-k."""

    def __call__(self, samples: Samples) -> Sequence[float | None] | None:
        """A score per sample, higher is better, None for a sample without one; None where nothing can be scored.

        samples: rows of ``tables.SAMPLES`` with their extracted ``answer``; whether one is right is not among them.
        """
        ...


def shortest(samples: Samples) -> list[float | None]:
    """The fewer tokens the better; a response cut by length has no score."""
    return [None if row["stop"] == "length" else -float(row["tokens"]) for row in samples]


def longest(samples: Samples) -> list[float | None]:
    """The more tokens the better; a response cut by length has no score."""
    return [None if row["stop"] == "length" else float(row["tokens"]) for row in samples]


def most_frequent(samples: Samples) -> list[float | None]:
    """The more of all n samples give the same text as answer the better; without an answer no score.

    Unlike majority@k it counts votes among all n samples, and the best of k is chosen by them.
    """
    votes = Counter(row["answer"] for row in samples)
    return [None if row["answer"] is None else float(votes[row["answer"]]) for row in samples]


def log_probability(samples: Samples) -> list[float | None] | None:
    """The likelier its tokens under the model the better, mean nats of a token; a cut response has no score.

    Needs the column ``log_probability``, the sum of a response's token log-probabilities in nats; None without it.
    """
    if any(row.get("log_probability") is None for row in samples):
        return None
    return [None if row["stop"] == "length" else row["log_probability"] / row["tokens"] for row in samples]


SCORERS: dict[str, Scorer] = {
    "shortest": shortest,
    "longest": longest,
    "most_frequent": most_frequent,
    "log_probability": log_probability,
}
