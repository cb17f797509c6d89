"""Score matrices made comparable: checked weights, and the problems every seed has a score on."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seedwise.stats.results import StatsError
from seedwise.stats.variances import Array


@dataclass(frozen=True)
class Matrices:
    """Cells that enter one contrast, on common problems.

    y: cell -> one [S, P] array per benchmark, without NaN.  w: cell -> weight.  fixed: cells that
    are fixed by design.  clusters: per benchmark, [P] cluster numbers or None.  dropped: problems
    left out.
    """

    y: Mapping[Hashable, tuple[Array, ...]]
    w: Mapping[Hashable, float]
    fixed: frozenset[Hashable]
    benches: tuple[str, ...]
    clusters: tuple[NDArray[np.int64] | None, ...]
    dropped: int

    @property
    def seeds(self) -> dict[Hashable, int]:
        """S of every cell that carries training seeds and has a weight."""
        return {m: len(y[0]) for m, y in self.y.items() if m not in self.fixed and self.w[m] != 0}

    @property
    def smallest_bench(self) -> str:
        """The benchmark with the fewest problems, or clusters where it has them."""
        y = next(iter(self.y.values()))
        units = [
            y_SP.shape[1] if groups is None else len(set(groups.tolist()))
            for y_SP, groups in zip(y, self.clusters, strict=True)
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
    if unknown := [m for m in w if m not in scores]:
        raise StatsError(f"cell {unknown[0]!r} has a weight but no scores: cells with scores are {list(scores)}")
    weights = {m: float(w.get(m, 0)) for m in scores if whole_grid or w.get(m, 0) != 0}
    if bad := [m for m, weight in weights.items() if not np.isfinite(weight)]:
        raise StatsError(f"weight of cell {bad[0]!r} is {weights[bad[0]]}: give a finite number")
    if not any(weights.values()):
        raise StatsError("all weights are 0: give at least one cell another weight")
    benches = tuple(scores[next(iter(weights))])
    if not benches:
        raise StatsError("a contrast needs at least 1 benchmark, got none")
    arrays = {m: _arrays(m, scores[m], benches) for m in weights}
    keep = [_complete(bench, [arrays[m][b] for m in weights]) for b, bench in enumerate(benches)]
    dropped = sum(int((~k).sum()) for k in keep)
    if dropped:
        arrays = {m: tuple(y[:, k] for y, k in zip(ys, keep, strict=True)) for m, ys in arrays.items()}
    groups = tuple(_groups(bench, k, (clusters or {}).get(bench)) for bench, k in zip(benches, keep, strict=True))
    return Matrices(arrays, weights, frozenset(fixed) & weights.keys(), benches, groups, dropped)


def _arrays(cell: Hashable, by_bench: Mapping[str, ArrayLike], benches: tuple[str, ...]) -> tuple[Array, ...]:
    if set(by_bench) != set(benches):
        raise StatsError(f"cell {cell!r} has benchmarks {sorted(by_bench)}, another has {sorted(benches)}")
    arrays = tuple(np.asarray(by_bench[bench], dtype=np.float64) for bench in benches)
    for bench, y in zip(benches, arrays, strict=True):
        if y.ndim != 2 or 0 in y.shape:
            raise StatsError(f"cell {cell!r}, benchmark {bench!r}: shape {y.shape} instead of (seeds, problems)")
        if len(y) != len(arrays[0]):
            raise StatsError(f"cell {cell!r}: {len(arrays[0])} seeds on {benches[0]!r} but {len(y)} on {bench!r}")
        if np.isinf(y).any():
            raise StatsError(f"cell {cell!r}, benchmark {bench!r}: a score is infinite; leave it out as NaN")
    return arrays


def _complete(bench: str, cells: list[Array]) -> NDArray[np.bool_]:
    """[P] true where no seed of any cell misses the problem."""
    sizes = {y.shape[1] for y in cells}
    if len(sizes) > 1:
        raise StatsError(f"benchmark {bench!r}: cells have {sorted(sizes)} problems: fill up with NaN")
    keep = np.ones(sizes.pop(), dtype=np.bool_)
    for y in cells:
        keep &= np.isfinite(np.add.reduce(y, axis=0))
    if not keep.any():
        raise StatsError(f"benchmark {bench!r}: no problem has a score in every seed: leave the incomplete seed out")
    return keep


def _groups(bench: str, keep: NDArray[np.bool_], labels: Sequence[Hashable] | None) -> NDArray[np.int64] | None:
    """[P] cluster numbers 0..G-1 of the problems kept."""
    if labels is None:
        return None
    if len(labels) != len(keep):
        raise StatsError(f"benchmark {bench!r}: {len(labels)} cluster labels for {len(keep)} problems")
    kept = [label for label, k in zip(labels, keep, strict=True) if k]
    numbers = {label: g for g, label in enumerate(dict.fromkeys(kept))}
    return np.array([numbers[label] for label in kept], dtype=np.int64)
