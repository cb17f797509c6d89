"""One cluster for all tests, and a run that was trained on this machine without it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_cluster import Cluster
from slurm_study import driver, ended, target, write_study

from seedwise import layout as layouts


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The running cluster."""
    made = Cluster()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study file."""
    return write_study(tmp_path_factory.mktemp("study") / "study.yaml")


@pytest.fixture(scope="session")
def run(study: Path) -> str:
    """The name of the study's only run."""
    return next(iter(layouts.read(study).grid.runs))


@pytest.fixture(scope="session")
def straight(tmp_path_factory: pytest.TempPathFactory, study: Path, run: str) -> Path:
    """A folder in which the run was trained on this machine, without a break."""
    folder = tmp_path_factory.mktemp("straight") / "here"
    ended(driver(folder, target(run), "--cores", "2", study=study, cluster=None), folder)
    return folder


@pytest.fixture
def fresh(straight: Path, tmp_path: Path) -> Path:
    """A folder with the problems and the model of the study, and nothing trained."""
    for part in ("data", "models"):
        shutil.copytree(straight / "results" / part, tmp_path / "there" / "results" / part)
    return tmp_path / "there"
