"""The three variances of a contrast, each with its Satterthwaite df (statistics, section 3).

Scores of a cell are one array [S, N], the problems of its benchmarks side by side; B benchmarks have
equal weight, benchmark b has P_b problems.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Margins:
    """An array [S, P] in its row means [S], column means [P] and interaction: the sum of squares left
    after removing both."""

    rows_S: Array
    columns_P: Array
    interaction: float

    @classmethod
    def of(cls, y_SP: Array) -> Margins:
        """Margins of scores without NaN."""
        S, P = y_SP.shape
        rows, columns = np.add.reduce(y_SP, axis=1) / P, np.add.reduce(y_SP, axis=0) / S
        rest = y_SP - rows[:, None]
        rest -= columns - np.add.reduce(columns) / P
        return cls(rows, columns, float(np.vdot(rest, rest)))


@dataclass(frozen=True, slots=True)
class Blocks:
    """Where the benchmarks stand among N problems: sizes P_b, first problem [B], benchmark of each [N]."""

    sizes: tuple[int, ...]
    starts_B: NDArray[np.intp]
    own_N: NDArray[np.intp]

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Blocks:
        """Blocks of these sizes, side by side."""
        if len(sizes) == 1:
            return cls(tuple(sizes), np.zeros(1, dtype=np.intp), np.zeros(sizes[0], dtype=np.intp))
        starts = np.array([0, *accumulate(sizes[:-1])], dtype=np.intp)
        return cls(tuple(sizes), starts, np.repeat(np.arange(len(sizes)), sizes))

    def sums(self, values: Array) -> Array:
        """[..., B] sum of each block of the last axis."""
        return np.add.reduceat(values, self.starts_B, axis=-1)

    def spread(self, values: Array) -> Array:
        """[..., N] the value of its block for each problem, or [..., 1] where there is one block."""
        return values if len(self.sizes) == 1 else values[..., self.own_N]

    def squares(self, y_SN: Array) -> list[float]:
        """Sum of squares of each block."""
        if len(self.sizes) == 1:
            return [float(np.vdot(y_SN, y_SN))]
        return self.sums(np.einsum("sn,sn->n", y_SN, y_SN)).tolist()


@dataclass(frozen=True, slots=True)
class CellMargins:
    """Scores [S, N] of a cell in what a contrast needs of them.

    macro_S: macro score of each seed, and s2, its variance over seeds (0 for one).  columns_N: mean of each
    problem.  interaction, squares: per benchmark, the sum of squares left after removing row and column means,
    and the sum of all squares.
    """

    macro_S: Array
    s2: float
    columns_N: Array
    interaction: Sequence[float]
    squares: Sequence[float]

    @property
    def size(self) -> float:
        """Largest Frobenius norm of a benchmark: what rounding errors are relative to."""
        return max(self.squares) ** 0.5

    @classmethod
    def of(cls, y_SN: Array, blocks: Blocks) -> CellMargins:
        """Margins of scores without NaN."""
        S, B = len(y_SN), len(blocks.sizes)
        rows_SB, columns = blocks.sums(y_SN) / blocks.sizes, np.add.reduce(y_SN, axis=0) / S
        rest_SN = y_SN - blocks.spread(rows_SB)
        rest_SN -= columns - blocks.spread(blocks.sums(columns) / blocks.sizes)
        macro = np.add.reduce(rows_SB, axis=1) / B
        apart = macro - np.add.reduce(macro) / S
        s2 = float(apart @ apart) / max(S - 1, 1)
        return cls(macro, s2, columns, blocks.squares(rest_SN), blocks.squares(y_SN))


Unit = tuple[float, CellMargins]
"""What carries training seeds: the weight of a cell and its margins."""


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
    S = {m: len(cell.macro_S) for m, (_, cell) in units.items()}
    if any(weight != 0 and S[m] < 2 for m, (weight, _) in units.items()):
        return UNKNOWN, []
    if not pooled:
        terms = [(weight**2 * cell.s2 / S[m], S[m] - 1) for m, (weight, cell) in units.items() if weight != 0]
        return Variance.of(terms, tiny), []
    known = [(cell.s2, S[m]) for m, (_, cell) in units.items() if S[m] > 1]
    df = sum(S - 1 for _, S in known)
    common = sum((S - 1) * s2 for s2, S in known) / df if df else 0.0
    value = common * sum(weight**2 / S[m] for m, (weight, _) in units.items())
    low, high = min((s2 for s2, _ in known), default=0.0), max((s2 for s2, _ in known), default=0.0)
    ratio = f"{(high / low) ** 0.5:.2f}" if low > 0 else "undefined"
    flags = [f"assumes equal seed variance (max/min SD {ratio})"]
    return Variance.of([(value, df)], tiny), flags


def over_problems(D_N: Array, blocks: Blocks, clusters: Sequence[NDArray[np.int64] | None], tiny: float) -> Variance:
    """``V_prob``: sum over benchmarks of ``Var_p(D) / (P B^2)``, D the contrast on each problem.

    clusters: per benchmark None or cluster numbers [P]; then ``G/(G-1) sum_g (sum_{p in g} (D_p -
    Dbar))^2 / P^2`` with G-1 df.  Unknown when a benchmark has one problem or one cluster.
    """
    B = len(blocks.sizes)
    apart_N = D_N - blocks.spread(blocks.sums(D_N) / blocks.sizes)
    terms = []
    for b, (P, squares) in enumerate(zip(blocks.sizes, blocks.sums(apart_N * apart_N).tolist(), strict=True)):
        G, groups = P, clusters[b]
        if groups is not None:
            sums = np.bincount(groups, weights=apart_N[blocks.own_N == b])
            G, squares = len(sums), float(sums @ sums)
        if G < 2:
            return UNKNOWN
        terms.append((G / (G - 1) * squares / (P * B) ** 2, G - 1))
    return Variance.of(terms, tiny)


def residual(units: Sequence[Unit], blocks: Blocks, tiny: float) -> Variance:
    """``V_res``: sum over cells and benchmarks of ``w^2 e2 / (S P B^2)``, e2 the seed-by-problem mean square.

    Unknown when a cell has one seed or a benchmark one problem.
    """
    terms = []
    for weight, cell in units:
        S = len(cell.macro_S)
        for P, squares in zip(blocks.sizes, cell.interaction, strict=True):
            if S < 2 or P < 2:
                return UNKNOWN
            df = (S - 1) * (P - 1)
            terms.append((weight**2 * squares / (df * S * P * len(blocks.sizes) ** 2), df))
    return Variance.of(terms, tiny)
