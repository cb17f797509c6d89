"""The tables beside the main one that look at the same comparison from other sides.

None of them decides, so none of them prints a word in bold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from seedwise.report.beside import benchmark_table, cost_table, curve_table, grid_table
from seedwise.report.facts import Facts
from seedwise.report.layout import Cell, TableView
from seedwise.report.layout import row as cells
from seedwise.report.results import Results
from seedwise.report.spending import spent_table
from seedwise.report.views import Columns, place_of, text_of, view
from seedwise.report.wording import DASH, known, percent, plain, point_bounds, points, probability, signed

_ESTIMANDS = {"new_problems": "new problems", "fixed_problems": "these problems"}
_CHECKPOINTS = {"last": "last", "mean_of_last_3": "mean of last 3"}
_COSTS = {
    "generated_tokens": "generated tokens",
    "trained_tokens": "trained tokens",
    "flops": "FLOPs",
    "device_seconds": "device seconds",
}


def further_tables(results: Results, facts: Facts) -> dict[str, list[TableView]]:
    """Name of the files -> tables: audit, effects, ranks, multiverse, strata, curves, costs, spent, benchmarks,
    grid."""
    return {
        "audit": [audit_table(results, facts)],
        "effects": [effect_table(results, facts)],
        "ranks": [rank_table(results)],
        "multiverse": [multiverse_table(results, facts)],
        "strata": [strata_table(results, facts)],
        "curves": [curve_table(results, facts)],
        "costs": [cost_table(results, facts)],
        "spent": [spent_table(results)],
        "benchmarks": [benchmark_table(results, facts)],
        "grid": [grid_table(results, facts)],
    }


def audit_table(results: Results, facts: Facts) -> TableView:
    """How often this study's own rule claims a difference where there is none."""
    columns: Columns = (
        ("Setting", "l"), ("Simulated", "l"), ("Families", "r"), ("With a false claim, %", "r"),
        ("Intervals that hold, %", "r"), ("Detectable, points", "r"), ("Remark", "l"),
    )  # fmt: skip
    rows = (
        cells(
            place_of(row), row["design"], str(row["simulations"]),
            Cell(percent(row["rate"]), f"[{percent(row['low'])}, {percent(row['high'])}]" if known(row["low"]) else ""),
            percent(row["coverage"]), percent(row["mde"]), text_of(row["withheld"]) or text_of(row["reason"]),
        )
        for row in results.audit.to_dict("records")
    )  # fmt: skip
    notes = (
        "Whole families without any difference, simulated at this table's seeds, problems and samples from its own "
        f"estimated variances and tested by its own rule; declared are {100 * facts.compare.alpha:g} %. "
        "With the 95 % Wilson interval.",
        "Intervals that hold: 95 % intervals with the true difference inside, when methods differ as observed. "
        "Detectable: the smallest difference that one comparison of the family finds with 80 % power.",
        "Verdicts are withheld where the lower end of the interval exceeds 1.2 times the declared rate.",
    )
    title = "Self-audit: false positives of this very comparison"
    return view("audit", title, columns, rows, notes, results.audit, "There is no comparison to audit.")


def effect_table(results: Results, facts: Facts) -> TableView:
    """Effect sizes of seeds' macro scores."""
    columns: Columns = (
        ("Method", "l"), ("Setting", "l"), ("Relative change, %", "r"), ("Hedges g", "r"),
        ("A seed beats one of the reference, %", "r"), ("Worst seed, %", "r"), ("Worst of the reference, %", "r"),
        ("Seeds", "r"), ("Remark", "l"),
    )  # fmt: skip
    rows = (
        cells(
            row["method"], place_of(row), _signed(row["relative"], 100), _signed(row["hedges_g"], 1, 2),
            percent(row["superiority"], 0), percent(row["worst"]), percent(row["worst_reference"]),
            f"{row['seeds']} against {row['seeds_reference']}", text_of(row["reason"]),
        )
        for row in results.effects.to_dict("records")
    )  # fmt: skip
    notes = (
        "They describe and claim nothing: with few seeds each of them may be far off.",
        "Hedges g: the difference in SDs of a seed's score, corrected for few seeds. A seed beats one of the "
        "reference: share of all pairs, ties half.",
    )
    title = f"Effect sizes against {facts.compare.reference}, macro {results.primary(facts)}"
    return view("effects", title, columns, rows, notes, results.effects, "There is no trained method to compare.")


def _signed(value: float | None, scale: float, digits: int = 1) -> str:
    return signed(scale * value, digits) if value is not None and known(value) else DASH


