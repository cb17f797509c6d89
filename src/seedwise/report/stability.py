"""RUNS with the course of each run's entropy beside it: what it began, peaked and ended at, and its label."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from seedwise.report.facts import BASE
from seedwise.report.layout import Cell
from seedwise.report.wording import DASH, plain
from seedwise.stats.stability import Course, Thresholds, course

ENTROPY = "entropy_nats"
# what labelled adds to RUNS
COLUMNS = ("entropy_start_nats", "entropy_peak_nats", "entropy_end_nats", "stability", "stability_reason")
HEADINGS = (("Entropy: start, peak, end (nats)", "r"), ("Stability", "l"))
NOTE = (
    "Stability: mean token entropy of a run's last rollouts against its first, by the thresholds of the study's "
    "section stability."
)
_UNTRAINED = Course(None, None, None, 0, None, None, "not trained")


def labelled(runs: pd.DataFrame, metrics: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    """RUNS and the columns of COLUMNS; an undefined value is null, with the reason in the last one.

    runs: RUNS.  metrics: METRICS columns and ``run``.  Raises StatsError on values that are no entropy.
    """
    curves = {str(run): curve for run, curve in metrics.groupby("run", sort=False)}
    nothing = metrics.iloc[:0]
    found = [
        _UNTRAINED if method == BASE else course_of(curves.get(run, nothing), thresholds)
        for run, method in zip(runs["run"], runs["method"], strict=True)
    ]
    rows = [(each.start, each.peak, each.end, each.label, each.reason) for each in found]
    return runs.assign(**{name: [row[place] for row in rows] for place, name in enumerate(COLUMNS)})


def course_of(metrics: pd.DataFrame, thresholds: Thresholds) -> Course:
    """The course of one run's entropy, from its METRICS.  Raises StatsError on values that are no entropy."""
    rows = metrics[metrics["name"] == ENTROPY].sort_values("step")
    found = course(rows["value"].to_numpy(dtype="float64", na_value=float("nan")), thresholds)
    why = next(iter(rows["reason"].dropna()), None) if found.measured == 0 else None
    return replace(found, reason=f"{found.reason}: {why}") if why is not None else found


def stability_cells(row: dict) -> tuple[Cell, Cell]:
    """The cells under HEADINGS, from a row with COLUMNS; without a label the reason stands in its place."""
    entropies = [plain(row[name], 3) for name in COLUMNS[:3]]
    label, reason = row["stability"], row["stability_reason"]
    shown = Cell(", ".join(entropies) if set(entropies) != {DASH} else DASH)
    if isinstance(label, str):
        return shown, Cell(label, kind=label)
    return shown, Cell(DASH, reason if isinstance(reason, str) else "")
