"""The resample stage on the embedded model: from samples to its five files, and to what is compared."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from study_file import changed

from seedwise import conclude, stages, tables
from seedwise.evals.resampling import of_run, together
from seedwise.grid import expand
from seedwise.layout import Layout
from seedwise.reading import parse
from seedwise.report.continuing import course_table, window_tables, word_table
from seedwise.report.layout import markdown
from seedwise.report.resampling import Resampled, course, enriched, resampling
from seedwise.report.worked import worked

POSITIONS = [0.0, 0.9]
ASKED = {
    "band": [0.1, 0.9], "problems": 9, "responses": 1, "window": 3, "continuations": 3, "positions": POSITIONS,
    "per_position": 3, "words": 40, "methods": ["base"],
}  # fmt: skip

SUMS = {
    "task": "reasoning_gym", "name": "chain_sum", "size": 8, "seed": 101, "verifier": "task",
    "params": {"min_terms": 4, "max_terms": 6, "min_digits": 1, "max_digits": 1, "allow_negation": False},
    "answer": {"rule": "marker", "marker": "#"},
}  # fmt: skip


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """The untrained embedded model, sampled and graded; eight problems, of which nine are wanted."""
    asked = {f"resample.{key}": value for key, value in ASKED.items()}
    study = changed(**asked, **{"evaluate.samples": 8, "evaluate.benchmarks": {"same": SUMS}})
    made = Layout(expand(parse(study)), tmp_path_factory.mktemp("stage") / "results")
    (base,) = made.grid.bases
    for name in made.grid.problems:
        stages.data(made, name)
    stages.base(made, made.grid.bases[base].folder)
    stages.sample(made, base, made.root.parent / "work")
    stages.score(made, base)
    return made


@pytest.fixture(scope="module")
def files(layout: Layout) -> dict[str, pd.DataFrame]:
    (base,) = layout.grid.bases
    stages.resample(layout, base)
    return {name: tables.read(tables.RESAMPLED[name], path) for name, path in layout.resampling(base).items()}


def test_every_file_is_there_and_agrees_with_the_others(files) -> None:
    (chosen,) = files["chosen"].to_dict("records")
    assert (chosen["problems"], chosen["wanted"]) == (8, 9)
    assert 1 <= chosen["used"] <= chosen["in_band"] <= 8
    windows, along = files["continuations"], files["along"]
    assert windows["problem"].nunique() <= chosen["used"]
    assert set(windows["problem"]) <= set(along["problem"])
    key = ["problem", "response", "outcome"]
    assert len(along) == along[key].drop_duplicates().shape[0] * len(POSITIONS) * 3
    assert set(along["position"]) == set(POSITIONS)
    assert (along["start_tokens"] < along["length_tokens"]).all()
    # of what was read, some words; their counts fit their sums
    assert len(files["words"])
    for _, part in files["words"].groupby(["outcome", "tail"]):
        assert part["of"].sum() == part["words"].iloc[0]
        assert part["count"].sum() == part["tail_words"].iloc[0]


def test_the_example_is_one_of_the_continued_responses(files) -> None:
    rows, windows = files["example"], files["continuations"]
    assert len(rows) == 2 * 3
    key = ["problem", "response", "window", "continuation"]
    both = rows.merge(windows, on=key, suffixes=("", "_of_windows"))
    assert len(both) == len(rows)
    assert (both["correct"] == both["correct_of_windows"]).all()
    assert (both["start_tokens"] == both["start_tokens_of_windows"]).all()
    assert (rows["before"].str.len() == rows["start_tokens"]).all()  # a token is a character
    assert (rows["inside"].str.len() == 3).all()
    gaps = windows.pivot_table(index=["problem", "response"], columns="window", values="entropy_nats")
    widest = (gaps["high"] - gaps["low"]).idxmax()
    assert (rows["problem"].iloc[0], rows["response"].iloc[0]) == widest


def test_what_is_compared_and_shown(layout, files, tmp_path: Path) -> None:
    (row,) = conclude.runs_table(layout).query("method == 'base'").to_dict("records")
    found = Resampled(**together([of_run(files, row)]))
    for table, rows in (
        (tables.RESAMPLING, resampling(found)),
        (tables.COURSE, course(found)),
        (tables.WORDS, enriched(found, least=1)),
    ):
        tables.write(table, rows, tmp_path / f"{table.name}.parquet")
        assert len(rows)
    assert f"{files['chosen']['used'].iloc[0]} of 9 problems wanted" in markdown(window_tables(resampling(found)))
    assert "| base | embedded | 90 |" in markdown([course_table(course(found))])
    assert "high tenth" in markdown([word_table(enriched(found, least=1))])
    assert worked(files["example"].assign(run=row["run"])).length > 3


def test_the_log_says_how_far_it_is(layout, files, capsys) -> None:
    (base,) = layout.grid.bases
    stages.resample(layout, base)
    said = capsys.readouterr().out
    assert "continuations: 1 of 1 batches" in said
    assert "continuations along responses: 1 of 1 batches" in said
    again = tables.read(tables.ALONG, layout.resampling(base)["along"])
    assert again.equals(files["along"])
