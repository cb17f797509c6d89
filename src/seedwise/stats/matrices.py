"""Score matrices made comparable: checked weights, and the problems every seed has a score on."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seedwise.stats.results import StatsError
from seedwise.stats.variances import Array


@dataclass(frozen=True)
class Matrices:
    """Cells that enter one contrast, on common problems.

    flat: cell -> [S, N] scores without NaN, the benchmarks side by side.  w: cell -> weight.  fixed: cells
    that are fixed by design.  benches, sizes: names and numbers of problems.  clusters: per benchmark,
    [P] cluster numbers or None.  dropped: problems left out.
    """

    flat: Mapping[Hashable, Array]
    w: Mapping[Hashable, float]
    fixed: frozenset[Hashable]
    benches: tuple[str, ...]
    sizes: tuple[int, ...]
    clusters: tuple[NDArray[np.int64] | None, ...]
    dropped: int

    @property
    def y(self) -> dict[Hashable, tuple[Array, ...]]:
        """Cell -> one [S, P] array per benchmark."""
        ends = list(accumulate(self.sizes))
        return {
            m: tuple(y_SN[:, end - P : end] for P, end in zip(self.sizes, ends, strict=True))
            for m, y_SN in self.flat.items()
        }

    @property
    def seeds(self) -> dict[Hashable, int]:
        """S of every cell that carries training seeds and has a weight."""
        return {m: len(y_SN) for m, y_SN in self.flat.items() if m not in self.fixed and self.w[m] != 0}

    @property
    def smallest_bench(self) -> str:
        """The benchmark with the fewest problems, or clusters where it has them."""
        units = [
            P if groups is None else len(set(groups.tolist()))
            for P, groups in zip(self.sizes, self.clusters, strict=True)
        ]
        return self.benches[int(np.argmin(units))]


def aligned(
    scores: Mapping[Any, Mapping[str, ArrayLike]],
    w: Mapping[Any, float],
    *,
    whole_grid: bool = False,
    fixed: Collection[Hashable] = (),
    clusters: Mapping[str, Sequence[Hashable]] | None = None,
) -> Matrices:
    """Check the input of a contrast and keep the problems that every seed of every cell has.

    scores: cell -> benchmark -> [S, P], NaN where a (seed, problem) score is missing.  w: weights;
    cells without one have weight 0 and are left out, unless ``whole_grid``.  clusters: benchmark ->
    P labels.  Raises StatsError on unknown cells, weights that are all 0 or not finite, different
    benchmarks or problems, scores that are not finite, or a benchmark without a common problem.
    """
    weights = weights_of(scores, w, whole_grid=whole_grid)
    benches = tuple(scores[next(iter(weights))])
    if not benches:
        raise StatsError("a contrast needs at least 1 benchmark, got none")
    sizes = _sizes(next(iter(weights)), scores[next(iter(weights))])
    flat = {m: _flat(m, scores[m], sizes) for m in weights}
    keep_N = _complete(flat, sizes)
    kept, dropped = tuple(sizes.values()), 0
    starts = np.cumsum([0, *kept])
    keep = [keep_N[start : start + P] for start, P in zip(starts, kept, strict=False)]
    if not keep_N.all():
        kept = tuple(int(np.count_nonzero(k)) for k in keep)
        dropped = len(keep_N) - sum(kept)
        flat = {m: y_SN[:, keep_N] for m, y_SN in flat.items()}
    groups = tuple(_groups(bench, k, (clusters or {}).get(bench)) for bench, k in zip(benches, keep, strict=True))
    return Matrices(flat, weights, frozenset(fixed) & weights.keys(), benches, kept, groups, dropped)


def weights_of(cells: Collection[Any], w: Mapping[Any, float], *, whole_grid: bool = False) -> dict[Any, float]:
    """Cell -> weight, in the order of ``cells``; those of weight 0 only with ``whole_grid``.

    Raises StatsError on unknown cells, or weights that are all 0 or not finite.
    """
    if unknown := [m for m in w if m not in cells]:
        raise StatsError(f"cell {unknown[0]!r} has a weight but no scores: cells with scores are {list(cells)}")
    weights = {m: float(w.get(m, 0)) for m in cells if whole_grid or w.get(m, 0) != 0}
    if bad := [m for m, weight in weights.items() if not np.isfinite(weight)]:
        raise StatsError(f"weight of cell {bad[0]!r} is {weights[bad[0]]}: give a finite number")
    if not any(weights.values()):
        raise StatsError("all weights are 0: give at least one cell another weight")
    return weights


def _sizes(cell: Hashable, by_bench: Mapping[str, ArrayLike]) -> dict[str, int]:
    """Benchmark -> number of problems, as the first cell has them."""
    sizes = {}
    for bench, values in by_bench.items():
        shape = np.shape(values)
        if len(shape) != 2 or 0 in shape:
            raise StatsError(f"cell {cell!r}, benchmark {bench!r}: shape {shape} instead of (seeds, problems)")
        sizes[bench] = shape[1]
    return sizes


def _flat(cell: Hashable, by_bench: Mapping[str, ArrayLike], sizes: Mapping[str, int]) -> Array:
    """[S, N] the benchmarks side by side, in the order of ``sizes``."""
    if by_bench.keys() != sizes.keys():
        raise StatsError(f"cell {cell!r} has benchmarks {sorted(by_bench)}, another has {sorted(sizes)}")
    arrays = [np.asarray(by_bench[bench], dtype=np.float64) for bench in sizes]
    for (bench, P), y in zip(sizes.items(), arrays, strict=True):
        if y.ndim != 2 or 0 in y.shape:
            raise StatsError(f"cell {cell!r}, benchmark {bench!r}: shape {y.shape} instead of (seeds, problems)")
        if y.shape[1] != P:
            found = sorted({y.shape[1], P})
            raise StatsError(f"benchmark {bench!r}: cells have {found} problems: fill up with NaN")
        if len(y) != len(arrays[0]):
            first = next(iter(sizes))
            raise StatsError(f"cell {cell!r}: {len(arrays[0])} seeds on {first!r} but {len(y)} on {bench!r}")
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=1)


def _complete(flat: Mapping[Hashable, Array], sizes: Mapping[str, int]) -> NDArray[np.bool_]:
    """[N] true where no seed of any cell misses the problem."""
    keep_N = np.ones(sum(sizes.values()), dtype=np.bool_)
    for m, y_SN in flat.items():
        finite_N = np.isfinite(np.add.reduce(y_SN, axis=0))
        if not finite_N.all():
            if (infinite_N := np.isinf(y_SN).any(axis=0)).any():
                bench = _names(sizes)[infinite_N][0]
                raise StatsError(f"cell {m!r}, benchmark {bench!r}: a score is infinite; leave it out as NaN")
            keep_N &= finite_N
    if not keep_N.all() and (empty := sizes.keys() - set(_names(sizes)[keep_N].tolist())):
        bench = next(name for name in sizes if name in empty)
        raise StatsError(f"benchmark {bench!r}: no problem has a score in every seed: leave the incomplete seed out")
    return keep_N


def _names(sizes: Mapping[str, int]) -> NDArray[np.object_]:
    """[N] benchmark of each problem."""
    return np.repeat(np.array(list(sizes), dtype=object), list(sizes.values()))


def _groups(bench: str, keep: NDArray[np.bool_], labels: Sequence[Hashable] | None) -> NDArray[np.int64] | None:
    """[P] cluster numbers 0..G-1 of the problems kept."""
    if labels is None:
        return None
    if len(labels) != len(keep):
        raise StatsError(f"benchmark {bench!r}: {len(labels)} cluster labels for {len(keep)} problems")
    kept = [label for label, k in zip(labels, keep, strict=True) if k]
    numbers = {label: g for g, label in enumerate(dict.fromkeys(kept))}
    return np.array([numbers[label] for label in kept], dtype=np.int64)
