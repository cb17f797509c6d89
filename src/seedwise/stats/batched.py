"""The TW-Welch difference of two arms in many studies at once: ``tw_contrast``, closed form over R.

R studies, S seeds, P problems, B benchmarks.  Simulations only: in these arrays, and nowhere else, an
undefined number is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from seedwise.stats.results import StatsError, Target
from seedwise.stats.variances import Array


@dataclass(frozen=True, slots=True)
class ArmMargins:
    """One arm in R studies: what a contrast needs of its scores.

    macro_RS: macro score of each seed.  columns: per benchmark [R, P], mean over seeds.
    interaction_RB: sum of squares left after removing row and column means.  size_R: largest Frobenius
    norm of a benchmark, what rounding errors are relative to.  fixed: no training seeds.
    """

    macro_RS: Array
    columns: tuple[Array, ...]
    interaction_RB: Array
    size_R: Array
    fixed: bool = False

    @classmethod
    def of(cls, blocks: Sequence[Array], *, fixed: bool = False) -> ArmMargins:
        """Margins of scores without NaN, one [R, S, P] array per benchmark.

        Raises StatsError for fewer than 2 problems, or one seed in an arm that is not fixed.
        """
        for y_RSP in blocks:
            _, S, P = y_RSP.shape
            if P < 2 or (S < 2 and not fixed):
                raise StatsError(f"a simulated arm needs at least 2 seeds and 2 problems, got {S} and {P}")
        rows, columns, interactions, sizes = zip(*map(_margins, blocks), strict=True)
        return cls(
            np.asarray(sum(rows)) / len(rows), columns, np.stack(interactions, 1), np.stack(sizes, 1).max(1), fixed
        )


@dataclass(frozen=True, slots=True)
class Differences:
    """The difference of two arms in R studies, each [R].  df, half: NaN where V is 0; p: NaN where V is
    0 and d is not, 1 where both are.  half: half the width of the 1 - alpha interval."""

    d: Array
    V: Array
    df: Array
    p: Array
    half: Array


def differences(a: ArmMargins, b: ArmMargins, *, target: Target = "E2", alpha: float = 0.05) -> Differences:
    """Test and interval of a minus b in every study: ``tw_contrast`` with the weights 1 and -1.

    Both arms have the same benchmarks and problems.
    """
    B, trained = len(a.columns), [arm for arm in (a, b) if not arm.fixed]
    D = [first - second for first, second in zip(a.columns, b.columns, strict=True)]
    d_R = np.asarray(sum(D_RP.mean(axis=1) for D_RP in D)) / B
    tiny_R = (64 * np.finfo(float).eps * (a.size_R + b.size_R)) ** 2
    sizes = [D_RP.shape[1] for D_RP in D]
    seed = _Sum.of([(arm.macro_RS.var(axis=1, ddof=1) / S, S - 1) for arm, S in _with_seeds(trained)], tiny_R)
    if target == "E1":
        V_R, df_R = seed.value, seed.df
    else:
        problem = _Sum.of(
            [(D_RP.var(axis=1, ddof=1) / (P * B**2), P - 1) for D_RP, P in zip(D, sizes, strict=True)], tiny_R
        )
        rest = _Sum.of(
            [
                (arm.interaction_RB[:, i] / ((S - 1) * (P - 1) * S * P * B**2), (S - 1) * (P - 1))
                for arm, S in _with_seeds(trained)
                for i, P in enumerate(sizes)
            ],
            tiny_R,
        )
        V_R, df_R = _guarded(seed, problem, rest)
    with np.errstate(divide="ignore", invalid="ignore"):
        p_R = 2 * stdtr(df_R, -np.abs(d_R) / np.sqrt(V_R))
    d_R = np.where((V_R == 0) & (d_R * d_R <= tiny_R), 0.0, d_R)
    p_R = np.where(V_R > 0, p_R, np.where(d_R == 0, 1.0, np.nan))
    return Differences(d_R, V_R, df_R, p_R, stdtrit(df_R, 1 - alpha / 2) * np.sqrt(V_R))


def _margins(y_RSP: Array) -> tuple[Array, Array, Array, Array]:
    _, S, P = y_RSP.shape
    rows_RS, columns_RP = y_RSP.sum(axis=2) / P, y_RSP.sum(axis=1) / S
    rest_RSP = y_RSP - rows_RS[:, :, None]
    rest_RSP -= (columns_RP - columns_RP.mean(axis=1, keepdims=True))[:, None]
    interaction_R = np.einsum("rsp,rsp->r", rest_RSP, rest_RSP)
    return rows_RS, columns_RP, interaction_R, np.einsum("rsp,rsp->r", y_RSP, y_RSP) ** 0.5


def _with_seeds(arms: Sequence[ArmMargins]) -> list[tuple[ArmMargins, int]]:
    return [(arm, arm.macro_RS.shape[1]) for arm in arms]


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum of independent variances, and the sum of their squares over df: value^2 / spread are its df."""

    value: Array
    spread: Array

    @classmethod
    def of(cls, terms: Sequence[tuple[Array, int]], tiny_R: Array) -> _Sum:
        value = np.asarray(sum((v for v, _ in terms), start=np.zeros_like(tiny_R)))
        spread = np.asarray(sum((v * v / df for v, df in terms), start=np.zeros_like(tiny_R)))
        kept = value > tiny_R  # the rest is rounding
        return cls(np.where(kept, value, 0.0), np.where(kept, spread, 0.0))

    @property
    def df(self) -> Array:
        """NaN where the value is 0."""
        return _ratio(self.value**2, self.spread)


def _guarded(seed: _Sum, problem: _Sum, rest: _Sum) -> tuple[Array, Array]:
    """V and df of the two-way sum, never below a one-way variance; df at least 1, NaN where V is 0."""
    V_sum = seed.value + problem.value - rest.value
    one_way = np.maximum(seed.value, problem.value)
    V = np.where(V_sum >= one_way, V_sum, one_way)
    alone = np.where(seed.value >= problem.value, seed.df, problem.df)
    df = np.where(V_sum >= one_way, _ratio(V_sum**2, seed.spread + problem.spread + rest.spread), alone)
    return V, np.maximum(df, 1.0)


def _ratio(top: Array, bottom: Array) -> Array:
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)
