"""The crossed mixed model, a secondary row: ``y ~ method + (1|problem) + (1|method:problem) + (1|method:seed)``.

Its variance is that of TW-Welch in balanced data; what it lacks is the t reference.  Its Wald z is
anti-conservative at few seeds (type I error up to .13 at three), so no verdict rests on it.  Sources:
statistics, sections 3, 4 and 10; statsmodels issue 2620 (its fixed effects have no df).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri
from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec
from statsmodels.tools.sm_exceptions import ConvergenceWarning, SingularMatrixWarning

from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.matrices import aligned
from seedwise.stats.variances import Array, Margins

ANTI_CONSERVATIVE = "anti-conservative at few seeds"
MOST_SCORES = 600
BOUNDARY = 1e-6
SETTLED = 0.01


@dataclass(frozen=True)
class Mixed:
    """Macro difference a - b with its REML standard error, Wald z, two-sided p and interval.

    None where ``reason`` says why.  flags: always that it is anti-conservative; "boundary" where a variance
    component is estimated at 0.  dropped: problems that some seed misses.
    """

    d: float
    se: float | None
    z: float | None
    p: float | None
    lo: float | None
    hi: float | None
    flags: tuple[str, ...]
    reason: str | None = None
    dropped: int = 0


def crossed_model(scores: Mapping[Any, Mapping[str, ArrayLike]], a: Any, b: Any, *, alpha: float = 0.05) -> Mixed:
    """Fit the crossed model to two cells and test the difference of their macro means.

    scores: cell -> benchmark -> [S, P].  Each benchmark has its own mean and method effect, of which the
    macro average is taken; the variance components are shared.  With equal numbers of seeds REML is solved
    exactly from the mean squares; otherwise statsmodels' MixedLM, up to 600 scores.  Raises StatsError as
    ``tw_contrast`` does on malformed input.
    """
    plain = tw_contrast(scores, {a: 1.0, b: -1.0}, alpha=alpha)
    if not plain.V:
        return Mixed(plain.d, None, None, plain.p, None, None, (ANTI_CONSERVATIVE,), plain.reason, plain.dropped)
    data = aligned(scores, {a: 1.0, b: -1.0})
    found = _variance([data.y[a], data.y[b]])
    if isinstance(found, str):
        return Mixed(plain.d, None, None, None, None, None, (ANTI_CONSERVATIVE,), found, plain.dropped)
    V, at_boundary = found
    flags = (ANTI_CONSERVATIVE, "boundary") if at_boundary else (ANTI_CONSERVATIVE,)
    d, se, half = plain.d, sqrt(V), -float(ndtri(alpha / 2)) * sqrt(V)
    return Mixed(d, se, d / se, 2 * float(ndtr(-abs(d / se))), d - half, d + half, flags, None, plain.dropped)


_Found = tuple[float, bool] | str
"""REML variance of the macro difference and whether a component is 0; or why there is none."""


def _variance(arms: list[tuple[Array, ...]]) -> _Found:
    seeds = [len(ys[0]) for ys in arms]
    sizes = [y.shape[1] for y in arms[0]]
    if seeds[0] == seeds[1]:
        return _balanced(arms, seeds[0], sizes)
    count = sum(seeds) * sum(sizes)
    if count > MOST_SCORES:
        return f"unequal seeds and {count} scores: the crossed model is fitted up to {MOST_SCORES}"
    return _fitted(arms, sizes)


def _balanced(arms: list[tuple[Array, ...]], S: int, sizes: Sequence[int]) -> tuple[float, bool]:
    """Exact REML: with equal S the likelihood is that of four independent mean squares.

    The expectations are ``e``, ``e + S mp``, ``e + S mp + 2 S problem`` and ``e + P seed``, P over all benchmarks.
    """
    margins = [[Margins.of(y) for y in ys] for ys in arms]
    problem_df, seed_df = sum(sizes) - len(sizes), 2 * (S - 1)
    e, mp, total = 0.0, 0.0, 0.0
    for first, second in zip(*margins, strict=True):
        e += first.interaction + second.interaction
        mp += S / 2 * _spread(first.columns_P - second.columns_P)
        total += S / 2 * _spread(first.columns_P + second.columns_P)
    seed, rest = _seed_squares(margins, sizes)
    squares = {
        "residual": (e + rest, seed_df * (sum(sizes) - 1)),
        "interaction": (mp, problem_df),
        "problem": (total, problem_df),
        "seed": (seed, seed_df),
    }
    ms = pooled(squares)
    var_mp, var_seed = (ms["interaction"] - ms["residual"]) / S, (ms["seed"] - ms["residual"]) / sum(sizes)
    problems = len(sizes) ** 2 / sum(1 / P for P in sizes)
    V = 2 * var_seed / S + 2 * (var_mp + ms["residual"] / S) / problems
    return V, min(var_mp * S, var_seed * sum(sizes)) <= BOUNDARY * ms["residual"]


def _spread(values: Array) -> float:
    centred = values - values.mean()
    return float(centred @ centred)


def _seed_squares(margins: list[list[Margins]], sizes: Sequence[int]) -> tuple[float, float]:
    """Squares of seed effects common to all benchmarks, and what benchmarks add to the residual."""
    P_B = np.array(sizes, dtype=np.float64)
    common = total = 0.0
    for by_bench in margins:
        rows_BS = np.array([y.rows_S - y.rows_S.mean() for y in by_bench])
        common += float(np.square(P_B @ rows_BS).sum()) / P_B.sum()
        total += float((P_B @ np.square(rows_BS)).sum())
    return common, total - common


def pooled(squares: Mapping[str, tuple[float, int]]) -> dict[str, float]:
    """Mean squares of (sum of squares, df) that maximise their likelihood under
    ``residual <= interaction <= problem`` and ``residual <= seed``: offenders are pooled (Thompson 1962).
    """

    def mean(block: Sequence[str]) -> float:
        return sum(squares[name][0] for name in block) / sum(squares[name][1] for name in block)

    root = ["residual"]
    above = [["interaction"], ["problem"], ["seed"]]
    if mean(["problem"]) < mean(["interaction"]):
        above = [["interaction", "problem"], ["seed"]]
    while above and mean(lowest := min(above, key=mean)) < mean(root):
        root += lowest
        above.remove(lowest)
    return {name: mean(block) for block in (root, *above) for name in block}


def _fitted(arms: list[tuple[Array, ...]], sizes: Sequence[int]) -> _Found:
    """REML by statsmodels: one dummy group, the crossed effects as variance components."""
    cells = [(m, b, y) for m, ys in enumerate(arms) for b, y in enumerate(ys)]
    first_of = np.cumsum([0, *sizes])
    arm = np.concatenate([np.full(y.size, m) for m, _, y in cells])
    bench = np.concatenate([np.full(y.size, b) for _, b, y in cells])
    seed = np.concatenate([np.repeat(np.arange(len(y)), y.shape[1]) + m * len(arms[0][0]) for m, _, y in cells])
    problem = np.concatenate([np.tile(np.arange(y.shape[1]) + first_of[b], len(y)) for _, b, y in cells])
    effects = [_indicator(problem), _indicator(problem + sum(sizes) * arm), _indicator(seed)]
    names = [[f"{i}" for i in range(z.shape[1])] for z in effects]
    exog = np.hstack([_indicator(bench), _indicator(bench) * (arm == 0)[:, None]])
    model = MixedLM(
        np.concatenate([y.ravel() for _, _, y in cells]), exog, groups=np.zeros(len(arm)),
        exog_re=np.empty((len(arm), 0)),
        exog_vc=VCSpec(["problem", "interaction", "seed"], [[n] for n in names], [[z] for z in effects]),
    )  # fmt: skip
    with warnings.catch_warnings():
        # convergence and the boundary are read off the result instead
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", SingularMatrixWarning)
        # lbfgs, the default, reports convergence well below the maximum (V off by a third was seen)
        rough = model.fit(reml=True, method="powell")
        fit = model.fit(reml=True, start_params=rough.params_object, method="bfgs", gtol=1e-8)
    macro = np.repeat([0.0, 1 / len(sizes)], len(sizes))
    V = float(macro @ np.asarray(fit.cov_params())[: len(macro), : len(macro)] @ macro)
    settled = fit.converged or fit.llf - rough.llf < SETTLED
    if not settled or not np.isfinite(V) or V <= 0:
        return "the crossed model did not converge"
    return V, bool((np.asarray(fit.vcomp)[1:] <= BOUNDARY * fit.scale).any())


def _indicator(labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """[N, levels] one column per label."""
    return np.eye(int(labels.max()) + 1)[labels]
