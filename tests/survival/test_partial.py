"""A study that lost runs: tables with the seeds they have, marked, and never taken for the whole."""

from __future__ import annotations

import json
import random

import pandas as pd
import pytest
from workflow.study_file import changed

from seedwise import conclude, looks, stages, tables
from seedwise.evals import store
from seedwise.grid import expand
from seedwise.layout import Layout
from seedwise.partial import PartialError, of_what_is_there
from seedwise.reading import parse

PROBLEMS = [f"sum-{i}" for i in range(6)]


@pytest.fixture
def layout(tmp_path) -> Layout:
    """A study of three methods and three seeds, without results."""
    study = parse(changed(seeds=[0, 1, 2], **{"resample.methods": ["base"]}), "study")
    return Layout(expand(study), tmp_path / "results")


def evaluated(layout: Layout, name: str) -> None:
    """Everything that a report reads of a subject, by chance."""
    chance = random.Random(name)
    graded, wanted = [], layout.samples(name)
    for label, each in wanted.items():
        for step in each.steps:
            where = {"step": step, "benchmark": label, "tokens": 5, "stop": "stop"}
            rows = [{**where, "problem": problem, "sample": k} for problem in PROBLEMS for k in range(each.n)]
            drawn = [row | {"text": "1+1=2", "seed": place, "engine": "e"} for place, row in enumerate(rows)]
            tables.write(tables.SAMPLES, drawn, each.folder / store.Part(step, 0, each.n).file)
            for row in rows:
                right = chance.random() < 0.5
                verdict = {"correct": int(right), "answer": "1", "verdict": "correct" if right else "wrong"}
                graded.append(row | verdict | {"verifier": "v"})
    tables.write(tables.SCORES, graded, layout.scores(name))
    stages.write_record(layout.sampled(name), store.record(wanted.values()))
    if name in layout.grid.runs:
        shares = (f"{sign}_advantage_share" for sign in ("positive", "zero", "negative"))
        metrics = ("reward", "entropy_nats", "length_tokens", *shares)
        curve = [{"step": s, "name": n, "value": 0.3, "reason": None} for s in (1, 2, 3, 4) for n in metrics]
        tables.write(tables.METRICS, curve, layout.run(name) / "metrics.parquet")
        (layout.run(name) / "spec.json").write_text(json.dumps({"stack": {"trl": "1.16.0"}}))
        (layout.run(name) / "trained.json").write_text(json.dumps({"stopped": None}))


@pytest.fixture
def lost(layout) -> str:
    """A run without results, in a study in which all else is there."""
    row = {"prompt": "1+1=", "answer": "2", "source": "s", "verifier": "v", "difficulty": None, "metadata": "{}"}
    for name in layout.grid.problems:
        tables.write(tables.PROBLEMS, [{"problem": problem, **row} for problem in PROBLEMS], layout.problems(name))
    names = [name for name, run in layout.grid.runs.items() if (run.method, run.seed) == ("qae.K0.4", 1)]
    for name in layout.subjects:
        if name not in names:
            evaluated(layout, name)
    return names[0]


def log(layout: Layout, name: str, text: str) -> None:
    path = layout.root / "logs" / "train" / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_tables_have_the_seeds_that_are_there_and_say_which_are_not(layout, lost):
    log(layout, lost, "a step\nseedwise: the node was <b>lost</b>\n\n")
    page = conclude.partial(layout)
    folder = layout.folder / "partial"
    assert page == folder / "report.html"
    said = f"PARTIAL: 1 of 9 runs have no scores, so S is lower than planned: {lost} (train: the node was"
    text = page.read_text()
    assert said in text and "&lt;b&gt;lost" in text and "<b>lost" not in text
    for name in ("main", "differences", "passk", "runs"):
        assert said in (folder / "tables" / f"{name}.md").read_text(), name
        assert pd.read_csv(folder / "tables" / f"{name}.csv")["caution"].str.startswith("PARTIAL: 1 of 9").all(), name
        assert "PARTIAL: 1 of 9" in (folder / "tables" / f"{name}.tex").read_text(), name
    contrasts = tables.read(tables.CONTRASTS, folder / "analysis" / "contrasts.parquet")
    seeds = contrasts.groupby("method")["seeds"].unique()
    assert seeds["qae.K0.4"].tolist() == [2] and seeds["qae.K0.8"].tolist() == [3]
    assert f"| {lost} |" in (folder / "tables" / "runs.md").read_text()
    assert not (layout.folder / "analysis").exists(), "the whole study has no analysis"
    (look,) = looks.read(layout.looks)
    assert (look.seeds, look.cells["embedded/G8/qae.K0.4"]) == (3, 2), "looking at a part is a look at the data"


