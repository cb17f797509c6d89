"""Which weights stay, and that nothing is removed that a planned job still reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from workflow.study_file import changed

from seedwise import retention, stages
from seedwise.grid import expand
from seedwise.identity import file_digest
from seedwise.layout import Layout
from seedwise.reading import parse

CHANGES = {"seeds": [0], "methods": {"clip_higher": {"preset": "clip_higher"}}, "resample.methods": ["base"]}
CHANGES |= {"compare.primary.family": ["base"]}


@pytest.fixture
def layout_with(tmp_path):
    """The layout of a study of clip_higher alone, with changes; results in tmp_path."""

    def make(**changes) -> Layout:
        study = parse(changed(**(CHANGES | changes)), "study")
        return Layout(expand(study), tmp_path / "results")

    return make


def publish(layout: Layout, name: str, keep: str = "none") -> Path:
    """A run as trained under ``keep``, with files in place of weights."""
    folder = layout.run(name)
    for step in layout.grid.runs[name].train.checkpoints:
        (folder / "checkpoints" / str(step)).mkdir(parents=True)
        (folder / "checkpoints" / str(step) / "model.safetensors").write_text(f"weights {step}")
    files = sorted(folder.glob("checkpoints/*/*"))
    (folder / "spec.json").write_text(json.dumps({"run": {"train": {"keep": keep}}}))
    digests = {path.relative_to(folder).as_posix(): file_digest(path) for path in files}
    (folder / "trained.json").write_text(json.dumps({"sha256": digests}))
    return folder


def sampled(layout: Layout, name: str) -> None:
    stages.write_record(layout.sampled(name), {})


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_keep_is_no_part_of_a_runs_identity(layout_with):
    names = {next(iter(layout_with(**{"train.keep": keep}).grid.runs)) for keep in ("last", "all", "none")}
    assert len(names) == 1


@pytest.mark.parametrize(("keep", "stays"), [("all", ["2", "4"]), ("last", ["4"]), ("none", [])])
def test_what_stays_once_everything_is_sampled(keep, stays, layout_with):
    layout = layout_with(**{"train.keep": keep})
    (name,) = layout.grid.runs
    folder = publish(layout, name)
    digests = json.loads((folder / "trained.json").read_text())["sha256"]
    retention.settle(layout, name)
    assert left(folder) == ["2", "4"], "not before it is sampled"
    assert not (folder / "retention.json").exists()
    sampled(layout, name)
    retention.settle(layout, name)
    assert left(folder) == stays
    gone = {f"checkpoints/{step}/model.safetensors" for step in ("2", "4") if step not in stays}
    assert retention.removed_files(folder) == {file: digests[file] for file in gone}
    retention.settle(layout, name)
    assert retention.removed_files(folder).keys() == gone, "a second time changes nothing"


def test_the_last_weights_wait_for_the_continuation_experiment(layout_with):
    layout = layout_with(**{"train.keep": "none", "resample.methods": ["clip_higher"]})
    (name,) = layout.grid.runs
    folder = publish(layout, name)
    sampled(layout, name)
    retention.settle(layout, name)
    assert left(folder) == ["4"]
    path = layout.continuations(name)
    path.parent.mkdir(parents=True)
    path.touch()
    retention.settle(layout, name)
    assert left(folder) == []
    assert len(retention.removed_files(folder)) == 2


def test_the_last_weights_wait_for_runs_that_start_from_them(layout_with):
    methods = {"clip_higher": {"preset": "clip_higher"}, "next": {"preset": "grpo", "init_from": "clip_higher"}}
    layout = layout_with(**{"train.keep": "none", "methods": methods})
    first, second = layout.grid.runs
    folder = publish(layout, first)
    sampled(layout, first)
    retention.settle(layout, first)
    assert left(folder) == ["4"]
    publish(layout, second)
    retention.settle(layout, first)
    assert left(folder) == []


def test_weights_that_the_study_which_trained_them_keeps_stay(layout_with):
    layout = layout_with(**{"train.keep": "none"})
    (name,) = layout.grid.runs
    folder = publish(layout, name, keep="last")
    sampled(layout, name)
    retention.settle(layout, name)
    assert left(folder) == ["4"]


def test_sampling_removed_weights_says_how_to_have_them_again(layout_with, tmp_path):
    layout = layout_with(**{"train.keep": "last"})
    (name,) = layout.grid.runs
    publish(layout, name)
    sampled(layout, name)
    retention.settle(layout, name)
    layout.sampled(name).unlink()
    with pytest.raises(
        stages.StageError, match=r"checkpoints/2: missing \(removed as train.keep says\): remove .*trained.json"
    ):
        stages.sample(layout, name, tmp_path / "work")
