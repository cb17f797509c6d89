"""Which samples a study rests on, forced continuations too, and what the ids of folders and records cover."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from study_file import CHAIN, STUDY, changed

from seedwise.conclude import _apart
from seedwise.grid import expand
from seedwise.layout import Layout
from seedwise.reading import parse
from seedwise.study import Forcing, StudyError

FORCING = {"benchmarks": ["same"], "continuations": 2}


def layout_of(**changes: Any) -> Layout:
    return Layout(expand(parse(changed(**changes))), Path("results"))


def forced(**changes: Any) -> Layout:
    return layout_of(**{"evaluate.forcing": {**FORCING, **changes}})


def subject_of(layout: Layout) -> str:
    return next(iter(layout.grid.runs))


def test_labels_stand_beside_the_benchmark_at_the_last_checkpoint() -> None:
    plain, layout = layout_of(), forced()
    name = subject_of(layout)
    wanted = layout.samples(name)
    assert {label: (each.benchmark, each.forced, each.steps, each.n) for label, each in wanted.items()} == {
        "same": ("same", None, (2, 4), 4),
        **{f"same+wait{j}": ("same", j, (4,), 4) for j in range(3)},
    }
    assert wanted["same"] == plain.samples(name)["same"], "the benchmark's own samples are not drawn again"
    assert layout.scores(name) != plain.scores(name)
    (base,) = layout.grid.bases
    assert layout.samples(base)["same+wait2"].steps == (0,)
    everywhere = forced(checkpoints="all", samples=2)
    assert (everywhere.samples(name)["same+wait1"].steps, everywhere.samples(name)["same+wait1"].n) == ((2, 4), 2)


def test_labels_say_the_word() -> None:
    assert Forcing(benchmarks=("b",), word="Hmm, wait!").label("b", 3) == "b+hmmwait3"
    assert Forcing(benchmarks=("b",), word="…").label("b", 0) == "b+forced0"


def test_what_the_ids_cover() -> None:
    """Samples: what decides a draw.  Their record: also which are asked for."""
    layout = forced()
    name = subject_of(layout)
    for change in ({"word": "Hmm"}, {"budget": 200}, {"end_of_thinking": "="}):
        other = forced(**change)
        kept, new = layout.samples(name), other.samples(name)
        assert kept["same"].folder == new["same"].folder
        assert {each.folder for each in kept.values()} & {each.folder for each in new.values()} == {kept["same"].folder}
    for change in ({"continuations": 3}, {"samples": 8}, {"checkpoints": "all"}):
        other = forced(**change)
        assert {each.folder for each in layout.samples(name).values()} <= {
            each.folder for each in other.samples(name).values()
        }
        assert other.sampled(name) != layout.sampled(name)
        assert other.scores(name) != layout.scores(name)


def test_more_samples_share_the_folder_and_not_the_record() -> None:
    few, many = layout_of(), layout_of(**{"evaluate.samples": {"same": 256}})
    name = subject_of(few)
    assert few.samples(name)["same"].folder == many.samples(name)["same"].folder
    assert few.sampled(name) != many.sampled(name) and few.scores(name) != many.scores(name)
    more = {"same": STUDY["evaluate"]["benchmarks"]["same"], "more": {**CHAIN, "size": 8, "seed": 3}}
    both = layout_of(**{"evaluate.benchmarks": more, "evaluate.samples": {"same": 4, "more": 8}})
    assert both.samples(name)["same"] == few.samples(name)["same"]
    assert both.samples(name)["more"].n == 8
    assert both.sampled(name) != few.sampled(name)


def test_one_more_checkpoint_shares_the_folder_and_not_the_record() -> None:
    last, every = layout_of(**{"evaluate.checkpoints": [4]}), layout_of(**{"evaluate.checkpoints": [2, 4]})
    name = subject_of(last)
    assert last.grid.runs.keys() == every.grid.runs.keys() == layout_of().grid.runs.keys()
    assert (last.steps(name), every.steps(name)) == ((4,), (2, 4))
    few, many = last.samples(name)["same"], every.samples(name)["same"]
    assert (few.folder, few.steps, many.steps) == (many.folder, (4,), (2, 4))
    assert last.sampled(name) != every.sampled(name) and last.scores(name) != every.scores(name)
    assert layout_of(**{"evaluate.checkpoints": [2]}).steps(name) == (2, 4), "the last is what is compared"
    with pytest.raises(StudyError, match=r"evaluate.checkpoints: 3 is none of train.checkpoints"):
        layout_of(**{"evaluate.checkpoints": [3]})
    with pytest.raises(StudyError, match=r"compare.checkpoint mean_of_last_3 needs more than one: write all"):
        layout_of(**{"evaluate.checkpoints": [4], "compare.checkpoint": "mean_of_last_3"})


def test_forced_answers_are_set_apart_before_anything_is_compared() -> None:
    row = {"run": "r", "step": 4, "problem": "p", "correct": 1}
    labels = ["same", "same+wait0", "same+wait1", "same+wait2"]
    counts = pd.DataFrame([{**row, "benchmark": label} for label in labels])
    kept, found = _apart(forced(), counts)
    assert kept["benchmark"].tolist() == ["same"]
    assert found[["benchmark", "continuations"]].values.tolist() == [["same", 0], ["same", 1], ["same", 2]]
    kept, found = _apart(layout_of(), counts[:1])
    assert (len(kept), len(found)) == (1, 0)


def test_a_benchmark_that_is_none_is_refused() -> None:
    with pytest.raises(StudyError, match=r"forcing.benchmarks 'aime' is none of same"):
        forced(benchmarks=["aime"])
