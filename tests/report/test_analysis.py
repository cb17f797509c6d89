from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from counted import cell, frame, one, planned

from seedwise import tables
from seedwise.report.analysis import contrasts, means
from seedwise.report.facts import Comparison, ReportError
from seedwise.report.trends import grids, trend_lines, trends

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "statistics.json").read_text())
COMPARE = Comparison("ref", "avg@n", ("a", "b"), ("K",), 0.02, 0.05)


A = [[4, 2, 0], [3, 1, 1]]
B = [[2, 2, 0], [1, 2, 0]]


def test_contrast_is_the_golden_one():
    golden = next(case for key, case in GOLDEN.items() if key.startswith("G4"))
    a, b = golden["counts_A"], golden["counts_B"]
    counts = frame(cell("a", a, n=16), cell("ref", b, n=16))
    row = one(contrasts(planned(counts), counts, COMPARE), metric="avg@16", benchmark="x", estimand="new_problems")
    for name, key in {
        "difference": "d",
        "V_seed": "V_seed",
        "V_prob": "V_prob",
        "V_res": "V_res",
        "df": "df",
        "p": "p",
    }.items():
        assert row[name] == pytest.approx(golden[key], abs=1e-9)
    fixed = one(contrasts(planned(counts), counts, COMPARE), metric="avg@16", benchmark="x", estimand="fixed_problems")
    welch = next(case for key, case in GOLDEN.items() if key.startswith("G3"))
    assert fixed["p"] == pytest.approx(welch["p"], abs=1e-9)


def test_macro_gives_benchmarks_equal_weight():
    counts = frame(cell("a", A), cell("a", [[4], [2]], bench="y"))
    rows = means(planned(counts), counts)
    # x: (6 + 5) / (2 * 3 * 4) = 11/24; y: (4 + 2) / 8 = 3/4; macro: their mean, 29/48
    assert one(rows, metric="avg@4", benchmark="x")["mean"] == pytest.approx(11 / 24)
    assert one(rows, metric="avg@4", benchmark=None)["mean"] == pytest.approx(29 / 48)
    # seeds: (1/2 + 1)/2 = 3/4 and (5/12 + 1/2)/2 = 11/24, SD = (7/24)/sqrt 2
    assert one(rows, metric="avg@4", benchmark=None)["sd_seed"] == pytest.approx(7 / 24 / math.sqrt(2))


def test_pass_at_k_by_hand():
    counts = frame(cell("a", [[1, 0, 4], [1, 0, 4]]))
    # n = 4, c = 1: 1 - C(3,2)/C(4,2) = 1/2; c = 0: 0; c = 4: 1
    assert one(means(planned(counts), counts), metric="pass@2", benchmark=None)["mean"] == pytest.approx(1.5 / 3)


def test_benchmarks_may_differ_in_samples():
    counts = frame(cell("a", A), cell("a", [[8, 1], [2, 3]], bench="y", n=8))
    rows = means(planned(counts), counts)
    assert set(rows[rows["benchmark"] == "y"]["metric"]) == {"avg@n", "pass@1", "pass@2", "pass@4", "pass@8"}
    assert set(rows[rows["benchmark"].isna()]["metric"]) == {"avg@n", "pass@1", "pass@2", "pass@4"}
    assert one(rows, metric="avg@n", benchmark="y")["samples"] == 8


def test_base_stands_in_every_setting_without_seed_variance():
    ref = [cell("ref", B, setting=setting) for setting in ("G4", "G8")]
    counts = frame(*ref, cell("base", [[1, 1, 0]], setting="base", step=0))
    family = Comparison("ref", "avg@n", ("base",), (), 0.02, 0.05)
    rows = contrasts(planned(frame(*ref)), counts, family)
    for setting in ("G4", "G8"):
        row = one(rows, metric="avg@4", benchmark=None, setting=setting, estimand="new_problems")
        # the reference's seed means are 4/12 and 3/12: variance (1/12)^2/2, over S = 2
        assert row["V_seed"] == pytest.approx((1 / 12) ** 2 / 2 / 2)
        assert row["p"] == row["p_adjusted"]
    base = one(means(planned(counts), counts), method="base", setting="G8", metric="avg@4", benchmark=None)
    assert base["step"] == 0
    assert base["low"] < base["mean"] < base["high"]
    assert pd.isna(base["sd_seed"])


def test_holm_inside_the_declared_family_only():
    counts = frame(
        *(cell(m, [[4, c, 1], [3, c, 2], [4, c, 0]]) for m, c in {"ref": 0, "a": 4, "b": 2, "other": 3}.items())
    )
    rows = contrasts(planned(counts), counts, COMPARE)
    primary = rows[rows["family"] == "primary"]
    low, high = sorted(primary["p"])
    # two comparisons: the smaller p doubles, the larger is at least that
    assert sorted(primary["p_adjusted"]) == pytest.approx([min(2 * low, 1), max(min(2 * low, 1), high)])
    others = rows[rows["method"] == "other"]
    assert others["family"].isna().all()
    assert others["verdict"].isna().all()
    assert others["p"].notna().any()
    assert set(rows["family"].dropna()) == {"primary", "secondary: pass@2"}


