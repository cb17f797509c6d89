"""Ordered axes: which method points form a line, where they stand on it, and the trend test along it.

The natural axis of a trend (reference: statistics, section 6): K as it is, kappa as the base-2
logarithm of the weight ratio e^kappa, group size as its base-2 logarithm, anything else as it is.
"""

from __future__ import annotations

import json
import math
import os.path
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from seedwise import tables
from seedwise.report.analysis import (
    ALPHA,
    NOTHING,
    UNTESTED,
    cautions,
    columns,
    final_scores,
    frame,
    primary_metric,
    stops_of,
)
from seedwise.report.decisions import adjusted
from seedwise.report.facts import BASE, Compare, Look, stem
from seedwise.report.scores import CellKey, ModelScores
from seedwise.stats.scores import macro
from seedwise.stats.trends import interaction, trend

NATURAL: Mapping[str, Callable[[float], float]] = {
    "kappa": lambda kappa: kappa / math.log(2),
    "group_size": math.log2,
}
AXIS_LABEL: Mapping[str, str] = {
    "K": "K (quantile of the group's rewards)",
    "kappa": "weight ratio e^kappa (log scale)",
    "group_size": "group size G (log scale)",
}
_SHOWN: Mapping[str, Callable[[float], str]] = {
    "kappa": lambda x: f"{2**x:.3g}",
    "group_size": lambda x: f"{2**x:.0f}",
}


@dataclass(frozen=True)
class TrendLine:
    """Cells of one method that differ in one axis only, in rising order of it.

    setting: of the cells, or all of them joined by ``+`` where the axis is part of the setting.
    xs: positions on the natural axis.
    """

    model: str
    setting: str
    axis: str
    method: str
    xs: tuple[float, ...]
    cells: tuple[CellKey, ...]


def tick(axis: str, x: float) -> str:
    """A position on the natural axis as people write it: ``0.4``, a weight ratio, a group size."""
    return _SHOWN.get(axis, lambda value: f"{value:g}")(x)


def trend_lines(runs: pd.DataFrame, axis: str) -> list[TrendLine]:
    """All lines of RUNS along ``axis`` with at least 2 points; the untrained model is on none."""
    lines: dict[tuple[str, str, str], dict[float, CellKey]] = {}
    cells = runs[runs["method"] != BASE].drop_duplicates(["model", "setting", "method"])
    for row in cells.itertuples(index=False):
        others = {"group_size": row.group_size, **json.loads(row.axes)}
        value = others.pop(axis, None)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            key = (row.model, stem(row.method), json.dumps(others, sort_keys=True))
            lines.setdefault(key, {})[NATURAL.get(axis, float)(value)] = (row.setting, row.method)
    drawn = [_line(key, points, axis) for key, points in lines.items() if len(points) > 1]
    siblings = Counter((line.model, line.setting, stem(line.method)) for line in drawn)
    return [
        replace(line, method=stem(line.method))
        if "*" in line.method and siblings[line.model, line.setting, stem(line.method)] == 1
        else line
        for line in drawn
    ]


def _line(key: tuple[str, str, str], points: Mapping[float, CellKey], axis: str) -> TrendLine:
    xs = tuple(sorted(points))
    cells = tuple(points[x] for x in xs)
    settings, methods = (list(dict.fromkeys(part)) for part in zip(*cells, strict=True))
    head = os.path.commonprefix(methods)  # noqa: RUF071 - names, not paths
    ends = [method[len(head) :][::-1] for method in methods]
    tail = os.path.commonprefix(ends)[::-1]  # noqa: RUF071 - names, not paths
    label = methods[0] if len(methods) == 1 else f"{head}*{tail}"
    return TrendLine(key[0], "+".join(settings), axis, label, xs, cells)


def trends(
    runs: pd.DataFrame,
    counts: pd.DataFrame,
    compare: Compare,
    look: Look | None = None,
    scored: Mapping[str, ModelScores] | None = None,
    stopped: Collection[str] = (),
) -> pd.DataFrame:
    """TRENDS: linear and quadratic contrast of the macro primary metric along each declared axis.

    Holm over the two; a line of 2 points has the linear one only.  Before them one row of each grid of a
    declared pair of axes: the linear-by-linear contrast, as the difference of differences between the corners
    of the grid, in a family of its own.  The options are those of ``contrasts``.
    """
    rows: list[dict] = []
    stops = stops_of(runs, stopped)
    final = final_scores(counts, compare) if scored is None else scored
    for pair in compare.interactions:
        for grid in grids(runs, pair):
            scores = final.get(grid.model, NOTHING)
            rows.append(_crossed(grid, scores, stops.get(grid.model, {}), compare, look))
    for line, scores, metric in _lines(runs, counts, compare, scored):
        selection = scores.select(line.cells, metric, None)
        keys = {
            "model": line.model, "setting": line.setting, "metric": metric, "axis": line.axis,
            "method": line.method, "x": json.dumps(line.xs),
        }  # fmt: skip
        if selection.reason is not None:
            degrees = (1, 2) if len(line.xs) > 2 else (1,)
            rows += (keys | UNTESTED | {"degree": degree, "reason": selection.reason} for degree in degrees)
            continue
        x = dict(zip(line.cells, line.xs, strict=True))
        result = trend(selection.scores, x, alpha=ALPHA, samples=selection.drawn(metric))
        flags = cautions(selection, line.cells, scores, stops.get(line.model, {}))
        shapes = {1: result.linear} | ({2: result.quadratic} if result.quadratic is not None else {})
        p_adjusted, level = adjusted([contrast.p for contrast in shapes.values()], compare, look)
        for (degree, contrast), p in zip(shapes.items(), p_adjusted, strict=True):
            claim = {"degree": degree, "p_adjusted": p, "level": level}
            rows.append(keys | UNTESTED | columns(contrast, flags) | claim)
    return frame(tables.TRENDS, rows)


