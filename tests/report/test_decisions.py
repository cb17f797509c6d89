from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from counted import cell, frame, one, planned

from seedwise import tables
from seedwise.report.analysis import contrasts, final_scores, means
from seedwise.report.decisions import adjusted, decide, look_of, look_rows, withhold
from seedwise.report.facts import Comparison, Family, Look
from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.sequential import repeated_interval, spend

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "statistics.json").read_text())
COMPARE = Comparison("ref", "avg@n", ("a", "b"), (), 0.02, 0.05)
PLANNED = (3, 5, 7, 10)
FIRST = Look(1, 3, PLANNED, (3,), "r", "r")
LAST = Look(4, 10, PLANNED, PLANNED, "r", "r")
UNDECLARED = Look(2, 4, (3, 5), (3, 4), "r", "r", "4 seeds per method, and the declared looks are at 3, 5")


def counts_of(*methods):
    """Three seeds of ref and of each method, which is better by the given number of answers of 16."""
    ref = [[4, 9, 2, 12, 7], [5, 8, 3, 11, 7], [4, 8, 1, 12, 8]]
    cells = [cell("ref", ref, n=16)]
    return frame(*cells, *(cell(m, [[c + gain for c in seed] for seed in ref], n=16) for m, gain in methods))


def contrast_of(gain):
    ref = {"x": [[0.30, 0.55, 0.10], [0.35, 0.50, 0.20], [0.25, 0.50, 0.05]]}
    other = {"x": [[y + gain + 0.01 * i for i, y in enumerate(seed)] for seed in ref["x"]]}
    return tw_contrast({"a": other, "ref": ref}, {"a": 1.0, "ref": -1.0})


def test_the_last_of_the_golden_looks_has_its_level():
    golden = next(case for key, case in GOLDEN.items() if key.startswith("G17"))
    found = contrast_of(0.2)
    decided = decide({"a": found}, COMPARE, LAST)["a"]
    # one comparison: alpha/1, shares .3 .5 .7 1
    assert decided["level"] == pytest.approx(golden["obf_nominal_p"][-1], abs=2e-6)
    assert decided["p_adjusted"] == found.p
    pocock = decide({"a": found}, replace(COMPARE, spending="pocock"), LAST)["a"]
    assert pocock["level"] == pytest.approx(golden["pocock_nominal_p"][-1], abs=2e-6)


def test_each_of_m_comparisons_spends_its_share_and_has_the_repeated_interval():
    found = {"a": contrast_of(0.2), "b": contrast_of(0.1)}
    look = spend([0.3], 0.05 / 2)[0]
    decided = decide(found, COMPARE, FIRST)
    for name, contrast in found.items():
        assert decided[name]["p_adjusted"] == pytest.approx(min(1, 2 * contrast.p))
        assert decided[name]["level"] == pytest.approx(2 * look.nominal_p)
        interval = repeated_interval(contrast, look)
        assert (decided[name]["family_low"], decided[name]["family_high"]) == pytest.approx((interval.lo, interval.hi))


def test_what_one_look_calls_superior_an_early_look_does_not():
    found = {"a": contrast_of(0.1)}
    assert decide(found, COMPARE, None)["a"]["verdict"] == "superior"
    # the first look's level is 0.000085
    assert 0.000085 < found["a"].p < 0.05
    assert decide(found, COMPARE, FIRST)["a"]["verdict"] == "inconclusive"


@pytest.mark.parametrize("kind", ["obf", "pocock"])
@pytest.mark.parametrize("information", [(0.3, 0.5, 0.7, 1.0), (0.44, 0.65, 0.82, 1.0), (0.8, 0.9, 0.95, 1.0)])
def test_levels_by_seeds_never_spend_more_than_alpha(kind, information):
    # for new problems the looks share more information than their seeds say: reference, base scenario at P = 130
    bounds = [look.z for look in spend(LAST.shares, 0.05, kind)]
    steps = np.sqrt(np.diff([0.0, *information]))
    z = np.cumsum(np.random.default_rng(1).standard_normal((200_000, 4)) * steps, axis=1) / np.sqrt(information)
    # Monte Carlo error 0.0005
    assert (np.abs(z) >= bounds).any(axis=1).mean() <= 0.0515


def test_one_declared_look_is_holm():
    found = {"a": contrast_of(0.2), "b": contrast_of(0.1)}
    once = Look(1, 3, None, (3,), "r", "r")
    assert decide(found, COMPARE, once) == decide(found, COMPARE, None)
    assert decide(found, COMPARE, None)["a"]["level"] == 0.05


