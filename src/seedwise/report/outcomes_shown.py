"""The tables of OUTCOMES: a table for each declared outcome, its method points first, then what was tested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from seedwise.report.facts import Facts, Outcome
from seedwise.report.layout import Cell, TableView
from seedwise.report.layout import row as cells
from seedwise.report.results import Results
from seedwise.report.views import Columns, place_of, text_of, view
from seedwise.report.wording import DASH, known, plain, probability

_SUMMARY = {"mean": "mean", "min": "lowest value", "max": "highest value"}
_NOTES = (
    "One number per run; tests, intervals (95 %) and S are over training seeds, on these problems: Welch's contrast. "
    "Adjusted p: Holm over the tested rows of this table, which is one family; each family has its own chance of alpha "
    "of a false claim. Rows without p describe.",
    "linear: change per unit of the axis (K as it is, log2 of the group size and of the weight ratio); quadratic: "
    "curvature per squared mean step. g: Hedges' g, in SDs of a run. Detectable: the smallest true value that this "
    "row would find with 80 % power at alpha over the number of tested rows.",
    "A run that stopped early counts with its last values. S: seeds, the fewest of the arms.",
)
_PAIRED = "Runs of one seed are compared with each other: they share the order of prompts and the streams of sampling."
_COLUMNS: Columns = (
    ("Kind", "l"), ("What", "l"), ("Estimate", "r"), ("df", "r"), ("p", "r"), ("Adjusted p", "r"),
    ("Equivalence p", "r"), ("g", "r"), ("Detectable", "r"), ("S", "r"), ("Verdict", "l"), ("Remark", "l"),
)  # fmt: skip


def outcome_tables(results: Results, facts: Facts) -> list[TableView]:
    """A table for each declared outcome, model and setting; one that says so where none was declared."""
    data, found = results.outcomes, []
    for name, outcome in facts.compare.outcomes.items():
        part = data[data["outcome"] == name]
        places = list(dict.fromkeys(zip(part["model"], part["setting"], strict=True)))
        for model, setting in places:
            rows = part[(part["model"] == model) & (part["setting"] == setting)]
            declared = f"{facts.declared_in}, hash {facts.compare_hash}."
            found.append(_table(name, outcome, rows, declared, several=len(places) > 1))
    nothing = "The study declares no outcome of runs, or none whose method points were trained in one setting."
    return found or [view("outcomes", "Outcomes of runs", _COLUMNS, (), (), data, nothing)]


def _table(name: str, outcome: Outcome, rows: pd.DataFrame, declared: str, *, several: bool) -> TableView:
    low, high = (f"{100 * share:g}" for share in outcome.over)
    where = f", {place_of(rows.iloc[0])}" if several else ""
    title = f"{name}: {_SUMMARY[outcome.summary]} of {outcome.measure} over {low} to {high} % of the steps{where}"
    notes = (
        *((f"Claim: {outcome.claim}",) if outcome.claim else ()),
        *((f"Claimed sign: {outcome.direction}.",) if outcome.direction else ()),
        *((f"Smallest effect of interest: {outcome.smallest_effect:g}.",) if outcome.smallest_effect else ()),
        *((_PAIRED,) if outcome.paired else ()),
        *_NOTES,
        declared,
    )
    return TableView("outcomes", title, _COLUMNS, tuple(_cells(rows.to_dict("records"))), notes, rows)


def _cells(rows: list[dict]) -> Iterator[tuple[Cell, ...]]:
    for row in rows:
        said = [row["flags"], text_of(row["reason"])]
        yield cells(
            row["kind"], row["subject"], Cell(figure(row["estimate"]), _interval(row)), plain(row["df"]),
            probability(row["p"]), probability(row["p_adjusted"]), probability(row["tost_p_adjusted"]),
            plain(row["hedges_g"], 2), figure(row["detectable"]), str(row["seeds"]),
            Cell(text_of(row["verdict"]) or DASH, kind=text_of(row["verdict"]).replace(" ", "-").replace(",", "")),
            "; ".join(filter(None, said)),
        )  # fmt: skip


def figure(value: float | None) -> str:
    """Three significant digits with a true minus sign, or a dash."""
    return f"{value:.3g}".replace("-", "\N{MINUS SIGN}") if value is not None and known(value) else DASH


def _interval(row: Mapping) -> str:
    return f"[{figure(row['low'])}, {figure(row['high'])}]" if known(row["low"]) else ""
