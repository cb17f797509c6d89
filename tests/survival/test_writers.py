"""One writer per run: the second is refused, and one that was thought gone cannot publish when it comes back."""

from __future__ import annotations

import fcntl
import os
import signal

import pytest
from outcome import outcome

from seedwise.trainer import lease

pytestmark = pytest.mark.timeout(900)

ELSEWHERE = "os.environ['SLURM_JOB_ID'] = '41'; socket.gethostname = lambda: 'elsewhere'"


@pytest.fixture
def squeue(tmp_path):
    """Statements that put a stand-in for Slurm's squeue first, which answers as told."""

    def answers(out="", err="", code=0):
        folder = tmp_path / f"bin{code}"
        folder.mkdir()
        script = folder / "squeue"
        script.write_text(f"#!/bin/sh\nprintf '%s' '{out}'\nprintf '%s' '{err}' >&2\nexit {code}\n")
        script.chmod(0o755)
        return f"os.environ['PATH'] = {str(folder)!r} + os.pathsep + os.environ['PATH']"

    return answers


def files(folder):
    """path -> when it was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "frozen_at",
    [
        "results/runs/*/checkpoints/.4.new-*/model.safetensors",
        pytest.param("work/*/state-2", marks=pytest.mark.slow_survival),
    ],
    ids=["while it writes a checkpoint", "after a state"],
)
def test_a_frozen_writer_that_lost_the_run_cannot_publish(
    frozen_at, fresh, straight, nursery, run, study_file, layout_of, squeue
):
    command = ("train", run, "--study", str(study_file))
    frozen = nursery.start(fresh, *command, before=ELSEWHERE)
    assert frozen.until(lambda: next(fresh.glob(frozen_at), None) is not None), frozen.log.read_text()
    os.kill(frozen.pid, signal.SIGSTOP)
    try:
        said = nursery.refused(fresh, *command, before=squeue(out="RUNNING"))
        assert f"held by process {frozen.pid} on elsewhere, Slurm job 41, last seen" in said
        nursery.do(fresh, *command, before=squeue(err="slurm_load_jobs error: Invalid job id specified", code=1))
        published = files(fresh / "results")
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    assert frozen.wait() not in (0, -signal.SIGKILL), "it stopped of its own, and not as if all were well"
    assert files(fresh / "results") == published
    ours, want = outcome(layout_of(fresh), run), outcome(layout_of(straight), run)
    assert ours == {file: digest for file, digest in want.items() if not file.startswith("samples/")}


def test_a_second_writer_on_the_same_host_is_refused_though_the_first_is_frozen(fresh, nursery, run, study_file):
    command = ("train", run, "--study", str(study_file))
    first = nursery.start(fresh, *command)
    assert first.until((fresh / "work" / run / "lease.json").exists)
    os.kill(first.pid, signal.SIGSTOP)
    try:
        assert f"held by process {first.pid} on " in nursery.refused(fresh, *command)
    finally:
        first.kill()


def test_a_holder_that_is_frozen_while_it_publishes_is_not_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "LOCK_S", 0.1)
    with lease.hold(tmp_path) as mine, open(tmp_path / "lease.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with (
            pytest.raises(lease.LeaseError, match=r"held for more than 0.1 s, last lease process \d+ on"),
            mine.publishing(),
        ):
            raise AssertionError("nobody may publish beside the holder of the lock")
        fcntl.flock(lock, fcntl.LOCK_UN)


def test_nothing_is_published_under_a_lease_that_was_lost(tmp_path):
    with lease.hold(tmp_path) as mine:
        with mine.publishing():
            (tmp_path / "first").touch()
        (tmp_path / "lease.json").unlink()
        with pytest.raises(lease.LeaseError, match="lost to nobody"), mine.publishing():
            (tmp_path / "second").touch()
    assert (tmp_path / "first").exists()
    assert not (tmp_path / "second").exists()


def test_a_clock_that_was_set_does_not_make_a_holder_dead(tmp_path, monkeypatch):
    with lease.hold(tmp_path) as mine:
        # the start of a process is told relative to the boot, whose time moves when the clock is set
        moved = lease.Owner(mine.owner.host, mine.owner.pid, mine.owner.started + 1.5, None, mine.owner.fence)
        lease._write(mine.path, moved)
        with pytest.raises(lease.LeaseError, match="held by process"), lease.hold(tmp_path):
            raise AssertionError("two holders")
