"""The mirror in a real MLflow store: whole, unchanged by a second sync, and always to be had again from the files."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import mlflow
import pandas as pd
import psutil
import pytest
from filelock import FileLock
from mlflow import MlflowClient

from seedwise import tables
from seedwise.trainer import tracking
from seedwise.trainer.passing import TrackingError, sync_in_passing


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that sync created from nothing; creating one takes seconds, so tests copy it."""
    root = tmp_path_factory.mktemp("store") / "results"
    tracking.sync(f"sqlite:///{root}/mlflow.db", "none", root, wait_s=0, runs=pd.DataFrame())
    return root / "mlflow.db"


class Project:
    """Two seeds of one method point and the untrained base, with journals to be written by the test."""

    study = "tiny"

    def __init__(self, root: Path) -> None:
        self.root, self.store = root, f"sqlite:///{root}/mlflow.db"
        points = [("grpo", seed, "G8", 8) for seed in (0, 1)] + [("base", 0, "", 0)]
        rows = [
            {
                "run": f"{method}.s{seed}-0000000{seed}",
                "model": "embedded",
                "method": method,
                "setting": setting,
                "group_size": size,
                "seed": seed,
                "axes": '{"K": 0.4}' if size else "{}",
                "id": f"0000000{seed}",
            }
            for method, seed, setting, size in points
        ]
        self.runs = [row["run"] for row in rows]
        tables.write(tables.RUNS, rows, root / self.study / "runs.parquet")

    def journal(self, seed: int = 0) -> Path:
        return self.root / "runs" / self.runs[seed] / "tracking.jsonl"

    def train(self, seed: int = 0, steps: int = 3) -> None:
        tracking.append(
            self.journal(seed), tracking.started({"train": {"lr": 1e-4, "axes": [1, 2]}}, {"host.gpu": "none"})
        )
        for step in range(1, steps + 1):
            tracking.append(self.journal(seed), {"event": "metrics", "step": step, "values": {"reward": step / 10}})
        tracking.append(self.journal(seed), {"event": "end", "status": "FINISHED"})

    def sync(self) -> tracking.Report:
        return tracking.sync(self.store, self.study, self.root, wait_s=0)

    @property
    def client(self) -> MlflowClient:
        return MlflowClient(self.store)

    def mirrored(self) -> list[mlflow.entities.Run]:
        experiment = self.client.get_experiment_by_name(self.study)
        return list(self.client.search_runs([experiment.experiment_id]))

    def child(self, seed: int = 0) -> mlflow.entities.Run:
        (found,) = [run for run in self.mirrored() if run.data.tags.get("seedwise.run") == self.runs[seed]]
        return found

    def history(self, metric: str, seed: int = 0) -> list[tuple[int, float]]:
        points = self.client.get_metric_history(self.child(seed).info.run_id, metric)
        return sorted((point.step, point.value) for point in points)


@pytest.fixture
def project(tmp_path: Path, empty_store: Path) -> Project:
    made = Project(tmp_path / "results")
    shutil.copy(empty_store, made.root / "mlflow.db")
    return made


def test_study_point_and_seed_are_experiment_parent_and_child(project: Project):
    project.train(0)
    project.train(1)
    report = project.sync()
    assert (report.created, report.points) == (2, 6)
    (parent,) = [run for run in project.mirrored() if run.data.tags.get("seedwise.point") == "embedded/grpo/G8"]
    child = project.child(1)
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert child.data.tags["host.gpu"] == "none"
    assert child.data.params["train.lr"] == "0.0001"
    assert child.data.params["train.axes"] == "[1, 2]"
    assert (child.data.params["seed"], child.data.params["axes.K"]) == ("1", "0.4")
    assert project.history("reward", 1) == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert (child.info.status, parent.info.status) == ("FINISHED", "FINISHED")


