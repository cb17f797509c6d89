"""The mirror in a real MLflow store: whole, unchanged by a second sync, and always to be had again from the files."""

from __future__ import annotations

import errno
import json
import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mlflow
import pandas as pd
import psutil
import pytest
from filelock import FileLock
from services_made import EIGHT, Study

from seedwise import tables
from seedwise.trainer import passing
from seedwise.trainer.journal import Metrics, append, started
from seedwise.trainer.mirror import sync
from seedwise.trainer.passing import TrackingError

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that sync created from nothing; creating one takes seconds, so tests copy it."""
    root = tmp_path_factory.mktemp("store") / "results"
    sync(f"sqlite:///{root}/mlflow.db", "none", root, wait_s=0, runs=pd.DataFrame())
    return root / "mlflow.db"


@pytest.fixture
def project(tmp_path: Path, empty_store: Path) -> Study:
    made = Study(tmp_path / "results", f"sqlite:///{tmp_path}/results/mlflow.db")
    shutil.copy(empty_store, made.root / "mlflow.db")
    return made


def test_study_point_and_seed_are_experiment_parent_and_child(project: Study):
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
    assert (child.data.params["seed"], child.data.params["K"]) == ("1", "0.4")
    assert project.history("reward", 1) == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert (child.info.status, parent.info.status) == ("FINISHED", "FINISHED")


def test_a_second_sync_changes_nothing_and_a_third_adds_only_what_is_new(project: Study):
    project.train(0)
    project.sync()
    before = [(dict(run.info), run.data.to_dictionary()) for run in project.mirrored()]
    report = project.sync()
    assert (report.created, report.updated, report.unchanged, report.points) == (0, 0, 1, 0)
    assert [(dict(run.info), run.data.to_dictionary()) for run in project.mirrored()] == before
    child = project.child().info.run_id
    append(project.journal(), {"event": "metrics", "step": 4, "values": {"reward": 0.4}})
    report = project.sync()
    assert (report.created, report.updated, report.points) == (0, 1, 1)
    assert project.child().info.run_id == child


def test_steps_repeated_after_a_resume_replace_the_first_ones(project: Study):
    project.train(0, steps=3)
    project.sync()
    append(project.journal(), started({"train": {"lr": 1e-4}}))  # continues from step 2
    append(project.journal(), {"event": "metrics", "step": 3, "values": {"reward": 9.0}})
    project.sync()
    assert project.history("reward") == [(1, 0.1), (2, 0.2), (3, 9.0)]
    assert project.child().info.status == "RUNNING"


def test_nan_infinity_and_null_are_tags_and_no_numbers(project: Study):
    values = {"loss": float("nan"), "ratio": float("inf"), "gap": None, "reward": True}
    reasons = {"gap": "no incorrect responses"}
    append(project.journal(), {"event": "metrics", "step": 7, "values": values, "reasons": reasons})
    project.sync()
    child = project.child()
    assert child.data.metrics == {"reward": 1.0}
    assert child.data.tags["seedwise.undefined.loss"] == "step 7: nan"
    assert child.data.tags["seedwise.undefined.ratio"] == "step 7: inf"
    assert child.data.tags["seedwise.undefined"] == "gap: step 7: no incorrect responses"
    later = {"event": "metrics", "step": 8, "values": {"other": None}, "reasons": {"other": "one group"}}
    append(project.journal(), later)
    project.sync()
    both = "gap: step 7: no incorrect responses\nother: step 8: one group"
    assert project.child().data.tags["seedwise.undefined"] == both


def test_more_than_one_batch_and_a_long_param(project: Study):
    append(project.journal(), {"event": "start", "params": {"template": "x" * 7000}})
    for step in range(2):
        values = {f"pass@{k}": k / 1000 for k in range(600)}
        append(project.journal(), {"event": "metrics", "step": step, "values": values})
    assert project.sync().points == 1200
    child = project.child()
    assert (len(child.data.metrics), child.data.metrics["pass:at:16"]) == (600, 0.016)
    shown = child.data.params["template"]
    assert len(shown) == 6000
    assert re.fullmatch(r"x+ \.\.\. cut, 7000 characters, sha256 [0-9a-f]{16}", shown)


def test_a_run_whose_process_is_gone_is_killed(project: Study):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = started({})
    birth = psutil.Process(process.pid).create_time()
    append(project.journal(), start.model_copy(update={"pid": process.pid, "birth": birth}))
    project.sync()
    assert project.child().info.status == "RUNNING"
    process.kill()
    process.communicate()
    assert project.sync().killed == [project.runs[0]]
    assert project.child().info.status == "KILLED"
    assert project.sync().killed == []  # said once


def test_the_mirror_of_a_deleted_store_or_journal_comes_from_the_files(project: Study, empty_store: Path):
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
    assert (child.data.metrics, child.data.params["train.lr"]) == ({"reward": 0.5, "step_s": 2.0}, "0.0001")
    assert (child.data.tags["seedwise.undefined"], child.info.status) == ("gap: step 1: one group", "FINISHED")
    assert project.sync().unchanged == 1


def test_scores_and_the_comparison_are_shown(project: Study):
    def scored(run: int, *values: float) -> dict[str, list[Metrics]]:
        steps = [Metrics(time=0.0, step=2 * i, values={"same/avg@16": value}) for i, value in enumerate(values)]
        return {project.runs[run]: steps}

    folder = project.root / project.study
    folder.mkdir(exist_ok=True)
    for name, text in (("tables/macro.md", "one"), ("figures/forest.svg", "<svg/>"), ("report.html", "<html/>")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "tables" / "main.md").write_text("| Method |")
    project.train(0)
    project.train(1)
    scores = scored(0, 0.25, 0.5) | scored(1, 0.5, 0.75) | scored(2, 0.125)
    project.sync(scores)
    assert project.child(2).data.metrics == {"same/avg:at:16": 0.125}
    assert project.history("same/avg:at:16", 1) == [(0, 0.5), (2, 0.75)]
    (parent,) = [run for run in project.mirrored() if run.data.tags.get("seedwise.point") == "embedded/grpo/G8"]
    (mean,) = project.client.get_metric_history(parent.info.run_id, "same/avg:at:16")
    assert (mean.step, mean.value) == (2, 0.625)  # of two seeds: (0.5 + 0.75) / 2, at their last checkpoint

    def comparison() -> mlflow.entities.Run:
        (found,) = [run for run in project.mirrored() if run.data.tags["seedwise.kind"] == "comparison"]
        return found

    first = comparison().info.run_id
    assert {item.path for item in project.client.list_artifacts(first)} == {"tables", "figures", "report.html"}
    assert comparison().data.tags["mlflow.note.content"] == "| Method |"
    report = project.sync(scores)
    assert (report.created, report.updated, report.points) == (0, 0, 0)
    assert project.sync().updated == 0, "a sync that knows no scores leaves them as they are"
    assert project.history("same/avg:at:16", 1) == [(0, 0.5), (2, 0.75)]
    assert len(project.client.get_metric_history(parent.info.run_id, "same/avg:at:16")) == 1
    (folder / "tables" / "macro.md").write_text("two")
    project.sync()
    assert comparison().info.run_id != first
    assert project.client.get_run(first).data.tags["seedwise.superseded_by"] == comparison().info.run_id


def test_eight_writers_on_a_store_that_does_not_exist_yet(tmp_path: Path):
    project = Study(tmp_path / "results", f"sqlite:///{tmp_path}/results/mlflow.db", seeds=8)
    processes = [
        subprocess.Popen([sys.executable, "-c", EIGHT, *project.order(seed)], stdout=subprocess.PIPE, text=True)
        for seed in range(8)
    ]
    created = [process.communicate()[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * 8
    assert sum(map(int, created)) == 8  # whoever came first showed what was there, nobody showed it again
    for seed in range(8):
        assert project.history("reward", seed) == [(step, step) for step in range(1, 6)]
    assert len([run for run in project.mirrored() if run.data.tags["seedwise.kind"] == "point"]) == 2


def test_the_store_is_created_whole_or_not_at_all(tmp_path: Path):
    project = Study(tmp_path / "results", f"sqlite:///{tmp_path}/results/mlflow.db")
    project.train(0)
    half = project.root / "mlflow.db.new"
    half.write_bytes(b"what a process left that was killed while it created the store")
    assert project.sync().created == 1
    assert not half.exists()


def test_a_step_taken_back_by_a_resume_is_shown_once(project: Study):
    project.train(0, steps=0)
    for step in range(1, 5):
        append(project.journal(), {"event": "metrics", "step": step, "values": {"reward": step / 10}})
    project.sync()
    before = project.child().info.run_id
    append(project.journal(), started({}, after=2))  # killed after step 4, saved after step 2
    project.sync()
    assert project.history("reward") == [(1, 0.1), (2, 0.2)], "steps 3 and 4 do not stand any more"
    mirrored = project.child().info.run_id
    assert mirrored != before
    for step in (3, 4, 5):
        append(project.journal(), {"event": "metrics", "step": step, "values": {"reward": step}})
        assert project.sync().created == 0
    assert project.history("reward") == [(1, 0.1), (2, 0.2), (3, 3.0), (4, 4.0), (5, 5.0)]
    assert project.child().info.run_id == mirrored
    append(project.journal(), started({}, after=5))  # saved at its last step: nothing to take back
    assert (project.sync().created, project.child().info.run_id) == (0, mirrored)


def test_a_killed_run_that_was_published_is_finished_and_names_its_weights(project: Study):
    process = subprocess.Popen([sys.executable, "-c", ""])
    birth = psutil.Process(process.pid).create_time()
    process.wait()
    append(project.journal(), started({}).model_copy(update={"pid": process.pid, "birth": birth}))
    folder = project.journal().parent
    (folder / "spec.json").write_text('{"run": {}, "stack": {"device": "cpu"}, "git_commit": "abc"}')
    stop = {"step": 3, "reason": "loss is nan"}
    digests = {"checkpoints/2/a.safetensors": "11", "checkpoints/4/a.safetensors": "22", "metrics.parquet": "33"}
    record = {"steps": 3, "stopped": stop, "checkpoints": [2, 4], "sha256": digests}
    (folder / "trained.json").write_text(json.dumps(record))
    assert project.sync().killed == []
    child = project.child()
    assert child.info.status == "FINISHED"
    tags = child.data.tags
    assert (tags["stack.device"], tags["mlflow.source.git.commit"]) == ("cpu", "abc")
    assert tags["seedwise.stopped"] == "step 3: loss is nan"
    assert tags["checkpoint.4"] == f"runs/{project.runs[0]}/checkpoints/4/a.safetensors, sha256 22"
    (folder / "retention.json").write_text('{"removed": {"checkpoints/2/a.safetensors": "11"}}')
    assert project.sync().created == 0
    assert project.child().data.tags["checkpoint.2"].endswith("sha256 11, removed (train.keep)")


def test_a_run_of_a_slurm_job_on_another_host_is_killed_when_slurm_does_not_know_it(
    project: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    elsewhere = started({}).model_copy(update={"host": "another-node", "slurm_job": "77"})
    append(project.journal(), elsewhere)
    project.sync()
    assert project.child().info.status == "RUNNING", "nobody can tell"
    squeue = tmp_path / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(squeue.parent), prepend=":")
    assert project.sync().killed == [project.runs[0]]


def test_in_passing_completes_the_record(project: Study):
    project.train(0)
    job = project.passing(delay_s=800)
    job.look()
    assert job.close()
    assert job.started == 2
    assert project.history("reward") == [(1, 0.1), (2, 0.2), (3, 0.3)]
    other = project.passing(delay_s=800)
    other.look()
    assert not other.close()
    assert other.started == 0, "another job has just done it for all"


def test_in_passing_neither_waits_for_the_lock_nor_raises(project: Study, caplog: pytest.LogCaptureFixture):
    project.train(0)
    with caplog.at_level(logging.WARNING, "seedwise"), FileLock(project.root / "mlflow.db.lock"):
        assert not project.passing(delay_s=800).close()
        with pytest.raises(TrackingError, match="another sync held it"):
            project.sync()
    assert caplog.messages == []  # whoever holds the lock replays for all
    assert project.sync().created == 1


def test_in_passing_a_process_that_cannot_be_started_is_a_warning(
    project: Study, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*args, **kwargs):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(passing.subprocess, "Popen", refuse)
    job = project.passing()
    with caplog.at_level(logging.WARNING, "seedwise"):
        job.look()
        assert not job.close()
    (said,) = caplog.messages
    assert "is behind ([Errno 12] Cannot allocate memory): seedwise sync completes it" in said


def test_in_passing_a_sync_that_takes_too_long_is_ended(project: Study, caplog: pytest.LogCaptureFixture):
    project.train(0)
    job = project.passing("http://127.0.0.1:9", delay_s=0.0, every_s=0.0)
    with caplog.at_level(logging.WARNING, "seedwise"):
        job.left_s = 0.1  # less than Python takes to import MLflow
        job.look()
        assert not job.close()
    assert caplog.messages == [
        "http://127.0.0.1:9: tracking of tiny is behind (the store did not answer in time): seedwise sync completes it"
    ]
    assert job.started == 1, "no time is left for a last one"


def test_in_passing_no_store_is_created_but_by_who_may_take_the_time(project: Study, caplog: pytest.LogCaptureFixture):
    project.train(0)
    file = project.root / "another.db"
    job = project.passing(f"sqlite:///{file}", delay_s=800)
    with caplog.at_level(logging.WARNING, "seedwise"):
        job.look()
        assert not job.close()
    assert caplog.messages == [
        f"sqlite:///{file}: tracking of tiny is behind (the store does not exist yet): seedwise sync completes it"
    ]
    assert not file.exists()
    assert project.passing(f"sqlite:///{file}", delay_s=800, creates=True).close()
    assert file.exists()


def test_a_server_that_is_down_is_one_line(project: Study, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError, match=r"^http://127.0.0.1:9: .*seedwise sync tries again$"):
        sync("http://127.0.0.1:9", project.study, project.root, wait_s=0)
