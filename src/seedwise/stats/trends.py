"""Weights of ordered trends and interactions, and the trend test of an axis (statistics, section 6).

Put the axis on its natural scale first: K as it is, log2 of the weight ratio for kappa, log2 G.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from statsmodels.regression.linear_model import OLS

from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.families import holm
from seedwise.stats.matrices import aligned
from seedwise.stats.results import Contrast, StatsError, Target
from seedwise.stats.scores import macro


@dataclass(frozen=True)
class Trend:
    """Both contrasts of one axis and their Holm-adjusted p-values.

    linear.d: change of the score per unit of x.  quadratic.d: curvature per squared mean step of x,
    negative for an inverted U.  quadratic is None where ``reason`` says why.
    """

    x: tuple[float, ...]
    linear: Contrast
    quadratic: Contrast | None
    p_linear: float | None
    p_quadratic: float | None
    reason: str | None = None


def trend_weights(x: ArrayLike, degree: int) -> NDArray[np.float64]:
    """Weights [L] of the linear (1) or quadratic (2) contrast over the levels x [L].

    Linear: ``(x - xbar) / sum (x - xbar)^2``, so the contrast is the least-squares slope per unit of x.
    Quadratic: x in units of its mean step ``(max - min)/(L - 1)``, its square made orthogonal to 1 and x
    (Gram-Schmidt) to q, and ``q / sum q^2``: the least-squares coefficient of the squared step.  Four
    equally spaced levels give (1, -1, -1, 1)/4.
    Raises StatsError for another degree, repeated or infinite levels, or fewer than degree + 1 levels.
    """
    levels = np.asarray(x, dtype=np.float64)
    if degree not in (1, 2):
        raise StatsError(f"degree: {degree}: use 1 (linear) or 2 (quadratic)")
    if levels.ndim != 1 or not np.isfinite(levels).all() or len(set(levels.tolist())) < levels.size:
        raise StatsError(f"levels {levels.tolist()}: give a list of different finite numbers")
    if levels.size <= degree:
        raise StatsError(f"a trend of degree {degree} needs at least {degree + 1} levels, got {levels.size}")
    if degree == 1:
        centred = levels - float(levels.mean())
        return np.asarray(centred / float(centred @ centred), dtype=np.float64)
    step = (levels - float(levels.mean())) * (levels.size - 1) / float(np.ptp(levels))
    square = step**2 - float(np.mean(step**2))
    curve = square - step * float((square @ step) / (step @ step))
    return np.asarray(curve / float(curve @ curve), dtype=np.float64)


def kron_weights(wx: ArrayLike, wz: ArrayLike) -> NDArray[np.float64]:
    """Interaction weights [X, Z] of two axes, ``w_x w_z``.

    With linear weights on both, d times the ranges of x and z is the difference of differences
    between the corners.  Raises StatsError when either is not a list.
    """
    first, second = np.asarray(wx, dtype=np.float64), np.asarray(wz, dtype=np.float64)
    if first.ndim != 1 or second.ndim != 1:
        raise StatsError(f"weights of shapes {first.shape} and {second.shape}: give one list per axis")
    return first[:, None] * second


@dataclass(frozen=True)
class Interaction:
    """contrast.d: change of the slope along x per unit of z.  corners: the same as the difference of
    differences between the corners of the grid, ``d (range x)(range z)``.  omnibus: F test of any interaction
    on seed scores, equal variances assumed (E1, a footnote)."""

    contrast: Contrast
    corners: float
    omnibus: Omnibus


@dataclass(frozen=True)
class Omnibus:
    """F with its df and p; None where ``reason`` says why."""

    F: float | None
    df: tuple[int, int]
    p: float | None
    reason: str | None = None


def interaction(
    scores: Mapping[Any, Mapping[str, ArrayLike]],
    positions: Mapping[Any, tuple[float, float]],
    *,
    target: Target = "E2",
    pairing: Literal["seed"] | None = None,
    clusters: Mapping[str, Sequence[Hashable]] | None = None,
    alpha: float = 0.05,
    samples: int | Mapping[str, int] | None = None,
) -> Interaction:
    """Linear-by-linear contrast of two crossed axes: does the effect of x depend on z?

    positions: cell -> (x, z) on the natural scales; every pair of levels exactly once.  The other options are
    those of ``tw_contrast``.  Raises StatsError on a grid with holes or doubles, and as ``trend_weights`` and
    ``tw_contrast`` do.
    """
    xs, zs = (sorted({float(pair[axis]) for pair in positions.values()}) for axis in (0, 1))
    at = {(float(x), float(z)): cell for cell, (x, z) in positions.items()}
    if len(at) < len(positions):
        raise StatsError("two cells of the grid have the same position: give each its own")
    if holes := [(x, z) for x in xs for z in zs if (x, z) not in at]:
        raise StatsError(f"the grid has no cell at {holes[0]}: an interaction needs every pair of levels")
    w_XZ = kron_weights(trend_weights(xs, 1), trend_weights(zs, 1))
    w = {at[x, z]: float(w_XZ[i, j]) for i, x in enumerate(xs) for j, z in enumerate(zs)}
    contrast = tw_contrast(scores, w, target=target, pairing=pairing, clusters=clusters, alpha=alpha, samples=samples)
    common = aligned(scores, dict.fromkeys(w, 1.0))
    seeds = [
        (xs.index(float(x)), zs.index(float(z)), macro(dict(zip(common.benches, common.y[cell], strict=True))))
        for cell, (x, z) in positions.items()
    ]
    corners = contrast.d * (xs[-1] - xs[0]) * (zs[-1] - zs[0])
    return Interaction(contrast, corners, _omnibus(seeds, len(xs), len(zs)))


def _omnibus(cells: list[tuple[int, int, NDArray[np.float64]]], X: int, Z: int) -> Omnibus:
    """F of all (X - 1)(Z - 1) interaction df: full grid of means against additive effects, by least squares."""
    y = np.concatenate([score_S for _, _, score_S in cells])
    sizes = [len(score_S) for _, _, score_S in cells]
    x, z = np.repeat([i for i, _, _ in cells], sizes), np.repeat([j for _, j, _ in cells], sizes)
    additive = np.hstack([np.ones((len(y), 1)), np.eye(X)[x][:, 1:], np.eye(Z)[z][:, 1:]])
    df = ((X - 1) * (Z - 1), len(y) - X * Z)
    if df[1] < 1:
        return Omnibus(None, df, None, "an F test needs at least 2 seeds in some cell")
    full = OLS(y, np.eye(X * Z)[x * Z + z]).fit()
    if full.ssr <= (64 * np.finfo(float).eps) ** 2 * float(y @ y):
        return Omnibus(None, df, None, "no variance over seeds")
    F, p, _ = full.compare_f_test(OLS(y, additive).fit())
    return Omnibus(float(F), df, float(p))


def trend(
    scores: Mapping[Any, Mapping[str, ArrayLike]],
    x: Mapping[Any, float],
    *,
    target: Target = "E2",
    pairing: Literal["seed"] | None = None,
    clusters: Mapping[str, Sequence[Hashable]] | None = None,
    alpha: float = 0.05,
    samples: int | Mapping[str, int] | None = None,
) -> Trend:
    """Linear and quadratic contrast of one axis, Holm over the two.

    scores: cell -> benchmark -> [S, P].  x: cell -> position on the natural scale; the other options
    are those of ``tw_contrast``.  With two levels there is no quadratic, and the reason says so.
    Raises StatsError as ``trend_weights`` and ``tw_contrast`` do.
    """
    cells, levels = list(x), [float(value) for value in x.values()]

    def contrast(degree: int) -> Contrast:
        w = dict(zip(cells, trend_weights(levels, degree).tolist(), strict=True))
        return tw_contrast(
            {m: scores[m] for m in cells if m in scores},
            w,
            target=target,
            pairing=pairing,
            clusters=clusters,
            alpha=alpha,
            samples=samples,
        )

    linear = contrast(1)
    if len(levels) < 3:
        (p_linear,) = holm([linear.p])
        return Trend(
            tuple(levels), linear, None, p_linear, None, f"curvature needs at least 3 levels, got {len(levels)}"
        )
    quadratic = contrast(2)
    p_linear, p_quadratic = holm([linear.p, quadratic.p])
    return Trend(tuple(levels), linear, quadratic, p_linear, p_quadratic)
