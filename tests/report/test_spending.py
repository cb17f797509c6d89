from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
from counted import cell, frame, one, planned

from seedwise import tables
from seedwise.report.facts import Comparison
from seedwise.report.layout import markdown
from seedwise.report.spending import NOT_ASKED, spent_rows, spent_table

COMPARE = Comparison("ref", "avg@n", ("a",), (), 0.02, 0.05, budget={"generated_tokens": None})
TIMED = replace(COMPARE, budget={"device_seconds": None})
RUNS = planned(frame(cell("ref", [[1], [1]]), cell("a", [[1], [1]]), cell("base", [[0]], setting="base", step=0)))


def logged(run, name, values, reason=None):
    steps = range(1, len(values) + 1)
    return pd.DataFrame({"run": run, "step": steps, "name": name, "value": values, "reason": reason})


def of(run, energy=(3600.0, 7200.0), why=None):
    return [
        logged(run, "generated_tokens_total", [10.0, 30.0]),
        logged(run, "trained_tokens_total", [5.0, 15.0]),
        logged(run, "flops_total", [1e9, 3e9]),
        logged(run, "step_seconds", [2.0, 3.0]),
        logged(run, "peak_memory_bytes", [4e9, 6e9]),
        logged(run, "energy_joules", list(energy), why),
    ]


METRICS = pd.DataFrame(
    [
        row
        for part in (*of("ref.G8.s0"), *of("ref.G8.s1"), *of("a.G8.s0", (None, None), "no NVML"))
        for row in part.to_dict("records")
    ]
)


def test_totals_are_the_last_times_and_energy_sums_memory_the_largest(tmp_path):
    rows = spent_rows(RUNS, METRICS, TIMED)
    tables.write(tables.SPENT, rows, tmp_path / "spent.parquet")
    row = one(rows, run="ref.G8.s0")
    assert (row["generated_tokens"], row["trained_tokens"], row["flops"]) == (30, 15, 3e9)
    # 2 + 3 s, the larger of 4 and 6 GB, 3,600 + 7,200 J
    assert (row["device_seconds"], row["peak_memory_bytes"], row["energy_joules"]) == (5, 6e9, 10800)
    assert row["reason"] is None
    # a.G8.s1 has recorded nothing, the base trains nothing
    assert list(rows["run"]) == ["ref.G8.s0", "ref.G8.s1", "a.G8.s0"]


def test_an_undefined_value_is_null_with_its_reason():
    row = one(spent_rows(RUNS, METRICS, TIMED), run="a.G8.s0")
    assert row["energy_joules"] is None or pd.isna(row["energy_joules"])
    assert (row["reason"], row["device_seconds"]) == ("no NVML", 5)
    lost = METRICS[METRICS["name"] != "flops_total"]
    assert one(spent_rows(RUNS, lost, TIMED), run="ref.G8.s0")["reason"] == "flops_total was not recorded"


def test_what_is_measured_stands_only_where_the_study_asks_for_it():
    rows = spent_rows(RUNS, METRICS, COMPARE)
    assert rows[["device_seconds", "peak_memory_bytes", "energy_joules"]].isna().all(axis=None)
    assert set(rows["reason"]) == {NOT_ASKED}
    assert one(rows, run="a.G8.s0")["flops"] == 3e9


def test_the_table_has_means_over_runs():
    results = SimpleNamespace(spent=spent_rows(RUNS, METRICS, TIMED))
    text = markdown([spent_table(results)])
    # 10,800 J are 3 Wh
    assert "| ref | m, G8 | 2 | 30 | 15 | 3e+09 | 5.0 | 6.00 | 3.0 |" in text
    assert "no NVML" in text
    assert "No training was recorded." in markdown([spent_table(SimpleNamespace(spent=results.spent[:0]))])
