"""Variance components of a pilot, by the method of moments (statistics, section 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from seedwise.stats.matrices import Matrices, aligned
from seedwise.stats.results import StatsError
from seedwise.stats.variances import Array, Margins

UPPER = 0.75


@dataclass(frozen=True)
class Components:
    """Variances on the score scale (score units squared).

    var_seed: between training seeds.  var_mp: method by problem.  var_seed_problem: seed by problem,
    without sampling.  theta_var: E[theta (1 - theta)], so n samples add theta_var / n.
    var_seed_upper: upper 75 % confidence limit of var_seed; var_seed_low, var_seed_high: its 95 %
    interval, from the chi-square of the seeds' mean square (None where it was not estimated).
    problems: the pilot's problems as one number, 1 / sum_b 1/(P_b B^2): with B benchmarks of equal
    size their total, otherwise less, since a macro average is as noisy as its smallest benchmarks.
    """

    var_seed: float
    var_mp: float
    var_seed_problem: float
    theta_var: float
    var_seed_upper: float | None = None
    problems: float | None = None
    var_seed_low: float | None = None
    var_seed_high: float | None = None

    def residual(self, n: int) -> float:
        """Variance of one (seed, problem) score around its expectation, with n samples."""
        return self.var_seed_problem + self.theta_var / n

    def mean_squares(self, S: float, P: float, n: int) -> tuple[float, float, float]:
        """(M_seed, M_prob, M_res) of the difference of two methods; its variance is seed + prob - res.

        Raises StatsError for fewer than 2 seeds or problems, no sample, or components that are all 0.
        """
        for name, count in (("seeds", S), ("problems", P)):
            if count < 2:
                raise StatsError(f"{name}: {count:g}: a plan needs at least 2")
        if n < 1:
            raise StatsError(f"samples: {n}: a plan needs at least 1")
        r = self.residual(n)
        M_seed, M_prob = 2 * (self.var_seed + r / P) / S, 2 * (self.var_mp + r / S) / P
        if M_seed + M_prob <= 0:
            raise StatsError("all variance components are 0: nothing varies, so there is nothing to plan")
        return M_seed, M_prob, 2 * r / (S * P)

    def cautious(self) -> Components:
        """The same with var_seed at its upper limit: what to plan on."""
        return self if self.var_seed_upper is None else replace(self, var_seed=self.var_seed_upper)


def components_from(
    scores: Mapping[Any, Mapping[str, ArrayLike]], samples: int | Mapping[str, int] | None = None
) -> Components:
    """Components of a pilot: cell -> benchmark -> [S, P], trained cells only (leave the base out).

    samples: n of a score c/n, one number or per benchmark.  Without it the whole residual counts as
    seed by problem, and n plays no part in the plan.  Benchmarks are pooled by their share in the
    variance of the macro average.  Negative estimates are 0.
    Raises StatsError for fewer than 2 cells, 2 seeds in a cell or 2 problems in a benchmark.
    """
    if len(scores) < 2:
        raise StatsError(f"variance components need at least 2 cells, got {len(scores)}")
    data = aligned(scores, dict.fromkeys(scores, 1.0))
    if short := [m for m, S in data.seeds.items() if S < 2]:
        raise StatsError(f"variance components need at least 2 seeds in every cell, got 1 in {short[0]!r}")
    sizes = {bench: ys.shape[1] for bench, ys in zip(data.benches, next(iter(data.y.values())), strict=True)}
    if small := [bench for bench, P in sizes.items() if P < 2]:
        raise StatsError(f"variance components need at least 2 problems, got 1 in {small[0]!r}")
    shares = np.array([1 / (P * len(sizes) ** 2) for P in sizes.values()])
    problems = float(1 / shares.sum())
    by_bench = [_of_bench([ys[b] for ys in data.y.values()], _n(samples, bench)) for b, bench in enumerate(sizes)]
    e2, mp, theta_var, sampling = (float(v) for v in np.array(by_bench).T @ shares * problems)
    s2, df = _seed_mean_square(data)

    def limit(level: float) -> float:
        return max(0.0, s2 * df / float(chi2.ppf(1 - level, df)) - e2 / problems)

    return Components(
        var_seed=max(0.0, s2 - e2 / problems),
        var_mp=max(0.0, mp),
        var_seed_problem=max(0.0, e2 - sampling),
        theta_var=theta_var,
        var_seed_upper=limit(UPPER),
        problems=problems,
        var_seed_low=limit(0.025),
        var_seed_high=limit(0.975),
    )


def sampling_variance(y: Array, n: int) -> float:
    """Mean over scores y = c/n of ``y (1 - y) / (n - 1)``: unbiased for the variance n draws add.

    Raises StatsError for n below 2.
    """
    if n < 2:
        raise StatsError(f"samples: {n}: the sampling variance needs at least 2 samples of a problem")
    return float((y * (1 - y)).mean()) / (n - 1)


def _n(samples: int | Mapping[str, int] | None, bench: str) -> int | None:
    return samples[bench] if isinstance(samples, Mapping) else samples


def _of_bench(cells: list[Array], n: int | None) -> tuple[float, float, float, float]:
    """Residual mean square, method-by-problem variance, E[theta (1 - theta)], sampling variance."""
    margins = [Margins.of(y) for y in cells]
    P = cells[0].shape[1]
    e2 = [m.interaction / ((len(m.rows_S) - 1) * (P - 1)) for m in margins]
    across = Margins.of(np.array([m.columns_P for m in margins])).interaction / ((len(cells) - 1) * (P - 1))
    mp = across - float(np.mean([e / len(m.rows_S) for e, m in zip(e2, margins, strict=True)]))
    sampling = 0.0 if n is None else float(np.mean([sampling_variance(y, n) for y in cells]))
    return float(np.mean(e2)), mp, sampling * (n or 0), sampling


def _seed_mean_square(data: Matrices) -> tuple[float, int]:
    """Variance of a seed's macro score, pooled over cells, and its df."""
    macros = [np.mean([y.mean(axis=1) for y in ys], axis=0) for ys in data.y.values()]
    df = sum(len(macro) - 1 for macro in macros)
    return float(sum((len(macro) - 1) * macro.var(ddof=1) for macro in macros)) / df, df
