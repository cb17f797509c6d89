"""Exact permutation tests on seeds, with the smallest p they can reach (a robustness row, E1 only).

Three seeds against three have 20 arrangements, so no result can fall below 2/20: such a test is
powerless, not strict, and says so instead of "not significant" (statistics, section 10).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from seedwise.stats.results import StatsError

MOST_SEEDS = 32
MOST_PAIRS = 16


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
    Raises StatsError on an empty arm, values that are not finite, or more than 32 seeds together.
    """
    arms = [np.asarray(arm, dtype=np.float64) for arm in (a, b)]
    for name, arm in zip("ab", arms, strict=True):
        if arm.ndim != 1 or arm.size == 0 or not np.isfinite(arm).all():
            raise StatsError(f"arm {name}: {arm.tolist()}: give at least one finite score per seed")
    if statistic not in ("mean", "rank"):
        raise StatsError(f"statistic: {statistic!r}: use 'mean' or 'rank'")
    first, total = len(arms[0]), len(arms[0]) + len(arms[1])
    if total > MOST_SEEDS:
        raise StatsError(f"{first} and {total - first} seeds: above {MOST_SEEDS} together use Welch's test instead")
    count = comb(total, first)
    pooled = np.concatenate(arms)
    values = rankdata(pooled) if statistic == "rank" else pooled
    # mean(a) - mean(b) is a linear function of the sum over a, so distances are compared on that sum
    centre, ordered = float(values.sum()) * first / total, np.sort(values)
    seen = abs(float(values[:first].sum()) - centre)
    farthest = max(float(ordered[-first:].sum()) - centre, centre - float(ordered[:first].sum()))
    p, smallest = (_at_least(values, first, centre, distance) / count for distance in (seen, farthest))
    reachable = smallest <= alpha
    reason = (
        None
        if reachable
        else f"{first} against {total - first} seeds cannot reach p <= {alpha:g}: {smallest:.3g} is the smallest"
    )
    difference = float(values[:first].mean() - values[first:].mean())
    return Permutation(difference, p, smallest, count, p <= alpha if reachable else None, reason)


def _at_least(values: NDArray[np.float64], first: int, centre: float, distance: float) -> int:
    """How many subsets of ``first`` values have a sum at least ``distance`` from the centre.

    A subset is one of the first half of the values and one of the second, so only 2^(N/2) sums are listed.
    """
    slack = 1e-12 * max(float(np.abs(values).sum()), 1e-300)
    left, right = (_sums_by_size(half) for half in np.array_split(values, 2))
    count = 0
    for k, own in left.items():
        if (others := right.get(first - k)) is not None:
            ranked = np.sort(others)
            count += int((len(ranked) - np.searchsorted(ranked, centre + distance - slack - own, side="left")).sum())
            # at distance 0 both sides are every subset
            count += int(np.searchsorted(ranked, centre - distance + slack - own, side="right").sum())
    return min(count, comb(len(values), first))


def _sums_by_size(values: NDArray[np.float64]) -> dict[int, NDArray[np.float64]]:
    """Size -> sums of all subsets of that size."""
    sums = {0: np.zeros(1)}
    for value in values:
        larger = {k + 1: own + value for k, own in sums.items()}
        sums = {k: np.concatenate([part[k] for part in (sums, larger) if k in part]) for k in range(max(larger) + 1)}
    return sums


def sign_flip_test(differences: ArrayLike, alpha: float = 0.05) -> Permutation:
    """Exact two-sided test that paired differences [S] have random signs, for seeds that share randomness.

    p is the share of the 2^S sign patterns whose mean is at least as far from 0.  It cannot fall below
    2 / 2^S: three seeds never reach significance (0.25), which it says instead.
    Raises StatsError on an empty list, a value that is not finite, or more than 16 pairs.
    """
    d_S = np.asarray(differences, dtype=np.float64)
    if d_S.ndim != 1 or d_S.size == 0 or not np.isfinite(d_S).all():
        raise StatsError(f"differences {d_S.tolist()}: give at least one finite difference per seed")
    S = len(d_S)
    if S > MOST_PAIRS:
        raise StatsError(f"{S} pairs: above {MOST_PAIRS} use Welch's test instead")
    signs = 1 - 2 * ((np.arange(2**S)[:, None] >> np.arange(S)) & 1)
    distance = np.abs(signs @ d_S)
    slack = 1e-12 * max(float(np.abs(d_S).sum()), 1e-300)
    p, smallest = (float(np.mean(distance >= far - slack)) for far in (distance[0], distance.max()))
    reason = None if smallest <= alpha else f"{S} pairs cannot reach p <= {alpha:g}: {smallest:.3g} is the smallest"
    return Permutation(float(d_S.mean()), p, smallest, 2**S, p <= alpha if reason is None else None, reason)