def rank_table(results: Results) -> TableView:
    """Exact tests on seeds, with the smallest p they could reach."""
    columns: Columns = (
        ("Test", "l"), ("Subject", "l"), ("Setting", "l"), ("Seeds", "l"), ("p", "r"), ("Smallest p possible", "r"),
        ("Read at", "r"), ("Result", "l"),
    )  # fmt: skip
    rows = (
        cells(
            row["test"], row["subject"], place_of(row), ", ".join(map(str, json.loads(row["seeds"]))),
            probability(row["p"]), probability(row["smallest_p"]), probability(row["alpha"]), _ranked(row),
        )
        for row in results.ranks.to_dict("records")
    )  # fmt: skip
    notes = (
        "Exact and free of distributions, on one score per seed, so about these problems only. Secondary: they "
        "decide nothing here.",
        "A test whose smallest possible p lies above the level it is read at cannot find anything with these seeds: "
        "that is no evidence of no difference.",
        "Permutation: labels of seeds exchanged, read at alpha over the number of methods. Jonckheere-Terpstra: a "
        "rise or fall along an axis, blind to an inverted U.",
    )
    title = "Exact tests on seeds (secondary)"
    return view("ranks", title, columns, rows, notes, results.ranks, "There is nothing to test on seeds.")


def _ranked(row: Mapping[str, Any]) -> str:
    if isinstance(row["reason"], str):
        return row["reason"]
    return "differs" if row["p"] <= row["alpha"] else "no difference found"


def multiverse_table(results: Results, facts: Facts) -> TableView:
    """The verdict under every analysis that could have been declared instead, and how many agree."""
    columns: Columns = (
        ("Method", "l"), ("Setting", "l"), ("Holds for", "l"), ("Analysis", "l"), ("Checkpoint", "l"),
        ("Difference (points)", "r"), ("Adjusted p", "r"), ("Verdict", "l"), ("Cautions", "l"),
    )  # fmt: skip
    data = results.multiverse
    records = sorted(data.to_dict("records"), key=_by_method(data))
    rows = (
        cells(
            row["method"], place_of(row), _ESTIMANDS[row["estimand"]], row["analysis"], _CHECKPOINTS[row["checkpoint"]],
            Cell(points(row["difference"]), point_bounds(row["low"], row["high"])), probability(row["p_adjusted"]),
            Cell(text_of(row["verdict"]) or DASH, kind=text_of(row["verdict"])),
            "; ".join(filter(None, [row["flags"].replace(",", ", "), text_of(row["reason"])])),
        )
        for row in records
    )  # fmt: skip
    notes = (
        *agreements(results, facts),
        "Welch: seed variances of each method apart; pooled: one for all, valid only where they are equal. Mixed "
        "model: crossed random effects with Wald's z, which claims too much at few seeds.",
        "Each analysis adjusts p in a family of its own. Only the declared one decides.",
    )
    title = "The same comparison, analysed otherwise"
    return view("multiverse", title, columns, rows, notes, data, "There is no comparison to analyse.")


def _by_method(data: pd.DataFrame) -> Any:
    places = list(dict.fromkeys(zip(data["model"], data["setting"], data["method"], strict=True))) if len(data) else []
    return lambda row: places.index((row["model"], row["setting"], row["method"]))


def agreements(results: Results, facts: Facts) -> list[str]:
    """``qae.K0.4: 9 of 10 analyses agree with inconclusive.`` for every comparison with a verdict."""
    sentences = []
    data = results.multiverse
    for (model, setting, method), part in data.groupby(["model", "setting", "method"], sort=False) if len(data) else ():
        given = part[part["verdict"].notna() & (part["analysis"] != "without stopped runs")]
        declared = given[
            (given["estimand"] == "new_problems")
            & (given["analysis"] == "welch")
            & (given["checkpoint"] == facts.compare.checkpoint)
        ]
        if len(declared):
            verdict = declared["verdict"].iloc[0]
            same = int((given["verdict"] == verdict).sum())
            where = f" ({model}, {setting})" if len(results.places()) > 1 else ""
            sentences.append(f"{method}{where}: {same} of {len(given)} analyses agree with {verdict}.")
    return sentences


def strata_table(results: Results, facts: Facts) -> TableView:
    """Differences by how often the untrained model solves a problem."""
    columns: Columns = (
        ("Method", "l"), ("Setting", "l"), ("Base accuracy", "l"), ("Problems", "r"), ("Difference (points)", "r"),
        ("df", "r"), ("p", "r"), ("Adjusted p", "r"), ("Remark", "l"),
    )  # fmt: skip
    rows = (
        cells(
            row["method"], place_of(row), row["band"], str(row["problems"]),
            Cell(points(row["difference"]), point_bounds(row["low"], row["high"])), plain(row["df"]),
            probability(row["p"]), probability(row["p_adjusted"]), text_of(row["reason"]),
        )
        for row in results.strata.to_dict("records")
    )  # fmt: skip
    notes = (
        "Bands of the untrained model's accuracy on a problem, declared beforehand; inside a band every problem has "
        "equal weight. A band describes.",
        "Interaction: the difference in the highest band minus that in the lowest; Holm over the methods. Below 0 the "
        "method helps more where the untrained model fails.",
    )
    title = f"Differences to {facts.compare.reference} by difficulty"
    return view("strata", title, columns, rows, notes, results.strata, "The study declares no bands of difficulty.")
