"""Situations in which workflow tools forget or repeat work, on real dry-runs of the smoke study.

A dry-run asks which files exist, so the finished study is laid out by hand.  Every plan is also that of
``seedwise plan``.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from rerun_made import finish, layout_of

from seedwise.grid import expand
from seedwise.layout import Layout
from seedwise.reading import load, parse
from seedwise.reruns import jobs

ROOT = Path(__file__).parents[2]
SMOKE: dict[str, Any] = load(ROOT / "config/smoke.yaml").model_dump(mode="json")
DOWNSTREAM = {"analyse": 1, "report": 1, "track": 1}
EXPRESSION = {"baseline": [{"kind": "group_mean"}]}


def written(study: dict[str, Any]) -> str:
    """As YAML; in order, since the first benchmark is the one that is resampled."""
    return yaml.safe_dump(study, sort_keys=False)


def smoke(**changes: Any) -> dict[str, Any]:
    """The smoke study with dotted keys replaced."""
    study = copy.deepcopy(SMOKE)
    for place, value in changes.items():
        *path, last = place.split(".")
        node = study
        for key in path:
            node = node[key]
        node[last] = value
    return study


def snakemake(folder: Path, text: str, source: Path = ROOT / "src", **environment: str) -> subprocess.CompletedProcess:
    """A dry-run of a study file with this text."""
    (folder / "study.yaml").write_text(text)
    command = [sys.executable, "-m", "snakemake", "-n", "-s", str(ROOT / "Snakefile"), "--directory", str(folder)]
    return subprocess.run(
        [*command, "--config", f"study={folder / 'study.yaml'}"],
        env=os.environ | {"PYTHONPATH": str(source)} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def counted(done: subprocess.CompletedProcess) -> dict[str, int]:
    """rule -> planned jobs."""
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown
    table = re.search(r"Job stats:\n(.*?)\n\n", shown, re.S)
    if table is None:
        assert "Nothing to be done" in shown
        return {}
    found = re.findall(r"^(\w+)\s+(\d+)$", table[1], re.M)
    return {rule: int(count) for rule, count in found if rule not in ("all", "total")}


def planned(folder: Path, study: dict[str, Any]) -> dict[str, int]:
    """What both Snakemake and ``seedwise plan`` say will run."""
    return agreed(folder, study, snakemake(folder, written(study)))


def agreed(folder: Path, study: dict[str, Any], done: subprocess.CompletedProcess) -> dict[str, int]:
    """What a dry-run planned, which ``seedwise plan`` plans as well."""
    ours: dict[str, int] = {}
    for job in jobs.planned(layout_of(study, folder)):
        ours[job.stage] = ours.get(job.stage, 0) + 1
    assert ours == counted(done)
    return ours


def jobs_of(layout: Layout, subjects: list[str] | None = None) -> dict[str, int]:
    """sample, score, measure and, where the study wants any, resample -> jobs of these (all), and what follows."""
    subjects = layout.subjects if subjects is None else subjects
    resampled = sum(layout.continuations(name) is not None for name in subjects)
    found = {"sample": len(subjects), "score": len(subjects), **({"resample": resampled} if resampled else {})}
    return found | {"measure": len(subjects)} | DOWNSTREAM


def test_a_fresh_study_with_awkward_names_and_a_run_named_twice(tmp_path) -> None:
    study = smoke(**{"methods.a_quarter_": {"preset": "qae", "K": 0.4}})
    study["blocks"][2]["axes"] = {"train.lr": [1e-05]}  # a name with a minus, beside points, _ and +
    study["methods"]["plus"] = {**EXPRESSION, "credit": {"kind": "entropic", "kappa": 0.5}}
    done = snakemake(tmp_path, written(study))
    layout = layout_of(study, tmp_path)
    # plus has two seeds, and a_quarter_ is there already
    assert len(layout.grid.runs) == len(expand(parse(SMOKE)).runs) + 2
    assert agreed(tmp_path, study, done)["train"] == len(layout.grid.runs)
    # each name is parsed back whole from the paths: rule train has no other wildcard
    assert set(re.findall(r"wildcards: run=(\S+)$", done.stdout + done.stderr, re.M)) == set(layout.grid.runs)
    assert any(".lr1e-05." in name for name in layout.grid.runs)
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert notes == ["note: a_quarter_ at G8 is the run of qae.K0.4 at G8: one run"]


def test_a_moved_folder_with_old_time_stamps_and_no_metadata_plans_nothing(tmp_path) -> None:
    finish(layout_of(SMOKE, tmp_path / "before"))
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    folder = tmp_path / "after"
    folder.mkdir()
    shutil.copytree(tmp_path / "before/results", folder / "results")  # a copy: every time stamp is new
    for age, path in enumerate(sorted(folder.rglob("*"))):
        os.utime(path, (age, age))  # outputs older than inputs, as a restored backup may have them
    for path in source.rglob("*.py"):
        path.touch()
    assert counted(snakemake(folder, written(SMOKE), source, PYTHONHASHSEED="3")) == {}


def test_swapped_values_are_another_run(tmp_path) -> None:
    def bounds(low: float, high: float) -> dict[str, Any]:
        return smoke(
            **{"methods.own": {**EXPRESSION, "objective": {"surrogate": {"kind": "clipped", "low": low, "high": high}}}}
        )

    finish(layout_of(bounds(0.1, 0.3), tmp_path))
    swapped = layout_of(bounds(0.3, 0.1), tmp_path)
    own = [name for name, run in swapped.grid.runs.items() if run.method == "own"]
    assert planned(tmp_path, bounds(0.3, 0.1)) == {"train": 2, **jobs_of(swapped, own)}


def test_a_learning_rate_is_planned_where_snakemake_has_no_metadata(tmp_path) -> None:
    finish(layout_of(SMOKE, tmp_path))
    assert not (tmp_path / ".snakemake").exists()
    study = smoke(**{"train.lr": 3e-4})
    layout = layout_of(study, tmp_path)
    # all but the base and the runs whose own learning rate is an axis
    changed = [name for name, run in layout.grid.runs.items() if run.train.lr == 3e-4]
    assert 0 < len(changed) < len(layout.grid.runs)
    assert planned(tmp_path, study) == {"train": len(changed), **jobs_of(layout, changed)}


def test_problems_replaced_by_older_ones_are_new_problems(tmp_path) -> None:
    file = tmp_path / "problems.jsonl"
    task = {"task": "jsonl", "path": str(file), "verifier": "math_verify"}
    study = smoke(**{"evaluate.benchmarks.longer": task})

    def write(answer: int) -> None:
        rows = [{"question": f"{number}+1=", "answer": str(number + answer)} for number in range(6)]
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    write(1)
    finish(layout_of(study, tmp_path))
    write(2)
    os.utime(file, (1, 1))
    # every run and the base are asked the new problems; nothing is trained
    assert planned(tmp_path, study) == {"data": 1, **jobs_of(layout_of(study, tmp_path))}


def test_a_number_is_one_number_however_it_is_written(tmp_path) -> None:
    study = smoke(**{"train.lr": 0.1, "train.weight_decay": 0.1, "train.warmup_steps": 1})
    finish(layout_of(study, tmp_path))
    text = written(study)
    for old, new in (("  lr: 0.1\n", "  lr: 1e-1\n"), ("weight_decay: 0.1\n", 'weight_decay: "0.10"\n')):
        assert old in text
        text = text.replace(old, new)
    assert counted(snakemake(tmp_path, text)) == {}


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"methods": {**SMOKE["methods"], "a;touch x": {"preset": "grpo"}}}, "'a;touch x' is not a safe name"),
        ({"blocks": [{"methods": ["qae.K0.4"], "seeds": [None]}]}, "blocks.0.seeds.0"),
    ],
)
def test_what_cannot_be_a_path_is_refused_by_name_before_any_job(change: dict, wrong: str, tmp_path) -> None:
    done = snakemake(tmp_path, written(smoke(**change)))
    assert done.returncode != 0
    assert wrong in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name != ".snakemake"] == ["study.yaml"]


def test_a_seed_that_is_missing_in_one_method_leaves_all_other_runs_in_place(tmp_path) -> None:
    study = smoke(seeds=[0, 1, 2], blocks=[{"methods": ["qae.K0.4"], "group_size": 4, "seeds": [0, 1]}])
    finish(layout_of(study, tmp_path))
    study["blocks"][0]["seeds"] = [1]
    assert planned(tmp_path, study) == DOWNSTREAM


def test_an_edited_grader_plans_grading_and_what_rests_on_it(tmp_path) -> None:
    finish(layout_of(SMOKE, tmp_path))
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    with (source / "seedwise/grading/verify.py").open("a") as file:
        file.write("\nEXTRA = 1\n")
    found = counted(snakemake(tmp_path, written(SMOKE), source))
    expected = jobs_of(layout_of(SMOKE, tmp_path))
    assert found == {stage: count for stage, count in expected.items() if stage != "sample"}
    shown = subprocess.run(
        [sys.executable, "-m", "seedwise.cli", "plan", "--study", "study.yaml", "--json"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    plan = json.loads(shown.stdout)
    assert plan["jobs"] == found
    (told,) = plan["rewards"]
    assert "trained runs had rewards of an earlier code of the grader (grading.verify changed since)" in told
    kinds = {(job["stage"], reason["kind"]) for job in plan["others"] for reason in job["reasons"]}
    assert kinds == {
        ("score", "code"),
        *((stage, "input") for stage in ("resample", "measure", "analyse", "report", "track")),
    }


@pytest.mark.parametrize("edit", ["code", "setting"])
def test_an_edited_metric_plans_measuring_and_the_report_alone(tmp_path, edit: str) -> None:
    layout = layout_of(SMOKE, tmp_path)
    finish(layout)
    expected = {"measure": len(layout.subjects), "report": 1, "track": 1}
    if edit == "setting":
        assert planned(tmp_path, smoke(**{"metrics.markers": ["wait"]})) == expected
        return
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    with (source / "seedwise/evals/metrics_length.py").open("a") as file:
        file.write("\nEXTRA = 1\n")
    assert counted(snakemake(tmp_path, written(SMOKE), source)) == expected
