from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import synthetic
from counted import cell, frame, one, planned

from seedwise import tables
from seedwise.report.analysis import contrasts, final_scores
from seedwise.report.audits import AS_ESTIMATED, UNSTABLE, audits
from seedwise.report.difficulty import INTERACTION, bands_of
from seedwise.report.facts import Comparison, Look
from seedwise.report.robustness import effect_sizes, multiverse, places_of, rank_tests

COMPARE = Comparison("ref", "avg@n", ("a", "b"), ("K",), 0.02, 0.05)
UNDECLARED = Look(2, 4, (3, 5), (3, 4), "r", "r", "not declared")
REF = [[1, 0, 2, 3, 2, 4], [2, 0, 1, 4, 2, 3], [1, 1, 2, 3, 1, 4]]
BETTER = [[c + (i > 1) for i, c in enumerate([min(c, 3) for c in seed])] for seed in REF]


def places(counts, compare=COMPARE, axes=None):
    return places_of(planned(counts, axes=axes), counts, compare, final_scores(counts, compare))


def test_effect_sizes_by_hand():
    counts = frame(cell("ref", [[2, 0], [0, 4]]), cell("a", [[4, 4], [2, 2]]))
    found = effect_sizes(places(counts))
    row = one(found, method="a")
    # seeds: a 1, 1/2; ref 1/4, 1/2.  Means 3/4 and 3/8: twice the reference
    assert row["relative"] == pytest.approx(1.0)
    # pairs: 1 beats both, 1/2 beats 1/4 and ties 1/2: 3.5 of 4
    assert row["superiority"] == 3.5 / 4
    assert (row["worst"], row["worst_reference"], row["seeds"]) == (0.5, 0.25, 2)


def test_a_method_without_scores_has_a_reason_and_no_numbers(tmp_path):
    counts = frame(cell("ref", REF))
    runs = planned(counts, extra=[["a.s0", "m", "a", "G8", 0]])
    found = effect_sizes(places_of(runs, counts, COMPARE, final_scores(counts, COMPARE)))
    tables.write(tables.EFFECTS, found, tmp_path / "effects.parquet")
    row = one(found, method="a")
    assert row["reason"] == "a was not evaluated on x"
    assert pd.isna(row["superiority"])


def test_three_seeds_cannot_earn_a_star_from_a_rank_test():
    counts = frame(cell("ref", REF), cell("a", BETTER), cell("b", REF))
    row = one(rank_tests(places(counts), planned(counts), replace(COMPARE, trends=())), subject="a")
    # 2 of the C(6, 3) = 20 arrangements are as extreme, and the level is 0.05 / 2
    assert row["smallest_p"] == pytest.approx(2 / 20)
    assert row["alpha"] == 0.025
    assert "cannot reach" in row["reason"]


def test_the_ordered_test_is_the_golden_one():
    golden = next(case for key, case in json.loads(GOLDEN.read_text()).items() if key.startswith("G9"))
    K = {f"q.K0.{k}": {"K": k / 10} for k in (2, 4, 6, 8)}
    # each seed's score as c of 1,000 on one problem
    cells = [cell(m, [[round(1000 * y)] for y in ys], n=1000) for m, ys in zip(K, golden["data"], strict=True)]
    counts = frame(*cells, cell("ref", [[300], [310]], n=1000))
    runs = planned(counts, axes=K)
    row = one(rank_tests(places(counts, axes=K), runs, COMPARE), test="Jonckheere-Terpstra")
    assert row["statistic"] == golden["J"]
    assert row["p"] == pytest.approx(golden["p_two_sided"], abs=1e-10)
    assert row["seeds"] == "[3, 3, 3, 3]"


GOLDEN = Path(__file__).parents[1] / "golden" / "statistics.json"


def test_the_multiverse_asks_the_same_question_in_ten_ways(tmp_path):
    counts = frame(*(cell(m, c, step=s) for m, c in (("ref", REF), ("a", BETTER), ("b", REF)) for s in (10, 20)))
    rows = multiverse(places(counts), counts, COMPARE, None, {})
    tables.write(tables.MULTIVERSE, rows, tmp_path / "multiverse.parquet")
    ways = rows[rows["method"] == "a"][["estimand", "analysis", "checkpoint"]].apply(tuple, axis=1)
    assert len(set(ways)) == len(ways) == 10
    declared = one(rows, method="a", estimand="new_problems", analysis="welch", checkpoint="last")
    headline = contrasts(planned(counts), counts, COMPARE)
    claim = one(headline, method="a", metric="avg@4", benchmark=None, estimand="new_problems")
    assert declared[["difference", "p", "p_adjusted", "verdict"]].tolist() == (
        claim[["difference", "p", "p_adjusted", "verdict"]].tolist()
    )
    assert "anti-conservative" in one(rows, method="a", analysis="mixed model", checkpoint="last")["flags"]
    pooled = one(rows, method="a", analysis="pooled", estimand="fixed_problems", checkpoint="last")
    assert "assumes equal seed variance" in pooled["flags"]


