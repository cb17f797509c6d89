"""Outcomes of runs: by hand, and against SciPy."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from counted import one
from scipy import stats as scipy_stats

from seedwise import tables
from seedwise.report import layout
from seedwise.report.build import load
from seedwise.report.facts import Comparison, Facts, Look
from seedwise.report.outcomes import CONSTANT, CONSTANT_MEAN, cells_of_outcome, outcome_rows
from seedwise.report.outcomes_shown import outcome_tables
from seedwise.report.results import Results
from seedwise.study import Outcome

NO_STOPS = pd.DataFrame(columns=["run", "model", "method", "setting", "seed", "step", "reason"])
ENTROPY = {"a": [0.5, 0.7, 0.9], "b": [0.1, 0.2, 0.3], "c": [0.4, 0.4, 0.7]}
K = {"a": 0.8, "b": 0.2, "c": 0.4}


def runs(methods=ENTROPY, seeds=(0, 1, 2), axes=None):
    given = axes or {method: {"K": K.get(method, 0.5)} for method in methods}
    rows = [
        {
            "run": f"{method}.s{seed}", "model": "m", "method": method, "setting": "G8", "group_size": 8, "seed": seed,
            "axes": json.dumps(given[method]), "id": "0",
        }
        for method in methods
        for seed in seeds
    ]  # fmt: skip
    return pd.DataFrame(rows)


def logged(run, values, name="entropy_nats"):
    return pd.DataFrame({"run": run, "step": range(1, len(values) + 1), "name": name, "value": values, "reason": None})


def flat(values=ENTROPY, steps=10):
    """Every run has its number at each step."""
    return pd.concat(
        [
            logged(f"{method}.s{seed}", [value] * steps)
            for method, line in values.items()
            for seed, value in enumerate(line)
        ]
    )


def compared(look=None, metrics=None, planned=None, stops=NO_STOPS, **settings):
    outcome = Outcome.model_validate({"measure": "entropy_nats", **settings})
    compare = Comparison("a", "avg@n", ("b",), (), 0.02, 0.05, outcomes={"end": outcome})
    chosen = flat() if metrics is None else metrics
    return outcome_rows(runs() if planned is None else planned, chosen, stops, compare, look)


def number(values, stopped=False, **settings):
    """The number of one run with these values, beside another that has 10 steps."""
    outcome = Outcome.model_validate({"measure": "entropy_nats", "show": ["a"], **settings})
    planned = runs(["a", "z"], seeds=(0,))
    metrics = pd.concat([logged("a.s0", values), logged("z.s0", [0.0] * 10)])
    stops = NO_STOPS if not stopped else pd.DataFrame([{"run": "a.s0", "step": len(values), "reason": "diverged"}])
    cell = cells_of_outcome(planned, metrics, stops, outcome)["a"]
    return cell.values.get(0, cell.lacking)


TEN = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 10.0),  # steps s with 9 < s <= 10
        ({"over": [0.8, 1.0]}, 9.5),  # 9 and 10
        ({"over": [0.0, 0.1]}, 1.0),
        ({"over": [0.45, 0.55]}, 5.0),  # floors of 4.5 and 5.5: step 5
        ({"over": [0.0, 1.0]}, 5.5),
        ({"over": [0.0, 1.0], "summary": "max"}, 10.0),
        ({"over": [0.2, 0.5], "summary": "min"}, 3.0),
    ],
)
def test_the_number_of_a_run(settings, expected):
    assert number(TEN, **settings) == expected


def test_shares_of_forty_steps_are_exact():
    # 0.9 * 40 is 36.0 and 0.7 * 10 is 7.000000000000001 or 6.999999999999999: both begin after the whole number
    outcome = Outcome(measure="entropy_nats", show=("a",), over=(0.7, 0.8))
    metrics = logged("a.s0", TEN)
    assert cells_of_outcome(runs(["a"], seeds=(0,)), metrics, NO_STOPS, outcome)["a"].values == {0: 8.0}


def test_an_undefined_step_is_left_out_and_an_undefined_window_has_a_reason():
    assert number([*TEN[:8], None, 10.0], over=[0.8, 1.0]) == 10.0
    assert number([*TEN[:9], None]) == ("entropy_nats is undefined in steps 10 to 10",)
    assert number(TEN, measure="loss") == ("loss was not recorded",)


def test_a_run_that_stopped_counts_with_its_last_value():
    # it ended at step 6 with 6: steps 9 and 10 are 6; of steps 6 to 10 the first is its own
    assert number(TEN[:6], stopped=True, over=[0.8, 1.0]) == 6.0
    assert number([*TEN[:5], 16.0], stopped=True, over=[0.4, 1.0]) == pytest.approx((5 + 16 + 4 * 16) / 6)
    assert number(TEN[:6], over=[0.8, 1.0]) == ("entropy_nats is undefined in steps 9 to 10",)


def test_a_run_of_fewer_steps_by_its_own_axis_is_not_short():
    axes = {"a": {"train.steps": 4}, "z": {}}
    metrics = pd.concat([logged("a.s0", TEN[:4]), logged("z.s0", TEN)])
    outcome = Outcome(measure="entropy_nats", show=("a", "z"), over=(0.75, 1.0))
    found = cells_of_outcome(runs(["a", "z"], (0,), axes), metrics, NO_STOPS, outcome)
    # of 4 steps the fourth; of 10 those after 7.5, the last three
    assert (found["a"].values, found["z"].values) == ({0: 4.0}, {0: 9.0})


def test_a_pair_is_welchs_test_with_its_interval(tmp_path):
    rows = compared(pairs=[["a", "b"]], direction="rises")
    tables.write(tables.OUTCOMES, rows, tmp_path / "outcomes.parquet")
    row, found = one(rows, kind="pair"), scipy_stats.ttest_ind(ENTROPY["a"], ENTROPY["b"], equal_var=False)
    interval = found.confidence_interval()
    assert row["subject"] == "a \N{MINUS SIGN} b"
    assert row["estimate"] == pytest.approx(0.7 - 0.2)
    # variances 0.04 and 0.01 over three seeds: 0.05 / 3; df (0.05/3)^2 / ((0.04/3)^2/2 + (0.01/3)^2/2)
    assert row["se"] == pytest.approx((0.05 / 3) ** 0.5)
    assert row["df"] == pytest.approx(2 * 0.05**2 / (0.04**2 + 0.01**2))
    assert (row["p"], row["low"], row["high"]) == pytest.approx((found.pvalue, interval.low, interval.high))
    # pooled SD sqrt(0.025); J of 4 df is 0.79788
    assert row["hedges_g"] == pytest.approx(0.7978845608 * 0.5 / 0.025**0.5)
    assert row["seeds"] == 3
    assert row["p_adjusted"] == row["p"]
    assert row["verdict"] == "as claimed"


def test_the_other_sign_is_said_so_and_without_a_claimed_one_the_word_is_plain():
    assert one(compared(pairs=[["a", "b"]], direction="falls"), kind="pair")["verdict"] == "opposite"
    assert one(compared(pairs=[["a", "b"]]), kind="pair")["verdict"] == "higher"
    assert one(compared(pairs=[["b", "a"]]), kind="pair")["verdict"] == "lower"
    assert one(compared(pairs=[["a", "c"]], direction="rises"), kind="pair")["verdict"] == "undecided"


def test_runs_of_one_seed_are_paired_where_that_is_declared():
    rows = compared(pairs=[["a", "c"]], paired=True)
    # differences 0.1, 0.3, 0.2
    found = scipy_stats.ttest_rel(ENTROPY["a"], ENTROPY["c"])
    row = one(rows, kind="pair")
    assert (row["estimate"], row["p"], row["df"]) == pytest.approx((0.2, found.pvalue, 2))


def test_pairing_takes_the_seeds_that_both_have():
    metrics = flat()
    rows = compared(metrics=metrics[metrics["run"] != "c.s1"], pairs=[["a", "c"]], paired=True)
    row = one(rows, kind="pair")
    # seeds 0 and 2: 0.1 and 0.2
    assert row["estimate"] == pytest.approx(0.15)
    assert row["seeds"] == 2
    assert row["reason"] == "1 of 3 runs of c: entropy_nats was not recorded"


def test_a_trend_is_the_slope_over_k_and_its_curvature():
    values = {"a": [0.69, 0.7, 0.71], "b": [0.19, 0.2, 0.21], "c": [0.48, 0.5, 0.52]}
    line = {"along": {"axis": "K", "points": ["b", "c", "a"]}}
    rows = compared(metrics=flat(values), trends=line, direction="rises")
    row = one(rows, kind="linear")
    # K 0.2, 0.4, 0.8 with means 0.2, 0.5, 0.7: least squares over the three means
    assert row["estimate"] == pytest.approx(np.polyfit([0.2, 0.4, 0.8], [0.2, 0.5, 0.7], 1)[0])
    assert row["subject"] == "along"
    assert row["verdict"] == "as claimed"
    curved = one(rows, kind="quadratic")
    assert curved["estimate"] < 0
    # Holm over the two
    assert row["p_adjusted"] == pytest.approx(min(2 * row["p"], max(2 * row["p"], curved["p"])))
    # a claimed sign is that of the slope: the curvature has a plain word
    assert curved["verdict"] == "lower"


def test_the_axis_of_group_sizes_is_its_logarithm():
    planned = runs().assign(group_size=lambda frame: frame["method"].map({"b": 4, "c": 8, "a": 16}))
    rows = compared(planned=planned, trends={"G": {"axis": "group_size", "points": ["b", "c", "a"]}})
    # one step of log2 each: (0.7 - 0.2) / 2
    assert one(rows, kind="linear")["estimate"] == pytest.approx(0.25)


def test_holm_within_the_outcome():
    rows = compared(pairs=[["a", "b"], ["c", "b"], ["a", "c"]])
    pairs = rows[rows["kind"] == "pair"]
    p = sorted(pairs["p"])
    assert sorted(pairs["p_adjusted"])[0] == pytest.approx(3 * p[0])
    # the smallest true difference is that of alpha over three
    alone = one(compared(pairs=[["a", "b"]]), kind="pair")
    assert one(rows, subject="a \N{MINUS SIGN} b")["detectable"] > alone["detectable"]


def test_equivalence_within_the_smallest_effect():
    values = {"a": [0.5, 0.51, 0.52], "b": [0.5, 0.51, 0.52], "c": [0.5, 0.5, 0.5]}
    row = one(compared(metrics=flat(values), pairs=[["a", "b"]], smallest_effect=0.1), kind="pair")
    assert row["estimate"] == 0
    assert row["tost_p_adjusted"] < 0.05
    assert row["verdict"] == "equivalent"
    wide = one(compared(pairs=[["a", "b"]], smallest_effect=2.0, direction="rises"), kind="pair")
    assert wide["verdict"] == "as claimed, but small"


def test_one_seed_has_no_p():
    metrics = flat({method: values[:1] for method, values in ENTROPY.items()})
    row = one(compared(metrics=metrics, planned=runs(seeds=(0,)), pairs=[["a", "b"]]), kind="pair")
    assert row["estimate"] == pytest.approx(0.4)
    assert pd.isna(row["p"])
    assert pd.isna(row["verdict"])
    assert "at least 2, got 1" in row["reason"]


def test_a_constant_outcome_is_undefined_and_no_member_of_the_family():
    values = ENTROPY | {"b": [0.2] * 3, "c": [0.4] * 3}
    rows = compared(metrics=flat(values), pairs=[["b", "c"], ["a", "b"]])
    row = one(rows, subject="b \N{MINUS SIGN} c")
    assert (row["estimate"], row["reason"]) == (pytest.approx(-0.2), CONSTANT)
    assert pd.isna(row["p"])
    assert pd.isna(row["detectable"])
    other = one(rows, subject="a \N{MINUS SIGN} b")
    assert other["p_adjusted"] == other["p"]
    assert one(rows, kind="mean", subject="b")["reason"] == CONSTANT_MEAN


def test_means_have_intervals_and_no_test():
    row = one(compared(show=["a"]), kind="mean")
    # 0.7, SD 0.2 over three seeds: t of 2 df is 4.3026527
    assert row["estimate"] == pytest.approx(0.7)
    assert row["high"] - 0.7 == pytest.approx(4.3026527297 * 0.2 / 3**0.5)
    assert pd.isna(row["p"])


def test_stopped_runs_are_flagged():
    metrics = flat()
    metrics = metrics[~((metrics["run"] == "a.s1") & (metrics["step"] > 4))]
    stops = pd.DataFrame([{"run": "a.s1", "step": 4, "reason": "diverged"}])
    row = one(compared(metrics=metrics, stops=stops, pairs=[["a", "b"]]), kind="pair")
    assert row["flags"] == "stopped_early=1"
    assert row["seeds"] == 3
    assert row["estimate"] == pytest.approx(0.5)


def test_an_undeclared_look_loses_its_verdicts():
    look = Look(2, 3, None, (2,), "r", "r", "look 2, and one was declared")
    row = one(compared(look=look, pairs=[["a", "b"]]), kind="pair")
    assert row["p"] > 0
    assert pd.isna(row["p_adjusted"])
    assert pd.isna(row["verdict"])


def test_a_setting_without_all_method_points_has_no_rows():
    assert len(compared(planned=runs(["a", "b"]), pairs=[["a", "c"]])) == 0


def shown(rows, compare):
    nothing = pd.DataFrame()
    results = Results(runs(), nothing, nothing, nothing, nothing, nothing, outcomes=rows)
    return outcome_tables(results, Facts("s", compare, "h"))


def test_the_table_says_what_was_claimed_and_shows_each_row():
    outcome = Outcome(measure="entropy_nats", pairs=(("b", "a"),), direction="rises", claim="QAE *calms*")
    compare = Comparison("a", "avg@n", ("b",), (), 0.02, 0.05, outcomes={"end": outcome})
    (view,) = shown(outcome_rows(runs(), flat(), NO_STOPS, compare, None), compare)
    text = layout.markdown([view])
    assert "end: mean of entropy_nats over 90 to 100 % of the steps" in text
    assert "Claim: QAE \\*calms\\*" in text
    assert "| pair | b \N{MINUS SIGN} a | \N{MINUS SIGN}0.5 [\N{MINUS SIGN}0.9" in text
    assert "opposite" in text
    assert "Compare section of the study, hash h." in text
    assert layout.csv([view]).count("\n") == 4


def test_a_study_without_outcomes_says_so():
    compare = Comparison("a", "avg@n", ("b",), (), 0.02, 0.05)
    (view,) = shown(outcome_rows(runs(), flat(), NO_STOPS, compare, None), compare)
    assert view.notes == (
        "The study declares no outcome of runs, or none whose method points were trained in one setting.",
    )


def test_every_study_has_the_file(rendered):
    assert len(load(rendered, runs()).outcomes) == 0
    assert (rendered / "tables" / "outcomes.md").exists()
