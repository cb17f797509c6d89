"""Beyond the declared families: every method of the grid, and every benchmark.  Exploratory, and labelled so."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pandas as pd

from seedwise import tables
from seedwise.report.analysis import frame
from seedwise.report.decisions import adjusted
from seedwise.report.facts import BASE, Compare, Look
from seedwise.report.robustness import Place
from seedwise.stats.families import bh
from seedwise.stats.simultaneous import BestSet, best_set


def grid_rows(places: Collection[Place], contrasts: pd.DataFrame, compare: Compare, look: Look | None) -> pd.DataFrame:
    """GRID: every method against the reference with p adjusted for false discoveries (Benjamini and Hochberg), and
    whether the data can tell it from the best one (Holm against the method with the highest mean).

    contrasts: CONTRASTS of the same places; its macro rows of the primary metric for new problems are taken.
    """
    rows: list[dict] = []
    for place in places:
        here = _rows_of(contrasts, place, benchmark=False)
        p = [row["p"] for row in here]
        withheld = look is not None and look.reason is not None
        p_fdr = [None] * len(p) if withheld else bh(p)
        best = None if withheld else _best(place, compare)
        known = {cell[1]: value for cell, value in best.p_adjusted.items()} if best else {}
        members = {cell[1] for cell in best.members} if best else set()
        for row, value in zip(here, p_fdr, strict=True):
            trained = best is not None and row["method"] != BASE
            rows.append(
                row
                | {"p_fdr": value, "p_best": known.get(row["method"])}
                | {"among_best": row["method"] in members if trained else None}
            )
    return frame(tables.GRID, rows)


def _rows_of(contrasts: pd.DataFrame, place: Place, *, benchmark: bool) -> list[dict]:
    chosen = (contrasts["model"] == place.model) & (contrasts["setting"] == place.setting)
    chosen &= (contrasts["metric"] == place.metric) & (contrasts["estimand"] == "new_problems")
    part = contrasts[chosen & (contrasts["benchmark"].notna() if benchmark else contrasts["benchmark"].isna())]
    return part.astype(object).where(part.notna(), None).to_dict("records")


def _best(place: Place, compare: Compare) -> BestSet | None:
    """The trained methods that were evaluated against the best of them; None where there are fewer than 2."""
    there = [
        cell
        for cell in place.scores.cells
        if cell[0] == place.setting and cell[1] != BASE
        if place.scores.select([cell], place.metric, None).reason is None
    ]
    selection = place.scores.select(there, place.metric, None)
    if len(there) < 2 or selection.reason is not None:
        return None
    return best_set(selection.scores, alpha=compare.alpha)


def benchmark_rows(
    places: Collection[Place], contrasts: pd.DataFrame, compare: Compare, look: Look | None
) -> pd.DataFrame:
    """BENCHMARKS: each method of the primary family on every benchmark, p adjusted over the benchmarks (Holm).

    claimed: whether the method's macro difference was; where it was not, its benchmarks only describe.
    """
    rows: list[dict] = []
    for place in places:
        macro = {row["method"]: row for row in _rows_of(contrasts, place, benchmark=False)}
        parts = _rows_of(contrasts, place, benchmark=True)
        for method in place.members:
            own = [row for row in parts if row["method"] == method]
            p_adjusted, _ = adjusted([row["p"] for row in own], compare, look)
            claimed = _claimed(macro.get(method))
            rows += (row | {"p_adjusted": p, "claimed": claimed} for row, p in zip(own, p_adjusted, strict=True))
    return frame(tables.BENCHMARKS, rows)


def _claimed(row: Mapping | None) -> bool:
    return row is not None and row["p_adjusted"] is not None and row["p_adjusted"] <= row["level"]
