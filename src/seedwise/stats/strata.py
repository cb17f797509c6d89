"""Does a method help where the untrained model fails?  Differences by band of base accuracy.

Bands are fixed before the runs.  Inside a band every problem has equal weight, whatever its benchmark;
bands are disjoint sets of problems, so problems are nested in them and seeds are crossed with them.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.matrices import aligned
from seedwise.stats.results import Contrast, StatsError, Target

LEAST_PROBLEMS = 5


@dataclass(frozen=True)
class Band:
    """Problems with base accuracy above ``low`` (None: from 0 on) and at most ``high``.

    contrast: of the band's mean score; None where ``reason`` says why.
    """

    low: float | None
    high: float
    problems: int
    contrast: Contrast | None
    reason: str | None = None


@dataclass(frozen=True)
class Strata:
    """bands: easiest last.  interaction: contrast in the highest usable band minus that in the lowest;
    None where ``reason`` says why.  flags: cautions to print.  dropped: problems that some seed misses."""

    bands: tuple[Band, ...]
    interaction: Contrast | None
    flags: tuple[str, ...] = ()
    reason: str | None = None
    dropped: int = 0


def strata(
    scores: Mapping[Any, Mapping[str, ArrayLike]],
    w: Mapping[Any, float],
    accuracy: Mapping[str, ArrayLike],
    edges: Sequence[float],
    *,
    selected_on: Collection[Hashable] = frozenset(),
    fixed: Collection[Hashable] = frozenset(),
    target: Target = "E2",
    alpha: float = 0.05,
    least: int = LEAST_PROBLEMS,
) -> Strata:
    """The contrast w in every band of base accuracy, and its interaction with difficulty.

    scores, w, fixed, target, alpha: those of ``tw_contrast``.  accuracy: benchmark -> [P] of the untrained
    model.  edges: rising upper ends in 0..1, the last is 1; 0 as the first one is the band "never
    solved".  selected_on: cells whose samples made ``accuracy``; with a weight on one, flagged, since its
    score is low in the lowest band by selection alone.  least: a band with fewer problems has no contrast.
    The interaction is one contrast: d_high - d_low, problems independent between the two, seeds shared.
    Raises StatsError on edges that do not rise to 1, other problems than the scores have, and as
    ``tw_contrast`` does.
    """
    ends = _edges(edges)
    data = aligned(scores, w, fixed=fixed)
    y = data.flat
    band_P = np.searchsorted(ends, _accuracy(scores, data.benches, w, accuracy), side="left")
    options: dict[str, Any] = {"target": target, "alpha": alpha, "fixed": data.fixed}
    lows = [None if i == 0 else ends[i - 1] for i in range(len(ends))]
    bands, usable = [], []
    for i, (low, high) in enumerate(zip(lows, ends, strict=True)):
        inside_P = band_P == i
        P = int(inside_P.sum())
        if least > P:
            bands.append(Band(low, high, P, None, f"a band needs at least {least} problems, got {P}"))
            continue
        usable.append(i)
        contrast = tw_contrast({m: {"band": z[:, inside_P]} for m, z in y.items()}, data.w, **options)
        bands.append(Band(low, high, P, contrast, contrast.reason))
    shared = [m for m in selected_on if data.w.get(m, 0) != 0]
    flags = tuple(f"bands were chosen on the scores of {m!r}" for m in shared)
    if len(usable) < 2:
        reason = f"an interaction needs 2 bands with at least {least} problems, got {len(usable)}"
        return Strata(tuple(bands), None, flags, reason, data.dropped)
    first, last = (band_P == usable[0], band_P == usable[-1])
    # the macro average of two "benchmarks" 2 y and -2 y is the difference of the bands
    apart = {m: {"high": 2 * z[:, last], "low": -2 * z[:, first]} for m, z in y.items()}
    interaction = tw_contrast(apart, data.w, **options)
    return Strata(tuple(bands), interaction, flags, interaction.reason, data.dropped)


def _edges(edges: Sequence[float]) -> list[float]:
    ends = [float(edge) for edge in edges]
    rising = all(a < b for a, b in pairwise(ends))
    if not ends or not rising or ends[0] < 0 or ends[-1] != 1:
        raise StatsError(f"bands {ends}: give rising upper ends from 0 on, the last one 1")
    return ends


def _accuracy(
    scores: Mapping[Any, Mapping[str, ArrayLike]],
    benches: Sequence[str],
    w: Mapping[Any, float],
    accuracy: Mapping[str, ArrayLike],
) -> NDArray[np.float64]:
    """Base accuracy of the problems that every seed has, over all benchmarks."""
    kept = []
    for bench in benches:
        cells = [np.asarray(scores[m][bench], dtype=np.float64) for m, weight in w.items() if weight != 0]
        common_P = np.isfinite(np.concatenate(cells)).all(axis=0)
        if bench not in accuracy:
            raise StatsError(f"benchmark {bench!r} has no base accuracy: evaluate the untrained model on it")
        base_P = np.asarray(accuracy[bench], dtype=np.float64)
        if base_P.shape != common_P.shape:
            raise StatsError(f"benchmark {bench!r}: {base_P.shape} base accuracies for {common_P.shape} problems")
        if (broken := ~((base_P >= 0) & (base_P <= 1)) & common_P).any():
            raise StatsError(f"benchmark {bench!r}: base accuracy {base_P[broken][0]} is outside 0..1")
        kept.append(base_P[common_P])
    return np.concatenate(kept)
