"""The tables of what was measured beside the scores: methods on benchmarks, in groups of metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from seedwise.definitions import DEFINITIONS, GROUPS, Definition, definition
from seedwise.report.facts import BASE
from seedwise.report.layout import Cell, TableView
from seedwise.report.measures import COLUMNS, NO_SEEDS
from seedwise.report.results import Results
from seedwise.report.wording import DASH, bounds, known, listed, percent, plain

NAME = "measures"
NOTHING = "Nothing was measured beside the scores."
_OF_K = re.compile(r"(pass|majority|best)@(\d+)(.*)")
# said once for a group of metrics: its tables stand one below the other
_NOTES = {
    "verdicts": (
        "Mean over training seeds at the checkpoint that is scored, with a 95 % t interval over seeds on exactly these "
        "problems; for verdicts the number of samples of a benchmark and its share. S: seeds; n: samples of a problem.",
        "All of these tables describe: nothing in them is tested, and only declared families have verdicts. "
        "docs/metrics.md defines each metric.",
    ),
    "accuracy": (
        "Of pass@k, majority@k and best-of-k the largest k that every benchmark has samples for. The CSV file has "
        "every k, every word, and the standard deviation over seeds.",
    ),
}


def measured_tables(summary: pd.DataFrame, results: Results) -> list[TableView]:
    """A table for each group of metrics and each model and setting; summary: of ``measures.over_seeds``."""
    if summary.empty:
        return [TableView(NAME, "What else was measured", (), (), (NOTHING,), pd.DataFrame(columns=pd.Index(COLUMNS)))]
    found = []
    group_of = summary["metric"].map(lambda metric: definition(metric).group)
    for model, setting, _ in results.places():
        here = (summary["model"] == model) & (summary["setting"] == setting)
        for group, title in GROUPS.items():
            part = summary[here & (group_of == group)]
            if len(part):
                found.append(_table(f"{model}, {setting}: {title.lower()}", group, part.reset_index(drop=True)))
    return found


def grouped(views: Iterable[TableView], groups: Iterable[str]) -> list[TableView]:
    """The tables of some groups; one that says that nothing was measured belongs to all."""
    titles = {GROUPS[group].lower() for group in groups}
    return [view for view in views if not view.rows or view.title.rpartition(": ")[2] in titles]


def _table(title: str, group: str, part: pd.DataFrame) -> TableView:
    metrics = _shown(part)
    rows = []
    for (benchmark, method), cells in part.groupby(["benchmark", "method"], sort=False):
        value = {row["metric"]: row for row in cells.to_dict("records")}
        seeds = DASH if method == BASE else str(max(row["seeds"] for row in value.values()))
        n = str(cells["samples"].min())
        told = _verdicts(value, metrics) if group == "verdicts" else [_cell(value.get(name), name) for name in metrics]
        rows.append((Cell(str(method)), Cell(str(benchmark)), Cell(seeds), Cell(n), *told))
    order = {name: place for place, name in enumerate(dict.fromkeys(part["benchmark"]))}
    rows.sort(key=lambda row: order[row[1].text])  # methods of one benchmark stand together
    columns = (("Method", "l"), ("Benchmark", "l"), ("S", "r"), ("n", "r"), *((_headed(name), "r") for name in metrics))
    missing = [] if group == "verdicts" else _missing(part[part["metric"].isin(metrics)])
    notes = (*_NOTES.get(group, ()), *missing)
    return TableView(NAME, title, columns, tuple(rows), notes, part)


def _shown(part: pd.DataFrame) -> list[str]:
    """The metrics of a table, in the order of their definitions: no single word, and one k of each kind."""
    benchmarks = part["benchmark"].nunique()
    largest: dict[tuple[str, str], int] = {}
    for metric, rows in part.groupby("metric", sort=False):
        if (of_k := _OF_K.fullmatch(str(metric))) and rows["benchmark"].nunique() == benchmarks:
            kind = (of_k[1], of_k[3])
            largest[kind] = max(largest.get(kind, 0), int(of_k[2]))
    chosen = {f"{name}@{k}{scorer}" for (name, scorer), k in largest.items()}
    order = {each.name: place for place, each in enumerate(DEFINITIONS)}
    metrics = [
        str(metric)
        for metric in dict.fromkeys(part["metric"])
        if definition(metric).name != "<word>_per_1000_tokens" and (metric in chosen or not _OF_K.fullmatch(metric))
    ]
    return sorted(metrics, key=lambda metric: order[definition(metric).name])


def _headed(metric: str) -> str:
    """``truncated share, %``: the name in words with its unit."""
    each, words = definition(metric), metric.replace("_", " ")
    return f"{words}, %" if each.unit == "share" else words


def _cell(row: Mapping[str, Any] | None, metric: str) -> Cell:
    """``39.1 [36.0, 42.2]``, a dash where undefined."""
    if row is None or not known(row["mean"]):
        return Cell(DASH)
    each: Definition = definition(metric)
    if each.unit == "share":
        return Cell(percent(row["mean"]), bounds(row["low"], row["high"]))
    digits = 3 if each.unit == "0..1" else 1
    aside = f"[{plain(row['low'], digits)}, {plain(row['high'], digits)}]" if known(row["low"]) else ""
    return Cell(plain(row["mean"], digits), aside)


def _verdicts(value: Mapping[str, Mapping[str, Any]], metrics: Iterable[str]) -> list[Cell]:
    """Number and share of each verdict."""
    total = sum(row["mean"] for row in value.values())
    return [Cell(plain(value[name]["mean"]), f"({percent(value[name]['mean'] / total)} %)") for name in metrics]


def _missing(part: pd.DataFrame) -> list[str]:
    """Why values or intervals are missing, a sentence for each reason."""
    found: dict[str, list[str]] = {}
    for row in part.to_dict("records"):
        if isinstance(row["reason"], str) and row["reason"] != NO_SEEDS:
            found.setdefault(row["reason"], []).append(row["metric"].replace("_", " "))
    every = part["metric"].nunique()
    told = {reason: list(dict.fromkeys(names)) for reason, names in found.items()}
    return [
        f"No value or no interval for {'some' if len(names) < every else 'all'}: {reason}"
        + (f" ({listed(names)})." if len(names) < every else ".")
        for reason, names in told.items()
    ]
