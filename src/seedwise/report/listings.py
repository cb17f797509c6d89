"""The other tables: pass@k, trends, and the list of runs with their verdict counts."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from seedwise.report.facts import BASE, Facts
from seedwise.report.figures import final_rows
from seedwise.report.footer import cautions_of
from seedwise.report.layout import Cell, TableView
from seedwise.report.layout import row as cells
from seedwise.report.results import Results, ordered
from seedwise.report.stability import COLUMNS, HEADINGS, NOTE, stability_cells
from seedwise.report.trends import tick
from seedwise.report.wording import (
    DASH,
    bounds,
    known,
    listed,
    percent,
    plain,
    point_bounds,
    points,
    probability,
)


def passk_tables(results: Results, facts: Facts) -> list[TableView]:
    """Macro pass@k of every method, and the secondary family with its own Holm."""
    means = final_rows(results.means)
    means = means[means["benchmark"].isna() & means["metric"].str.startswith("pass@")]
    names = sorted(dict.fromkeys(means["metric"]), key=lambda name: int(name[5:]))
    tests = results.contrasts[results.contrasts["family"].fillna("").str.startswith("secondary")]
    views = []
    for model, setting, methods in results.places():
        here = (means["model"] == model) & (means["setting"] == setting)
        value = {(row.method, row.metric): row for row in means[here].itertuples()}
        tested = tests[(tests["model"] == model) & (tests["setting"] == setting)]
        families = {name: _family(part) for name, part in tested.groupby("family", sort=False)}
        shown = {metric for metric, _ in families.values()}
        extra = [
            column
            for name, (metric, _) in families.items()
            for column in ((f"{_headed(name, metric)} difference (points)", "r"), ("Adjusted p", "r"), ("Verdict", "l"))
        ]
        rows = tuple(
            (
                Cell(method),
                *(_passk(value.get((method, name)), name in shown) for name in names),
                *(cell for _, members in families.values() for cell in _secondary(members.get(method))),
            )
            for method in ordered(methods, facts.compare.reference)
        )
        columns = (("Method", "l"), *((name, "r") for name in names), *extra)
        title = f"{model}, {setting}: macro pass@k in %"
        note = "pass@k is the unbiased estimate from n samples; at k = n it only says whether any sample was right."
        second = [
            f"{_headed(name, metric)} is a secondary family: its own Holm, not part of the headline claim."
            for name, (metric, _) in families.items()
        ]
        views.append(TableView("passk", title, columns, rows, (note, *second), means[here].reset_index(drop=True)))
    return views


def _family(part: pd.DataFrame) -> tuple[str, dict[str, dict]]:
    """The metric of a family, and its rows by method."""
    return part["metric"].iloc[0], {row["method"]: row for row in part.to_dict("records")}


def _headed(family: str, metric: str) -> str:
    name = family.removeprefix("secondary: ")
    return metric if name == metric else f"{name} ({metric})"


def _passk(row: Any, with_interval: bool) -> Cell:
    if row is None:
        return Cell(DASH)
    return Cell(percent(row.mean), bounds(row.low, row.high) if with_interval else "")


def _secondary(row: dict | None) -> tuple[Cell, Cell, Cell]:
    if row is None:
        return Cell(DASH), Cell(DASH), Cell(DASH)
    shown = Cell(points(row["difference"]), point_bounds(row["low"], row["high"]))
    if isinstance(row["withheld"], str):
        return shown, Cell(DASH), Cell("withheld", kind="quiet")
    if not isinstance(row["verdict"], str):
        return shown, Cell(DASH), Cell(f"not tested: {row['reason']}")
    beside = f"({', '.join(cautions_of(row))})" if row["flags"] else ""
    verdict = Cell(row["verdict"], beside, strong=row["verdict"] == "superior", kind=row["verdict"])
    return shown, Cell(probability(row["p_adjusted"])), verdict


def trend_table(results: Results) -> TableView:
    """Linear and quadratic contrast along every declared axis."""
    columns = (
        ("Method", "l"), ("Setting", "l"), ("Axis", "l"), ("Points", "l"), ("Shape", "l"),
        ("Points [95 %]", "r"), ("df", "r"), ("p", "r"), ("Adjusted p", "r"), ("Remark", "l"),
    )  # fmt: skip
    shapes = {0: "interaction", 1: "linear", 2: "quadratic"}
    rows = []
    for row in results.trends.to_dict("records"):
        at = _positions(row["axis"], json.loads(row["x"]))
        remark = "; ".join(filter(None, [row["reason"], row["flags"].replace(",", ", ")]))
        texts = (
            row["method"], f"{row['model']}, {row['setting']}", row["axis"], at, shapes[row["degree"]],
            Cell(points(row["difference"]), point_bounds(row["low"], row["high"])), plain(row["df"]),
            probability(row["p"]), probability(row["p_adjusted"]), remark,
        )  # fmt: skip
        rows.append(cells(*texts))
    notes = (
        "Axes: K as it is; kappa as log2 of the weight ratio e^kappa (shown as that ratio); group size as log2 G. "
        "Linear: points per unit of the axis; quadratic: per squared step, negative is an inverted U. Holm over both; "
        "a line of two points has no quadratic part. Interaction: the effect of one axis at the top of the other minus "
        "that at its bottom, in points, from one end to the other.",
        *_level(results.trends),
    )
    empty = () if rows else ("No method has two points on a declared axis.",)
    return TableView("trends", "Trends of the macro score", columns, tuple(rows), empty or notes, results.trends)


def _positions(axis: str, positions: list) -> str:
    """``0.2, 0.4, 0.6``; of an interaction the levels of both axes, ``0.2, 0.6 x 4, 8``."""
    if " x " not in axis:
        return ", ".join(tick(axis, x) for x in positions)
    levels = [sorted({pair[at] for pair in positions}) for at in (0, 1)]
    return " x ".join(_positions(name, own) for name, own in zip(axis.split(" x "), levels, strict=True))


def _level(trends: pd.DataFrame) -> list[str]:
    """What an adjusted p must not exceed, for each line; one sentence, or none without a level."""
    levels = sorted({level for level in trends["level"] if known(level)}) if len(trends) else []
    return (
        [f"A trend needs an adjusted p of at most {listed([probability(level) for level in levels])}."]
        if levels
        else []
    )


def run_table(results: Results) -> TableView:
    """Every run at its last checkpoint: answers, and how many were right, unparsed, timed out, cut off.

    Where RUNS carries the columns of ``stability.labelled``, also the course of its entropy and its label.
    """
    counts = results.counts
    last = counts[counts["step"] == counts.groupby("run")["step"].transform("max")]
    keys = ["run", "model", "method", "setting", "seed"]
    sums = last.assign(token_sum=last["tokens"] * last["samples"]).groupby(keys, sort=False)
    data = sums[["samples", "correct", "unparsed", "timeout", "truncated", "token_sum"]].sum(min_count=1)
    data["step"] = sums["step"].first()
    with_label = set(COLUMNS) <= set(results.runs)
    planned = results.runs[[*keys, *(COLUMNS if with_label else ())]].drop_duplicates("run")
    every = pd.concat([planned, data.reset_index()[keys]]).drop_duplicates("run")
    table = every.merge(data.reset_index().drop(columns=keys[1:]), on="run", how="left")
    columns = (
        ("Run", "l"), ("Last step", "r"), ("Answers", "r"), ("Correct %", "r"), ("Unparsed %", "r"),
        ("Timed out %", "r"), ("Cut off %", "r"), ("Tokens", "r"), ("State", "l"), *(HEADINGS if with_label else ()),
    )  # fmt: skip
    rows = tuple((*_run(row), *(stability_cells(row) if with_label else ())) for row in table.to_dict("records"))
    missing = int(table["samples"].isna().sum())
    notes = (
        f"{len(table)} runs, {missing} without scores." if missing else f"{len(table)} runs, all evaluated.",
        "Tokens: mean length of an answer. Cut off: stopped by the length limit.",
        *((NOTE,) if with_label else ()),
    )
    return TableView("runs", "Every run at its last checkpoint", columns, rows, notes, table.drop(columns="token_sum"))


def _run(row: dict) -> tuple[Cell, ...]:
    n = row["samples"]
    if not known(n):
        return (Cell(row["run"]), *[Cell(DASH)] * 7, Cell("no scores"))
    share = [Cell(percent(row[name] / n)) for name in ("correct", "unparsed", "timeout", "truncated")]
    state = "untrained model" if row["method"] == BASE else "evaluated"
    return (
        Cell(row["run"]), Cell(f"{row['step']:.0f}"), Cell(f"{n:.0f}"), *share, Cell(plain(row["token_sum"] / n)),
        Cell(state),
    )  # fmt: skip
