"""Looking at growing numbers of seeds: alpha spending and the level each look may use.

Declare the looks, the largest number of seeds and the spending function before the first run.  At
look k a contrast is significant when its p is at most that look's ``nominal_p``; with m comparisons
give ``spend`` alpha / m.  Sources: Lan and DeMets 1983 (spending), Armitage, McPherson and Rowe 1969
(recursive integration); statistics, section 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, e, log, pi, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root_scalar
from scipy.special import ndtr, ndtri, stdtrit

from seedwise.stats.results import Contrast, Interval, StatsError

Kind = Literal["obf", "pocock"]
LEAST_INFORMATION = 0.01
LEAST_STEP = 0.001
FARTHEST_Z = 37.0


@dataclass(frozen=True)
class Look:
    """One look: share of the final information t, alpha spent so far, two-sided bound on |z|, and the
    level that a two-sided p of this look may use."""

    t: float
    spent: float
    z: float
    nominal_p: float


def spend(t: Sequence[float], alpha: float = 0.05, kind: Kind = "obf") -> tuple[Look, ...]:
    """Two-sided bounds of looks at information shares t, rising to at most 1.

    kind: "obf", ``4 (1 - Phi(z_{alpha/4} / sqrt t))``, strict at early looks; "pocock",
    ``alpha ln(1 + (e - 1) t)``, nearly the same level at each.  A bound is where the Brownian path of
    the test, not stopped before, leaves with the alpha newly spent.  Later looks never change earlier ones.
    Raises StatsError when alpha is not in (0, 1), the kind is unknown, the shares do not rise within
    (0, 1], the first is below 0.01, or two are closer than 0.001.
    """
    shares = _checked(t, alpha, kind)
    finest = sqrt(float(np.diff([0.0, *shares]).min()))
    path = _Path(0.0, finest, np.zeros(1), np.ones(1))
    looks: list[Look] = []
    for share in shares:
        spent = _spent(share, alpha, kind)
        z = path.bound(share, spent - looks[-1].spent) if looks else -float(ndtri(spent / 2))
        path = path.stopped(share, z)
        looks.append(Look(share, spent, z, 2 * float(ndtr(-z))))
    return tuple(looks)


def seed_information(seeds: Sequence[int]) -> tuple[float, ...]:
    """Information shares S_k / S_max of looks at so many seeds, for new seeds on fixed problems (E1).

    seeds: rising, the last is S_max.  Raises StatsError when they do not rise from 1 on.
    """
    if not seeds or min(seeds) < 1 or any(b <= a for a, b in pairwise(seeds)):
        raise StatsError(f"looks {list(seeds)}: give rising numbers of seeds")
    return tuple(S / seeds[-1] for S in seeds)


def variance_information(variances: Sequence[float]) -> tuple[float, ...]:
    """Information shares V(S_max) / V(S_k), for new seeds and new problems (E2).

    variances: the planner's V at each look, falling; the last is that of S_max.  More seeds do not
    shrink the problems' part, so early looks hold more than S_k / S_max.  Raises StatsError when the
    variances do not fall or are not above 0.
    """
    if not variances or min(variances) <= 0 or any(b >= a for a, b in pairwise(variances)):
        raise StatsError(f"variances {list(variances)}: give one per look, falling and above 0")
    return tuple(variances[-1] / V for V in variances)


def repeated_interval(contrast: Contrast, look: Look) -> Interval:
    """Interval to report when a study stops at this look: at 1 - nominal_p instead of 1 - alpha.

    Covers with the declared alpha over all looks together; the naive interval after stopping does not.
    Without a standard error above 0 the bounds are None, with the reason.
    """
    if not contrast.se or contrast.df is None:
        return Interval(contrast.d, contrast.se, contrast.df, None, None, contrast.reason or "no standard error")
    half = -float(stdtrit(contrast.df, look.nominal_p / 2)) * contrast.se
    return Interval(contrast.d, contrast.se, contrast.df, contrast.d - half, contrast.d + half)


def _checked(t: Sequence[float], alpha: float, kind: str) -> list[float]:
    if not 0 < alpha < 1:
        raise StatsError(f"alpha: {alpha}: use a number between 0 and 1")
    if kind not in ("obf", "pocock"):
        raise StatsError(f"spending: {kind!r}: use 'obf' or 'pocock'")
    shares = [float(share) for share in t]
    if not shares or not all(0 < share <= 1 for share in shares):
        raise StatsError(f"information {shares}: give shares above 0 and at most 1")
    if shares[0] < LEAST_INFORMATION:
        raise StatsError(f"information {shares[0]:g}: a look below {LEAST_INFORMATION:g} spends nothing: leave it out")
    if close := [b for a, b in pairwise(shares) if b - a < LEAST_STEP * (1 - 1e-9)]:
        raise StatsError(f"information {shares}: {close[0]:g} does not rise by at least {LEAST_STEP:g}: leave it out")
    return shares


def _spent(t: float, alpha: float, kind: Kind) -> float:
    if kind == "obf":
        return 4 * float(ndtr(ndtri(alpha / 4) / sqrt(t)))
    return alpha * log(1 + (e - 1) * t)


@dataclass(frozen=True)
class _Path:
    """Brownian paths at time t that no look has stopped: probability mass [U] at the nodes [U].

    finest: smallest SD of an increment between looks, which the nodes must resolve.
    """

    t: float
    finest: float
    nodes_U: NDArray[np.float64]
    mass_U: NDArray[np.float64]

    def bound(self, t: float, newly: float) -> float:
        """z that the paths alive now pass at time t with probability ``newly``."""
        sd = sqrt(t - self.t)

        def surplus(z: float) -> float:
            out_U = ndtr((-z * sqrt(t) - self.nodes_U) / sd) + ndtr((self.nodes_U - z * sqrt(t)) / sd)
            return float(out_U @ self.mass_U) - newly

        # where nothing that double precision could see is spent, no result stops the study
        if surplus(FARTHEST_Z) >= 0:
            return FARTHEST_Z
        return float(root_scalar(surplus, bracket=(0.0, FARTHEST_Z), method="brentq", xtol=1e-12).root)

    def stopped(self, t: float, z: float) -> _Path:
        """The paths still inside the bound z at time t."""
        sd, half = sqrt(t - self.t), z * sqrt(t)
        # a spacing of half the SD of an increment integrates a Gaussian to double precision
        unit_U, weight_U = np.polynomial.legendre.leggauss(max(64, ceil(2 * pi * half / self.finest)))
        nodes_U = half * unit_U
        jumps = (nodes_U[:, None] - self.nodes_U) / sd
        density_U = np.exp(-(jumps**2) / 2) @ self.mass_U / (sd * sqrt(2 * pi))
        return _Path(t, self.finest, nodes_U, density_U * half * weight_U)
