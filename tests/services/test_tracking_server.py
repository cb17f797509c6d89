"""The mirror on a real MLflow server on 127.0.0.1."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from mlflow import MlflowClient
from services_made import EIGHT, Study

from seedwise.trainer.journal import append, original_name, started
from seedwise.trainer.passing import TrackingError

pytestmark = [pytest.mark.service, pytest.mark.timeout(900)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextmanager
def served(folder: Path, port: int) -> Iterator[str]:
    """A server with a store of its own in a folder; stopped with all its workers."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    stores = ["--backend-store-uri", f"sqlite:///{folder}/server.db", "--artifacts-destination", str(folder / "files")]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            [*command, *stores],
            stdout=log,
            stderr=log,
            env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"},
            start_new_session=True,
        )
        try:
            while not answers(port):
                assert server.poll() is None, (folder / "server.log").read_text()
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, 9)
            server.wait()


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[[int], str]]:
    """Starts the test's server on a port; the same store every time."""
    with ExitStack() as started_servers:
        yield lambda port: started_servers.enter_context(served(tmp_path / "server", port))


def test_eight_writers_on_a_server_whose_store_is_new(tmp_path: Path, server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "120")  # one worker serves eight, on a machine that may be busy
    study = Study(tmp_path / "results", server(free_port()), seeds=8)
    writers = [
        subprocess.Popen([sys.executable, "-c", EIGHT, *study.order(seed)], stdout=subprocess.PIPE, text=True)
        for seed in range(8)
    ]
    created = [int(writer.communicate()[0]) for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 8
    assert sum(created) == 8
    for seed in range(8):
        assert study.history("reward", seed) == [(step, step) for step in range(1, 6)]
    assert len(study.mirrored()) == 8 + 2, "and their method point and the base's"


def test_a_server_that_comes_back_is_told_all(tmp_path: Path, server, capsys: pytest.CaptureFixture[str]):
    port = free_port()
    study = Study(tmp_path / "results", f"http://127.0.0.1:{port}", seeds=1)
    append(study.journal(0), started({"lr=0.1": 1}))
    values = {"pass@16": 0.5, "timing(s)/gen": 1.5, "lr=0.1": 2.0, "loss": float("nan"), "ratio": float("-inf")}
    append(study.journal(0), {"event": "metrics", "step": 1, "values": values})
    (study.journal(0).parent / "spec.json").write_text("{}")
    append(study.journal(0), {"event": "artifact", "path": "spec.json"})
    append(study.journal(0), {"event": "end"})
    with pytest.raises(TrackingError, match="seedwise sync tries again"):
        study.sync()
    server(port)
    capsys.readouterr()
    assert study.sync().created == 1
    assert capsys.readouterr().out == "", "MLflow prints addresses of a server's runs"
    again = study.sync()
    assert (again.created, again.updated, again.unchanged, again.points) == (0, 0, 1, 0)
    child = study.child(0)
    numbers = {original_name(name): value for name, value in child.data.metrics.items()}
    assert numbers == {"pass@16": 0.5, "timing(s)/gen": 1.5, "lr=0.1": 2.0}
    undefined = {name: tag for name, tag in child.data.tags.items() if name.startswith("seedwise.undefined")}
    assert undefined == {"seedwise.undefined.loss": "step 1: nan", "seedwise.undefined.ratio": "step 1: -inf"}
    assert child.data.params["lr:eq:0.1"] == "1"
    assert [file.path for file in MlflowClient(study.store).list_artifacts(child.info.run_id)] == ["spec.json"]
    assert child.info.status == "FINISHED"