def test_forced_continuations_are_reported_and_not_compared(layout, lost):
    forcing = {"benchmarks": ["same"], "continuations": 1, "samples": 2}
    study = changed(seeds=[0, 1, 2], **{"resample.methods": ["base"], "evaluate.forcing": forcing})
    forced = Layout(expand(parse(study, "study")), layout.root)
    measure = {"step": 4, "benchmark": "same", "problem": None, "metric": "avg@n", "value": 0.5, "problems": 2}
    for name in forced.subjects:
        evaluated(forced, name)
        tables.write(tables.MEASURES, [measure | {"samples": 8, "reason": None}], forced.measures(name))
    conclude.analyse(forced, simulations=20)
    page = conclude.report(forced)
    table = pd.read_csv(forced.folder / "tables" / "forcing.csv")
    methods = ("base", "clip_higher", "qae.K0.4", "qae.K0.8")
    assert sorted(zip(table["method"], table["continuations"], strict=True)) == [
        (m, j) for m in methods for j in (0, 1)
    ]
    assert set(table["samples"]) == {2} and set(table["setting"]) == {"G8"}
    for name in ("scores", "means", "contrasts", "benchmarks"):
        rows = pd.read_parquet(forced.folder / "analysis" / f"{name}.parquet")
        assert set(rows["benchmark"].dropna()) == {"same"}, name
    assert "same+wait" not in page.read_text(), "examples are of the benchmarks"


def test_the_part_and_the_whole_have_ids_of_their_own(layout, lost):
    part = of_what_is_there(layout)
    assert part.analysis_id != layout.analysis_id
    other = next(name for name in layout.grid.runs if name != lost)
    layout.scores(other).unlink()
    assert of_what_is_there(layout).analysis_id not in (part.analysis_id, layout.analysis_id)


def test_measures_that_were_not_taken_are_left_out(layout, lost):
    part = of_what_is_there(layout)
    assert part.measured == []
    before = part.report_id
    here = part.subjects[0]
    row = {"step": 4, "benchmark": "same", "problem": None, "metric": "avg@n", "value": 0.5, "problems": 2}
    tables.write(tables.MEASURES, [row | {"samples": 8, "reason": None}], layout.measures(here))
    again = of_what_is_there(layout)
    assert again.measured == [here]
    assert again.report_id != before
    assert list(conclude.measured(again, conclude.runs_table(again))["run"]) == [here]


def test_nothing_missing_is_a_matter_for_the_whole_analysis(layout, lost):
    evaluated(layout, lost)
    with pytest.raises(PartialError, match="tiny: every run has scores: seedwise analyse"):
        of_what_is_there(layout)


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "train: not started"), ("\n", "train: ended without a word: killed, or its machine was lost")],
)
def test_a_run_that_says_nothing(text, why, layout, lost):
    if text:
        log(layout, lost, text)
    assert of_what_is_there(layout).missing == {lost: why}


def test_a_run_that_was_trained_failed_later(layout, lost):
    evaluated(layout, lost)
    path = layout.scores(lost)
    path.unlink()
    told = layout.root / "logs" / "score" / f"{lost}.{path.parent.name}.log"
    told.parent.mkdir(parents=True)
    told.write_text("seedwise: a verifier is missing\n")
    assert of_what_is_there(layout).missing == {lost: "score: a verifier is missing"}


def test_a_run_out_of_memory_may_not_be_left_out(layout, lost):
    log(layout, lost, f"seedwise: train {lost}: out of memory: ask for more, or lower train.micro_batch\n")
    with pytest.raises(PartialError, match=f"{lost}: out of memory: it counts .* seedwise train {lost} --give-up"):
        of_what_is_there(layout)


def test_the_untrained_model_may_not_be_missing(layout, lost):
    (base,) = layout.grid.bases
    layout.scores(base).unlink()
    with pytest.raises(PartialError, match="the untrained model stands in every table"):
        of_what_is_there(layout)


def test_a_study_of_which_nothing_is_there(layout, lost):
    for name in layout.grid.runs:
        layout.scores(name).unlink(missing_ok=True)
    with pytest.raises(PartialError, match="tiny: no run has scores"):
        of_what_is_there(layout)
