"""Empirical-Bayes moderation of seed variances over a grid (Smyth 2004, section 6.2; limma's squeezeVar).

For exploratory grids only: with one unstable method among the cells it does not keep its level at
three seeds (type I error .08 to .16), so no claims table uses it (statistics, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import root_scalar
from scipy.special import digamma, polygamma

from seedwise.stats.results import StatsError


@dataclass(frozen=True)
class Moderated:
    """d0, s0sq: df (inf: all cells share one variance) and value of the prior variance.  s2: moderated
    variance of every cell, with ``df + d0`` df."""

    d0: float
    s0sq: float
    s2: NDArray[np.float64]


def moderated(s2: ArrayLike, df: float) -> Moderated:
    """Squeeze variances [M] with df each towards their common value.

    The prior is fitted to the mean and variance of log s2 (Fisher's z); without spread beyond chance d0
    is infinite and every cell gets the plain mean.  Raises StatsError on fewer than 2 cells, df of 0 or
    less, or a variance that is not above 0.
    """
    found = np.asarray(s2, dtype=np.float64)
    if found.ndim != 1 or found.size < 2:
        raise StatsError(f"variances of shape {found.shape}: give a list of at least 2")
    if (broken := ~(np.isfinite(found) & (found > 0))).any():
        raise StatsError(f"variance {found[broken][0]}: must be above 0: leave the cell out")
    if not df > 0:
        raise StatsError(f"df: {df}: must be above 0")
    e_M = np.log(found) - digamma(df / 2) + np.log(df / 2)
    excess = float(e_M.var(ddof=1) - polygamma(1, df / 2))
    if excess <= 0:
        common = float(found.mean())
        return Moderated(inf, common, np.full_like(found, common))
    half = root_scalar(lambda x: float(polygamma(1, x)) - excess, bracket=(1e-8, 1e8), method="brentq", rtol=1e-13)
    d0 = 2 * float(half.root)
    s0sq = float(np.exp(e_M.mean() + digamma(d0 / 2) - np.log(d0 / 2)))
    return Moderated(d0, s0sq, (d0 * s0sq + df * found) / (d0 + df))