def test_a_second_sync_changes_nothing_and_a_third_adds_only_what_is_new(project: Project):
    project.train(0)
    project.sync()
    before = [(dict(run.info), run.data.to_dictionary()) for run in project.mirrored()]
    report = project.sync()
    assert (report.created, report.updated, report.unchanged, report.points) == (0, 0, 1, 0)
    assert [(dict(run.info), run.data.to_dictionary()) for run in project.mirrored()] == before
    child = project.child().info.run_id
    tracking.append(project.journal(), {"event": "metrics", "step": 4, "values": {"reward": 0.4}})
    report = project.sync()
    assert (report.created, report.updated, report.points) == (0, 1, 1)
    assert project.child().info.run_id == child


def test_steps_repeated_after_a_resume_replace_the_first_ones(project: Project):
    project.train(0, steps=3)
    project.sync()
    tracking.append(project.journal(), tracking.started({"train": {"lr": 1e-4}}))  # continues from step 2
    tracking.append(project.journal(), {"event": "metrics", "step": 3, "values": {"reward": 9.0}})
    project.sync()
    assert project.history("reward") == [(1, 0.1), (2, 0.2), (3, 9.0)]
    assert project.child().info.status == "RUNNING"


def test_nan_infinity_and_null_are_tags_and_no_numbers(project: Project):
    values = {"loss": float("nan"), "ratio": float("inf"), "gap": None, "reward": True}
    reasons = {"gap": "no incorrect responses"}
    tracking.append(project.journal(), {"event": "metrics", "step": 7, "values": values, "reasons": reasons})
    project.sync()
    child = project.child()
    assert child.data.metrics == {"reward": 1.0}
    assert child.data.tags["seedwise.undefined.loss"] == "step 7: nan"
    assert child.data.tags["seedwise.undefined.ratio"] == "step 7: inf"
    assert child.data.tags["seedwise.undefined.gap"] == "step 7: no incorrect responses"


def test_more_than_one_batch_and_a_long_param(project: Project):
    tracking.append(project.journal(), {"event": "start", "params": {"template": "x" * 7000}})
    for step in range(2):
        values = {f"pass@{k}": k / 1000 for k in range(600)}
        tracking.append(project.journal(), {"event": "metrics", "step": step, "values": values})
    assert project.sync().points == 1200
    child = project.child()
    assert (len(child.data.metrics), child.data.metrics["pass:at:16"]) == (600, 0.016)
    shown = child.data.params["template"]
    assert len(shown) == 6000
    assert re.fullmatch(r"x+ \.\.\. cut, 7000 characters, sha256 [0-9a-f]{16}", shown)


def test_a_run_whose_process_is_gone_is_killed(project: Project):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = tracking.started({})
    birth = psutil.Process(process.pid).create_time()
    tracking.append(project.journal(), start.model_copy(update={"pid": process.pid, "birth": birth}))
    project.sync()
    assert project.child().info.status == "RUNNING"
    process.kill()
    process.communicate()
    assert project.sync().killed == [project.runs[0]]
    assert project.child().info.status == "KILLED"
    assert project.sync().killed == []  # said once


def test_the_mirror_of_a_deleted_store_or_journal_comes_from_the_files(project: Project, empty_store: Path):
    project.train(0)
    project.sync()
    shutil.copy(empty_store, project.root / "mlflow.db")
    assert project.sync().created == 1
    assert project.history("reward") == [(1, 0.1), (2, 0.2), (3, 0.3)]

    folder = project.journal().parent
    project.journal().unlink()
    (folder / "spec.json").write_text('{"run": {"train": {"lr": 1e-4}}}')
    rows = [
        {"step": 1, "name": "reward", "value": 0.5, "reason": None},
        {"step": 1, "name": "gap", "value": None, "reason": "one group"},
    ]
    tables.write(tables.METRICS, rows, folder / "metrics.parquet")
    tables.write(tables.METRICS, [{**rows[0], "name": "step_s", "value": 2.0}], folder / "timing.parquet")
    assert project.sync().created == 1
    child = project.child()
    assert (child.data.metrics, child.data.params["run.train.lr"]) == ({"reward": 0.5, "step_s": 2.0}, "0.0001")
    assert (child.data.tags["seedwise.undefined.gap"], child.info.status) == ("step 1: one group", "FINISHED")
    assert project.sync().unchanged == 1


