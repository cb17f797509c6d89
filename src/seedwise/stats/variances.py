"""The three variances of a contrast, each with its Satterthwaite df (statistics, section 3).

Every function gets the margins of arrays [S, P], one per benchmark.  B benchmarks have equal weight.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Margins:
    """An array [S, P] in its row means [S], column means [P] and interaction: the sum of squares left
    after removing both.  size: Frobenius norm, what rounding errors are relative to."""

    rows_S: Array
    columns_P: Array
    interaction: float
    size: float

    @classmethod
    def of(cls, y_SP: Array) -> Margins:
        """Margins of scores without NaN."""
        S, P = y_SP.shape
        rows, columns = np.add.reduce(y_SP, axis=1) / P, np.add.reduce(y_SP, axis=0) / S
        rest = y_SP - rows[:, None]
        rest -= columns - np.add.reduce(columns) / P
        return cls(rows, columns, float(np.vdot(rest, rest)), float(np.vdot(y_SP, y_SP)) ** 0.5)


Unit = tuple[float, Sequence[Margins]]
"""What carries training seeds: the weight of a cell and its margins on each benchmark."""


@dataclass(frozen=True, slots=True)
class Variance:
    """A variance and its df.  value None: the design cannot give it.  df None: value is 0 or None."""

    value: float | None
    df: float | None

    @classmethod
    def of(cls, terms: Sequence[tuple[float, float]], tiny: float) -> Variance:
        """Sum of independent (variance, df) terms with the df of Welch and Satterthwaite.

        Below ``tiny`` it is rounding, and exactly 0.
        """
        value = sum(v for v, _ in terms)
        if value <= tiny:
            return cls(0.0, None)
        return cls(value, value**2 / sum(v * v / df for v, df in terms))


UNKNOWN = Variance(None, None)


def over_seeds(units: Mapping[Hashable, Unit], tiny: float, *, pooled: bool = False) -> tuple[Variance, list[str]]:
    """``V_seed``: sum over cells of ``w^2 s2 / S``, s2 the variance of a seed's macro score; and flags.

    pooled: one s2 for all cells, weight 0 included.  Unknown when a cell with a weight has one seed.
    """
    if any(weight != 0 and len(margins[0].rows_S) < 2 for weight, margins in units.values()):
        return UNKNOWN, []
    spread = {m: _macro_spread(margins) for m, (_, margins) in units.items()}
    if not pooled:
        terms = [(units[m][0] ** 2 * s2 / S, S - 1) for m, (s2, S) in spread.items() if units[m][0] != 0]
        return Variance.of(terms, tiny), []
    known = [(s2, S) for s2, S in spread.values() if S > 1]
    df = sum(S - 1 for _, S in known)
    common = sum((S - 1) * s2 for s2, S in known) / df if df else 0.0
    value = common * sum(weight**2 / spread[m][1] for m, (weight, _) in units.items())
    low, high = min((s2 for s2, _ in known), default=0.0), max((s2 for s2, _ in known), default=0.0)
    ratio = f"{(high / low) ** 0.5:.2f}" if low > 0 else "undefined"
    return Variance.of([(value, df)], tiny), [f"assumes equal seed variance (max/min SD {ratio})"]


def over_problems(differences: Sequence[Array], clusters: Sequence[NDArray[np.int64] | None], tiny: float) -> Variance:
    """``V_prob``: sum over benchmarks of ``Var_p(D) / (P B^2)``, D [P] the contrast on each problem.

    clusters: per benchmark None or cluster numbers [P]; then ``G/(G-1) sum_g (sum_{p in g} (D_p -
    Dbar))^2 / P^2`` with G-1 df.  Unknown when a benchmark has one problem or one cluster.
    """
    terms = []
    for D_P, groups in zip(differences, clusters, strict=True):
        P = len(D_P)
        sums = D_P - np.add.reduce(D_P) / P
        if groups is not None:
            sums = np.bincount(groups, weights=sums)
        G = len(sums)
        if G < 2:
            return UNKNOWN
        terms.append((G / (G - 1) * float(sums @ sums) / (P * len(differences)) ** 2, G - 1))
    return Variance.of(terms, tiny)


def residual(units: Sequence[Unit], tiny: float) -> Variance:
    """``V_res``: sum over cells and benchmarks of ``w^2 e2 / (S P B^2)``, e2 the seed-by-problem mean square.

    Unknown when a cell has one seed or a benchmark one problem.
    """
    terms = []
    for weight, margins in units:
        for y in margins:
            S, P = len(y.rows_S), len(y.columns_P)
            if S < 2 or P < 2:
                return UNKNOWN
            df = (S - 1) * (P - 1)
            terms.append((weight**2 * y.interaction / (df * S * P * len(margins) ** 2), df))
    return Variance.of(terms, tiny)


def _macro_spread(margins: Sequence[Margins]) -> tuple[float, int]:
    """Variance over seeds of the macro score (ddof 1; 0 for one seed) and the number of seeds."""
    macro_S = sum((y.rows_S for y in margins[1:]), start=margins[0].rows_S) / len(margins)
    S = len(macro_S)
    macro_S = macro_S - np.add.reduce(macro_S) / S
    return float(macro_S @ macro_S) / max(S - 1, 1), S
