"""The checks before a study starts, against programs that say what a cluster would."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from seedwise import cli
from seedwise import layout as layouts
from seedwise.doctor import machine, probe, slurm
from seedwise.doctor import profile as profiles
from seedwise.doctor.finding import DoctorError, Finding, as_json, failed
from seedwise.doctor.profile import Place

PROFILE = {
    "executor": "slurm",
    "slurm-status-command": "squeue",
    "slurm-jobname-prefix": "seedwise",
    "default-resources": {"slurm_partition": "cpu"},
    "set-resources": {"train": {"slurm_partition": "gpu", "gpu": 2}, "sample": {"slurm_partition": "gpu", "gpu": 1}},
}
CONFIG = """Configuration data as of 2026-01-01T00:00:00
AccountingStorageType   = accounting_storage/{kind}
ClusterName             = tin
MinJobAge               = {age} sec
SLURM_VERSION           = 22.05.8
"""
OFF = "echo 'Slurm accounting storage is disabled' >&2; exit 1"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Makes a program of a name and a shell script, the only programs beside the shell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def make(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return make


@pytest.fixture
def cluster(fake) -> Callable[..., None]:
    """A cluster with two partitions and nothing in its queue."""

    def make(kind: str = "none", age: int = 300, sacct: str = OFF, queue: str = "") -> None:
        fake(
            "scontrol",
            f"while IFS= read -r line; do echo \"$line\"; done <<'END'\n{CONFIG.format(kind=kind, age=age)}END",
        )
        fake("sacct", sacct)
        fake("sinfo", "echo cpu; echo gpu")
        fake("squeue", f"printf '{queue}'")

    return make


def profile(tmp_path: Path, **changes: object) -> profiles.Profile:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(PROFILE | changes))
    return profiles.read(tmp_path)


def only(findings: list[Finding], check: str) -> Finding:
    (found,) = [finding for finding in findings if finding.check == check]
    return found


def test_what_a_profile_asks_for(tmp_path: Path):
    found = profile(tmp_path)
    # train asks for two GPUs of the partition, sample for one
    assert found.places == (Place("cpu", 0), Place("gpu", 2))
    assert (found.slurm, found.status, found.wait_s, found.account) == (True, "squeue", 40, None)
    listed = profile(tmp_path, **{"default-resources": ["slurm_partition=cpu", "slurm_account=ours"]})
    assert listed.account == "ours"


def test_the_shipped_profile_is_read(repository: Path):
    found = profiles.read(repository / "workflow" / "profiles" / "slurm")
    assert found.places == (Place("cpu", 0), Place("gpu", 1))
    assert found.prefix == "seedwise"
    assert not profiles.read(repository / "workflow" / "profiles" / "default").slurm


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[1, 2]", "holds no settings"),
        ("{a: [", "mend the YAML"),
        ("{default-resources: 3}", "default-resources: 3: give name -> value"),
        ("{set-resources: [train]}", "give rule -> resources"),
        ("{default-resources: {gpu: many}}", "gpu: 'many': give a whole number"),
        ("{slurm-init-seconds-before-status-checks: 0}", "give seconds, 1 or more"),
    ],
)
def test_a_profile_that_cannot_be_read(tmp_path: Path, content: str, told: str):
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(DoctorError, match=told):
        profiles.read(tmp_path)


def test_a_profile_that_is_not_there(tmp_path: Path):
    with pytest.raises(DoctorError, match="nothing: cannot be read"):
        profiles.read(tmp_path / "nothing")


def test_no_slurm(tmp_path: Path, fake):
    findings, able = slurm.reachable(profile(tmp_path))
    assert [str(finding) for finding in findings] == [
        "fail slurm: scontrol is not installed: run this on a login node of the cluster, or leave --profile out"
    ]
    assert not able


def test_a_controller_that_is_down(tmp_path: Path, fake):
    fake("scontrol", "echo 'Unable to contact slurm controller' >&2; exit 1")
    (found,), _ = slurm.reachable(profile(tmp_path))
    assert found.level == "fail" and "Unable to contact slurm controller" in found.text


def test_accounting_off_and_squeue_is_well(tmp_path: Path, cluster):
    cluster()
    findings, _ = slurm.reachable(profile(tmp_path))
    assert not failed(findings), findings
    assert only(findings, "slurm").text == "Slurm 22.05.8, cluster tin"
    assert only(findings, "accounting").text == "states come from squeue, MinJobAge 300 s"
    assert only(findings, "partitions").text == "cpu, gpu"


@pytest.mark.parametrize("status", ["sacct", None])
def test_accounting_off_and_sacct_names_the_setting(tmp_path: Path, cluster, status: str | None):
    cluster()
    findings, _ = slurm.reachable(profile(tmp_path, **{"slurm-status-command": status}))
    found = only(findings, "accounting")
    assert (found.level, found.text) == ("fail", "off, so a job that fails is never noticed")
    assert found.remedy == f"set slurm-status-command: squeue in {tmp_path / 'config.yaml'}"


def test_accounting_on(tmp_path: Path, cluster):
    cluster(kind="slurmdbd", sacct="exit 0")
    findings, _ = slurm.reachable(profile(tmp_path, **{"slurm-status-command": "sacct"}))
    assert only(findings, "accounting").text == "on (accounting_storage/slurmdbd), sacct answers"


def test_an_accounting_daemon_that_is_down(tmp_path: Path, cluster):
    cluster(kind="slurmdbd", sacct="echo 'Connection refused' >&2; exit 1")
    findings, _ = slurm.reachable(profile(tmp_path, **{"slurm-status-command": "sacct"}))
    found = only(findings, "accounting")
    assert found.level == "fail" and found.text.startswith("does not answer (Connection refused)")


@pytest.mark.parametrize(
    ("age", "kind", "level", "remedy"),
    [
        (60, "none", "fail", "lower that to 20"),  # 3 x 40 = 120 > 60, and 60 / 3 = 20
        (60, "slurmdbd", "warn", "set slurm-status-command: sacct"),
        (119, "none", "fail", "lower that to 39"),
        (120, "none", "warn", "ask who runs the cluster to raise it, to 300 s or more"),
        (180, "none", "ok", None),
    ],
)
def test_how_long_the_queue_remembers(tmp_path: Path, cluster, age: int, kind: str, level: str, remedy: str | None):
    cluster(kind=kind, age=age, sacct=OFF if kind == "none" else "exit 0")
    findings, _ = slurm.reachable(profile(tmp_path))
    found = only(findings, "accounting")
    assert found.level == level
    assert found.remedy == remedy or (found.remedy or "").startswith(remedy or "-")


def test_an_account_that_nobody_can_check(tmp_path: Path, cluster):
    cluster()
    common = {"slurm_partition": "cpu", "slurm_account": "ours"}
    findings, _ = slurm.reachable(profile(tmp_path, **{"default-resources": common}))
    told = [str(finding) for finding in findings if finding.level == "fail"]
    assert len(told) == 1
    assert "slurm_account ours cannot be checked without accounting" in told[0]


def test_sacct_is_not_installed(tmp_path: Path, cluster, fake):
    cluster()
    (tmp_path / "bin" / "sacct").unlink()
    findings, _ = slurm.reachable(profile(tmp_path))
    told = [finding for finding in findings if finding.level == "fail"]
    assert [finding.remedy for finding in told] == ["put a program named sacct on PATH that ends with 1"]


def test_a_partition_that_is_not_there(tmp_path: Path, cluster):
    cluster()
    findings, able = slurm.reachable(profile(tmp_path, **{"default-resources": {"slurm_partition": "fast"}}))
    found = only(findings, "partitions")
    assert (found.level, found.text) == ("fail", "fast: not among cpu, gpu")
    assert not able


def test_jobs_of_an_earlier_driver(tmp_path: Path, cluster):
    cluster(queue="7|seedwise_ab\\n8|seedwise_ab\\n9|other\\n")
    findings, _ = slurm.reachable(profile(tmp_path))
    found = only(findings, "queue")
    assert found.level == "warn" and "2 jobs" in found.text and "scancel 7 8" in (found.remedy or "")


def test_a_program_that_hangs(fake):
    fake("sinfo", "while :; do :; done")
    assert slurm.ask("sinfo", timeout_s=0.5) == slurm.Answer(None)


@pytest.mark.parametrize(
    ("value", "expected"), [("300 sec", 300), ("5 min", 300), ("1h", 3600), ("60", 60), ("x", None)]
)
def test_times(value: str, expected: int | None):
    assert slurm.seconds(value) == expected


GPU = Place("gpu", 2)
TOLD = {"host": "node1", "broken": {}, "gpus": 2}


def test_a_job_that_finds_everything(tmp_path: Path):
    found = probe.read(GPU, slurm.Answer(0), TOLD, profile(tmp_path))
    assert [(finding.check, finding.level) for finding in found] == [
        ("shared folder", "ok"),
        ("environment", "ok"),
        ("gpu", "ok"),
    ]


def test_what_a_job_lacks(tmp_path: Path):
    here = profile(tmp_path)
    told = TOLD | {"broken": {"torch": "No module named 'torch'"}, "gpus": 0}
    found = probe.read(GPU, slurm.Answer(0), told, here)
    assert "torch (No module named 'torch')" in only(found, "environment").text
    assert only(found, "gpu").text == "partition gpu: torch sees 0 of 2"
    assert only(probe.read(GPU, slurm.Answer(0), None, here), "shared folder").level == "fail"
    (gone,) = probe.read(GPU, slurm.Answer(2, err="execve(): python: No such file or directory"), None, here)
    assert (gone.check, gone.level) == ("environment", "fail") and sys.executable in str(gone.remedy)


def test_a_job_that_is_not_started(tmp_path: Path):
    here = profile(tmp_path)
    busy = slurm.Answer(1, err="srun: error: Unable to allocate resources: Requested nodes are busy\n")
    wrong = slurm.Answer(1, err="srun: error: Unable to allocate resources: Invalid account or account/partition\n")
    assert [probe.read(GPU, answer, None, here)[0].level for answer in (busy, wrong, slurm.Answer(None))] == [
        "warn",
        "fail",
        "warn",
    ]


def test_the_job_writes_what_it_finds(tmp_path: Path, fake, monkeypatch: pytest.MonkeyPatch):
    """srun that runs what it is given, here."""
    monkeypatch.setattr(probe, "NEEDED", ("json", "no_such_module"))
    fake("srun", f'while [ "$1" != "{sys.executable}" ]; do shift; done; exec "$@"')
    monkeypatch.setenv("PYTHONPATH", str(Path(probe.__file__).parents[2]))
    found = probe.at(Place("cpu"), profile(tmp_path), tmp_path, wait_s=5)
    # the job is another process, which looks for what seedwise needs
    assert [(finding.check, finding.level) for finding in found] == [("shared folder", "ok"), ("environment", "ok")]
    assert not list(tmp_path.glob(".seedwise-doctor-*"))
    assert probe.found()["broken"] == {"no_such_module": "No module named 'no_such_module'"}


def test_room(tmp_path: Path):
    folder = tmp_path / "results" / "not" / "yet"
    assert machine.room(folder, 1.0, None).level == "ok"
    assert machine.room(folder, 1e18, None).level == "fail"
    unknown = machine.room(folder, None, "no published run has this model")
    assert unknown.level == "warn" and "no published run has this model" in unknown.text
    free = shutil.disk_usage(tmp_path).free
    assert machine.room(folder, free / 1.1, None).level == "warn"


def test_stores():
    assert machine.store(None, "ext4").text == "off: nothing is mirrored"
    assert machine.store("sqlite:////a/mlflow.db", "ext4").level == "ok"
    on_network = machine.store("sqlite:////a/mlflow.db", "nfs4")
    assert on_network.level == "warn" and "network file system (nfs4)" in on_network.text
    assert machine.store("http://127.0.0.1:9", "ext4").level == "warn"


def test_a_model_of_the_hub_that_is_not_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    (found,) = machine._of_hub("models", "model", {"some/model": ("f" * 40, "config.json")})
    assert found.level == "warn" and f"hf download some/model --revision {'f' * 40}" in (found.remedy or "")
    (data,) = machine._of_hub("data", "dataset", {"some/data": ("f" * 40, "a.parquet")})
    assert (data.remedy or "").startswith(f"hf download some/data --revision {'f' * 40} --repo-type dataset")


def test_the_benchmarks_of_a_study_are_looked_for(repository: Path):
    layout = layouts.read(repository / "config" / "smoke.yaml")
    assert [finding.level for finding in machine.sources(layout)] == ["ok", "ok"]


def test_a_finding_is_one_line_and_json():
    finding = Finding("disk", "fail", "two\nlines", "free some")
    assert str(finding) == "fail disk: two lines: free some"
    said = json.loads(as_json([finding]))
    assert said["failed"] is True and said["findings"][0]["remedy"] == "free some"


def test_the_command(tmp_path: Path, cluster, repository: Path, monkeypatch: pytest.MonkeyPatch):
    cluster()
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(PROFILE | {"slurm-status-command": "sacct"}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "off")
    study = ["--study", str(repository / "config" / "smoke.yaml")]
    done = CliRunner().invoke(cli.app, ["doctor", *study, "--profile", str(tmp_path)])
    assert done.exit_code == 1
    assert "fail accounting: off" in done.output and "slurm-status-command: squeue" in done.output
    here = CliRunner().invoke(cli.app, ["doctor", *study, "--json"])
    assert here.exit_code == 0, here.output
    assert json.loads(here.output)["failed"] is False
