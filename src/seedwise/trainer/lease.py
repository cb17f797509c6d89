"""Who may write a run, and which device it computes on.

One writer per run: ``work/<run>/lease.json`` names it.  Reading, deciding and writing happen under a
file lock, and every new holder gets a larger fencing number.  Whatever is published is published under that
lock after a look at the number: a writer that was thought dead and comes back, wherever it was stopped, finds
a foreign number and stops.

A lease is taken over only if its holder is certainly gone:

- same host: no process with that id and start time (within 2 s) runs any more; a stopped one still does;
- another host under Slurm: ``squeue`` does not know the job any more, or it is this very job, requeued;
- another host without Slurm: never; a person removes the file.

Age alone decides nothing: a process may hang on a slow file system and go on.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

CLOCK_S = 2.0  # the start of a process is told by the clock of its machine, which may be set in between
LOCK_S = 60.0  # a lock is held while a folder is renamed; a holder that was frozen there holds it until it goes on


class LeaseError(RuntimeError):
    """Another writer owns the run, or this one lost it; one line naming the owner and the remedy."""


@dataclass(frozen=True)
class Owner:
    """A writer.  started: start of the process, s since the epoch (tells a reused process id apart).
    slurm_job: id of the Slurm job, if any.  fence: rises with every new holder of the run."""

    host: str
    pid: int
    started: float
    slurm_job: str | None
    fence: int

    def __str__(self) -> str:
        job = f", Slurm job {self.slurm_job}" if self.slurm_job else ""
        return f"process {self.pid} on {self.host}{job}"


@dataclass(frozen=True)
class Lease:
    """The right to write one run, held by this process."""

    path: Path
    owner: Owner

    def check(self) -> None:
        """Note that the writer is alive.  Raises LeaseError if the lease is not ours any more."""
        now = _read(self.path)
        if now != self.owner:
            raise LeaseError(f"{self.path}: lost to {now or 'nobody'}: this process stops without publishing")
        os.utime(self.path)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """While inside, nobody else can take the run.  Raises LeaseError if it is not ours any more.

        Only for what takes no time: renames and small files.
        """
        with _locked(self.path.parent):
            self.check()
            yield


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a work folder.  Raises LeaseError where another process does not give it back."""
    lock = FileLock(folder / "lease.lock", timeout=LOCK_S)
    try:
        lock.acquire()
    except Timeout:
        holder = _read(folder / "lease.json") or "a process unknown"
        raise LeaseError(
            f"{folder / 'lease.lock'}: held for more than {LOCK_S:g} s, last lease {holder}: wait for it, or end it"
        ) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def hold(folder: Path) -> Iterator[Lease]:
    """Hold the run whose work folder is ``folder``; created if missing.

    The file stays behind, marked as free, so that fencing numbers go on rising; whoever removes the
    folder after publishing removes it with the rest.
    Raises LeaseError in one line if another writer holds the run or may hold it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lease.json"
    with _locked(folder):
        before = _read(path)
        mine = me(before.fence + 1 if before else 1)
        if before is not None and not gone(before, mine):
            seconds = time.time() - path.stat().st_mtime
            raise LeaseError(
                f"{path}: held by {before}, last seen {seconds:.0f} s ago: wait for it,"
                " or remove this file if that process is certainly gone"
            )
        _write(path, mine)
    lease = Lease(path, mine)
    try:
        yield lease
    finally:
        if folder.exists():
            with _locked(folder):
                if _read(path) == mine:
                    _write(path, Owner(mine.host, 0, 0.0, None, mine.fence))


def me(fence: int = 0) -> Owner:
    """This process."""
    started = psutil.Process().create_time()
    return Owner(socket.gethostname(), os.getpid(), started, os.environ.get("SLURM_JOB_ID"), fence)


def gone(owner: Owner, me: Owner) -> bool:
    """Whether a writer is certainly gone, as far as ``me`` can tell; the rules are those of this module."""
    if owner.pid == 0:  # released
        return True
    if owner.host == me.host:
        try:
            process = psutil.Process(owner.pid)
            other = abs(process.create_time() - owner.started) > CLOCK_S  # the number was given to another process
            return other or process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True
    if owner.slurm_job is None:
        return False
    return owner.slurm_job == me.slurm_job or _job_gone(owner.slurm_job)


def _job_gone(job: str) -> bool:
    """True if Slurm certainly does not run or queue the job.  No answer from Slurm counts as running."""
    try:
        answer = subprocess.run(
            ["squeue", "--noheader", "--jobs", job, "--format", "%T"], capture_output=True, text=True, timeout=60
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    if answer.returncode:
        return "Invalid job id" in answer.stderr
    return not answer.stdout.strip()


def _read(path: Path) -> Owner | None:
    try:
        return Owner(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise LeaseError(f"{path}: not a lease ({error}): remove it if no process writes this run") from None


def _write(path: Path, owner: Owner) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(asdict(owner)) + "\n")
    os.replace(temporary, path)


@contextmanager
def device(locks: Path | None = None, poll_s: float = 1.0) -> Iterator[str]:
    """Lease a device of this machine: ``"cuda"`` with one GPU made visible, or ``"cpu"``.

    Must be entered before torch touches CUDA.  GPUs are those of CUDA_VISIBLE_DEVICES, else all that
    nvidia-smi lists; each is guarded by a file lock, and while all are leased this waits.  A CPU is
    shared by as many as come.  Under a distributed launcher, which assigns devices itself, nothing is leased.
    Slurm may call the GPU of each of its jobs ``0``, so within a job names say nothing of those of another.
    locks: folder of the lock files; default: one in the machine's temporary folder, of the Slurm job if there is one.
    """
    names = _gpus()
    if not names:
        yield "cpu"
        return
    if "LOCAL_RANK" in os.environ:
        yield "cuda"
        return
    folder = locks or Path(tempfile.gettempdir()) / "-".join(["seedwise-devices", *_slurm_job()])
    folder.mkdir(parents=True, exist_ok=True)
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    with ExitStack() as held:
        name = _first_free(names, folder, held)
        while name is None:
            time.sleep(poll_s)
            name = _first_free(names, folder, held)
        os.environ["CUDA_VISIBLE_DEVICES"] = name
        try:
            yield "cuda"
        finally:
            if before is None:
                del os.environ["CUDA_VISIBLE_DEVICES"]
            else:
                os.environ["CUDA_VISIBLE_DEVICES"] = before


def _slurm_job() -> list[str]:
    job = os.environ.get("SLURM_JOB_ID")
    return [job] if job else []


def _first_free(names: list[str], folder: Path, held: ExitStack) -> str | None:
    for name in names:
        try:
            held.enter_context(FileLock(folder / f"{name}.lock", timeout=0, mode=0o666))
        except Timeout:
            continue
        return name
    return None


def _gpus() -> list[str]:
    """Names of the GPUs this process may use, as CUDA_VISIBLE_DEVICES takes them; empty on a machine without."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1")]
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True, timeout=60
        )
    except FileNotFoundError:
        return []
    return answer.stdout.split() if answer.returncode == 0 else []
