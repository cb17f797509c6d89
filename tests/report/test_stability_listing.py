"""The list of runs says of each whether its entropy held."""

from __future__ import annotations

from io import StringIO

import pandas as pd

from seedwise.report.layout import csv, markdown
from seedwise.report.listings import run_table
from seedwise.report.results import Results
from seedwise.report.stability import labelled
from seedwise.study import Stability


def results(runs: pd.DataFrame) -> Results:
    counts = runs[["run", "model", "method", "setting", "seed"]].assign(
        step=30, benchmark="x", problem="p", samples=4, correct=1, unparsed=0, timeout=0, truncated=0, tokens=2.0
    )
    nothing = pd.DataFrame()
    return Results(runs, counts, nothing, nothing, nothing, nothing)


def runs_and_metrics() -> tuple[pd.DataFrame, pd.DataFrame]:
    named = {"a.s0": "a", "a.s1": "a", "base": "base"}
    runs = pd.DataFrame(
        {"run": list(named), "model": "m", "method": list(named.values()), "setting": "G8", "seed": [0, 1, 0]}
    )
    steps = range(1, 31)
    # 0.6 to 0.4 holds; 0.6 to 0.05, below a fifth of 0.6, collapses
    frames = [
        pd.DataFrame(
            {
                "run": run,
                "step": steps,
                "name": "entropy_nats",
                "value": [0.6 if step <= 15 else end for step in steps],
                "reason": None,
            }
        )
        for run, end in (("a.s0", 0.4), ("a.s1", 0.05))
    ]
    return runs, pd.concat(frames, ignore_index=True)


def test_every_run_has_its_entropies_and_its_label():
    runs, metrics = runs_and_metrics()
    view = run_table(results(labelled(runs, metrics, Stability())))
    text = markdown([view])
    assert "| a.s0 | 30 | 4 | 25.0 | 0.0 | 0.0 | 0.0 | 2.0 | evaluated | 0.600, 0.600, 0.400 | stable |" in text
    assert "| evaluated | 0.600, 0.600, 0.050 | collapsing |" in text
    assert "| untrained model | – | – not trained |" in text
    assert "thresholds of the study's section stability" in text
    numbers = pd.read_csv(StringIO(csv([view]))).set_index("run")
    assert numbers.loc["a.s1", "entropy_end_nats"] == 0.05
    assert numbers.loc["a.s1", "stability"] == "collapsing"
    assert pd.isna(numbers.loc["base", "stability"]) and numbers.loc["base", "stability_reason"] == "not trained"


def test_thresholds_of_another_study_give_another_label():
    runs, metrics = runs_and_metrics()
    rows = run_table(results(labelled(runs, metrics, Stability(collapse_share=0.8)))).rows
    assert [line[-1].text for line in rows] == ["collapsing", "collapsing", "–"]


def test_a_list_of_runs_without_labels_has_no_empty_columns():
    runs, _ = runs_and_metrics()
    view = run_table(results(runs))
    assert [name for name, _ in view.columns][-1] == "State"
    assert all(len(line) == len(view.columns) for line in view.rows)


def test_runs_without_scores_keep_their_label():
    runs, metrics = runs_and_metrics()
    whole = results(labelled(runs, metrics, Stability()))
    kept = whole.counts[whole.counts["run"] != "a.s1"]
    view = run_table(Results(whole.runs, kept, *[pd.DataFrame()] * 4))
    (line,) = (line for line in view.rows if line[0].text == "a.s1")
    assert [cell.text for cell in line[-3:]] == ["no scores", "0.600, 0.600, 0.050", "collapsing"]
