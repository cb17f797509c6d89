"""Aggregates of a runs x benchmarks matrix as rliable defines them (Agarwal et al. 2021): descriptive only.

Its intervals are not used: they redraw the run independently for every benchmark, which declares a
difference between identical methods in 33 to 49 % of studies in which one checkpoint is evaluated on
all benchmarks (statistics, section 4.1).  The interquartile mean trims solved and unsolved benchmarks
and is not the macro average that the tables test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import trim_mean

from seedwise.stats.effects import superiority
from seedwise.stats.results import StatsError


@dataclass(frozen=True)
class Aggregates:
    """mean, median: over benchmarks of the mean over seeds.  iqm: mean of the middle half of all scores.
    optimality_gap: mean shortfall from the target."""

    mean: float
    median: float
    iqm: float
    optimality_gap: float


def aggregates(scores_SB: ArrayLike, target: float = 1.0) -> Aggregates:
    """Aggregates of scores [S, B], one row per seed and one column per benchmark.

    ``iqm``: scores over both axes, 25 % trimmed at each end.  ``optimality_gap``: ``target - mean(min(y,
    target))``.  Raises StatsError on an empty matrix or scores that are not finite.
    """
    y_SB = _matrix("scores", scores_SB)
    means_B = y_SB.mean(axis=0)
    return Aggregates(
        mean=float(means_B.mean()),
        median=float(np.median(means_B)),
        iqm=float(trim_mean(y_SB.ravel(), 0.25)),
        optimality_gap=target - float(np.minimum(y_SB, target).mean()),
    )


def probability_of_improvement(a_SB: ArrayLike, b_SB: ArrayLike) -> float:
    """Mean over benchmarks of the probability that a random seed of a beats one of b, ties counting 1/2.

    a [S_a, B], b [S_b, B].  Raises StatsError on different numbers of benchmarks, an empty matrix, or
    scores that are not finite.
    """
    a, b = _matrix("a", a_SB), _matrix("b", b_SB)
    if a.shape[1] != b.shape[1]:
        raise StatsError(f"{a.shape[1]} and {b.shape[1]} benchmarks: give both methods the same ones")
    return float(np.mean([superiority(a[:, i], b[:, i]) for i in range(a.shape[1])]))


def performance_profile(scores_SB: ArrayLike, thresholds: ArrayLike) -> NDArray[np.float64]:
    """Share of all scores [S, B] above each threshold [X], as an array [X].

    Raises StatsError as ``aggregates``.
    """
    y_SB = _matrix("scores", scores_SB)
    return (y_SB[..., None] > np.asarray(thresholds, dtype=np.float64)).mean(axis=(0, 1))


def _matrix(name: str, scores: ArrayLike) -> NDArray[np.float64]:
    y_SB = np.asarray(scores, dtype=np.float64)
    if y_SB.ndim != 2 or y_SB.size == 0 or not np.isfinite(y_SB).all():
        raise StatsError(f"{name} of shape {y_SB.shape}: give finite scores (seeds, benchmarks)")
    return y_SB