def test_scores_and_the_comparison_are_shown(project: Project):
    counts = {**dict.fromkeys(("unparsed", "timeout", "truncated"), 0), "tokens": 5.0, "samples": 16, "step": 0}
    key = {"run": project.runs[2], "model": "embedded", "method": "base", "setting": "", "seed": 0, "benchmark": "same"}
    rows = [{**counts, **key, "problem": "a", "correct": 4}, {**counts, **key, "problem": "b", "correct": 12}]
    folder = project.root / project.study
    tables.write(tables.COUNTS, rows, folder / "analysis" / "scores.parquet")
    for name, text in (("tables/macro.md", "one"), ("figures/forest.svg", "<svg/>"), ("report.html", "<html/>")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    project.sync()
    # (4/16 + 12/16) / 2
    assert project.child(2).data.metrics == {"same/avg:at:16": 0.5}

    def comparison() -> mlflow.entities.Run:
        (found,) = [run for run in project.mirrored() if run.data.tags["seedwise.kind"] == "comparison"]
        return found

    first = comparison().info.run_id
    assert {item.path for item in project.client.list_artifacts(first)} == {"tables", "figures", "report.html"}
    assert project.sync().created == 0
    (folder / "tables" / "macro.md").write_text("two")
    project.sync()
    assert comparison().info.run_id != first
    assert project.client.get_run(first).data.tags["seedwise.superseded_by"] == comparison().info.run_id


def test_processes_that_share_a_store_that_does_not_exist_yet(tmp_path: Path):
    project = Project(tmp_path / "results")
    project.train(0)
    program = (
        "import sys; from pathlib import Path; from seedwise.trainer.tracking import sync;"
        f"print(sync({project.store!r}, 'tiny', Path({str(project.root)!r}), wait_s=120).created)"
    )
    started = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [process.communicate()[0].strip() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0, 0]
    assert sorted(outputs) == ["0", "0", "0", "1"]  # one created the run, the others found it
    assert project.history("reward") == [(1, 0.1), (2, 0.2), (3, 0.3)]


def test_in_passing_completes_the_record(project: Project):
    project.train(0)
    assert sync_in_passing(project.store, project.study, project.root, limit_s=120)
    assert project.history("reward") == [(1, 0.1), (2, 0.2), (3, 0.3)]


def test_in_passing_neither_waits_nor_raises(project: Project, caplog: pytest.LogCaptureFixture):
    project.train(0)
    with caplog.at_level(logging.WARNING, "seedwise"):
        with FileLock(project.root / "mlflow.db.lock"):
            assert not sync_in_passing(project.store, project.study, project.root, limit_s=120)
            with pytest.raises(TrackingError, match="another sync held it"):
                project.sync()
        assert caplog.messages == []  # whoever holds the lock replays for all

        begun = time.monotonic()
        assert not sync_in_passing("http://127.0.0.1:9", project.study, project.root, limit_s=0.2)
        assert time.monotonic() - begun < 5
        assert not sync_in_passing("sqlite:///nowhere/mlflow.db", project.study, project.root)
    late, absent = caplog.messages
    assert "not done after 0.2 s" in late
    assert absent == "nowhere/mlflow.db does not exist yet: seedwise sync creates it"
    assert not Path("nowhere").exists()
    project.sync()
    assert project.history("reward") == [(1, 0.1), (2, 0.2), (3, 0.3)]


def test_a_server_that_is_down_is_one_line(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError, match=r"^http://127.0.0.1:9: .*seedwise sync tries again$"):
        tracking.sync("http://127.0.0.1:9", project.study, project.root, wait_s=0)
