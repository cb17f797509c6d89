from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from counted import cell, frame, one, planned

from seedwise import tables
from seedwise.report.analysis import final_scores
from seedwise.report.facts import Comparison, Fall, Look
from seedwise.report.robustness import places_of
from seedwise.report.training import cost_rows, curve_rows
from seedwise.stats.curves import welch

COMPARE = Comparison(
    "ref", "avg@n", ("a", "base"), (), 0.02, 0.05, curves=("reward.area",), budget={"generated_tokens": None}
)
COUNTS = frame(
    *(cell("ref", [[c, c], [c + 1, c]], step=step) for step, c in ((10, 0), (20, 2))),
    *(cell("a", [[c, c], [c, c + 1]], step=step) for step, c in ((10, 1), (20, 3))),
    cell("base", [[0, 0]], setting="base", step=0),
)
RUNS = planned(COUNTS)
TRAINED = RUNS.loc[RUNS["method"] != "base", "run"]


def places(compare=COMPARE):
    return places_of(RUNS, COUNTS, compare, final_scores(COUNTS, compare))


def logged(run, name, steps, values):
    return pd.DataFrame({"run": run, "step": steps, "name": name, "value": values, "reason": None})


def rewards():
    lines = {"ref.G8.s0": [0, 2], "ref.G8.s1": [0, 4], "a.G8.s0": [2, 4], "a.G8.s1": [4, 4]}
    return pd.concat([logged(run, "reward", [1, 2], line) for run, line in lines.items()])


def tokens(per_step):
    steps = np.arange(1, 21)
    return pd.concat([logged(run, "generated_tokens_total", steps, steps * per_step[run[0]]) for run in TRAINED])


def test_one_number_of_each_curve_and_welch(tmp_path):
    rows = curve_rows(places(), RUNS, rewards(), COMPARE, None)
    tables.write(tables.CURVES, rows, tmp_path / "curves.parquet")
    row = one(rows, method="a", curve="reward.area")
    # areas: ref (0 + 2)/2 = 1, 2; a 3, 4
    assert (row["mean_reference"], row["mean"], row["difference"]) == (1.5, 3.5, 2.0)
    assert row["p"] == pytest.approx(welch([3, 4], [1, 2]).p)
    assert row["p_adjusted"] == row["p"]


def test_the_untrained_model_has_no_curve():
    assert set(curve_rows(places(), RUNS, rewards(), COMPARE, None)["method"]) == {"a"}


def test_an_undefined_number_lowers_the_seeds_and_says_so():
    short = rewards()
    short = short[~((short["run"] == "a.G8.s1") & (short["step"] == 2))]
    row = one(curve_rows(places(), RUNS, short, COMPARE, None), method="a")
    assert (row["seeds"], row["seeds_reference"]) == (1, 2)
    assert row["reason"] == "1 of 2 runs of a: an area needs at least 2 steps, got 1"
    assert pd.isna(row["p"])


def test_a_curve_that_was_not_recorded():
    row = one(curve_rows(places(), RUNS, rewards().iloc[:0], COMPARE, None), method="a")
    assert row["reason"].startswith("2 of 2 runs of a: reward was not recorded")
    assert pd.isna(row["difference"])


def test_an_undeclared_look_has_no_adjusted_p():
    look = Look(2, 3, None, (2,), "r", "r", "look 2, and one was declared")
    rows = curve_rows(places(), RUNS, rewards(), COMPARE, look)
    assert rows["p"].notna().all()
    assert rows["p_adjusted"].isna().all()


def test_equal_cost_by_hand(tmp_path):
    # a makes 200 tokens a step, ref 100: at 2,000 tokens ref is at step 20 and a at step 10
    metrics = tokens({"a": 200.0, "r": 100.0})
    rows = cost_rows(places(), RUNS, COUNTS, metrics, COMPARE, None)
    tables.write(tables.COSTS, rows, tmp_path / "costs.parquet")
    row = one(rows, method="a", cost="generated_tokens")
    assert row["budget"] == 2000
    # a at step 10: seeds 2/8 and 3/8; ref at step 20: 4/8 and 5/8
    assert row["mean"] == pytest.approx((2 / 8 + 3 / 8) / 2)
    assert row["mean_reference"] == pytest.approx((4 / 8 + 5 / 8) / 2)
    assert row["difference"] == pytest.approx(-1 / 4)


