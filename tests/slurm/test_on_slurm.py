"""Studies on a real Slurm of one node without accounting, by the profile that is shipped.

Trainings are stopped (SIGSTOP) where something is to happen in their middle, so nothing here is a race.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from slurm_cluster import Cluster, ClusterError, mine, running
from slurm_study import (
    BOUND_S,
    STEPS,
    digests,
    driver,
    ended,
    environment,
    layout_of,
    target,
    trained,
    write_profile,
    write_study,
)

from seedwise.identity import file_digest

pytestmark = [pytest.mark.service, pytest.mark.timeout(1500)]

SUBMITTED = "has been submitted with SLURM jobid"
FAILING = """
rule all:
    input: "never.txt", "good.txt"
rule bad:
    output: "never.txt"
    shell: "echo tried >> attempts.txt; echo the reason; exit 3"
rule good:
    output: "good.txt"
    shell: "touch {output}"
"""


def outcome(study: Path, folder: Path, run: str) -> dict[str, str]:
    """Digests of what the training published."""
    layout = layout_of(study, folder)
    return {path.name: file_digest(path) for path in trained(layout, run)}


@contextmanager
def training(cluster: Cluster, folder: Path, run: str) -> Iterator[psutil.Process]:
    """The training of a run in a job, stopped between its first state or step and its end; it goes on afterwards."""
    lease, journal = folder / "work" / run / "lease.json", folder / "results" / "runs" / run / "tracking.jsonl"
    cluster.wait(lambda: journal.exists() and '"step":' in journal.read_text(), "the training takes steps")
    process = psutil.Process(json.loads(lease.read_text())["pid"])
    process.suspend()
    assert not (folder / target(run)).exists(), "the training ended before it could be stopped"
    try:
        yield process
    finally:
        if process.is_running():
            process.resume()


def went_on_from(folder: Path, run: str) -> list[int]:
    """Of every process that trained the run, the step it went on from by its journal; 0 where it began."""
    lines = (folder / "results" / "runs" / run / "tracking.jsonl").read_text().splitlines()
    return [each["after"] for each in map(json.loads, lines) if each["event"] == "start"]


def saved(folder: Path) -> list[int]:
    """Steps of the states to go on from."""
    return [int(path.name.removeprefix("state-")) for path in folder.glob("work/*/state-*")]


def test_a_study_ends_with_the_tables_it_has_on_one_machine(
    cluster: Cluster, study: Path, straight: Path, tmp_path: Path
):
    profile = write_profile(tmp_path / "profile")
    submitting = driver(tmp_path / "there", "--profile", str(profile), study=study, cluster=cluster)
    shutil.copytree(straight, tmp_path / "here")
    ended(driver(tmp_path / "here", "--cores", "1", study=study, cluster=None), tmp_path / "here")
    printed = ended(submitting, tmp_path / "there")
    here, there = (digests(layout_of(study, tmp_path / name)) for name in ("here", "there"))
    assert len(here) > 10
    assert there == here
    # 2 problem files, model, training; 2 samples; a group of 2 scores, one of 2 measures; continuations,
    # analysis, report and mirror
    assert printed.count(SUBMITTED) == 2 + 1 + 1 + 2 + 1 + 1 + 1 + 3
    assert cluster.jobs() == {}


@pytest.mark.parametrize(("order", "submissions"), [("scancel", 2), ("requeue", 1)])
def test_a_training_that_slurm_ends_goes_on_from_its_last_state(
    cluster: Cluster, study: Path, straight: Path, fresh: Path, run: str, tmp_path: Path, order: str, submissions: int
):
    profile = write_profile(tmp_path / "profile")
    started = driver(fresh, target(run), "--profile", str(profile), study=study, cluster=cluster)
    cluster.wait(lambda: saved(fresh) != [], "a state is saved")
    with training(cluster, fresh, run) as process:
        step = max(saved(fresh))
        cluster.ask(*{"scancel": ["scancel"], "requeue": ["scontrol", "requeue"]}[order], cluster.job("train", fresh))
        psutil.wait_procs([process], timeout=120)
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    printed = ended(started, fresh)
    jobs = re.findall(rf"{SUBMITTED} (\d+)", printed)
    asked = [cluster.ask("squeue", "--states=all", "--noheader", f"--jobs={job}", "--format=%P %m") for job in jobs]
    # the profile asks for 64 GB, and for as much again with every attempt
    assert asked == ["gpu 62.50G\n", "gpu 125G\n"][:submissions]
    assert outcome(study, fresh, run) == outcome(study, straight, run)
    began, after = went_on_from(fresh, run)
    assert began == 0 and step <= after < STEPS, "a training that has time to, saves once more"


def test_a_training_saves_itself_before_the_time_limit(
    cluster: Cluster, straight: Path, fresh: Path, run: str, study: Path, tmp_path: Path
):
    # no state but the one that the warning makes it save, 30 s or more before two minutes are over
    rare = write_study(tmp_path / "rare.yaml", save_every=1000)
    limit = {"runtime": 2, "slurm_extra": "'--signal=USR1@30'"}
    profile = write_profile(tmp_path / "profile", set_resources={"train": limit})
    started = driver(fresh, target(run), "--profile", str(profile), study=rare, cluster=cluster)
    with training(cluster, fresh, run) as process:
        cluster.wait(lambda: pending(process, signal.SIGUSR1), "Slurm warns of the time limit")
        assert saved(fresh) == []
    cluster.wait(lambda: saved(fresh) != [], "a state is saved")
    (step,) = saved(fresh)
    printed = ended(started, fresh)
    assert printed.count(SUBMITTED) == 2
    assert outcome(study, fresh, run) == outcome(study, straight, run)
    assert went_on_from(fresh, run) == [0, step]


def pending(process: psutil.Process, number: int) -> bool:
    """Whether a signal waits for a stopped process."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(mask & 1 << (number - 1) for mask in masks)


