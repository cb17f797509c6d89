"""Jonckheere-Terpstra: an exact, distribution-free test of an ordered axis on seeds (secondary, E1 only).

It asks for a rise along the axis and has no power against an inverted U: the quadratic contrast of
``trends`` is for that.  Sources: Jonckheere 1954, Terpstra 1952; statistics, section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seedwise.stats.results import StatsError


@dataclass(frozen=True)
class Jonckheere:
    """J: pairs of seeds in the order of the axis, ties counting 1/2; mean and var of J without an effect.

    p_greater: of a rise.  p: two-sided.  smallest_p: what the two-sided test reaches at best.
    arrangements: of the seeds over the levels.  significant: None where ``reason`` says that alpha is
    out of reach.
    """

    J: float
    mean: float
    var: float
    p_greater: float
    p: float
    smallest_p: float
    arrangements: int
    significant: bool | None
    reason: str | None = None


def jt_exact(groups: Sequence[ArrayLike], alpha: float = 0.05) -> Jonckheere:
    """Exact test of a trend over groups [L] of seed scores, in the order of the axis.

    J has the distribution of the coefficients of ``[N]_q! / prod [n_i]_q!``, counted with integers.
    Ties: p is that of the tie break least in favour of a trend, so it is never too small.
    Raises StatsError on fewer than 2 groups, an empty group, values that are not finite, or alpha
    outside (0, 1).
    """
    if not 0 < alpha < 1:
        raise StatsError(f"alpha: {alpha}: use a number between 0 and 1")
    levels = [_level(i, values) for i, values in enumerate(groups)]
    if len(levels) < 2:
        raise StatsError(f"an ordered test needs at least 2 levels, got {len(levels)}")
    low = high = 0
    for i, first in enumerate(levels):
        for second in levels[i + 1 :]:
            low += int((first[:, None] < second).sum())
            high += int((first[:, None] <= second).sum())
    sizes = [len(level) for level in levels]
    counts = arrangements_of(sizes)
    total = sum(counts)
    p_greater = sum(counts[low:]) / total
    # J is symmetric about its mean: the tie break nearest to it is the least favourable
    middle = (len(counts) - 1) / 2
    least = min(max(floor(middle), low), high)
    tail = min(sum(counts[least:]), sum(counts[: least + 1]))
    smallest = min(1.0, 2 / total)
    p, reachable = min(1.0, 2 * tail / total), smallest <= alpha
    N, against = sum(sizes), " against ".join(str(n) for n in sizes)
    return Jonckheere(
        J=(low + high) / 2,
        mean=middle,
        var=(N * N * (2 * N + 3) - sum(n * n * (2 * n + 3) for n in sizes)) / 72,
        p_greater=p_greater,
        p=p,
        smallest_p=smallest,
        arrangements=total,
        significant=p <= alpha if reachable else None,
        reason=None if reachable else f"{against} seeds cannot reach p <= {alpha:g}: {smallest:.3g} is the smallest",
    )


def arrangements_of(sizes: Sequence[int]) -> list[int]:
    """How many arrangements of distinct scores over groups of these sizes give J = 0, 1, 2, ...

    The coefficients of the q-multinomial; they add up to ``N! / prod n_i!``.
    """
    counts, N = [1], 0
    for n in sizes:
        # times the q-binomial [N + n choose n]: (1 - q^(N + i)) / (1 - q^i) for i = 1..n
        for i in range(1, n + 1):
            counts = _divided(_times(counts, N + i), i)
        N += n
    return counts


def _times(counts: list[int], power: int) -> list[int]:
    """``counts (1 - q^power)``."""
    longer = counts + [0] * power
    for j, count in enumerate(counts):
        longer[j + power] -= count
    return longer


def _divided(counts: list[int], power: int) -> list[int]:
    """``counts / (1 - q^power)``, which leaves no rest here."""
    quotient = counts[:]
    for j in range(power, len(quotient)):
        quotient[j] += quotient[j - power]
    return quotient[: len(quotient) - power]


def _level(i: int, values: ArrayLike) -> NDArray[np.float64]:
    level = np.asarray(values, dtype=np.float64)
    if level.ndim != 1 or level.size == 0 or not np.isfinite(level).all():
        raise StatsError(f"level {i}: {level.tolist()}: give at least one finite score per seed")
    return level