def test_a_declared_budget_is_reached_on_the_line_from_the_untrained_model():
    metrics = tokens({"a": 200.0, "r": 100.0})
    rows = cost_rows(places(), RUNS, COUNTS, metrics, replace(COMPARE, budget={"generated_tokens": 1000.0}), None)
    # a half way from the base (0) to step 10: 1/8 and 3/16
    assert one(rows, method="a")["mean"] == pytest.approx((2 / 8 + 3 / 8) / 2 / 2)


def test_a_budget_that_some_run_did_not_reach_is_not_extrapolated():
    metrics = tokens({"a": 200.0, "r": 100.0})
    rows = cost_rows(places(), RUNS, COUNTS, metrics, replace(COMPARE, budget={"generated_tokens": 3000.0}), None)
    row = one(rows, method="a")
    assert "budget 3000 is outside run 0 of 'ref'" in row["reason"]
    assert pd.isna(row["difference"])


def test_seconds_are_added_up():
    steps = np.arange(1, 21)
    metrics = pd.concat([logged(run, "step_seconds", steps, 2.0) for run in TRAINED])
    rows = cost_rows(places(), RUNS, COUNTS, metrics, replace(COMPARE, budget={"device_seconds": None}), None)
    assert one(rows, method="a")["budget"] == 40


def test_without_costs_there_is_a_reason_and_without_a_budget_no_row():
    rows = cost_rows(places(), RUNS, COUNTS, rewards(), COMPARE, None)
    assert set(rows["reason"]) == {"ref has no generated_tokens at its checkpoints"}
    assert len(cost_rows(places(), RUNS, COUNTS, rewards(), replace(COMPARE, budget={}), None)) == 0


def test_a_crossover_is_tested_by_ranks_and_a_run_that_never_crossed_is_last():
    lines = {"ref.G8.s0": [0, 0, 1], "ref.G8.s1": [0, 0, 0], "a.G8.s0": [0, 1, 1], "a.G8.s1": [1, 1, 1]}
    metrics = pd.concat([logged(run, "reward", [10, 20, 30], line) for run, line in lines.items()])
    rows = curve_rows(places(), RUNS, metrics, replace(COMPARE, crossover={"reward": 0.5}), None)
    row = one(rows, curve="reward.crossover")
    # a at steps 20 and 10; ref at 30 and never: no mean of ref.  2 of the C(4, 2) = 6 arrangements are as extreme
    assert row["mean"] == 15
    assert pd.isna(row["mean_reference"])
    assert row["p"] == pytest.approx(2 / 6)
    assert row["reason"] == "1 of 4 runs never did"


def test_a_collapse_is_counted():
    lines = {"ref.G8.s0": [1, 1, 1], "ref.G8.s1": [1, 0, 1], "a.G8.s0": [1, 0, 0], "a.G8.s1": [0, 0, 0]}
    metrics = pd.concat([logged(run, "entropy_nats", [1, 2, 3], line) for run, line in lines.items()])
    declared = replace(COMPARE, collapse={"entropy_nats": Fall(floor=0.5, evaluations=2)})
    row = one(curve_rows(places(), RUNS, metrics, declared, None), curve="entropy_nats.collapse")
    assert (row["mean"], row["mean_reference"], row["difference"]) == (1, 0, 1)
    # two of two against none of two: 1/C(4, 2) on either side
    assert row["p"] == pytest.approx(2 / 6)
    assert "cannot reach p <= 0.05" in row["reason"]


def test_an_event_of_a_metric_that_was_not_recorded():
    declared = replace(COMPARE, crossover={"correct_share": 0.5})
    row = one(curve_rows(places(), RUNS, rewards(), declared, None), curve="correct_share.crossover")
    assert row["reason"] == "correct_share was not recorded"
    assert pd.isna(row["p"])