@dataclass(frozen=True)
class Grid:
    """Cells of one method that differ in two axes only, every pair of levels once: (x, z) -> cell."""

    model: str
    axes: tuple[str, str]
    method: str
    cells: Mapping[tuple[float, float], CellKey]

    @property
    def range(self) -> float:
        """(range of x) (range of z): what turns a slope of slopes into the difference between corners."""
        xs, zs = ({pair[axis] for pair in self.cells} for axis in (0, 1))
        return (max(xs) - min(xs)) * (max(zs) - min(zs))


def grids(runs: pd.DataFrame, axes: tuple[str, str]) -> list[Grid]:
    """All grids of RUNS over a pair of axes, with at least 2 levels of each; levels with holes are left out."""
    found: dict[tuple[str, str, str], dict[tuple[float, float], CellKey]] = {}
    for row in runs[runs["method"] != BASE].drop_duplicates(["model", "setting", "method"]).itertuples(index=False):
        others = {"group_size": row.group_size, **json.loads(row.axes)}
        values = [others.pop(axis, None) for axis in axes]
        if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            x, z = (float(NATURAL.get(axis, float)(value)) for axis, value in zip(axes, values, strict=True))
            key = (row.model, stem(row.method), json.dumps(others, sort_keys=True))
            found.setdefault(key, {})[x, z] = (row.setting, row.method)
    whole = [(key, _without_holes(cells)) for key, cells in found.items()]
    return [Grid(model, axes, method, cells) for (model, method, _), cells in whole if cells]


def _without_holes(cells: Mapping[tuple[float, float], CellKey]) -> dict[tuple[float, float], CellKey]:
    """The cells whose x has every z; none when fewer than 2 levels of either are left."""
    xs, zs = (sorted({pair[axis] for pair in cells}) for axis in (0, 1))
    full = [x for x in xs if all((x, z) in cells for z in zs)]
    return {(x, z): cells[x, z] for x in full for z in zs} if len(full) > 1 and len(zs) > 1 else {}


def _crossed(
    grid: Grid, scores: ModelScores, stops: Mapping[CellKey, list[int]], compare: Compare, look: Look | None
) -> dict:
    metric = primary_metric(scores, compare)
    selection = scores.select(grid.cells.values(), metric, None)
    keys = {
        "model": grid.model, "setting": "+".join(dict.fromkeys(setting for setting, _ in grid.cells.values())),
        "metric": metric, "axis": " x ".join(grid.axes), "method": grid.method, "x": json.dumps(list(grid.cells)),
        "degree": 0,
    }  # fmt: skip
    if selection.reason is not None:
        return keys | UNTESTED | {"reason": selection.reason}
    positions = {cell: pair for pair, cell in grid.cells.items()}
    found = interaction(selection.scores, positions, alpha=ALPHA, samples=selection.drawn(metric))
    (p_adjusted,), level = adjusted([found.contrast.p], compare, look)
    row = keys | UNTESTED | columns(found.contrast, cautions(selection, positions, scores, stops))
    scale = {"difference": 1, "se": 1, "low": 1, "high": 1, "V_seed": 2, "V_prob": 2, "V_res": 2}
    corners = {name: None if row[name] is None else row[name] * grid.range**power for name, power in scale.items()}
    return row | corners | {"p_adjusted": p_adjusted, "level": level}


def trend_positions(runs: pd.DataFrame, counts: pd.DataFrame, compare: Compare) -> pd.DataFrame:
    """Each seed's macro score along the declared axes, for drawing.

    Columns: model, setting, axis, method (of the line), x (natural axis), cell_setting, point (method
    point), seed (position in the cell), score (0..1).
    """
    names = ["model", "setting", "axis", "method", "x", "cell_setting", "point", "seed", "score"]
    rows = []
    for line, scores, metric in _lines(runs, counts, compare, None):
        selection = scores.select(line.cells, metric, None)
        for x, cell in zip(line.xs, line.cells, strict=True):
            if cell in selection.scores:
                rows += (
                    (line.model, line.setting, line.axis, line.method, x, *cell, seed, float(score))
                    for seed, score in enumerate(macro(selection.scores[cell]))
                )
    return pd.DataFrame(rows, columns=pd.Index(names))


def _lines(
    runs: pd.DataFrame, counts: pd.DataFrame, compare: Compare, scored: Mapping[str, ModelScores] | None
) -> Iterator[tuple[TrendLine, ModelScores, str]]:
    final = final_scores(counts, compare) if scored is None else scored
    for axis in compare.trends:
        for line in trend_lines(runs, axis):
            scores = final.get(line.model, NOTHING)
            yield line, scores, primary_metric(scores, compare)
