"""Effect sizes on seed scores, to print beside a difference: they describe, the contrast decides.

Every one of them rests on the few seeds it names (statistics, section 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, lgamma, log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seedwise.stats.results import StatsError


@dataclass(frozen=True)
class Effects:
    """Method a against method b; None where ``reasons`` (field -> reason) says why.

    relative: (mean a - mean b) / mean b.  hedges_g: difference in pooled seed SDs, without the bias of
    small samples.  superiority: probability that a random seed of a beats one of b, ties counting 1/2.
    worst, worst_reference: lowest seed score of a and of b.  seeds: (S_a, S_b), what it all rests on.
    """

    relative: float | None
    hedges_g: float | None
    superiority: float
    worst: float
    worst_reference: float
    seeds: tuple[int, int]
    reasons: Mapping[str, str]


def effects(a: ArrayLike, b: ArrayLike) -> Effects:
    """Effect sizes of seed scores a [S_a] over b [S_b].

    ``g = J (mean a - mean b) / s_pooled`` with ``J = Gamma(f/2) / (sqrt(f/2) Gamma((f - 1)/2))``,
    f = S_a + S_b - 2 (Hedges 1981); superiority is Mann and Whitney's U / (S_a S_b).
    Raises StatsError on an empty arm or scores that are not finite.
    """
    first, second = _seeds("a", a), _seeds("b", b)
    d, reference = float(first.mean() - second.mean()), float(second.mean())
    spread, why = _pooled_sd(first, second)
    reasons = {} if spread else {"hedges_g": why}
    if reference == 0:
        reasons["relative"] = "the reference scores 0: a relative change is undefined"
    return Effects(
        relative=None if reference == 0 else d / reference,
        hedges_g=_unbiased(len(first) + len(second) - 2) * d / spread if spread else None,
        superiority=superiority(first, second),
        worst=float(first.min()),
        worst_reference=float(second.min()),
        seeds=(len(first), len(second)),
        reasons=reasons,
    )


def superiority(a: ArrayLike, b: ArrayLike) -> float:
    """Share of pairs in which a seed of a [S_a] beats one of b [S_b]; a tie is half a win.

    Raises StatsError as ``effects``.
    """
    gaps = _seeds("a", a)[:, None] - _seeds("b", b)
    return float(np.mean((gaps > 0) + (gaps == 0) / 2))


def _pooled_sd(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float | None, str]:
    """Pooled SD over seeds, or why there is none."""
    if min(len(a), len(b)) < 2:
        return None, "a spread over seeds needs at least 2, got 1"
    squares = sum(float(np.square(arm - arm.mean()).sum()) for arm in (a, b))
    size = max(float(np.abs(a).max()), float(np.abs(b).max()))
    sd = (squares / (len(a) + len(b) - 2)) ** 0.5
    return (sd, "") if sd > 64 * np.finfo(float).eps * size else (None, "the seeds do not vary")


def _unbiased(f: int) -> float:
    return exp(lgamma(f / 2) - lgamma((f - 1) / 2) - log(f / 2) / 2)


def _seeds(name: str, scores: ArrayLike) -> NDArray[np.float64]:
    arm = np.asarray(scores, dtype=np.float64)
    if arm.ndim != 1 or arm.size == 0 or not np.isfinite(arm).all():
        raise StatsError(f"arm {name}: {arm.tolist()}: give at least one finite score per seed")
    return arm
