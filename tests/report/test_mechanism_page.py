"""The page of the study of mechanisms: its sittings, its tables, and that the study file says what the page says."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import typer

from benchmarks import mechanism
from seedwise import layout, tables
from seedwise.layout import Layout

REPOSITORY = Path(__file__).parents[2]
STUDY = REPOSITORY / "config" / "mechanism.yaml"


@pytest.fixture(scope="module")
def grid():
    return layout.read(STUDY).grid


def line(event, minute):
    return json.dumps({"event": event, "time": f"2026-11-30T10:{minute:02d}:00+00:00"}) + "\n"


def test_the_time_of_a_killed_sitting_is_not_known(tmp_path):
    record = tmp_path / "sittings.jsonl"
    record.write_text(line("begun", 0) + line("ended", 12) + line("begun", 20) + line("begun", 30) + line("ended", 48))
    # 12 and 18 minutes; the one that began at 20 has no end
    assert mechanism.sittings(record) == (0.5, 2, 1)


def test_the_page_says_that_a_sitting_was_killed(analysed):
    with (analysed.folder / "sittings.jsonl").open("a") as file:
        file.write(line("begun", 40))
    text = mechanism.page(analysed, STUDY)
    assert "wall time 30 minutes in 1 sitting and 1 killed, whose time is not known;" in text


def test_no_sitting(tmp_path):
    assert mechanism.sittings(tmp_path / "sittings.jsonl") == (0.0, 0, 0)


def test_the_study_has_eight_seeds_of_each_method_point_and_three_rollouts_in_a_quarter(grid):
    runs = list(grid.runs.values())
    assert len(runs) == 27 * 8
    assert len({run.method for run in runs}) == 27
    train = grid.study.train
    assert train.steps // (train.updates_per_rollout * train.iterations) // 4 == 3


def test_every_method_point_answers_something(grid):
    asked = {point for outcome in grid.study.compare.outcomes.values() for point in outcome.methods}
    assert {run.method for run in grid.runs.values()} == asked


def test_the_page_says_how_many_families_there_are(grid):
    families = [each for each in grid.study.compare.outcomes.values() if each.pairs or each.trends]
    assert len(families) == 22
    assert "22 families here" in (REPOSITORY / "docs" / "mechanism.md").read_text()


def outcome(name, kind, subject, **values):
    columns = {column[0]: None for column in tables.OUTCOMES.columns}
    row = {"model": "embedded", "setting": "all", "outcome": name, "kind": kind, "subject": subject, "measure": "x"}
    return columns | row | {"seeds": 8, "flags": ""} | values


@pytest.fixture
def analysed(grid, tmp_path):
    """A study of two runs with results of our own."""
    few = dict(list(grid.runs.items())[:2])
    made = Layout(type(grid)(**{**vars(grid), "runs": few}), tmp_path)
    for name in few:
        made.run(name).mkdir(parents=True)
        (made.run(name) / "spec.json").write_text(json.dumps({"git_commit": "0123456789abcdef"}))
    claimed = {"estimate": 0.5, "low": 0.25, "high": 0.75, "p_adjusted": 0.0004, "detectable": 0.125}
    rows = [
        outcome("entropy_by_K", "mean", "qae.K0.2.G8", estimate=0.2, reason="one seed"),
        outcome("entropy_by_K", "linear", "K", verdict="as claimed", **claimed),
        outcome("ramp_memory", "pair", "ramp_up.G8 \N{MINUS SIGN} ramp_down.G8", reason="nothing was recorded"),
    ]
    folder = made.folder / "analysis"
    tables.write(tables.OUTCOMES, pd.DataFrame(rows), folder / "outcomes.parquet")
    for table in (tables.CONTRASTS, tables.STOPS):
        tables.write(
            table, pd.DataFrame(columns=[column[0] for column in table.columns]), folder / f"{table.name}.parquet"
        )
    (made.folder / "sittings.jsonl").write_text(line("begun", 0) + line("ended", 30))
    return made


def test_the_page_has_each_row_with_its_verdict_and_says_where_it_comes_from(analysed):
    text = mechanism.page(analysed, Path("config/mechanism.yaml"))
    assert "    python -m benchmarks.mechanism --study config/mechanism.yaml" in text
    steps = 2 * analysed.grid.study.train.steps
    assert f"2 runs, {steps} optimizer steps, seeds 8; wall time 30 minutes in 1 sitting;" in text
    assert "trained at commit 0123456789; 0 runs stopped" in text
    assert "Of 2 tested rows: 1 as claimed; 1 not tested." in text
    assert "| entropy_by_K | K | linear | 0.5 | 0.25 to 0.75 | rises | <0.001 |" in text
    assert "0.125 | 8 | as claimed |" in text
    assert "nothing was recorded" in text
    assert "| entropy_by_K | x | qae.K0.2.G8 | 0.2 |" in text
    claim = "(mean of `entropy_nats`, 75 to 100 % of the steps): entropy at the end rises with K."
    assert f"- `entropy_by_K` {claim}" in text


def test_a_page_without_its_markers_is_refused_before_anything_runs(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("no marker")
    with pytest.raises(typer.BadParameter, match="0 markers <!-- mechanism -->"):
        mechanism.main(STUDY, page, "1", write_only=False)
