"""What happened at each step, as rows of METRICS.

Dimension key:  P prompts, G samples of one prompt.

Conventions.  Steps count from 1.  What is known of a rollout is recorded at the first optimizer step
that uses it, what is known of an update at every step.  Shares are of responses, groups or tokens, as
the name says, and lie in 0..1.  Entropy is that of the policy that generated the response, in nats over
the whole vocabulary at the training temperature, averaged over tokens; every response counts, also
those that are left out of the update, or comparisons across sparsity would be biased by selection.
A quantity that does not exist in a step is null with the reason.

A group is flat when all of its answers are correct or none is.  Of the others it is hard when at least
``gate`` of its answers are wrong, else easy; the gate is the algorithm's own, as it stood at the step, and
one half without one.

With dynamic sampling more is generated than trains, and what trains is selected.  What is said of responses
and groups is of all that were generated for the step; what is said of advantages is of those that train.

Wall-clock times differ between reruns, so they are kept apart, in the same schema.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pandas as pd

from seedwise import tables
from seedwise.models.sizes import flops

if TYPE_CHECKING:
    from seedwise.algos.algorithm import Algorithm
    from seedwise.models.sizes import Size
    from seedwise.trainer.rollout import Row

Value = tuple[float | None, str | None]  # (value, why it is null)

SIGNS = ("positive", "zero", "negative")
NONE = "no response in this step"


class Drawn(Protocol):
    """A rollout of all processes.  rows: those that train.  generated: all drawn for the step."""

    rows: list[Row]
    generated: list[Row]
    draws: int


@dataclass(frozen=True)
class Learned:
    """What the algorithm made of a rollout, over all processes.

    advantages: of each response that trains, row-major, P x G values.  K: the quantile level in use, gate: the
    share of wrong answers from which a group is hard, None where the algorithm has none.
    h_at: shares of response tokens with entropic h at 0 and at 1.
    """

    advantages: Sequence[float]
    K: float | None
    gate: float | None
    h_at: tuple[float, float] | None


@dataclass(frozen=True)
class Updated:
    """One optimizer step, over all processes.

    loss: summed over micro-batches.  gradient_norm: before clipping.  clipped: shares of response tokens
    held back by the low and the high bound, None where the surrogate has no such bounds or no token trains.
    trained_tokens: response tokens that went through forward and backward.
    """

    loss: float
    gradient_norm: float
    learning_rate: float
    clipped: tuple[float, float] | None
    trained_tokens: int


@dataclass
class Records:
    """The metrics and times of a run so far.

    group_size: G.  words: exploratory words.  totals: tokens generated and trained so far.  size: of the model, None
    where it is not known.  adapter: whether a low-rank adapter trains in place of the whole model.
    """

    group_size: int
    words: tuple[str, ...]
    metrics: list[dict] = field(default_factory=list)
    timing: list[dict] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=lambda: {"generated_tokens": 0, "trained_tokens": 0})
    size: Size | None = None
    adapter: bool = False

    def rollout(self, step: int, rollout: Drawn, learned: Learned) -> None:
        """Record a rollout of all processes: its ``rows`` in the order of ``learned``'s advantages."""
        G, rows = self.group_size, rollout.generated
        correct = [row.verdict == "correct" for row in rows]
        generated = sum(row.tokens for row in rows)
        gate = 0.5 if learned.gate is None else learned.gate
        self._add(
            step,
            {
                "reward": _mean([row.correct + row.penalty for row in rows]),
                "correct_share": _mean(correct),
                "entropy_nats": _token_mean(rows, NONE),
                **_entropies(rollout.rows, learned.advantages),
                **_signs(learned.advantages),
                "advantage_mass": _finite(sum(abs(value) for value in learned.advantages)),
                "K": (learned.K, None if learned.K is not None else "the baseline has no K"),
                **_groups([sum(correct[i : i + G]) for i in range(0, len(rows), G)], G, gate),
                **_saturation(learned.h_at),
                **_words(rows, self.words),
                "length_tokens": _mean([row.tokens for row in rows]),
                "truncated_share": _mean([row.stop == "length" for row in rows]),
                "unparsed_responses": (sum(row.verdict == "unparsed" for row in rows), None),
                "timeout_responses": (sum(row.verdict == "timeout" for row in rows), None),
                "generated_responses": (len(rows), None),
                "prompt_draws": (rollout.draws, None),
                "late_response_share": _mean([row.late for row in rollout.rows]),
                **self._tokens("generated_tokens", generated),
            },
        )

    def update(self, step: int, done: Updated) -> None:
        """Record an optimizer step."""
        why = "the surrogate has no clip bounds, or no token trains"
        low, high = done.clipped if done.clipped else (None, None)
        self._add(
            step,
            {
                "loss": _finite(done.loss),
                "gradient_norm": _finite(done.gradient_norm),
                "learning_rate": _finite(done.learning_rate),
                "clip_low_share": (low, None if low is not None else why),
                "clip_high_share": (high, None if high is not None else why),
                **self._tokens("trained_tokens", done.trained_tokens),
                "flops_total": self._flops(),
            },
        )

    def diagnosed(self, step: int, found: dict[str, Value]) -> None:
        """Record diagnostics."""
        self._add(step, found)

    def time(self, step: int, found: dict[str, Value]) -> None:
        """Record what is measured and differs between reruns: wall-clock times, s, memory and energy, by name."""
        self.timing += [
            {"step": step, "name": name, "value": value, "reason": reason} for name, (value, reason) in found.items()
        ]

    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """(metrics, timing) in the columns of METRICS."""
        columns = [column[0] for column in tables.METRICS.columns]
        return pd.DataFrame(self.metrics, columns=columns), pd.DataFrame(self.timing, columns=columns)

    def restore(self, metrics: pd.DataFrame, timing: pd.DataFrame, totals: dict[str, int]) -> None:
        """Go on from records saved earlier."""
        self.metrics, self.timing, self.totals = _rows(metrics), _rows(timing), dict(totals)

    def _tokens(self, name: str, tokens: int) -> dict[str, Value]:
        self.totals[name] += tokens
        return {name: (tokens, None), f"{name}_total": (self.totals[name], None)}

    def _flops(self) -> Value:
        """Floating-point operations so far, of generated and trained tokens; passes that only score are left out."""
        if self.size is None:
            return None, "how many parameters the model has is not known"
        spent = {name.removesuffix("_tokens"): float(tokens) for name, tokens in self.totals.items()}
        return flops(self.size, **spent, adapter=self.adapter), None

    def _add(self, step: int, values: dict[str, Value]) -> None:
        self.metrics += [
            {"step": step, "name": name, "value": None if value is None else float(value), "reason": reason}
            for name, (value, reason) in values.items()
        ]


