"""Verdicts by the problems' own verifiers, and counts by hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from seedwise import tables
from seedwise.evals.scores import counts, score


def samples(*rows: tuple[str, str, str]) -> pd.DataFrame:
    """(problem, text, stop) in order; tokens are the characters."""
    return pd.DataFrame(
        [
            {
                "step": 20,
                "benchmark": "same",
                "problem": problem,
                "sample": [r[0] for r in rows[:i]].count(problem),
                "text": text,
                "tokens": len(text),
                "stop": stop,
                "seed": i,
                "engine": "hand",
            }
            for i, (problem, text, stop) in enumerate(rows)
        ]
    )


DRAWN = samples(
    ("a", "3+4=7 #7", "stop"),
    ("b", "#8", "stop"),
    ("a", "so 7", "length"),  # no marker: unparsed
    ("a", "#007", "stop"),  # the same decimal
    ("b", "# -8", "stop"),
    ("a", "#70", "length"),
)


def test_verdicts(problems_of, grader, tmp_path: Path) -> None:
    scores = score(DRAWN, problems_of(a="7", b="-8"), grader)
    tables.write(tables.SCORES, scores, tmp_path / "scores.parquet")
    assert tables.read(tables.SCORES, tmp_path / "scores.parquet").equals(scores)
    assert scores["verdict"].tolist() == ["correct", "wrong", "unparsed", "correct", "correct", "wrong"]
    assert scores["correct"].tolist() == [1, 0, 0, 1, 1, 0]
    assert scores["answer"].tolist() == ["7", "8", None, "007", "-8", "70"]
    assert scores["tokens"].tolist() == DRAWN["tokens"].tolist()
    assert scores["verifier"].str.startswith("reasoning_gym:chain_sum 0.1.25").all()


def test_counts_by_hand(problems_of, grader, run, tmp_path: Path) -> None:
    counted = counts(score(DRAWN, problems_of(a="7", b="-8"), grader), run)
    tables.write(tables.COUNTS, counted, tmp_path / "counts.parquet")
    columns = ["problem", "samples", "correct", "unparsed", "timeout", "truncated", "tokens"]
    # tokens: a (8 + 4 + 4 + 3) / 4, b (2 + 4) / 2
    assert counted[columns].values.tolist() == [["a", 4, 2, 1, 0, 2, 4.75], ["b", 2, 1, 0, 0, 0, 3.0]]
    assert counted[list(run)].drop_duplicates().to_dict("records") == [run]


def test_counts_keep_steps_and_benchmarks_apart(problems_of, grader, run) -> None:
    scores = score(DRAWN, problems_of(a="7", b="-8"), grader)
    several = pd.concat([scores, scores.assign(step=40), scores.assign(benchmark="longer")], ignore_index=True)
    counted = counts(several, run)
    assert len(counted) == 6
    assert counted["samples"].sum() == 18
    timed_out = counts(scores.assign(verdict="timeout", correct=0), run)
    assert timed_out[["correct", "unparsed", "timeout"]].values.tolist() == [[0, 0, 4], [0, 0, 2]]


def test_a_sample_without_its_problem_is_refused(problems_of, grader) -> None:
    with pytest.raises(tables.TableError, match="problem 'b' is not among the problems"):
        score(DRAWN, problems_of(a="7"), grader)


def test_nothing_to_score(problems_of, grader, run, tmp_path: Path) -> None:
    none = score(DRAWN.iloc[:0], problems_of(a="7"), grader)
    tables.write(tables.SCORES, none, tmp_path / "scores.parquet")
    tables.write(tables.COUNTS, counts(none, run), tmp_path / "counts.parquet")
    assert len(tables.read(tables.COUNTS, tmp_path / "counts.parquet")) == 0