def test_a_driver_that_was_killed_never_gives_a_run_two_writers(
    cluster: Cluster, study: Path, straight: Path, fresh: Path, run: str, tmp_path: Path
):
    profile = write_profile(tmp_path / "profile")
    first = driver(fresh, target(run), "--profile", str(profile), study=study, cluster=cluster)
    log = fresh / "results" / "logs" / "train" / f"{run}.log"
    with training(cluster, fresh, run):
        job = cluster.job("train", fresh)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert job in cluster.jobs(), "the job does not need its driver"
        unlock = driver(fresh, "--unlock", "--cores", "1", study=study, cluster=cluster)
        ended(unlock, fresh)
        second = driver(fresh, target(run), "--profile", str(profile), study=study, cluster=cluster)
        held = f"Slurm job {job}, last seen"
        cluster.wait(lambda: held in log.read_text(), "the second job is refused")
        assert went_on_from(fresh, run) == [0]
    ended(second, fresh)
    assert went_on_from(fresh, run) == [0], "the first job's training is the only one"
    assert outcome(study, fresh, run) == outcome(study, straight, run)


def test_a_job_that_fails_is_tried_as_often_as_said_and_is_reported(cluster: Cluster, tmp_path: Path):
    (tmp_path / "Snakefile").write_text(FAILING)
    profile = write_profile(
        tmp_path / "profile", **dict.fromkeys(("groups", "group-components", "set-resources", "set-threads"))
    )
    folder = tmp_path / "there"
    command = ["--profile", str(profile), "--workflow-profile", "none"]
    printed = ended(
        driver(folder, *command, study=None, cluster=cluster, snakefile=tmp_path / "Snakefile"), folder, code=1
    )
    assert (folder / "attempts.txt").read_text().splitlines() == ["tried"] * (2 + 1)
    assert "SLURM status is: 'FAILED'" in printed
    assert (folder / "good.txt").exists(), "keep-going"
    logs = list((folder / "results" / "logs" / "slurm").glob("rule_bad/*.log"))
    assert len(logs) == 2 + 1 and all("the reason" in log.read_text() for log in logs)


@pytest.mark.parametrize("status", ["squeue", "sacct"])
def test_the_doctor_tries_the_cluster(cluster: Cluster, study: Path, straight: Path, tmp_path: Path, status: str):
    profile = write_profile(tmp_path / "profile", **{"slurm-status-command": status})
    if status == "sacct":  # one place is enough to be tried
        content = (profile / "config.yaml").read_text()
        (profile / "config.yaml").write_text(content.replace("slurm_partition: gpu", "slurm_partition: cpu"))
    command = [
        sys.executable,
        "-m",
        "seedwise.cli",
        "doctor",
        "--study",
        str(study),
        "--profile",
        str(profile),
        "--json",
    ]
    done = subprocess.run(
        command, cwd=straight, env=environment(cluster), capture_output=True, text=True, check=False, timeout=BOUND_S
    )
    found = json.loads(done.stdout)["findings"]
    told = {(each["check"], each["level"]) for each in found}
    well = {("slurm", "ok"), ("partitions", "ok"), ("queue", "ok"), ("shared folder", "ok"), ("environment", "ok")}
    assert well <= told, done.stdout
    assert ("accounting", "ok" if status == "squeue" else "fail") in told
    assert done.returncode == (0 if status == "squeue" else 1)
    assert cluster.jobs() == {}


def test_no_second_slurm_is_started_beside_one(cluster: Cluster):
    with pytest.raises(ClusterError, match=r"slurmctld \(\d+\).*a Slurm runs on this machine already"):
        Cluster()


def test_nothing_is_left_behind(cluster: Cluster):
    """The last test of this file: it ends the cluster, with a job on it."""
    sleeper = cluster.folder / "sleeping"
    cluster.ask("sbatch", "--output=/dev/null", f"--wrap=touch {sleeper}; sleep 1000")
    cluster.wait(sleeper.exists, "a job runs")
    cluster.stop()
    assert running() == []
    assert mine(cluster.folder) == []
    assert not cluster.folder.exists()
