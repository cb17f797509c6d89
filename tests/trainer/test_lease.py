"""One writer per run, one process per GPU."""

import json
import os
import socket
import stat
import subprocess
import sys

import psutil
import pytest

from seedwise.trainer import lease


def owner(**changes):
    """A holder that runs: this process's parent."""
    parent = psutil.Process(os.getppid())
    known = {
        "host": socket.gethostname(),
        "pid": parent.pid,
        "started": parent.create_time(),
        "slurm_job": None,
        "fence": 7,
    }
    return {**known, **changes}


@pytest.fixture
def held_by(tmp_path):
    def write(**changes):
        (tmp_path / "lease.json").write_text(json.dumps(owner(**changes)))
        return tmp_path

    return write


def test_a_living_holder_is_named_in_one_line(held_by):
    folder = held_by()
    with pytest.raises(lease.LeaseError) as refused, lease.hold(folder):
        pass
    text = str(refused.value)
    assert f"held by process {os.getppid()} on {socket.gethostname()}, last seen 0 s ago" in text
    assert "\n" not in text and "remove this file" in text
    assert json.loads((folder / "lease.json").read_text())["fence"] == 7


def test_a_dead_holder_is_followed_with_a_larger_fence(held_by):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with lease.hold(held_by(pid=ended.pid)) as mine:
        assert mine.owner.fence == 8


def test_a_process_id_used_again_is_not_the_holder(held_by):
    with lease.hold(held_by(started=1.0)) as mine:  # the parent did not start in 1970
        assert mine.owner.fence == 8


def test_another_host_without_slurm_is_never_taken_over(held_by):
    with pytest.raises(lease.LeaseError, match="process 1 on elsewhere"), lease.hold(held_by(host="elsewhere", pid=1)):
        pass


@pytest.fixture
def squeue(tmp_path, monkeypatch):
    """A stand-in for Slurm's squeue that prints and exits as told."""

    def answers(out="", err="", code=0):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        script = folder / "squeue"
        script.write_text(f"#!/bin/sh\nprintf '%s' '{out}'\nprintf '%s' '{err}' >&2\nexit {code}\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    return answers


def test_a_slurm_job_that_runs_keeps_its_lease(held_by, squeue):
    squeue(out="RUNNING")
    with pytest.raises(lease.LeaseError, match="Slurm job 41"), lease.hold(held_by(host="elsewhere", slurm_job="41")):
        pass


@pytest.mark.parametrize(
    "answer", [{}, {"err": "slurm_load_jobs error: Invalid job id specified", "code": 1}], ids=["ended", "forgotten"]
)
def test_a_slurm_job_that_is_gone_loses_it(answer, held_by, squeue):
    squeue(**answer)
    with lease.hold(held_by(host="elsewhere", slurm_job="41")) as mine:
        assert mine.owner.fence == 8


def test_no_answer_from_slurm_counts_as_running(held_by, squeue):
    squeue(err="Unable to contact slurm controller", code=1)
    with pytest.raises(lease.LeaseError), lease.hold(held_by(host="elsewhere", slurm_job="41")):
        pass


def test_a_requeued_job_follows_itself(held_by, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "41")
    with lease.hold(held_by(host="elsewhere", slurm_job="41")) as mine:
        assert mine.owner.slurm_job == "41"


def test_a_writer_that_lost_its_lease_is_stopped(tmp_path):
    with lease.hold(tmp_path) as mine:
        mine.check()
        (tmp_path / "lease.json").write_text(json.dumps(owner(fence=mine.owner.fence + 1)))
        with pytest.raises(lease.LeaseError, match="lost to process .* stops without publishing"):
            mine.check()
    # and it does not release what is not its own
    assert json.loads((tmp_path / "lease.json").read_text())["pid"] == os.getppid()


def test_a_released_lease_is_free_and_fences_go_on_rising(tmp_path):
    with lease.hold(tmp_path) as first:
        pass
    with pytest.raises(lease.LeaseError, match="lost"):
        first.check()
    with lease.hold(tmp_path) as second:
        assert second.owner.fence == first.owner.fence + 1


def test_check_beats_the_heart(tmp_path):
    with lease.hold(tmp_path) as mine:
        os.utime(mine.path, (0, 0))
        mine.check()
        assert mine.path.stat().st_mtime > 1e9


def test_a_file_that_is_no_lease_is_an_error_with_a_remedy(tmp_path):
    (tmp_path / "lease.json").write_text("{}")
    with pytest.raises(lease.LeaseError, match="not a lease .*: remove it"), lease.hold(tmp_path):
        pass


def test_without_a_gpu_the_cpu_is_shared(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with lease.device(tmp_path) as one, lease.device(tmp_path) as two:
        assert one == two == "cpu"


def test_each_gpu_is_leased_once_and_made_visible(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    with lease.device(tmp_path) as device:
        assert (device, os.environ["CUDA_VISIBLE_DEVICES"]) == ("cuda", "3")
        other = (
            "import os, pathlib, sys; from seedwise.trainer import lease\n"
            "with lease.device(pathlib.Path(sys.argv[1])): print(os.environ['CUDA_VISIBLE_DEVICES'])"
        )
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "3,5"}
        found = subprocess.run(
            [sys.executable, "-c", other, str(tmp_path)], env=environment, capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == "5"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3,5"


def test_two_slurm_jobs_may_both_call_their_gpu_0(monkeypatch, tmp_path):
    monkeypatch.setattr(lease.tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with lease.device():
        monkeypatch.setenv("SLURM_JOB_ID", "8")
        with lease.device() as device:
            assert (device, os.environ["CUDA_VISIBLE_DEVICES"]) == ("cuda", "0")
    assert {path.name for path in tmp_path.iterdir()} == {"seedwise-devices-7", "seedwise-devices-8"}


def test_a_launcher_assigns_devices_itself(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("LOCAL_RANK", "1")
    with lease.device(tmp_path) as device:
        assert device == "cuda" and os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert not list(tmp_path.iterdir())