def test_one_seed_gives_no_p_and_leaves_a_smaller_family():
    counts = frame(cell("ref", [[1, 0, 2], [2, 0, 1]]), cell("a", [[4, 2, 3], [3, 4, 2]]), cell("b", [[1, 1, 1]]))
    rows = contrasts(planned(counts), counts, COMPARE)
    primary = rows[rows["family"] == "primary"].set_index("method")
    assert pd.isna(primary.loc["b", "p"])
    assert pd.isna(primary.loc["b", "verdict"])
    assert "at least 2, got 1" in primary.loc["b", "reason"]
    assert primary.loc["a", "p_adjusted"] == primary.loc["a", "p"]


def test_planned_method_without_scores_is_named():
    counts = frame(cell("ref", B), cell("a", A))
    rows = contrasts(planned(counts, extra=[["b.s0", "m", "b", "G8", 0]]), counts, COMPARE)
    row = one(rows[rows["family"] == "primary"], method="b")
    assert row["seeds"] == 0
    assert row["reason"] == "b was not evaluated on x"


def test_setting_without_reference_has_no_contrasts():
    counts = frame(cell("ref", B), cell("a", A), cell("a", A, setting="G4"))
    assert set(contrasts(planned(counts), counts, COMPARE)["setting"]) == {"G8"}


def test_identical_scores_are_no_difference():
    counts = frame(cell("ref", B), cell("a", B))
    row = one(contrasts(planned(counts), counts, COMPARE), metric="avg@4", benchmark=None, estimand="fixed_problems")
    assert row["difference"] == 0
    assert row["p"] == 1


def test_run_that_stopped_early_counts_at_its_stop():
    late = cell("a", A[:1], step=20) + cell("a", A[:1], step=60)
    early = cell("a", [[0, 0, 0]], step=20, first_seed=1)
    counts = frame(late, early, cell("ref", B))
    row = one(contrasts(planned(counts), counts, COMPARE), metric="avg@4", benchmark=None, estimand="new_problems")
    # seeds of a: 6/12 and 0; of ref: 4/12 and 3/12
    assert row["difference"] == pytest.approx(0.25 - 7 / 24)
    assert row["flags"].split(",")[-1] == "stopped_early"
    assert one(means(planned(counts), counts), method="a", metric="avg@4", benchmark=None, step=60)["seeds"] == 2


def test_missing_answers_drop_the_problem_and_a_missing_benchmark_the_seed():
    counts = frame(
        cell("ref", B), cell("ref", [[2, 2], [1, 2]], bench="y"), cell("a", [[4, 2, None], [3, 1, 1], [1, 1, 1]]),
        cell("a", [[4, 4], [3, 3]], bench="y"),
    )  # fmt: skip
    rows = contrasts(planned(counts), counts, COMPARE)
    row = one(rows, metric="avg@4", benchmark=None, estimand="new_problems")
    assert (row["seeds"], row["problems"]) == (2, 4)
    assert "dropped_problems=1" in row["flags"]
    assert one(rows, metric="avg@4", benchmark="x", estimand="new_problems")["seeds"] == 3


@pytest.mark.parametrize(
    ("n", "c", "message"), [(4, 5, "5 correct of 4"), (4, -1, "-1 correct of 4"), (0, 0, "0 correct of 0")]
)
def test_impossible_counts_are_refused(n, c, message):
    counts = frame(cell("ref", [[c]], n=n))
    with pytest.raises(ReportError, match=message):
        means(planned(counts), counts)


def test_seed_in_two_runs_is_refused():
    counts = frame(cell("a", A))
    twice = pd.concat([counts, counts.assign(run="copy")])
    with pytest.raises(ReportError, match="seed 0 of a in G8 occurs in two runs"):
        means(planned(counts), twice)


def test_order_of_rows_changes_nothing():
    counts = frame(cell("ref", B), cell("a", A), cell("b", [[1, 2, 3], [3, 2, 1]]))
    shuffled = counts.sample(frac=1, random_state=np.random.default_rng(5)).reset_index(drop=True)
    pd.testing.assert_frame_equal(
        contrasts(planned(counts), counts, COMPARE), contrasts(planned(counts), shuffled, COMPARE), rtol=1e-12
    )


