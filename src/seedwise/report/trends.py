"""Ordered axes: which method points form a line, and where they stand on it.

The natural axis of a trend (reference: statistics, section 6): K as it is, kappa as the base-2
logarithm of the weight ratio e^kappa, group size as its base-2 logarithm, anything else as it is.
"""

from __future__ import annotations

import json
import math
import os.path
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from seedwise.report.facts import BASE, stem
from seedwise.report.scores import CellKey

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