def test_one_checkpoint_has_no_second_rule():
    counts = frame(cell("ref", REF), cell("a", BETTER))
    assert set(multiverse(places(counts), counts, COMPARE, None, {})["checkpoint"]) == {"last"}


def test_without_stopped_runs_is_another_labelled_row():
    broken = [[0] * 6, *BETTER[1:]]
    counts = frame(cell("ref", REF), cell("a", broken), cell("b", REF))
    stops = {"m": {("G8", "a"): [0]}}
    rows = multiverse(places(counts), counts, COMPARE, None, stops)
    kept = one(rows, method="a", analysis="welch", estimand="new_problems")
    dropped = one(rows, method="a", analysis="without stopped runs")
    ref = np.array(REF).mean() / 4
    assert kept["difference"] == pytest.approx(np.array(broken).mean() / 4 - ref)
    assert dropped["difference"] == pytest.approx(np.array(BETTER[1:]).mean() / 4 - ref)
    assert "without stopped runs" not in set(multiverse(places(counts), counts, COMPARE, None, {})["analysis"])


def test_an_undeclared_look_has_no_verdict_in_any_analysis():
    counts = frame(cell("ref", REF), cell("a", BETTER))
    rows = multiverse(places(counts), counts, COMPARE, UNDECLARED, {})
    assert rows["verdict"].isna().all()
    assert rows["p_adjusted"].isna().all()
    assert rows["difference"].notna().all()


def banded():
    """Twelve problems: the base solves none of the first six; a method gains there only."""
    base = [[0] * 6 + [3, 4, 3, 4, 3, 4]]
    ref = [[0, 1, 0, 0, 1, 0, 3, 4, 3, 4, 4, 3], [1, 0, 0, 1, 0, 0, 4, 3, 4, 4, 3, 3]]
    helped = [[c + 2 * (i < 6) for i, c in enumerate(seed)] for seed in ref]
    return frame(cell("ref", ref), cell("a", helped), cell("base", base, setting="base", step=0))


def test_gain_on_problems_the_base_never_solves():
    counts = banded()
    rows = bands_of(places(counts), COMPARE, None)
    never = one(rows, band="never solved")
    assert never["problems"] == 6
    assert never["difference"] == pytest.approx(0.5)
    assert one(rows, band="above 50 %")["difference"] == 0
    assert "at least 5 problems, got 0" in one(rows, band="to 50 %")["reason"]
    # highest band minus lowest
    assert one(rows, band=INTERACTION)["difference"] == pytest.approx(-0.5)


def test_bands_need_the_untrained_model_and_may_be_left_out():
    counts = banded()
    without = counts[counts["method"] != "base"]
    assert set(bands_of(places(without), COMPARE, None)["reason"]) == {"base was not evaluated on x"}
    assert len(bands_of(places(counts), replace(COMPARE, bands=()), None)) == 0


def audited(simulations=150):
    planned_runs = synthetic.runs(methods=("clip_higher", "qae.K0.2"), block=())
    counts = synthetic.counts(planned_runs, np.random.default_rng(4))
    compare = replace(synthetic.COMPARE, family=("qae.K0.2",), trends=())
    found = places_of(planned_runs, counts, compare, final_scores(counts, compare))
    return audits(found, compare, None, simulations)


def test_the_audit_is_the_same_for_the_same_scores(tmp_path):
    first = audited()
    tables.write(tables.AUDIT, first, tmp_path / "audit.parquet")
    pd.testing.assert_frame_equal(first, audited())
    assert first["design"].tolist() == [AS_ESTIMATED, UNSTABLE]
    calm = one(first, design=AS_ESTIMATED)
    assert calm["rate"] == calm["false_families"] / 150
    assert calm["low"] < calm["rate"] < calm["high"]
    assert 0.85 < calm["coverage"] <= 1
    assert calm["mde"] > 0


def test_a_member_that_was_not_evaluated_everywhere_is_left_out_of_the_audit():
    cells = {"ref": REF, "a": BETTER, "b": REF}
    counts = frame(
        *(cell(m, c) for m, c in cells.items()), *(cell(m, c, bench="y") for m, c in cells.items() if m != "b")
    )
    found = audits(places(counts), COMPARE, None, 20)
    assert found["reason"].isna().all()
    assert found["simulations"].tolist() == [20, 20]


def test_no_simulations_and_one_seed_have_a_reason():
    assert set(audited(0)["reason"]) == {"not simulated"}
    counts = frame(cell("ref", REF[:1]), cell("a", BETTER[:1]))
    (reason,) = set(audits(places(counts), COMPARE, None, 10)["reason"])
    assert "an audit needs the reference 'ref' and another arm with 2 seeds" in reason
