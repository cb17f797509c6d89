"""TW-Welch: the two-way (training seed x problem) Welch-Satterthwaite contrast.

Pairwise differences, means, trends and interactions are this one function with other weights.
Conventions: cells are (method, hyper-parameters); seeds are nested in cells; problems are crossed
with everything; benchmarks are fixed strata of equal weight.  Source: reference statistics, section
3 (quasi-F df of Westfall, Kenny and Judd in Welch form; max rule of MacKinnon, Nielsen and Webb).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from seedwise.stats.matrices import Matrices, aligned
from seedwise.stats.prepared import Prepared, Ready
from seedwise.stats.results import Contrast, StatsError, Target
from seedwise.stats.variances import Array, CellMargins, Unit, Variance, over_problems, over_seeds, residual

NO_SEED_INTERVAL = "an interval over seeds needs at least 2, got 1"


def tw_contrast(
    scores: Mapping[Any, Mapping[str, ArrayLike]] | Prepared,
    w: Mapping[Any, float],
    *,
    target: Target = "E2",
    seed_variance: Literal["welch", "pooled"] = "welch",
    pairing: Literal["seed"] | None = None,
    clusters: Mapping[str, Sequence[Hashable]] | None = None,
    alpha: float = 0.05,
    samples: int | Mapping[str, int] | None = None,
    fixed: Collection[Hashable] = frozenset(),
) -> Contrast:
    """Test and interval of ``sum_m w_m Mbar_m``, Mbar_m the macro mean of cell m (statistics, section 3).

    scores: cell -> benchmark -> [S, P] score of a seed on a problem; S may differ between cells; NaN
    is a missing score and drops the problem from every cell (counted in ``dropped``).  Or ``prepare(scores)``,
    for many contrasts of one table.
    w: cell -> weight; the others are ignored, except by "pooled".
    target: "E2", new seeds and new problems; "E1", new seeds on exactly these problems.
    seed_variance: "pooled" uses one seed variance for all cells of ``scores``; flagged, since it is
    valid only if they are equal.
    pairing: "seed" pairs row s of every cell; only for designs that share randomness by seed.
    clusters: benchmark -> label of each problem; problems of one label are not independent.
    samples: n of a score c/n, one number or per benchmark; turns on the flag ``underdispersed``
    (seed variance below what n Bernoulli draws alone give).
    fixed: cells fixed by design, like the untrained base model: no training seed, so no seed variance
    and no residual; rows are repeated evaluations and are averaged.  Their evaluation noise enters E2
    through the problem-level differences, exactly once; E1 takes their score as given.

    Raises StatsError on malformed input.  One seed in a cell with a weight, one problem (E2), or no
    variance at all give a Contrast whose undefined numbers are None, with the reason.
    """
    return tw_contrasts(
        scores,
        w,
        targets=(target,),
        seed_variance=seed_variance,
        pairing=pairing,
        clusters=clusters,
        alpha=alpha,
        samples=samples,
        fixed=fixed,
    )[target]


def tw_contrasts(
    scores: Mapping[Any, Mapping[str, ArrayLike]] | Prepared,
    w: Mapping[Any, float],
    *,
    targets: Sequence[Target] = ("E2", "E1"),
    seed_variance: Literal["welch", "pooled"] = "welch",
    pairing: Literal["seed"] | None = None,
    clusters: Mapping[str, Sequence[Hashable]] | None = None,
    alpha: float = 0.05,
    samples: int | Mapping[str, int] | None = None,
    fixed: Collection[Hashable] = frozenset(),
) -> dict[Target, Contrast]:
    """``tw_contrast`` for several targets at once: they share all variances and differ in which they count."""
    for target in targets:
        _check_options(target, seed_variance, pairing, alpha)
    pooled = seed_variance == "pooled"
    if not isinstance(scores, Prepared):
        ready = Ready.of(aligned(scores, w, whole_grid=pooled, fixed=fixed, clusters=clusters))
    elif fixed or clusters:
        raise StatsError("these scores are prepared: give fixed and clusters to prepare instead")
    else:
        ready = scores.ready(w, whole_grid=pooled)
    data, margins, blocks = ready.data, ready.margins, ready.blocks
    weighted = {m: weight for m, weight in data.w.items() if weight != 0}
    D_N = np.asarray(sum(weight * margins[m].columns_N for m, weight in weighted.items()))
    size = sum(abs(weight) * margins[m].size for m, weight in weighted.items())
    tiny = (64 * np.finfo(float).eps * size) ** 2
    units: dict[Any, Unit] = {m: (data.w[m], margins[m]) for m in margins if m not in data.fixed}
    if pairing:
        units = {"pairs": (1.0, CellMargins.of(_paired(data), blocks))}
    seed, flags = over_seeds(units, tiny, pooled=pooled)
    problem = over_problems(D_N, blocks, data.clusters, tiny)
    rest = residual([unit for unit in units.values() if unit[0] != 0], blocks, tiny)
    d = sum(total / P for P, total in zip(blocks.sizes, blocks.sums(D_N).tolist(), strict=True)) / len(data.benches)
    flags = (*flags, *_seed_flags(ready, seed, samples))
    found: dict[Target, Contrast] = {}
    for target in targets:
        choice = _guarded(seed, problem, rest, data) if target == "E2" else _seeds_only(seed)
        found[target] = _tested(d, choice, (seed, problem, rest), tiny, flags, data.dropped, target, alpha)
    return found


def mean_interval(
    scores: Mapping[str, ArrayLike],
    alpha: float = 0.05,
    *,
    fixed: bool = False,
    clusters: Mapping[str, Sequence[Hashable]] | None = None,
) -> Contrast:
    """Macro mean of one cell (``d``) with its interval over new seeds and new problems.

    scores: benchmark -> [S, P].  fixed: the cell has no training seed (the untrained base), so the
    interval is over new problems only.  t and p test a mean of 0 and are of no use here; the bounds
    are not cut at 0 and 1.  Raises StatsError as ``tw_contrast``.
    """
    cells = {"cell"} if fixed else frozenset()
    return tw_contrast({"cell": scores}, {"cell": 1.0}, alpha=alpha, fixed=cells, clusters=clusters)


def one_run_contrast(
    scores: Mapping[Any, Mapping[str, ArrayLike]], w: Mapping[Any, float], *, alpha: float = 0.05
) -> Contrast:
    """The contrast of these very checkpoints over new problems (E0): a paired t over problems.

    For one seed per cell, where nothing can be said about training.  Always flagged "conditional on one
    training run"; it never enters a table of claims.  Raises StatsError as ``tw_contrast``, and when a cell
    has several seeds.
    """
    several = {m: len(np.asarray(y)) for m, ys in scores.items() for y in ys.values() if w.get(m, 0) != 0}
    if many := [(m, S) for m, S in several.items() if S > 1]:
        raise StatsError(f"cell {many[0][0]!r} has {many[0][1]} seeds: use tw_contrast, which counts them")
    result = tw_contrast(scores, w, alpha=alpha, fixed=frozenset(several))
    return replace(result, flags=(*result.flags, "conditional on one training run"))


def _check_options(target: str, seed_variance: str, pairing: str | None, alpha: float) -> None:
    for name, value, allowed in (
        ("target", target, ("E2", "E1")),
        ("seed_variance", seed_variance, ("welch", "pooled")),
        ("pairing", pairing, (None, "seed")),
    ):
        if value not in allowed:
            raise StatsError(f"{name}: {value!r}: use one of {allowed}")
    if not 0 < alpha < 1:
        raise StatsError(f"alpha: {alpha}: use a number between 0 and 1")
    if pairing and seed_variance == "pooled":
        raise StatsError("pairing by seed and a pooled seed variance exclude each other: drop one")


def _paired(data: Matrices) -> Array:
    """[S, N] seed-wise weighted sums; fixed cells enter by their mean."""
    seeds = data.seeds
    if not seeds:
        raise StatsError("pairing by seed needs a cell with training seeds; every cell with a weight is fixed")
    if len(set(seeds.values())) > 1:
        raise StatsError(f"pairing by seed needs the same seeds in every cell, got {seeds}")
    parts = {m: y_SN.mean(axis=0) if m in data.fixed else y_SN for m, y_SN in data.flat.items()}
    return np.asarray(sum(data.w[m] * y for m, y in parts.items()))


def _seed_flags(ready: Ready, seed: Variance, samples: int | Mapping[str, int] | None) -> list[str]:
    flags = ["df<=2"] if min(ready.data.seeds.values(), default=3) == 2 else []
    if samples is not None and seed.value is not None and seed.value < _binomial_floor(ready, samples):
        flags.append("underdispersed")
    return flags


def _binomial_floor(ready: Ready, samples: int | Mapping[str, int]) -> float:
    """Variance of the contrast that n Bernoulli draws a score would give alone, unbiased."""
    floor = 0.0
    for m, S in ready.data.seeds.items():
        cell = ready.margins[m]
        ones = (ready.blocks.sums(cell.columns_N) * S).tolist()
        for bench, P, one, square in zip(ready.data.benches, ready.blocks.sizes, ones, cell.squares, strict=True):
            n = samples[bench] if isinstance(samples, Mapping) else samples
            if n < 2:
                raise StatsError(f"samples: {n} on {bench!r}: the sampling variance needs at least 2")
            # one - square is the sum of y (1 - y)
            floor += ready.data.w[m] ** 2 * (one - square) / (n - 1) / (S * P) ** 2
    return floor / len(ready.data.benches) ** 2


class _Choice(NamedTuple):
    """The variance used, the branch it came from, its df; or why there is none."""

    V: float | None = None
    branch: Literal["sum", "seed", "problem"] | None = None
    df: float | None = None
    reason: str | None = None


def _seeds_only(seed: Variance) -> _Choice:
    return _Choice(reason=NO_SEED_INTERVAL) if seed.value is None else _Choice(seed.value, "seed", seed.df)


def _guarded(seed: Variance, problem: Variance, rest: Variance, data: Matrices) -> _Choice:
    """The two-way sum, never below a one-way variance: the df are those of the branch, at least 1."""
    if seed.value is None:
        return _Choice(reason=NO_SEED_INTERVAL)
    if problem.value is None or rest.value is None:
        return _Choice(reason=f"an interval over problems needs at least 2, got 1 in {data.smallest_bench!r}")
    V_sum = seed.value + problem.value - rest.value
    if V_sum >= max(seed.value, problem.value):
        spread = sum(part.value**2 / part.df for part in (seed, problem, rest) if part.value and part.df)
        return _Choice(V_sum, "sum", max(V_sum**2 / spread, 1.0) if spread else None)
    if seed.value >= problem.value:
        return _Choice(seed.value, "seed", max(seed.df or 1.0, 1.0))
    return _Choice(problem.value, "problem", max(problem.df or 1.0, 1.0))


def _tested(
    d: float,
    choice: _Choice,
    parts: tuple[Variance, Variance, Variance],
    tiny: float,
    flags: tuple[str, ...],
    dropped: int,
    target: Target,
    alpha: float,
) -> Contrast:
    V, branch, df, reason = choice
    se = t = p = lo = hi = None
    if V == 0:
        d = 0.0 if d * d <= tiny else d
        se, branch, p = 0.0, None, (1.0 if d == 0 else None)
        what = "seeds" if target == "E1" else "seeds or problems"
        reason = f"no variance over {what}: " + ("p is 1, no interval" if d == 0 else "a test is undefined")
    elif V is not None and df is not None:
        se = sqrt(V)
        t, half = d / se, float(stdtrit(df, 1 - alpha / 2)) * se
        p, lo, hi = 2 * float(stdtr(df, -abs(t))), d - half, d + half
    seed, problem, rest = parts
    variances = (seed.value, seed.df, problem.value, problem.df, rest.value, rest.df, V)
    return Contrast(d, se, df, t, p, lo, hi, *variances, branch, flags, reason, dropped, target, alpha)
