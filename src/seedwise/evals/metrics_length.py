"""Length of responses, accuracy under a budget of tokens, and accuracy by difficulty.

Lengths are tokens of a response, its stop token included, as the samples record them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Lengths:
    """Of the samples of one problem.

    mean, correct, incorrect: mean tokens of all, of the correct and of the other samples; None where there is none.
    truncated: share that was stopped by length.
    """

    mean: float
    correct: float | None
    incorrect: float | None
    truncated: float


def lengths(tokens_K: Sequence[int], stop_K: Sequence[str], correct_K: Sequence[bool]) -> Lengths:
    """Response length and truncation.  Raises ValueError without samples."""
    if not len(tokens_K):
        raise ValueError("lengths of no samples are undefined: sample the problem")
    pairs = list(zip(tokens_K, correct_K, strict=True))
    return Lengths(
        mean=math.fsum(tokens_K) / len(tokens_K),
        correct=_mean([tokens for tokens, correct in pairs if correct]),
        incorrect=_mean([tokens for tokens, correct in pairs if not correct]),
        truncated=sum(stop == "length" for stop in stop_K) / len(tokens_K),
    )


def within(tokens_K: Sequence[int], stop_K: Sequence[str], correct_K: Sequence[bool], budget: int) -> float | None:
    """Matched-token accuracy: the share of samples that are correct and ended within ``budget`` tokens.

    It is what accuracy would have been with max_tokens at ``budget``, so methods that write at different length are
    compared at equal cost; a response that would have been cut counts as wrong.  None where a sample was itself cut
    below the budget, since what it would have come to is not known.  Raises ValueError without samples.
    """
    if not len(tokens_K):
        raise ValueError("accuracy of no samples is undefined: sample the problem")
    if any(stop == "length" and tokens < budget for tokens, stop in zip(tokens_K, stop_K, strict=True)):
        return None
    ended = [tokens <= budget for tokens in tokens_K]
    return sum(inside and bool(correct) for inside, correct in zip(ended, correct_K, strict=True)) / len(tokens_K)


def band(accuracy: float, edges: Sequence[float]) -> str:
    """The band of difficulty an accuracy lies in, as text: ``0-0.25``.

    edges: increasing, from 0 to 1.  A band holds its lower edge; the last one holds 1 too.
    Raises ValueError on other edges or an accuracy outside 0..1.
    """
    if len(edges) < 2 or edges[0] != 0 or edges[-1] != 1 or any(a >= b for a, b in pairwise(edges)):
        raise ValueError(f"edges: {list(edges)}: give increasing numbers from 0 to 1")
    if not 0 <= accuracy <= 1:
        raise ValueError(f"accuracy {accuracy} is not a share of samples")
    place = next(i for i, upper in enumerate(edges[1:]) if accuracy < upper or upper == 1)
    return f"{edges[place]:g}-{edges[place + 1]:g}"


def by_band(
    accuracy_N: Mapping[str, float], base_N: Mapping[str, float], edges: Sequence[float]
) -> dict[str, tuple[float | None, int]]:
    """Per band: mean accuracy over its problems and their number; None for a band without problems.

    base_N: the base model's accuracy on the same problems, which fixes the bands for every method alike, before any
    method is looked at.  Raises ValueError naming a problem that the base model has no accuracy for.
    """
    values: dict[str, list[float]] = {band(low, edges): [] for low in edges[:-1]}
    for problem, accuracy in accuracy_N.items():
        if problem not in base_N:
            raise ValueError(f"problem {problem!r} has no accuracy of the base model: sample the base on it")
        values[band(base_N[problem], edges)].append(accuracy)
    return {name: (_mean(some), len(some)) for name, some in values.items()}


def hard(base_N: Mapping[str, float], below: float = 0.25) -> frozenset[str]:
    """Problems that the base model solves in less than this share of its samples (EAPO, table 4: low accuracy).

    The paper's bound is not given; it is fixed before any method is looked at, and the same for all.
    """
    return frozenset(problem for problem, accuracy in base_N.items() if accuracy < below)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
