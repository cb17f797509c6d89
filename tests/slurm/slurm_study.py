"""A study small enough for a cluster of one node on two cores, and drivers that run it there or here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from slurm_cluster import Cluster

from seedwise import layout as layouts
from seedwise.identity import file_digest
from seedwise.layout import Layout

ROOT = Path(__file__).parents[2]
PROFILE = ROOT / "workflow" / "profiles" / "slurm"
STEPS = 12
BOUND_S = 600
"""A driver that has not ended by then hangs."""
FINAL = ("tables/*.csv", "analysis/*.parquet")


def write_study(path: Path, **train: Any) -> Path:
    """The smoke study with one run, so that every stage is there; its training can be stopped in the middle."""
    study = yaml.safe_load((ROOT / "config" / "smoke.yaml").read_text())
    study["methods"] = {"clip_higher": {"preset": "clip_higher"}}
    study["seeds"], study["blocks"] = [0], []
    study["compare"] = {"reference": "clip_higher", "primary": {"metric": "avg@n", "family": ["base"]}}
    study["evaluate"] = {"benchmarks": {"same": study["evaluate"]["benchmarks"]["same"]}, "samples": 4}
    study["resample"] |= {"methods": ["base"]}
    study["train"] |= {"steps": STEPS, "checkpoints": [STEPS], "save_every": 2, **train}
    path.write_text(yaml.safe_dump(study))
    return path


def write_profile(folder: Path, **changes: Any) -> Path:
    """The profile of the repository as one for a cluster without accounting and without GPUs.

    changes: key -> value, None to leave the key out; of ``set_resources`` the resources of each rule that differ.
    """
    profile = yaml.safe_load((PROFILE / "config.yaml").read_text())
    profile |= {"slurm-status-command": "squeue", "slurm-init-seconds-before-status-checks": 2, "latency-wait": 5}
    for rule, resources in profile["set-resources"].items():
        for key in ("gpu", "tasks_per_gpu"):
            resources.pop(key, None)
        resources |= changes.get("set_resources", {}).get(rule, {})
    profile |= {key: value for key, value in changes.items() if key != "set_resources"}
    profile = {key: value for key, value in profile.items() if value is not None}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(profile))
    return folder


def driver(
    folder: Path, *arguments: str, study: Path | None, cluster: Cluster | None, snakefile: Path = ROOT / "Snakefile"
) -> subprocess.Popen[str]:
    """Snakemake, started; its output in ``driver.log`` of the folder, added to what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "snakemake", *arguments, "-s", str(snakefile), "--directory", str(folder)]
    configured = ["--config", f"study={study}"] if study else []
    with (folder / "driver.log").open("a") as log:
        return subprocess.Popen(
            [*command, *configured], stdout=log, stderr=log, text=True, env=environment(cluster), start_new_session=True
        )


def environment(cluster: Cluster | None) -> Mapping[str, str]:
    """Of a driver: the checkout's code, no mirror, and the cluster's clients first."""
    path = {"PATH": cluster.path} if cluster else {}
    return os.environ | {"PYTHONPATH": str(ROOT / "src"), "MLFLOW_TRACKING_URI": "off"} | path


def ended(started: subprocess.Popen[str], folder: Path, code: int = 0) -> str:
    """What a driver printed, which must end in time with this exit code."""
    try:
        found = started.wait(BOUND_S)
    finally:
        started.kill()
    printed = (folder / "driver.log").read_text()
    assert found == code, printed[-6000:]
    return printed


def target(run: str) -> str:
    """What the training of a run ends with, from Snakemake's folder."""
    return f"results/runs/{run}/trained.json"


def layout_of(study: Path, folder: Path) -> Layout:
    """Where the study's files lie in a folder."""
    return Layout(layouts.read(study).grid, folder / "results")


def digests(layout: Layout) -> dict[str, str]:
    """file -> digest: tables and analysis of a study, weights, metrics and scores of every run."""
    study = [path for pattern in FINAL for path in layout.folder.glob(pattern)]
    runs = [path for name in layout.grid.runs for path in trained(layout, name)]
    scores = [layout.scores(name) for name in layout.subjects]
    return {str(path.relative_to(layout.root)): file_digest(path) for path in [*study, *runs, *scores]}


def trained(layout: Layout, run: str) -> list[Path]:
    """What a training publishes that must not depend on what happened to it."""
    return [layout.file(run, "metrics.parquet"), *layout.run(run).glob("checkpoints/*/model.safetensors")]
