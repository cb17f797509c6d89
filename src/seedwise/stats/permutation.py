"""Exact permutation tests on seeds, with the smallest p they can reach (a robustness row, E1 only).

Three seeds against three have 20 arrangements, so no result can fall below 2/20: such a test is
powerless, not strict, and says so instead of "not significant" (statistics, section 10).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from seedwise.stats.results import StatsError

MOST_ARRANGEMENTS = 200_000


@dataclass(frozen=True)
class Permutation:
    """difference: mean of a minus mean of b (of scores, or of ranks).  p: two-sided, exact.
    smallest_p: what this test reaches at best on these values.  significant: None where ``reason`` says
    that alpha is out of reach."""

    difference: float
    p: float
    smallest_p: float
    arrangements: int
    significant: bool | None
    reason: str | None = None


def permutation_test(
    a: ArrayLike, b: ArrayLike, *, statistic: Literal["mean", "rank"] = "mean", alpha: float = 0.05
) -> Permutation:
    """Exact two-sided test that the seeds of two methods are exchangeable.

    a [S_a], b [S_b]: one score per seed.  p is the share of the C(S_a + S_b, S_a) label arrangements
    whose difference is at least as far from its centre as the one seen.  "rank" is the exact
    Mann-Whitney test with mid-ranks for ties.
    Raises StatsError on an empty arm, values that are not finite, or more than 200,000 arrangements.
    """
    arms = [np.asarray(arm, dtype=np.float64) for arm in (a, b)]
    for name, arm in zip("ab", arms, strict=True):
        if arm.ndim != 1 or arm.size == 0 or not np.isfinite(arm).all():
            raise StatsError(f"arm {name}: {arm.tolist()}: give at least one finite score per seed")
    if statistic not in ("mean", "rank"):
        raise StatsError(f"statistic: {statistic!r}: use 'mean' or 'rank'")
    first, total = len(arms[0]), len(arms[0]) + len(arms[1])
    count = comb(total, first)
    if count > MOST_ARRANGEMENTS:
        raise StatsError(f"{first} and {total - first} seeds have {count} arrangements: use Welch's test instead")
    pooled = np.concatenate(arms)
    values = rankdata(pooled) if statistic == "rank" else pooled
    chosen = np.array(list(combinations(range(total), first)))
    # mean(a) - mean(b) is a linear function of the sum over a, so distances are compared on that sum
    sums = values[chosen].sum(axis=1)
    distance = np.abs(sums - values.sum() * first / total)
    slack = 1e-12 * max(float(np.abs(values).sum()), 1e-300)
    p = float(np.mean(distance >= distance[0] - slack))
    smallest = float(np.mean(distance >= distance.max() - slack))
    reachable = smallest <= alpha
    reason = (
        None
        if reachable
        else f"{first} against {total - first} seeds cannot reach p <= {alpha:g}: {smallest:.3g} is the smallest"
    )
    difference = float(values[:first].mean() - values[first:].mean())
    return Permutation(difference, p, smallest, count, p <= alpha if reachable else None, reason)