def levels(algorithm: Algorithm, memory: dict) -> tuple[float | None, float | None]:
    """(K, gate) as they stand: the level of a quantile, moved by a schedule or not, and where groups turn hard.

    The gate is K, or the tau of a gate written without a quantile.  None where the baselines have no such thing.
    """
    K = tau = None
    for part, state in zip(algorithm.baseline, memory["baseline"], strict=True):
        K = state.get("K", getattr(part, "K", K))
        tau = getattr(part, "tau", tau)
    return K, tau if K is None else K


def exploratory(text: str, words: Iterable[str]) -> Counter[str]:
    """How often each word stands in the text, as a whole word in any case (``so`` is not in ``sober``)."""
    whole = "|".join(re.escape(word) for word in words)
    return (
        Counter(found.lower() for found in re.findall(rf"\b(?:{whole})\b", text, re.IGNORECASE)) if whole else Counter()
    )


def _entropies(rows: Sequence[Row], advantages: Sequence[float]) -> dict[str, Value]:
    found = {}
    for sign in SIGNS:
        some = [row for row, value in zip(rows, advantages, strict=True) if _sign(value) == sign]
        found[f"entropy_nats_{sign}"] = _token_mean(some, f"no response with {sign} advantage in this step")
    return found


def _token_mean(rows: Sequence[Row], why_none: str) -> Value:
    if not rows:
        return None, why_none
    sums = [row.entropy_nats for row in rows if row.entropy_nats is not None]
    if len(sums) < len(rows):
        return None, "the engine gives no entropy over the whole vocabulary"
    return _finite(math.fsum(sums) / sum(row.tokens for row in rows))


def _signs(advantages: Sequence[float]) -> dict[str, Value]:
    return {f"{sign}_advantage_share": _mean([_sign(value) == sign for value in advantages]) for sign in SIGNS}


def _sign(value: float) -> str:
    return "positive" if value > 0 else "negative" if value < 0 else "zero"


def _groups(n1_P: list[int], G: int, gate: float) -> dict[str, Value]:
    """Shares of groups by their number of correct answers."""
    flat = [n1 in (0, G) for n1 in n1_P]
    # G - n1 >= gate G, not p <= 1 - gate: that misfires in floating point
    hard = [not level and G - n1 >= gate * G - 1e-9 for n1, level in zip(n1_P, flat, strict=True)]
    easy = [not level and not low for level, low in zip(flat, hard, strict=True)]
    shares = {"flat_group_share": flat, "hard_group_share": hard, "easy_group_share": easy}
    histogram = {f"groups_with_{n1}_of_{G}_correct_share": [found == n1 for found in n1_P] for n1 in range(G + 1)}
    return {name: _mean(values) for name, values in {**shares, **histogram}.items()}


def _saturation(h_at: tuple[float, float] | None) -> dict[str, Value]:
    names = ("entropic_h_at_low_share", "entropic_h_at_high_share")
    values = h_at or (None, None)
    why = None if h_at else "the credit rule has no h"
    return {name: (value, why) for name, value in zip(names, values, strict=True)}


def _words(rows: Sequence[Row], words: tuple[str, ...]) -> dict[str, Value]:
    tokens = sum(row.tokens for row in rows)
    names = ["words_per_1000_tokens", *(f"{word}_per_1000_tokens" for word in words)]
    if not tokens:
        return dict.fromkeys(names, (None, NONE))
    found = exploratory("\n".join(row.text for row in rows), words)
    by_word = {word: found[word.lower()] for word in words}
    counts = [sum(by_word.values()), *by_word.values()]
    return {name: (1000 * count / tokens, None) for name, count in zip(names, counts, strict=True)}


def _mean(values: Sequence[float]) -> Value:
    return _finite(math.fsum(values) / len(values)) if values else (None, NONE)


def _finite(value: float) -> Value:
    return (value, None) if math.isfinite(value) else (None, f"not finite: {value}")


def _rows(frame: pd.DataFrame) -> list[dict]:
    return frame.astype(object).where(frame.notna(), None).to_dict("records")
