"""Real trainings whose MLflow store is down, hangs or is locked: they end, whole, with one warning."""

from __future__ import annotations

import logging
import socket
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
import torch
from mlflow import MlflowClient
from trainer.outputs import weights

from seedwise import tables
from seedwise.trainer import passing as passes
from seedwise.trainer import run as story
from seedwise.trainer.journal import End, Metrics, Start, parse
from seedwise.trainer.live import Live
from seedwise.trainer.mirror import sync
from seedwise.trainer.passing import DELAY_S, Passing, TrackingError

pytestmark = pytest.mark.timeout(900)


class Job:
    """One training of 4 steps and what follows it, as `seedwise train` does it."""

    name, study = "tiny.s0-00000000", "outage"

    def __init__(self, root: Path, make_run, model_folder: Path, problems: pd.DataFrame) -> None:
        self.root, self.run, self.model_folder, self.problems = root, make_run(), model_folder, problems
        self.out = root / "runs" / self.name
        row = {"run": self.name, "model": "tiny", "method": "tiny", "setting": "G8", "group_size": 8, "seed": 0}
        tables.write(tables.RUNS, [{**row, "axes": "{}", "id": "00000000"}], root / self.study / "runs.parquet")
        self.runs = tables.read(tables.RUNS, root / self.study / "runs.parquet")

    def train(self, store: str | None) -> Passing | None:
        passing = store and Passing(store, self.study, self.root, self.runs, every_s=0.0)
        with Live(self.out / "tracking.jsonl", {"train": {"lr": 0.01}}, {}, passing or None) as live:
            story.train(
                self.run,
                model_folder=self.model_folder,
                problems=self.problems,
                out=self.out,
                work=self.root.parent / "work" / self.name,
                spec={"run": self.run.model_dump(mode="json")},
                live=live,
            )
        return passing or None

    def journal(self) -> list:
        events, damaged = parse((self.out / "tracking.jsonl").read_bytes())
        assert damaged == 0
        return events

    def whole(self) -> bool:
        """Whether the training is published and its journal complete."""
        steps = [event.step for event in self.journal() if isinstance(event, Metrics) and "loss" in event.values]
        return (self.out / "trained.json").exists() and steps == [1, 2, 3, 4] and isinstance(self.journal()[-1], End)

    def sync(self, store: str) -> list:
        """Complete the mirror, see that doing so again changes nothing, and return its points of a metric."""
        assert sync(store, self.study, self.root, wait_s=60).created == 1
        again = sync(store, self.study, self.root, wait_s=60)
        assert (again.created, again.updated, again.unchanged, again.points) == (0, 0, 1, 0)
        client = MlflowClient(store)
        experiment = client.get_experiment_by_name(self.study)
        (run,) = client.search_runs([experiment.experiment_id], "tags.`seedwise.kind` = 'run'")
        assert run.info.status == "FINISHED"
        return [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, "reward")]


@pytest.fixture
def job(tmp_path, make_run, model_folder, problems) -> Job:
    return Job(tmp_path / "results", make_run, model_folder, problems)


@pytest.fixture
def waits(monkeypatch) -> list[float]:
    """The times that a job gave its syncs to end in, s; a process that was ended is waited for without."""
    given: list[float] = []

    class Watched(subprocess.Popen):
        def wait(self, timeout: float | None = None) -> int:
            given.extend([] if timeout is None else [timeout])
            return super().wait(timeout)

    monkeypatch.setattr(passes.subprocess, "Popen", Watched)
    return given


def rewards(job: Job) -> list:
    metrics = tables.read(tables.METRICS, job.out / "metrics.parquet")
    return list(metrics.loc[metrics["name"] == "reward", ["step", "value"]].itertuples(index=False, name=None))


def test_a_server_that_accepts_and_never_answers(job: Job, waits, caplog, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:  # the kernel accepts, and nobody reads
        with caplog.at_level(logging.WARNING, "seedwise"):
            job.train(f"http://127.0.0.1:{server.getsockname()[1]}")
        assert job.whole(), "it trained to its end while the server hung"
    (said,) = caplog.messages
    assert "the store did not answer in time): seedwise sync completes it" in said
    assert waits == [DELAY_S], "once, and not again for a last sync"
    assert job.sync(f"sqlite:///{tmp_path}/results/mlflow.db") == rewards(job)


def test_a_server_that_is_down(job: Job, waits, caplog, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with caplog.at_level(logging.WARNING, "seedwise"):
        passing = job.train(f"http://127.0.0.1:{port}")
    assert job.whole()
    assert len(caplog.messages) == 1
    assert passing.started >= 1 and len(waits) <= 2 and max(waits) <= DELAY_S
    assert job.sync(f"sqlite:///{tmp_path}/results/mlflow.db") == rewards(job)


def test_a_database_that_another_program_has_locked(job: Job, waits, caplog, tmp_path: Path):
    file = tmp_path / "results" / "mlflow.db"
    sync(f"sqlite:///{file}", job.study, job.root, wait_s=60)
    with closing(sqlite3.connect(file)) as foreign:
        foreign.execute("begin exclusive")
        with caplog.at_level(logging.WARNING, "seedwise"):
            job.train(f"sqlite:///{file}")
        assert job.whole(), "it trained to its end while the database was locked"
        with pytest.raises(TrackingError, match=r"database is locked; the files are complete, seedwise sync tries"):
            sync(f"sqlite:///{file}", job.study, job.root, wait_s=60)
    assert len(caplog.messages) == 1
    assert len(waits) <= 2 and max(waits) <= DELAY_S
    assert job.sync(f"sqlite:///{file}") == rewards(job)


def test_what_is_followed_computes_the_same_bits_and_tells_all(
    job: Job, tmp_path: Path, make_run, model_folder, problems
):
    job.train(None)
    alone = tmp_path / "alone"
    story.train(
        make_run(), model_folder=model_folder, problems=problems, out=alone, work=tmp_path / "alone-work", spec={}
    )
    assert (alone / "metrics.parquet").read_bytes() == (job.out / "metrics.parquet").read_bytes()
    assert all(torch.equal(weight, weights(job.out, 4)[name]) for name, weight in weights(alone, 4).items())

    events = job.journal()
    assert isinstance(events[0], Start) and events[0].after == 0 and events[0].params == {"train.lr": "0.01"}
    told = {}
    for event in events:
        if isinstance(event, Metrics):
            told.update({(event.step, name): value for name, value in event.values.items()})
            assert {name for name, value in event.values.items() if value is None} == set(event.reasons)
    kept = pd.concat([tables.read(tables.METRICS, job.out / f"{name}.parquet") for name in ("metrics", "timing")])
    machine = {key: value for key, value in told.items() if key[1].startswith("system/")}
    assert told.keys() - machine.keys() == {(row.step, row.name) for row in kept.itertuples(index=False)}
    assert {step for step, _ in machine} == {1, 2, 3, 4}
    assert machine[4, "system/process_memory_megabytes"] > 50
    assert all(value >= 0 for value in machine.values())
