"""An edited grader: what it plans, who is told, and how an author says that rewards changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rerun_made import finish, layout_of, record
from study_file import STUDY, changed
from typer.testing import CliRunner

from seedwise import cli, conclude
from seedwise.layout import Layout
from seedwise.reruns import graders, planning, verifying
from seedwise.reruns.published import Archive

ROOT = Path(__file__).parents[2]
VERIFIER = "reasoning_gym:chain_sum"
BY_MATHS = changed(**{"train_data.verifier": "math_verify"})
GRADED = {"score": 7, "resample": 7, "measure": 7, "analyse": 1, "report": 1, "track": 1}  # six runs and a base


def asked(tmp_path: Path, study: dict[str, Any], edits: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """``seedwise plan`` by a copy of our code with edited files, after the study was finished by the present code."""
    finish(layout_of(study, tmp_path))
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    for file, (old, new) in edits.items():
        path = source / "seedwise/grading" / file
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
    (tmp_path / "study.yaml").write_text(json.dumps(study))
    shown = subprocess.run(
        [sys.executable, "-m", "seedwise.cli", "plan", "--study", "study.yaml", "--json"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(shown.stdout)


OF_EVERY_VERIFIER = {"verify.py": ("correct = quick(verifier, gold, answer)", "correct = None")}
OF_MATHS = {"notation.py": ("import re\n", "import re\n\nEXTRA = 1\n")}
COMMENT = {"verify.py": ("# What a verifier raises", "# That which a verifier raises")}
VERSIONS = {
    VERIFIER: {"versions.py": ('"reasoning_gym": 1', '"reasoning_gym": 2')},
    "math_verify": {"versions.py": ('"math_verify": 1', '"math_verify": 2')},
}


@pytest.mark.parametrize(
    ("study", "edits", "jobs", "told"),
    [
        (
            STUDY,
            OF_EVERY_VERIFIER,
            GRADED,
            "6 of 6 trained runs had rewards of an earlier code of the grader (grading.",
        ),
        (STUDY, OF_MATHS, GRADED, None),  # the rewards are of a verifier that does not take this module
        (BY_MATHS, OF_MATHS, GRADED, "6 of 6 trained runs had rewards of an earlier code of the grader (grading."),
        (STUDY, COMMENT, {}, None),
    ],
)
def test_an_edited_grader_grades_again_and_trains_nothing(study, edits, jobs, told, tmp_path) -> None:
    plan = asked(tmp_path, study, edits)
    assert plan["jobs"] == jobs
    assert [line[: len(told or "")] for line in plan["rewards"]] == ([told] if told else [])


def test_a_raised_version_trains_again_what_had_rewards_of_its_verifier(tmp_path) -> None:
    plan = asked(tmp_path, STUDY, VERSIONS[VERIFIER])
    assert plan["jobs"]["train"] == 6
    (reason,) = {tuple(reason["text"] for reason in run["reasons"]) for run in plan["runs"]}
    assert reason == (f'rewards.{VERIFIER}: "version 1 policy 2" -> "version 2 policy 2"',)
    assert {reason["kind"] for run in plan["runs"] for reason in run["reasons"]} == {"rewards"}
    assert plan["rewards"] == []


def test_a_raised_version_of_another_verifier_plans_nothing(tmp_path) -> None:
    assert asked(tmp_path, STUDY, VERSIONS["math_verify"])["jobs"] == {}


def test_a_raised_version_of_what_judges_benchmarks_alone_grades_again(tmp_path) -> None:
    # the benchmark is judged by the task's verifier, the training data by math-verify
    assert asked(tmp_path, BY_MATHS, VERSIONS[VERIFIER])["jobs"] == GRADED


@pytest.fixture
def edited(tmp_path: Path) -> tuple[Layout, str]:
    """A finished study, of which one run had its rewards from another grader, and that run."""
    layout = layout_of(STUDY, tmp_path)
    finish(layout)
    name = next(iter(layout.grid.runs))
    path = layout.run(name) / "spec.json"
    spec = json.loads(path.read_text())
    spec["reward_code"].insert(0, spec["reward_code"][0] | {"grading.policy": "0" * 64, "reasoning-gym": "0.1.0"})
    record(path, spec)
    return layout, name


LINE = (
    "1 of 6 trained runs had rewards of an earlier code of the grader (grading.policy, reasoning-gym changed since): "
    "if rewards differ, raise the version of reasoning_gym in grading/versions.py and they are trained again; if not, "
    "seedwise accept --stage rewards"
)


def test_whoever_looks_at_the_study_is_told_in_one_line(edited, tmp_path, monkeypatch) -> None:
    layout, name = edited
    assert list(planning.lines(planning.plan(layout, tmp_path / "work")))[-1] == LINE
    assert list(planning.told(planning.plan(layout, tmp_path / "work", name), name))[-1] == LINE.replace("of 6", "of 1")
    assert list(verifying.notes(layout)) == [LINE]
    assert conclude.facts(layout)["cautions"] == (LINE,)
    other = list(layout.grid.runs)[1]
    assert planning.plan(layout, tmp_path / "work", other).rewards == ()
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(json.dumps(STUDY))
    done = CliRunner().invoke(cli.app, ["verify", "--study", "study.yaml"])
    assert done.output.splitlines()[-1] == LINE


def test_rewards_of_a_grader_that_was_not_recorded_are_told_of(edited) -> None:
    layout, _ = edited
    for name in layout.grid.runs:
        path = layout.run(name) / "spec.json"
        spec = json.loads(path.read_text())
        del spec["reward_code"]
        record(path, spec)
    (line,) = graders.told(layout, Archive(layout.root / "runs"))
    assert line.startswith(
        "6 of 6 trained runs had rewards of an earlier code of the grader (which was not recorded): if"
    )
