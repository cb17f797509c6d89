"""Scores of a problem from n graded samples, c of them correct; and their macro average.

Scores lie in 0..1.  Samples are never pooled over problems of different benchmarks.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seedwise.stats.results import StatsError


def passk(n: ArrayLike, c: ArrayLike, k: int) -> NDArray[np.float64]:
    """Unbiased pass@k, ``1 - C(n-c, k) / C(n, k)``, elementwise (Chen et al. 2021, section 2.1).

    n, c: samples and correct samples, any shapes that broadcast.  Computed as the running product
    ``1 - prod_{i=n-c+1..n} (1 - k/i)``, so no factorial overflows.  With k = n it is 0 or 1 and
    noisy: prefer n >= 2 k.  Raises StatsError when n < k, c > n, or a count is negative or not whole.
    """
    counts_n, counts_c = _counts(n, c)
    if k < 1 or int(k) != k:
        raise StatsError(f"pass@k needs a whole k of at least 1, got {k}")
    if (few := counts_n < k).any():
        raise StatsError(f"pass@{k} needs at least {k} samples of a problem, got {counts_n[few].flat[0]}: sample more")
    missed = np.ones(counts_n.shape)
    for j in range(int(counts_c.max(initial=0))):
        # exactly 0 at n - j == k, so the negative factors below k cannot matter
        missed = np.where(j < counts_c, missed * (1 - k / np.maximum(counts_n - j, 1)), missed)
    return 1 - missed


def avg(n: ArrayLike, c: ArrayLike) -> NDArray[np.float64]:
    """avg@n, the share of correct samples ``c / n``, elementwise.

    Raises StatsError when n < 1, c > n, or a count is negative or not whole.
    """
    counts_n, counts_c = _counts(n, c)
    if (counts_n < 1).any():
        raise StatsError("avg@n needs at least 1 sample of a problem, got 0: sample more")
    return counts_c / counts_n


def macro(scores: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
    """Macro score of each seed: mean over benchmarks of the mean over problems.

    scores: benchmark -> array [S, P]; problems may differ in number between benchmarks.
    Returns [S].  A NaN stays NaN.  Raises StatsError when there is no benchmark or S differs.
    """
    means = {bench: np.asarray(y, dtype=np.float64).mean(axis=1) for bench, y in scores.items()}
    if not means:
        raise StatsError("a macro score needs at least 1 benchmark, got none")
    seeds = {bench: len(m) for bench, m in means.items()}
    if len(set(seeds.values())) > 1:
        raise StatsError(f"number of seeds differs between benchmarks: {seeds}: give every seed on each of them")
    return np.mean(list(means.values()), axis=0)


def _counts(n: ArrayLike, c: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    arrays = []
    for name, values in (("samples", n), ("correct", c)):
        array = np.asarray(values)
        if array.dtype.kind not in "iuf":
            raise StatsError(f"{name}: {array.flat[0]!r} is not a number")
        if (broken := ~(np.isfinite(array) & (array == np.floor(array)))).any():
            raise StatsError(f"{name}: {array[broken].flat[0]} is not a whole number")
        if (array < 0).any():
            raise StatsError(f"{name}: {array[array < 0].flat[0]} is negative")
        arrays.append(array.astype(np.int64))
    counts_n, counts_c = np.broadcast_arrays(*arrays)
    if (more := counts_c > counts_n).any():
        raise StatsError(f"{counts_c[more].flat[0]} correct of {counts_n[more].flat[0]} samples: c may not exceed n")
    return counts_n, counts_c
