from __future__ import annotations

import pandas as pd
import pytest
from counted import cell, frame, one, planned

from seedwise import tables
from seedwise.report.analysis import contrasts, final_scores
from seedwise.report.exploring import benchmark_rows, grid_rows
from seedwise.report.facts import Comparison, Look
from seedwise.report.robustness import places_of
from seedwise.stats.families import bh, holm

COMPARE = Comparison("ref", "avg@n", ("a", "b"), (), 0.02, 0.05)
UNDECLARED = Look(2, 4, (3, 5), (3, 4), "r", "r", "not declared")
REF = [[4, 9, 2, 12, 7], [5, 8, 3, 11, 7], [4, 8, 1, 12, 8]]


def made(gains, look=None):
    """COUNTS of ref and of methods better by some answers of 16 on benchmark x, and by none on y."""
    arms = {"ref": 0, **gains}
    counts = frame(
        *(cell(m, [[c + gain for c in seed] for seed in REF], n=16) for m, gain in arms.items()),
        *(cell(m, [seed[::-1] for seed in REF], bench="y", n=16) for m in arms),
    )
    runs = planned(counts)
    places = places_of(runs, counts, COMPARE, final_scores(counts, COMPARE))
    return places, contrasts(runs, counts, COMPARE, look)


def test_the_grid_adjusts_over_every_method_and_names_the_best(tmp_path):
    places, rows = made({"a": 3, "b": 1, "other": 0})
    found = grid_rows(places, rows, COMPARE, None)
    tables.write(tables.GRID, found, tmp_path / "grid.parquet")
    assert found["method"].tolist() == ["a", "b", "other"]
    assert found["p_fdr"].tolist() == pytest.approx(list(bh(found["p"].tolist())))
    best = one(found, method="a")
    assert best["among_best"]
    assert pd.isna(best["p_best"])  # it is the best: there is nothing to compare it with
    assert not one(found, method="other")["among_best"]
    assert one(found, method="other")["p_best"] < 0.05


def test_benchmarks_are_adjusted_within_a_method(tmp_path):
    places, rows = made({"a": 3, "b": 0})
    found = benchmark_rows(places, rows, COMPARE, None)
    tables.write(tables.BENCHMARKS, found, tmp_path / "benchmarks.parquet")
    own = found[found["method"] == "a"]
    assert own["benchmark"].tolist() == ["x", "y"]
    assert own["p_adjusted"].tolist() == pytest.approx(list(holm(own["p"].tolist())))
    assert own["difference"].tolist() == pytest.approx([3 / 16, 0])
    assert own["claimed"].all()
    assert not found[found["method"] == "b"]["claimed"].any()


def test_an_undeclared_look_claims_nothing_here_either():
    places, rows = made({"a": 3, "b": 0}, UNDECLARED)
    grid, parts = (rule(places, rows, COMPARE, UNDECLARED) for rule in (grid_rows, benchmark_rows))
    assert grid[["p_fdr", "p_best", "among_best"]].isna().all(axis=None)
    assert parts["p_adjusted"].isna().all()
    assert not parts["claimed"].any()
    assert grid["difference"].notna().all()