def test_adjusted_without_verdicts_follows_the_same_rule():
    p = [0.01, None, 0.03]
    assert adjusted(p, COMPARE, None) == ([0.02, None, 0.03], 0.05)
    values, level = adjusted(p, COMPARE, FIRST)
    assert values == [0.02, None, 0.06]
    assert level == pytest.approx(2 * spend([0.3], 0.025)[0].nominal_p)
    assert adjusted(p, COMPARE, UNDECLARED) == ([None] * 3, None)


def test_an_undeclared_look_gives_estimates_without_claims():
    counts = counts_of(("a", 3), ("b", 0))
    declared = contrasts(planned(counts), counts, COMPARE)
    rows = contrasts(planned(counts), counts, COMPARE, UNDECLARED)
    assert declared["verdict"].notna().sum() == 4  # two methods, primary and pass@k
    assert rows["verdict"].isna().all()
    assert rows["p_adjusted"].isna().all()
    assert set(rows["withheld"].dropna()) == {"look 2 was not declared"}
    assert rows["difference"].tolist() == declared["difference"].tolist()
    assert rows["low"].tolist() == pytest.approx(declared["low"].tolist(), nan_ok=True)


def test_a_failed_audit_withholds_the_verdicts_of_its_place_only():
    counts = frame(
        *(
            cell(m, [[4, c, 1], [3, c, 2], [4, c, 0]], setting=s)
            for s in ("G4", "G8")
            for m, c in (("ref", 0), ("a", 4))
        )
    )
    rows = contrasts(planned(counts), counts, COMPARE)
    found = withhold(rows, {("m", "G4"): "identical methods would be told apart too often"})
    assert found[found["setting"] == "G4"]["verdict"].isna().all()
    assert found[found["setting"] == "G8"]["verdict"].notna().any()
    one_row = one(found, setting="G4", metric="avg@4", benchmark=None, estimand="new_problems")
    assert one_row["withheld"] == "identical methods would be told apart too often"
    assert one_row["difference"] == 1 / 3
    assert rows["withheld"].isna().all()


@pytest.mark.parametrize("look", [None, FIRST, UNDECLARED, Look(1, 3, None, (3,), "now", "then")])
def test_a_look_survives_its_table(look, tmp_path):
    tables.write(tables.LOOK, look_rows(look), tmp_path / "look.parquet")
    assert look_of(tables.read(tables.LOOK, tmp_path / "look.parquet")) == look


def test_declared_secondary_families_replace_the_implied_one():
    declared = {"hard": Family("pass@2", ("a",)), "tuned": Family("avg@n", ("c",))}
    counts = counts_of(("a", 2), ("b", 1), ("c", 3))
    rows = contrasts(planned(counts), counts, replace(COMPARE, secondary=declared))
    members = rows[rows["family"].notna()].groupby("family")["method"].apply(list).to_dict()
    assert members == {"primary": ["a", "b"], "secondary: hard": ["a"], "secondary: tuned": ["c"]}
    alone = one(rows, family="secondary: tuned")
    # a family of one: no adjustment
    assert alone["p_adjusted"] == alone["p"]


def test_the_mean_of_the_last_three_checkpoints():
    steps = {10: [[0, 0]], 20: [[1, 4]], 30: [[2, 4]], 40: [[3, 4]]}
    counts = frame(
        *(cell("a", [seeds[0], seeds[0]], step=step) for step, seeds in steps.items()),
        cell("ref", [[1, 1], [2, 2]], step=40),
    )
    compare = replace(COMPARE, checkpoint="mean_of_last_3")
    row = one(
        contrasts(planned(counts), counts, compare), method="a", metric="avg@4", benchmark=None, estimand="new_problems"
    )
    # a: problem 1 (1 + 2 + 3)/3/4 = 1/2, problem 2 always 1: 3/4; ref has one checkpoint: 3/8
    assert row["difference"] == pytest.approx(3 / 4 - 3 / 8)
    shown = means(planned(counts), counts, final_scores(counts, compare))
    assert one(shown, method="a", metric="avg@4", benchmark=None, step=40)["mean"] == pytest.approx(3 / 4)
    assert one(shown, method="a", metric="avg@4", benchmark=None, step=10)["mean"] == 0


def test_runs_that_stopped_are_counted_in_the_flags():
    counts = counts_of(("a", 1), ("b", 0))
    rows = contrasts(planned(counts), counts, COMPARE, stopped={"a.G8.s0", "a.G8.s2", "ref.G8.s1"})
    flags = rows[(rows["metric"] == "avg@16") & rows["benchmark"].isna() & (rows["estimand"] == "new_problems")]
    assert [text.split(",")[-1] for text in flags["flags"]] == ["stopped_early=3", "stopped_early=1"]
