"""Does one method vary more over seeds?  Brown and Forsythe's test, from five seeds on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import levene

from seedwise.stats.results import StatsError

FEWEST_SEEDS = 5


@dataclass(frozen=True)
class Spreads:
    """ratio: SD over seeds of a divided by that of b.  F, p: of Brown and Forsythe's test; None where
    ``reason`` says why.  seeds: (S_a, S_b)."""

    ratio: float | None
    F: float | None
    p: float | None
    seeds: tuple[int, int]
    reason: str | None = None


def brown_forsythe(a: ArrayLike, b: ArrayLike) -> Spreads:
    """Test that seed scores a [S_a] and b [S_b] have equal spread (Levene's test about the median).

    With fewer than 5 seeds in an arm nothing is tested: a claim about variance needs them (statistics,
    section 5).  Raises StatsError on an empty arm or a score that is not finite.
    """
    arms = [np.asarray(arm, dtype=np.float64) for arm in (a, b)]
    for name, arm in zip("ab", arms, strict=True):
        if arm.ndim != 1 or arm.size == 0 or not np.isfinite(arm).all():
            raise StatsError(f"arm {name}: {arm.tolist()}: give at least one finite score per seed")
    seeds = (len(arms[0]), len(arms[1]))
    if min(seeds) < FEWEST_SEEDS:
        reason = f"a test of spread needs at least {FEWEST_SEEDS} seeds in each arm, got {min(seeds)}"
        return Spreads(None, None, None, seeds, reason)
    tiny = 64 * np.finfo(float).eps * max(float(np.abs(arm).max()) for arm in arms)
    apart = [np.abs(arm - np.median(arm)) for arm in arms]
    if max(float(np.ptp(deviations)) for deviations in apart) <= tiny:
        return Spreads(None, None, None, seeds, "the distances from the median do not vary")
    first, second = (float(arm.std(ddof=1)) for arm in arms)
    found = levene(*arms, center="median")
    return Spreads(first / second if second > tiny else None, float(found.statistic), float(found.pvalue), seeds)
