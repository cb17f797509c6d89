"""A study of one hard-to-resume run, and commands that start in no time and can be killed at any moment."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from filelock import FileLock
from trainer.conftest import make_run, model_folder, problems, train  # noqa: F401 - fixtures of a tiny run

from seedwise import layout as layouts
from seedwise.grid import Grid
from seedwise.layout import Layout

CHAIN = {
    "task": "reasoning_gym", "name": "chain_sum", "answer": {"rule": "marker", "marker": "#"}, "verifier": "task",
    "params": {"min_terms": 4, "max_terms": 6, "min_digits": 1, "max_digits": 1, "allow_negation": False},
}  # fmt: skip
# What is easily lost: a surplus of drawn groups, norms that a controller looks at, momentum, a schedule, the metrics.
METHOD = {
    "baseline": [
        {"kind": "scheduled_quantile", "schedule": {
            "kind": "adaptive", "signal": "gradient_variance", "target": 0.05, "kp": 0.2, "smoothing": 0,
        }},
        {"kind": "divide_by_group_std"},
    ],
    "sampler": {"kind": "dynamic", "surplus": "keep", "factor": 2},
}  # fmt: skip
STUDY = {
    "study": "survival",
    "models": {"embedded": {"kind": "embedded", "template": "{compact}="}},
    "train_data": {**CHAIN, "size": 100, "seed": 1},
    "seeds": [0],
    "methods": {"hard": METHOD},
    "group_size": 4,
    "train": {
        "steps": 6, "completions": 8, "micro_batch": 4, "max_tokens": 24, "checkpoints": [2, 4, 6],
        "save_every": 2, "schedule": "linear", "lr": 1e-3,
    },
    "evaluate": {
        "benchmarks": {"same": {**CHAIN, "size": 4, "seed": 2}, "more": {**CHAIN, "size": 3, "seed": 3}},
        "samples": 2, "max_tokens": 24,
    },
    "compare": {"reference": "hard", "primary": {"family": ["base"]}},
}  # fmt: skip


@dataclass
class Command:
    """A seedwise command that runs in a folder."""

    pid: int
    log: Path
    ask: Callable[[dict], dict]

    def wait(self) -> int:
        """Its exit code, or minus the signal that ended it."""
        return self.ask({"wait": self.pid})["status"]

    def kill(self) -> None:
        """End it at once, wherever it is."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.wait() in (-signal.SIGKILL, 0)

    @property
    def running(self) -> bool:
        """Whether it has not ended; a zombie has."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"

    def until(self, appears: Callable[[], bool]) -> bool:
        """Wait for something to appear; False when the command ended first."""
        while not appears():
            if not self.running:
                return False
            time.sleep(0.0005)
        return True


@dataclass
class Nursery:
    """Starts commands."""

    process: subprocess.Popen
    logs: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def ask(self, order: dict) -> dict:
        """One answer to one order."""
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, folder: Path, *command: str, before: str = "") -> Command:
        """``seedwise <command>`` in a folder, after some statements."""
        log = self.logs / f"{next(self.numbers)}.log"
        order = {"folder": str(folder), "log": str(log), "command": list(command), "before": before}
        return Command(self.ask(order)["pid"], log, self.ask)

    def do(self, folder: Path, *command: str, before: str = "") -> None:
        """The same to its end, which must be a good one."""
        started = self.start(folder, *command, before=before)
        assert started.wait() == 0, started.log.read_text()

    def refused(self, folder: Path, *command: str, before: str = "") -> str:
        """What a command said that could not do its work: one line of its own, and no traceback."""
        started = self.start(folder, *command, before=before)
        code, said = started.wait(), started.log.read_text()
        assert code == 2, said
        told = [line for line in said.splitlines() if line.startswith("seedwise: ")]
        assert len(told) == 1, said
        assert "Traceback" not in said, said
        return told[0]


@pytest.fixture(scope="session")
def nursery(tmp_path_factory, repository) -> Iterator[Nursery]:
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("nursery.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(repository / "src"), "MLFLOW_TRACKING_URI": "off"},
    ) as process:
        yield Nursery(process, tmp_path_factory.mktemp("logs"))
        process.stdin.close()


@pytest.fixture(scope="session")
def study_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.yaml"
    path.write_text(yaml.safe_dump(STUDY))
    return path


@pytest.fixture(scope="session")
def grid(study_file):
    return layouts.read(study_file).grid


@pytest.fixture(scope="session")
def run(grid) -> str:
    """The name of the study's only run."""
    return next(iter(grid.runs))


@pytest.fixture(scope="session")
def prepared(tmp_path_factory, nursery, study_file, grid) -> Path:
    """A folder with problems and model; one for all processes of pytest, like ``straight``."""
    return once(tmp_path_factory, "prepared", lambda folder: prepare(folder, nursery, study_file, grid))


def once(tmp_path_factory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that the first process of pytest to ask for it makes."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    with FileLock(root / f"{name}.lock"):
        if not (root / name).exists():
            make(root / f"{name}.new")
            (root / f"{name}.new").rename(root / name)
    return root / name


def prepare(folder: Path, nursery: Nursery, study_file: Path, grid: Grid) -> None:
    """Make problems and model."""
    folder.mkdir()
    for name in sorted(grid.problems, key=lambda name: grid.problems[name].exclude is not None):
        nursery.do(folder, "data", name, "--study", str(study_file))
    for name in grid.models:
        nursery.do(folder, "base", name, "--study", str(study_file))


@pytest.fixture
def fresh(tmp_path, prepared) -> Path:
    """A folder of its own, with problems and model."""
    return Path(shutil.copytree(prepared, tmp_path / "fresh"))


@pytest.fixture(scope="session")
def straight(tmp_path_factory, prepared, nursery, study_file, run) -> Path:
    """A folder in which nothing went wrong."""

    def go(folder: Path) -> None:
        shutil.copytree(prepared, folder)
        for command in ("train", "sample"):
            nursery.do(folder, command, run, "--study", str(study_file))

    return once(tmp_path_factory, "straight", go)


@pytest.fixture(scope="session")
def layout_of(grid) -> Callable[[Path], Layout]:
    """The layout of a folder."""
    return lambda folder: Layout(grid, folder / "results")