def test_nothing_evaluated_is_said_not_raised():
    counts = frame(cell("ref", B)).iloc[:0]
    runs = planned(frame(cell("ref", B), cell("a", A)))
    rows = contrasts(runs, counts, COMPARE)
    assert set(rows["reason"]) == {"nothing was evaluated"}
    assert rows["p"].isna().all()


K_AXES = {f"q.K0.{k}": {"K": k / 10, "group_size": 8} for k in (2, 4, 6, 8)}


def test_trend_along_K_is_the_golden_slope(tmp_path):
    golden = next(case for key, case in GOLDEN.items() if key.startswith("G8 "))
    counts = frame(*(cell(m, c, n=16) for m, c in zip(K_AXES, golden["cells"], strict=True)))
    rows = trends(planned(counts, axes=K_AXES), counts, COMPARE)
    tables.write(tables.TRENDS, rows, tmp_path / "trends.parquet")
    linear = one(rows, degree=1)
    # the golden weights (-1.5 .. 1.5) sum to a slope over 5 steps of 0.2 squared: w/5/0.2 = w
    assert linear["difference"] == pytest.approx(golden["d"], abs=1e-9)
    assert linear["p"] == pytest.approx(golden["p"], abs=1e-9)
    assert (linear["method"], linear["setting"], linear["metric"]) == ("q", "G8", "avg@16")
    p = rows.set_index("degree")["p"]
    assert linear["p_adjusted"] == pytest.approx(min(1, 2 * p.min()) if p[1] == p.min() else max(p[1], 2 * p[2]))


def test_two_points_have_no_quadratic():
    counts = frame(cell("q.K0.2", A), cell("q.K0.4", B))
    assert trends(planned(counts, axes=K_AXES), counts, COMPARE)["degree"].tolist() == [1]


def test_natural_axes_and_names_of_lines():
    axes = {
        "e.log2": {"kappa": math.log(2)}, "e.log8": {"kappa": math.log(8)},
        "qe.K0.2.log2": {"K": 0.2, "kappa": math.log(2)}, "qe.K0.4.log2": {"K": 0.4, "kappa": math.log(2)},
        "qe.K0.2.log4": {"K": 0.2, "kappa": math.log(4)}, "qe.K0.4.log4": {"K": 0.4, "kappa": math.log(4)},
    }  # fmt: skip
    counts = frame(*(cell(m, A, setting=s) for m in axes for s in ("G4", "G8")), cell("base", A[:1], setting="base"))
    runs = planned(counts[counts["method"] != "base"], axes=axes)
    kappa = {(line.setting, line.method): line.xs for line in trend_lines(runs, "kappa")}
    assert kappa["G8", "e"] == pytest.approx((1, 3))
    assert {method for _, method in kappa} == {"e", "qe.K0.2.log*", "qe.K0.4.log*"}
    assert {line.method for line in trend_lines(runs, "K")} == {"qe.K0.*.log2", "qe.K0.*.log4"}
    sizes = {line.method: (line.setting, line.xs) for line in trend_lines(runs, "group_size")}
    assert sizes["e.log2"] == ("G4+G8", (2.0, 3.0))


GRID = {f"q.K0.{k}": {"K": k / 10} for k in (2, 4, 6)}


def crossed(holes=()):
    """K = .2, .4, .6 at G = 4 and 8; raising K by .2 gains one answer of four at G8 and nothing at G4."""
    cells = [
        cell(m, [[1 + gain * i, 0], [1 + gain * i, 1]], setting=f"G{G}")
        for G, gain in ((4, 0), (8, 1))
        for i, m in enumerate(GRID)
        if (m, G) not in holes
    ]
    counts = frame(*cells, cell("ref", B))
    return planned(counts, axes=GRID), counts


def test_interaction_is_the_difference_of_differences_between_the_corners(tmp_path):
    runs, counts = crossed()
    rows = trends(runs, counts, replace(COMPARE, interactions=(("K", "group_size"),)))
    tables.write(tables.TRENDS, rows, tmp_path / "trends.parquet")
    row = one(rows, degree=0)
    # problem 1 of 2: from K = .2 to .6 two of four answers more at G8, none at G4
    assert row["difference"] == pytest.approx(2 / 4 / 2)
    assert (row["axis"], row["method"], row["setting"]) == ("K x group_size", "q", "G4+G8")
    assert row["low"] < row["difference"] < row["high"]
    assert row["p_adjusted"] == row["p"]


def test_a_grid_with_a_hole_leaves_the_level_out():
    runs, _ = crossed(holes={("q.K0.4", 4)})
    (grid,) = grids(runs, ("K", "group_size"))
    assert sorted(grid.cells) == [(0.2, 2.0), (0.2, 3.0), (0.6, 2.0), (0.6, 3.0)]
    assert grids(*crossed(holes={("q.K0.4", 4), ("q.K0.6", 4)})[:1], ("K", "group_size")) == []
