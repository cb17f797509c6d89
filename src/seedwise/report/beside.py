"""The tables of what happened during training and of what was not declared: curves, costs, benchmarks, the grid."""

from __future__ import annotations

from seedwise.report.facts import Facts
from seedwise.report.layout import Cell, TableView
from seedwise.report.layout import row as cells
from seedwise.report.results import Results
from seedwise.report.views import Columns, place_of, text_of, view
from seedwise.report.wording import DASH, known, percent, point_bounds, points, probability


def curve_table(results: Results, facts: Facts) -> TableView:
    """One declared number of each training curve."""
    columns: Columns = (
        ("Curve", "l"), ("Method", "l"), ("Setting", "l"), ("Mean", "r"), ("Reference", "r"), ("Difference", "r"),
        ("p", "r"), ("Adjusted p", "r"), ("Seeds", "r"), ("Remark", "l"),
    )  # fmt: skip
    rows = (
        cells(
            row["curve"], row["method"], place_of(row), _figure(row["mean"]), _figure(row["mean_reference"]),
            Cell(_figure(row["difference"], sign=True), _figures(row["low"], row["high"])), probability(row["p"]),
            probability(row["p_adjusted"]), f"{row['seeds']} against {row['seeds_reference']}", text_of(row["reason"]),
        )
        for row in results.curves.to_dict("records")
    )  # fmt: skip
    notes = (
        "One number per run, in the unit of the metric: final is the mean of the last 10 % of steps, area the mean "
        "height, log_volatility the log SD of step-to-step changes, late_slope the change per step in the last half.",
        "Welch's test over seeds; Holm over the methods, for each curve. crossover: the step from which a run stays "
        "above the declared level, by ranks; collapse: the share of runs that fell below the declared bound, by "
        "Fisher's exact test.",
    )
    title = f"Curves of training against {facts.compare.reference}"
    return view("curves", title, columns, rows, notes, results.curves, "The study declares no curve metric.")


def _figure(value: float | None, *, sign: bool = False) -> str:
    """Three significant digits with a true minus sign, or a dash."""
    if value is None or not known(value):
        return DASH
    return f"{value:{'+' if sign else ''}.3g}".replace("-", "\N{MINUS SIGN}")


def _figures(low: float | None, high: float | None) -> str:
    return f"[{_figure(low, sign=True)}, {_figure(high, sign=True)}]" if known(low) and known(high) else ""


def cost_table(results: Results, facts: Facts) -> TableView:
    """Scores at equal cost instead of equal steps."""
    columns: Columns = (
        ("Cost", "l"), ("Budget per run", "r"), ("Method", "l"), ("Setting", "l"), ("Score, %", "r"),
        ("Reference, %", "r"), ("Difference (points)", "r"), ("p", "r"), ("Adjusted p", "r"), ("Remark", "l"),
    )  # fmt: skip
    rows = (
        cells(
            row["cost"].replace("_", " "), f"{row['budget']:,.0f}" if known(row["budget"]) else DASH, row["method"],
            place_of(row),
            percent(row["mean"]), percent(row["mean_reference"]),
            Cell(points(row["difference"]), point_bounds(row["low"], row["high"])), probability(row["p"]),
            probability(row["p_adjusted"]), text_of(row["reason"]),
        )
        for row in results.costs.to_dict("records")
    )  # fmt: skip
    notes = (
        "A run's score at the budget lies on the line between its checkpoints and is never extrapolated. Welch's test "
        "over seeds, on these problems; Holm over the methods.",
        *(
            ["Device seconds are measured: they differ between machines and between reruns."]
            if "device_seconds" in facts.compare.budget
            else []
        ),
    )
    title = f"Macro {results.primary(facts)} at equal cost, against {facts.compare.reference}"
    return view("costs", title, columns, rows, notes, results.costs, "The study declares no budget.")


def benchmark_table(results: Results, facts: Facts) -> TableView:
    """Every method of the primary family on every benchmark."""
    columns: Columns = (
        ("Method", "l"), ("Setting", "l"), ("Benchmark", "l"), ("Problems", "r"), ("Difference (points)", "r"),
        ("p", "r"), ("Adjusted p", "r"), ("Remark", "l"),
    )  # fmt: skip
    rows = (
        cells(
            row["method"], place_of(row), row["benchmark"], str(row["problems"]),
            Cell(points(row["difference"]), point_bounds(row["low"], row["high"])), probability(row["p"]),
            probability(row["p_adjusted"]), text_of(row["reason"]) or ("" if row["claimed"] else "descriptive"),
        )
        for row in results.by_benchmark.to_dict("records")
    )  # fmt: skip
    notes = (
        "For new problems. Adjusted over the benchmarks of a method (Holm). Descriptive where the macro difference of "
        "the method was not claimed.",
    )
    title = f"Differences to {facts.compare.reference} on every benchmark, {results.primary(facts)}"
    return view("benchmarks", title, columns, rows, notes, results.by_benchmark, "There is no comparison.")


def grid_table(results: Results, facts: Facts) -> TableView:
    """Every method against the reference and against the best: exploratory."""
    columns: Columns = (
        ("Method", "l"), ("Setting", "l"), ("Difference (points)", "r"), ("p", "r"), ("FDR-adjusted p", "r"),
        ("p against the best", "r"), ("Among the best", "l"), ("Remark", "l"),
    )  # fmt: skip
    rows = (
        cells(
            row["method"], place_of(row), Cell(points(row["difference"]), point_bounds(row["low"], row["high"])),
            probability(row["p"]), probability(row["p_fdr"]), probability(row["p_best"]), _among(row["among_best"]),
            text_of(row["reason"]),
        )
        for row in results.grid.to_dict("records")
    )  # fmt: skip
    notes = (
        "FDR, exploratory: of the methods below 0.05 about one in twenty is expected to be no better or worse than the "
        "reference (Benjamini and Hochberg). No claim rests on this table.",
        "Among the best: the data cannot tell it from the method with the highest mean (Holm p above alpha). With few "
        "seeds that is nearly everyone.",
    )
    title = f"Every method against {facts.compare.reference}, macro {results.primary(facts)} (FDR, exploratory)"
    return view("grid", title, columns, rows, notes, results.grid, "There is no method to compare.")


def _among(value: object) -> str:
    return DASH if value is None or value != value else "yes" if value else "no"
