"""Does a method help where the untrained model fails?  The comparison by declared bands of base accuracy."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from seedwise import tables
from seedwise.report.analysis import ALPHA, frame, seedless
from seedwise.report.decisions import adjusted
from seedwise.report.facts import BASE, Compare, Look
from seedwise.report.robustness import UNDEFINED, Place
from seedwise.stats.results import Contrast
from seedwise.stats.strata import Strata, strata

INTERACTION = "interaction"


def bands_of(places: Collection[Place], compare: Compare, look: Look | None) -> pd.DataFrame:
    """STRATA of every trained member of the primary family: avg@n in each band, and the interaction.

    Only the interaction is tested as a family (Holm over the methods); bands describe.  The untrained model
    itself has no rows: its samples made the bands, so its score in the lowest is low by selection.
    """
    rows: list[dict] = []
    edges = (*compare.bands, 1.0)
    for place in places if compare.bands else ():
        metric = place.metric if place.metric.startswith("avg@") else "avg@n"
        found: dict[str, Strata | str] = {method: _strata(place, method, metric, edges) for method in place.trained}
        tested = [
            each.interaction.p if isinstance(each, Strata) and each.interaction else None for each in found.values()
        ]
        p_adjusted, _ = adjusted(tested, compare, look)
        for (method, each), p in zip(found.items(), p_adjusted, strict=True):
            keys = place.keys | UNDEFINED | {"method": method, "metric": metric}
            rows += (keys | row for row in _rows(each, edges, p))
    return frame(tables.STRATA, rows)


def _p(found: Strata | str) -> float | None:
    return found.interaction.p if isinstance(found, Strata) and found.interaction is not None else None


def _strata(place: Place, method: str, metric: str, edges: tuple[float, ...]) -> Strata | str:
    pair, base = place.pair(method), (place.setting, BASE)
    selection = place.scores.select([*pair, base], metric, None)
    if selection.reason is not None:
        return selection.reason
    accuracy = {bench: y.mean(axis=0) for bench, y in selection.scores[base].items()}
    scores = {cell: selection.scores[cell] for cell in pair}
    return strata(
        scores,
        dict(zip(pair, (1.0, -1.0), strict=True)),
        accuracy,
        edges,
        alpha=ALPHA,
        selected_on={base},
        fixed=seedless(pair),
    )


def _rows(found: Strata | str, edges: tuple[float, ...], p_interaction: float | None) -> list[dict]:
    if isinstance(found, str):
        names = [*_names(edges), INTERACTION]
        return [{"band": name, "problems": 0, "reason": found} for name in names]
    rows = [
        {"band": name, "problems": band.problems, "reason": band.reason} | _test(band.contrast)
        for name, band in zip(_names(edges), found.bands, strict=True)
    ]
    whole = {"band": INTERACTION, "problems": sum(band.problems for band in found.bands), "reason": found.reason}
    return [*rows, whole | _test(found.interaction) | {"p_adjusted": p_interaction}]


def _names(edges: tuple[float, ...]) -> list[str]:
    """``never solved``, ``to 50 %``, ``above 50 %``."""
    inner = [f"to {100 * edge:g} %" if edge > 0 else "never solved" for edge in edges[:-1]]
    return [*inner, f"above {100 * edges[-2]:g} %" if len(edges) > 1 else "all problems"]


def _test(contrast: Contrast | None) -> dict:
    if contrast is None:
        return {}
    return {
        "difference": contrast.d, "se": contrast.se, "df": contrast.df, "p": contrast.p, "low": contrast.lo,
        "high": contrast.hi,
    }  # fmt: skip
