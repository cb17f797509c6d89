"""The main table and the table of differences, as people read them.

Only ``superior`` is printed bold; the largest number of a column never is.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from seedwise.report.facts import BASE, PRIMARY, Facts
from seedwise.report.figures import final_rows
from seedwise.report.footer import cautions_of, footer, shares
from seedwise.report.layout import Cell, TableView
from seedwise.report.results import Design, Results, ordered
from seedwise.report.scores import CellKey
from seedwise.report.wording import DASH, bounds, known, percent, plain, point_bounds, points, probability

Designs = Mapping[tuple[str, str], Design]


def main_tables(results: Results, facts: Facts, designs: Designs) -> list[TableView]:
    """One table per model and setting: scores, difference to the reference, adjusted p, verdict."""
    return [_main_table(results, facts, designs, *place) for place in results.places()]


def _main_table(
    results: Results, facts: Facts, designs: Designs, model: str, setting: str, methods: list[str]
) -> TableView:
    metric, reference, benchmarks = results.primary(facts), facts.compare.reference, results.benchmarks()
    scores = _by_key(final_rows(results.means), model, setting, metric, "method", "benchmark")
    tests = _by_key(_new_problems(results.contrasts), model, setting, metric, "method", "benchmark")
    rows, data = [], []
    for method in ordered(methods, reference):
        own = {name: scores.get((method, name)) for name in [*benchmarks, None]}
        test = tests.get((method, None))
        rows.append(
            (
                Cell(method),
                Cell(seeds_of(results, (setting, method), model)),
                *(_score(own[name]) for name in [*benchmarks, None]),
                *_claim(test, method == reference),
            )
        )
        data.append(_numbers({"model": model, "setting": setting, "method": method, "metric": metric}, own, test))
    columns = (
        ("Method", "l"),
        ("Seeds", "r"),
        *((f"{name}", "r") for name in benchmarks),
        ("Macro", "r"),
        ("Difference", "r"),
        ("Adjusted p", "r"),
        ("Verdict", "l"),
    )
    title = f"{model}, {setting}: {metric} in % with 95 % interval; difference to {reference} in points"
    notes = footer(results, facts, model, setting, designs[model, setting])
    return TableView("main", title, columns, tuple(rows), notes, pd.DataFrame(data))


def _claim(test: dict | None, is_reference: bool) -> tuple[Cell, Cell, Cell]:
    if is_reference:
        return Cell("reference", kind="quiet"), Cell(DASH), Cell(DASH)
    if test is None:
        return Cell(DASH), Cell(DASH), Cell("no reference in this setting", kind="quiet")
    shown = Cell(points(test["difference"]), point_bounds(test["low"], test["high"]))
    if not known(test["p"]):
        return shown, Cell(DASH), Cell(f"not tested: {test['reason']}", kind="quiet")
    if isinstance(test["withheld"], str):
        return shown, Cell(DASH), Cell("withheld", kind="quiet")
    if not isinstance(test["verdict"], str):
        return shown, Cell(DASH), Cell("descriptive", kind="quiet")
    return shown, Cell(probability(test["p_adjusted"])), verdict_cell(test)


def verdict_cell(test: Mapping) -> Cell:
    """The verdict, bold only if superior, with its cautions beside it."""
    second = [] if test["family"] == PRIMARY else [test["family"]]
    beside = "; ".join([*second, *cautions_of(test)])
    strong = test["verdict"] == "superior"
    return Cell(test["verdict"], f"({beside})" if beside else "", strong=strong, kind=test["verdict"])


def _score(row: dict | None) -> Cell:
    return Cell(percent(row["mean"]), bounds(row["low"], row["high"])) if row is not None else Cell(DASH)


_CLAIM = (
    "difference", "low", "high", "p", "p_adjusted", "level", "family", "verdict", "withheld", "flags", "reason",
)  # fmt: skip


def _numbers(keys: dict, own: Mapping[str | None, dict | None], test: dict | None) -> dict:
    numbers: dict = dict(keys)
    macro = own[None]
    numbers["seeds"] = macro["seeds"] if macro is not None else 0
    for name, row in own.items():
        for column in ("mean", "low", "high"):
            numbers[f"{name or 'macro'}_{column}"] = row[column] if row is not None else None
    for column in (
        "difference",
        "low",
        "high",
        "p",
        "p_adjusted",
        "level",
        "family",
        "verdict",
        "withheld",
        "flags",
        "reason",
    ):
        label = f"difference_{column}" if column in ("low", "high") else column
        numbers[label] = test[column] if test is not None else None
    return numbers


def seeds_of(results: Results, cell: CellKey, model: str) -> str:
    """``3``, or ``2 of 3`` when planned seeds have no scores; a dash for the untrained model."""
    setting, method = cell
    if method == BASE:
        return DASH
    every, scored = results.seeds.get((model, setting, method), (frozenset(), frozenset()))
    return str(len(every)) if scored == every else f"{len(scored)} of {len(every)}"


def difference_tables(results: Results, facts: Facts) -> list[TableView]:
    """Every macro difference in full: both estimands, df, variance shares, equivalence, cautions."""
    metric, views = results.primary(facts), []
    for model, setting, _ in results.places():
        rows = results.contrasts
        chosen = (rows["model"] == model) & (rows["setting"] == setting) & (rows["metric"] == metric)
        part = rows[chosen & rows["benchmark"].isna()]
        if not len(part):
            continue
        columns = (
            ("Method", "l"), ("Holds for", "l"), ("Difference (points)", "r"), ("Family interval", "r"), ("SE", "r"),
            ("df", "r"), ("p", "r"), ("Adjusted p", "r"), ("Equivalence p", "r"), ("Seed / problem / rest, %", "r"),
            ("Cautions", "l"),
        )  # fmt: skip
        title = f"{model}, {setting}: differences of macro {metric} to {facts.compare.reference}"
        body = tuple(_difference(row) for row in part.to_dict("records"))
        views.append(TableView("differences", title, columns, body, _DIFFERENCE_NOTES, part.reset_index(drop=True)))
    return views


_DIFFERENCE_NOTES = (
    "new problems: the difference expected with new training seeds on problems like these; "
    "these problems: with new training seeds on exactly these problems.",
    "Family interval: at 1 - alpha/m, or at the level of this look where several were declared; Holm can reject while "
    "it touches 0, so the p decides and the interval describes.",
    "Variance shares: seed, problem and rest (seed by problem and sampling) in V_seed + V_prob - V_res; "
    "the part both one-way variances contain is counted once, as rest. A share below 0: the estimate is below what the "
    "rest alone gives, and the test uses the larger one-way variance (branch seed or problem).",
)


def _difference(row: dict) -> tuple[Cell, ...]:
    cautions = [
        row["flags"].replace(",", ", "),
        row["reason"] or "",
        f"{row['branch']} branch" if row["branch"] else "",
    ]
    new = row["estimand"] == "new_problems"
    return (
        Cell(row["method"]),
        Cell("new problems" if new else "these problems"),
        Cell(points(row["difference"]), point_bounds(row["low"], row["high"])),
        Cell(point_bounds(row["family_low"], row["family_high"]) or DASH),
        Cell(percent(row["se"], 2)),
        Cell(plain(row["df"])),
        Cell(probability(row["p"])),
        Cell(probability(row["p_adjusted"])),
        Cell(probability(row["tost_p_adjusted"])),
        Cell(shares(row) if new else DASH),
        Cell("; ".join(filter(None, cautions))),
    )


def _new_problems(contrasts: pd.DataFrame) -> pd.DataFrame:
    return contrasts[contrasts["estimand"] == "new_problems"]


def _by_key(frame: pd.DataFrame, model: str, setting: str, metric: str, *keys: str) -> dict[tuple, dict]:
    chosen = frame[(frame["model"] == model) & (frame["setting"] == setting) & (frame["metric"] == metric)]
    return {
        tuple(row[key] if isinstance(row[key], str) else None for key in keys): row for row in chosen.to_dict("records")
    }
