"""What trainings took: tokens, operations, time, memory, energy.  Descriptive; nothing is tested here."""

from __future__ import annotations

import pandas as pd

from seedwise import tables
from seedwise.report.analysis import frame
from seedwise.report.facts import BASE, Compare
from seedwise.report.layout import TableView
from seedwise.report.layout import row as cells
from seedwise.report.results import Results
from seedwise.report.training import SECONDS, TOTALS
from seedwise.report.views import Columns, place_of, view
from seedwise.report.wording import DASH

MEASURED = {
    "device_seconds": SECONDS, "peak_memory_bytes": "peak_memory_bytes", "energy_joules": "energy_joules",
}  # fmt: skip
NOT_ASKED = "seconds, memory and energy differ between reruns: name device_seconds in compare.budget to have them here"


def spent_rows(runs: pd.DataFrame, metrics: pd.DataFrame, compare: Compare) -> pd.DataFrame:
    """SPENT of every run with recorded metrics.

    metrics: METRICS columns and ``run``, with those of TIMING where the study compares at equal device seconds: what
    is measured differs between reruns, and an analysis of the same scores must not.
    """
    by_run = dict(iter(metrics.groupby("run", sort=False)))
    asked = "device_seconds" in compare.budget
    rows = []
    for row in runs[runs["method"] != BASE].to_dict("records"):
        if row["run"] not in by_run:
            continue
        own = by_run[row["run"]]
        lacking: dict[str, None] = {} if asked else {NOT_ASKED: None}
        for column, name in {**TOTALS, **(MEASURED if asked else {})}.items():
            values = own[own["name"] == name]
            row[column] = _whole(column, values.sort_values("step")["value"])
            if row[column] is None:
                lacking[_why(values, name)] = None
        rows.append({**dict.fromkeys(MEASURED), **row, "reason": "; ".join(lacking) or None})
    return frame(tables.SPENT, rows)


def _whole(column: str, values: pd.Series) -> float | None:
    """Of a run, from its steps: the last of a running total, the largest peak, or the sum; None where one lacks."""
    if values.empty or values.isna().any():
        return None
    if column in TOTALS:
        return float(values.iloc[-1])
    return float(values.max() if column == "peak_memory_bytes" else values.sum())


def _why(values: pd.DataFrame, name: str) -> str:
    told = [reason for reason in values.get("reason", ()) if isinstance(reason, str)]
    return told[0] if told else f"{name} was not recorded"


def spent_table(results: Results) -> TableView:
    """Means over the trainings of a method, and the largest peak of memory."""
    columns: Columns = (
        ("Method", "l"), ("Setting", "l"), ("Runs", "r"), ("Generated tokens", "r"), ("Trained tokens", "r"),
        ("FLOPs", "r"), ("Device seconds", "r"), ("Peak memory, GB", "r"), ("Energy, Wh", "r"), ("Remark", "l"),
    )  # fmt: skip
    rows = []
    for (model, setting, method), part in results.spent.groupby(["model", "setting", "method"], sort=False):
        reasons = dict.fromkeys(reason for reason in part["reason"] if isinstance(reason, str))
        rows.append(
            cells(
                str(method), place_of({"model": model, "setting": setting}), str(len(part)),
                _shown(part["generated_tokens"], ",.0f"), _shown(part["trained_tokens"], ",.0f"),
                _shown(part["flops"], ".3g"), _shown(part["device_seconds"], ",.1f"),
                _shown(part["peak_memory_bytes"] / 1e9, ",.2f", largest=True),
                _shown(part["energy_joules"] / 3600, ",.1f"), "; ".join(reasons),
            )
        )  # fmt: skip
    notes = (
        "Per training: means over runs; of memory the largest. FLOPs: 2 operations per active parameter and generated "
        "token, 6 per trained token, 4 with an adapter; attention over the context, the optimizer and passes that only "
        "score are left out.",
    )
    return view("spent", "What a training took", columns, rows, notes, results.spent, "No training was recorded.")


def _shown(values: pd.Series, spelling: str, *, largest: bool = False) -> str:
    """A mean, or the largest; a dash where a run has no value."""
    if values.isna().any():
        return DASH
    return format(float(values.max() if largest else values.mean()), spelling)
