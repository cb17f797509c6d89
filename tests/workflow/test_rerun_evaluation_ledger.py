"""Edits held to be neutral to samples, scores, continuations and rewards: what they put in place, and what not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rerun_made import evaluate, finish, layout_of, record
from study_file import STUDY, changed
from test_rerun_ledger import FAIL, MODULE, OLD, PASS, entry, write
from typer.testing import CliRunner

from seedwise import cli, grid
from seedwise.algos.algorithm import Algorithm
from seedwise.layout import Layout
from seedwise.reruns import RerunError, accepting, graders, jobs, ledger, made, planning
from seedwise.reruns.ledger import Stage
from seedwise.reruns.published import Archive

ENGINE, FRAMES, GRADER = "engines.transformers", "evals.frames", "grading.pool"
ROOT = Path(__file__).parents[2]
Before = Callable[[dict[str, str]], Layout]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger in place of the repository's."""
    path, real = write(tmp_path / "neutral.yaml", PASS), ledger.equated

    def equated(found, where=path, stage="training", more=()):
        return real(found, where, stage, more)

    monkeypatch.setattr(ledger, "equated", equated)
    return path


@pytest.fixture
def before(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Before:
    """The study as code finished it whose modules had other digests."""

    def made_by(edited: dict[str, str]) -> Layout:
        real = {name: getattr(ledger, name) for name in ("evaluation", "rewards", "training")}

        def older(name: str) -> Callable[..., dict[str, str]]:
            return lambda what: (found := real[name](what)) | {key: edited[key] for key in edited.keys() & found.keys()}

        def behaviour(algorithm: Algorithm) -> dict[str, str]:
            return ledger.equated(ledger.training(algorithm))

        monkeypatch.setattr(grid, "training_behaviour", behaviour)
        with monkeypatch.context() as patch:
            for name in real:
                patch.setattr(ledger, name, older(name))
            layout = layout_of(STUDY, tmp_path)
            finish(layout)
        return layout

    return made_by


def planned(layout: Layout) -> set[str]:
    return {job.stage for job in jobs.planned(layout)}


def test_a_neutral_edit_of_sampling_leaves_samples_and_all_that_rests_on_them(before, tmp_path, place) -> None:
    old = before({"evals.samples": OLD})
    edited = layout_of(STUDY, tmp_path)
    assert planned(edited) == {"sample", "score", "resample", "measure", "analyse", "report", "track"}
    names = accepting.candidates(edited, place=place)
    assert names == edited.subjects
    written = accepting.accept(edited, names, "why", place)
    # continuations are made by the sampling code as well, so each stage has its entry
    assert [(item.stage, set(item.changes)) for item in written] == [
        ("sampling", {"evals.samples"}),
        ("resampling", {"evals.samples"}),
    ]
    assert len({item.id for item in written}) == 2
    after = layout_of(STUDY, tmp_path)
    assert planned(after) == set()
    assert [after.sampled(name) for name in names] == [old.sampled(name) for name in names]
    assert ledger.accepted(after.grid.runs.values(), place) == dict.fromkeys([item.id for item in written], "why")
    assert ledger.resting(ledger.evaluation("sampling"), place, "sampling") == [written[0].id]
    assert ledger.resting(ledger.evaluation("scoring"), place, "scoring") == []


def test_an_edit_of_what_trainings_and_samples_share_is_stated_for_each(before, tmp_path, place) -> None:
    old = before({ENGINE: OLD, FRAMES: OLD, GRADER: OLD})
    edited = layout_of(STUDY, tmp_path)
    assert not set(edited.grid.runs) & set(old.grid.runs)
    written = accepting.accept(edited, accepting.candidates(edited, place=place), "why", place)
    assert {item.stage: set(item.changes) for item in written} == {
        "training": {ENGINE},
        "rewards": {GRADER},
        "sampling": {ENGINE, FRAMES},
        "scoring": {FRAMES, GRADER},
        "resampling": {ENGINE, FRAMES, GRADER},
    }
    after = layout_of(STUDY, tmp_path)
    assert list(after.grid.runs) == list(old.grid.runs)
    assert planned(after) == set()
    assert list(graders.told(after, Archive(after.root / "runs"), place=place)) == []


def test_only_the_stages_that_are_named_are_accepted(before, tmp_path, place) -> None:
    before({ENGINE: OLD})
    edited = layout_of(STUDY, tmp_path)
    (base,) = edited.grid.bases
    written = accepting.accept(edited, [base], "why", place, stages=["sampling"])
    assert [item.stage for item in written] == ["sampling"]
    after = layout_of(STUDY, tmp_path)
    # what is neutral to samples need not be to trainings and continuations
    assert planned(after) == {"train", "sample", "score", "resample", "measure", "analyse", "report", "track"}
    assert [job.stage for job in jobs.planned(after) if job.subject == base] == ["resample"]
    run = next(iter(after.grid.runs))
    with pytest.raises(RerunError, match=f"{run}: nothing to accept: it, or most"):
        accepting.accept(after, [run], "why", place, stages=["sampling"])


@pytest.mark.parametrize(("stage", "checks"), [("training", 1), ("scoring", 2)])
def test_evaluation_has_checks_of_its_own(stage: Stage, checks: int, before, tmp_path, place, monkeypatch) -> None:
    before({MODULE: OLD, "evals.scores": OLD})
    edited = layout_of(STUDY, tmp_path)
    names = accepting.candidates(edited, [stage], place)
    ran: list[tuple[str, ...]] = []
    with monkeypatch.context() as patch:
        patch.setattr(accepting, "_check", ran.append)
        accepting.accept(edited, names[:1] if stage == "training" else list(edited.grid.bases), "why", place, [stage])
    assert len(ran) == checks


def test_a_failing_check_of_evaluation_writes_nothing(before, tmp_path, place) -> None:
    before({"evals.scores": OLD})
    place.write_text(place.read_text().replace(f"evaluation:\n  - {PASS[0]}", f"evaluation:\n  - {FAIL[0]}"))
    ledger._known.cache_clear()
    content, edited = place.read_text(), layout_of(STUDY, tmp_path)
    assert FAIL[0] in content
    with pytest.raises(RerunError, match="no_such_check: exit 1: .*: the edit is not neutral"):
        accepting.accept(edited, edited.subjects, "why", place)
    assert place.read_text() == content


def test_changed_settings_are_no_edit_of_evaluation(before, tmp_path, place) -> None:
    before({"evals.scores": OLD, "evals.samples": OLD})
    for change in ({"evaluate.temperature": 0.5}, {"evaluate.samples": 5}, {"evaluate.benchmarks.same.size": 9}):
        assert accepting.candidates(layout_of(changed(**change), tmp_path), place=place) == []
    other = layout_of(changed(**{"grading.time_limit_s": 3.0}), tmp_path)  # which trainings read as well
    (base,) = other.grid.bases
    written = accepting.accept(other, [base], "why", place)
    assert [item.stage for item in written] == ["sampling"], "samples do not depend on it, scores do"


def test_of_several_codes_that_of_the_most_subjects_counts(before, tmp_path, place, monkeypatch) -> None:
    before({"evals.samples": OLD})
    real, odd = ledger.evaluation, "c" * 64
    with monkeypatch.context() as patch:
        patch.setattr(
            ledger,
            "evaluation",
            lambda stage: real(stage) | ({"evals.samples": odd} if "evals.samples" in real(stage) else {}),
        )
        other = layout_of(STUDY, tmp_path)
        first = other.subjects[0]
        evaluate(other, first)
    edited = layout_of(STUDY, tmp_path)
    codes = made.earlier(edited, "sampling", first)
    assert {code["evals.samples"] for code in codes} == {OLD, odd}
    written = accepting.accept(edited, edited.subjects, "why", place)
    assert {item.changes["evals.samples"].old for item in written} == {OLD}
    assert planned(layout_of(STUDY, tmp_path)) == set()


def test_what_most_have_by_the_present_code_is_not_given_up_for_the_rest(before, tmp_path, place) -> None:
    before({"evals.samples": OLD})
    edited = layout_of(STUDY, tmp_path)
    for name in edited.subjects[:4]:  # of seven
        evaluate(edited, name)
    last = edited.subjects[-1]
    assert accepting.candidates(edited, place=place) == []
    with pytest.raises(RerunError, match=f"{last}: nothing to accept: it, or most of what is there, was made by the"):
        accepting.accept(edited, [last], "why", place)


def test_an_entry_applies_to_its_stage_alone(tmp_path) -> None:
    one = entry("one", m=("1", "2")).model_copy(update={"stage": "sampling"})
    place = write(tmp_path / "other.yaml", PASS, one)
    assert ledger.equated({"m": "2"}, place, "sampling") == {"m": "1"}
    assert ledger.equated({"m": "2"}, place) == ledger.equated({"m": "2"}, place, "scoring") == {"m": "2"}
    assert ledger.equated({"m": "3"}, place, "scoring", [entry("two", m=("2", "3"))]) == {"m": "3"}


def test_rewards_by_two_graders_are_all_put_back(before, tmp_path, place) -> None:
    layout = before({})
    name = next(iter(layout.grid.runs))
    path = layout.run(name) / "spec.json"
    spec = json.loads(path.read_text())
    (now,) = spec["reward_code"]
    record(path, spec | {"reward_code": [now | {GRADER: digit * 64} for digit in "ab"]})
    edited = layout_of(STUDY, tmp_path)
    assert accepting.candidates(edited, place=place) == [name]
    written = accepting.accept(edited, [name], "why", place)
    # the present code counts as the first, and then, as the first does, as the second
    assert [(item.changes[GRADER].old or "")[0] for item in written] == ["a", "b"]
    assert planned(layout_of(STUDY, tmp_path)) == set()
    assert list(graders.told(edited, Archive(edited.root / "runs"), place=place)) == []


def test_why_names_the_module_behind_a_planned_evaluation(before, tmp_path, place) -> None:
    before({"evals.scores": OLD})
    edited = layout_of(STUDY, tmp_path)
    (base,) = edited.grid.bases
    found = planning.plan(edited, tmp_path / "work", only=base)
    (reason,) = found.why["score", base]
    assert (reason.kind, reason.text) == ("code", "changed evals.scores")


def test_the_command_takes_stages_by_name(before, tmp_path, place, monkeypatch) -> None:
    before({"evals.samples": OLD})
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(json.dumps(STUDY))
    asked = ["accept", "--all", "--reason", "r", "--study", "study.yaml", "--stage"]
    refused = CliRunner().invoke(cli.app, [*asked, "report"])
    assert refused.exit_code == 2 and "'resampling'" in refused.output
    done = CliRunner().invoke(cli.app, [*asked, "training"])
    assert done.output == "nothing to accept: nothing is planned for changed code alone\n"


def test_a_real_edit_of_a_copied_tree_is_accepted_by_the_command(tmp_path) -> None:
    finish(layout_of(STUDY, tmp_path))
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("evals/samples.py", "grading/pool.py"):
        with (source / "seedwise" / file).open("a") as edited:
            edited.write("\nEXTRA = 1\n")
    write(source / "seedwise/reruns/neutral.yaml", PASS)
    (tmp_path / "study.yaml").write_text(json.dumps(STUDY))

    def seedwise(*arguments: str) -> str:
        command = [sys.executable, "-m", "seedwise.cli", *arguments, "--study", "study.yaml"]
        environment = os.environ | {"PYTHONPATH": str(source)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout

    said = seedwise("accept", "--all", "--reason", "a constant nobody reads").splitlines()
    assert [line.split(": ")[1:3] for line in said[:-1]] == [
        ["rewards", "grading.pool"],
        ["sampling", "evals.samples"],
        ["scoring", "grading.pool"],
        ["resampling", "evals.samples, grading.pool"],
    ]
    plan = json.loads(seedwise("plan", "--json"))
    assert (plan["jobs"], plan["rewards"], len(plan["accepted"])) == ({}, [], 4)
