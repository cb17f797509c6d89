"""Equal-cost comparison: the score of each run at a common budget instead of a common step.

Cost is whatever accumulates during training: generated tokens, trained tokens, device seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seedwise.stats.curves import welch
from seedwise.stats.results import Contrast, StatsError

Run = tuple[ArrayLike, ArrayLike]
"""Cumulative cost [T] of a run, rising, and its values [T] there."""


@dataclass(frozen=True)
class EqualCost:
    """budget: the common cost.  scores: arm -> [S] value of each run there.  contrasts: arm -> Welch's test
    against the reference (new seeds, E1); empty where ``reason`` says why."""

    budget: float | None
    scores: Mapping[str, NDArray[np.float64]]
    contrasts: Mapping[str, Contrast]
    reason: str | None = None


def equal_cost(
    arms: Mapping[str, Sequence[Run]], reference: str, *, budget: float | None = None, alpha: float = 0.05
) -> EqualCost:
    """Compare every arm with the reference at one budget.

    arms: name -> runs.  budget: None is the largest that every run reached.  A run's value there is
    interpolated linearly between its checkpoints, never extrapolated: a budget outside some run leaves
    everything undefined, with the run named.  Raises StatsError when the reference is no arm, an arm has no
    run, or a curve is none.
    """
    if reference not in arms:
        raise StatsError(f"reference {reference!r} is not among the arms {sorted(arms)}")
    if empty := [name for name, runs in arms.items() if not runs]:
        raise StatsError(f"arm {empty[0]!r} has no run")
    common = last_common(arms) if budget is None else float(budget)
    for name, runs in arms.items():
        for s, (cost, _) in enumerate(runs):
            first, last = float(np.min(cost)), float(np.max(cost))
            if not first <= common <= last:
                reason = f"budget {common:g} is outside run {s} of {name!r}, measured from {first:g} to {last:g}"
                return EqualCost(common, {}, {}, reason)
    scores = {name: np.array([float(at_cost(*run, common)) for run in runs]) for name, runs in arms.items()}
    others = [name for name in arms if name != reference]
    return EqualCost(common, scores, {name: welch(scores[name], scores[reference], alpha) for name in others})


def last_common(arms: Mapping[Any, Sequence[Run]]) -> float:
    """Largest cost that every run of every arm reached."""
    return min(float(np.max(cost)) for runs in arms.values() for cost, _ in runs)


def at_cost(cost: ArrayLike, values: ArrayLike, budget: float) -> NDArray[np.float64]:
    """Values [T, ...] of one run interpolated linearly at ``budget``; the trailing axes stay.

    cost [T]: cumulative, rising.  With values [T, P] it gives the problem scores that ``tw_contrast``
    takes.  Raises StatsError when the cost does not rise, a number is not finite, or the budget lies
    outside it.
    """
    x, y = np.asarray(cost, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or y.shape[:1] != x.shape:
        raise StatsError(f"cost of shape {x.shape} and values of shape {y.shape}: give one cost per measurement")
    if not np.isfinite(x).all() or (np.diff(x) <= 0).any():
        raise StatsError("cost must rise: sort the curve and give every checkpoint once")
    if not np.isfinite(y).all():
        raise StatsError(f"value {y[~np.isfinite(y)].flat[0]}: leave the checkpoint out")
    if not x[0] <= budget <= x[-1]:
        raise StatsError(f"budget {budget:g} is outside {x[0]:g} to {x[-1]:g}: curves are not extrapolated")
    right = int(np.searchsorted(x, budget, side="left"))
    if x[right] == budget:
        return y[right]
    share = (budget - x[right - 1]) / (x[right] - x[right - 1])
    return y[right - 1] + share * (y[right] - y[right - 1])
