"""Which runs collapsed, and whether one method collapses more often (exact tests; statistics, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import barnard_exact, fisher_exact

from seedwise.stats.results import StatsError


@dataclass(frozen=True)
class Collapses:
    """collapsed, runs: (method, reference).  difference: of the shares.  p: two-sided, exact.
    smallest_p: what the test reaches at best with so many runs.  significant: None where ``reason`` says
    that alpha is out of reach."""

    collapsed: tuple[int, int]
    runs: tuple[int, int]
    difference: float
    p: float
    smallest_p: float
    significant: bool | None
    reason: str | None = None


def collapsed(
    values: ArrayLike, *, floor: float | None = None, drop: float | None = None, evaluations: int = 1
) -> bool:
    """Whether a run collapsed: it stayed below a bound for so many evaluations in a row.

    values [T] in order.  floor: entropy in nats, say; below it is a collapse.  drop: the same for more than
    ``drop`` below the highest value so far, as of an accuracy.  Raises StatsError unless exactly one of floor
    and drop is given, on drop of 0 or less, evaluations below 1, an empty curve, or values not finite.
    """
    y = np.asarray(values, dtype=np.float64)
    if y.ndim != 1 or y.size == 0 or not np.isfinite(y).all():
        raise StatsError(f"values {y.tolist()}: give a list of at least one finite number")
    if (floor is None) == (drop is None):
        raise StatsError(f"floor {floor}, drop {drop}: give exactly one of them")
    if drop is not None and not drop > 0:
        raise StatsError(f"drop: {drop}: must be above 0")
    if evaluations < 1:
        raise StatsError(f"evaluations: {evaluations}: must be at least 1")
    bound = np.maximum.accumulate(y) - drop if drop is not None else np.full_like(y, floor)
    low = y < bound
    longest = current = 0
    for is_low in low.tolist():
        current = current + 1 if is_low else 0
        longest = max(longest, current)
    return longest >= evaluations


def collapse_test(
    a: Sequence[bool], b: Sequence[bool], *, test: Literal["fisher", "barnard"] = "fisher", alpha: float = 0.05
) -> Collapses:
    """Exact test that runs of a and of b, one indicator each, collapse equally often.

    "fisher" conditions on the number of collapses; "barnard" does not, and has more power with few runs.
    All runs alike in both arms: p is 1.  Raises StatsError on an empty arm or an unknown test.
    """
    if test not in ("fisher", "barnard"):
        raise StatsError(f"test: {test!r}: use 'fisher' or 'barnard'")
    if not len(a) or not len(b):
        raise StatsError(f"arms of {len(a)} and {len(b)} runs: give at least one run each")
    counts, runs = (sum(map(bool, a)), sum(map(bool, b))), (len(a), len(b))
    p = _exact(counts, runs, test)
    smallest = min(_exact((runs[0], 0), runs, test), _exact((0, runs[1]), runs, test))
    reachable = smallest <= alpha
    against = f"{runs[0]} against {runs[1]} runs cannot reach p <= {alpha:g}: {smallest:.3g} is the smallest"
    return Collapses(
        counts, runs, counts[0] / runs[0] - counts[1] / runs[1], p, smallest,
        p <= alpha if reachable else None, None if reachable else against,
    )  # fmt: skip


def _exact(counts: tuple[int, int], runs: tuple[int, int], test: str) -> float:
    if sum(counts) in (0, sum(runs)):
        return 1.0
    table = [list(counts), [n - c for n, c in zip(runs, counts, strict=True)]]
    # the stub of scipy does not name the fields of the result
    found: Any = fisher_exact(table) if test == "fisher" else barnard_exact(table)
    return min(1.0, float(found.pvalue))
