"""Who may write to a store, and a sync from inside a job that never holds the job up."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from filelock import FileLock, Timeout

from seedwise.identity import digest

if TYPE_CHECKING:
    import pandas as pd

SQLITE = "sqlite:///"
BUSY = 75  # exit status of a sync that found the lock held (EX_TEMPFAIL)
EVERY_S = 60.0  # between two syncs of a store in passing, whichever jobs they are made by
DELAY_S = 5.0  # what a job waits for its syncs, all of them together, when it has nothing else to do
PROGRAM = "import sys; from seedwise.trainer.passing import main; sys.exit(main())"


class TrackingError(RuntimeError):
    """The mirror could not be brought up to date; the files are complete all the same."""


class Busy(TrackingError):
    """Another sync holds the lock of the store."""


def file_of(store: str) -> Path:
    """The file of a SQLite store."""
    return Path(store.removeprefix(SQLITE))


def missing(store: str) -> bool:
    """Whether a store is a SQLite file that does not exist yet."""
    return store.startswith(SQLITE) and not file_of(store).exists()


def _beside(store: str, root: Path, ending: str) -> Path:
    """A file about a store: beside a SQLite file, and for a server in the results folder."""
    file = file_of(store).absolute() if store.startswith(SQLITE) else root / f"tracking-{digest(store)[:8]}"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file.with_name(f"{file.name}.{ending}")


@contextmanager
def only_writer(store: str, root: Path, wait_s: float) -> Iterator[None]:
    """Hold the lock of a store.  Raises Busy when it is not free within ``wait_s`` seconds."""
    lock = _beside(store, root, "lock")
    try:
        with FileLock(lock).acquire(timeout=wait_s):
            yield
    except Timeout:
        raise Busy(
            f"{lock}: another sync held it for more than {wait_s:g} s: wait for it, then seedwise sync"
        ) from None


class Passing:
    """Syncs of a study from inside a job: each in a process beside it, which the job does not wait for.

    runs: tables.RUNS of the study.  every_s: at least so many seconds lie between two syncs of the store in
    passing; the first job to look after that makes the next for all.  delay_s: what ``close`` may wait for.
    creates: whether a SQLite store that is missing is created, which takes longer than most may wait.
    Nothing is raised: the first sync that fails is one warning, and a later ``seedwise sync`` completes the mirror.
    """

    def __init__(
        self,
        store: str,
        study: str,
        root: Path,
        runs: pd.DataFrame,
        *,
        every_s: float = EVERY_S,
        delay_s: float = DELAY_S,
        creates: bool = False,
    ) -> None:
        self.store, self.study, self.root = store, study, Path(root).absolute()
        self.order = json.dumps({"store": store, "study": study, "root": str(self.root), "runs": runs.to_dict("list")})
        self.every_s, self.left_s, self.creates = every_s, delay_s, creates
        self.started = 0
        self.warned = False
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None

    def look(self) -> None:
        """Start a sync if one is due and none runs; take note of one that has ended.  Never waits."""
        if self._process is not None and self._process.poll() is not None:
            self._ended()
        if self._process is None and self._due():
            self._start()

    def close(self) -> bool:
        """Let the sync that runs end, and make a last one; those that take too long are ended.

        The last one is made where this job has started another, which showed it as running, or where one is due.
        Returns whether a last one was made and succeeded.
        """
        self._wait()
        if not (self.started or self._due()):
            return False
        self._start()
        return self._wait()

    def _due(self) -> bool:
        stamp = _beside(self.store, self.root, "passed")
        try:
            return time.time() - stamp.stat().st_mtime >= self.every_s
        except FileNotFoundError:
            return True

    def _start(self) -> None:
        if self.left_s <= 0:
            return
        if not self.creates and missing(self.store):
            self._warn("the store does not exist yet")
            return
        path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
        try:
            _beside(self.store, self.root, "passed").touch()
            with tempfile.TemporaryFile() as order:  # a pipe would be waited for
                order.write(self.order.encode())
                order.seek(0)
                self._said = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process runs
                self._process = self._popen(path, order)
        except OSError as error:  # no memory for a process, no room for a file
            if self._said is not None:
                self._said.close()
            self._warn(str(error))
        self.started += 1

    def _popen(self, path: str, order: IO[bytes]) -> subprocess.Popen[bytes]:
        # A process of its own is what a time limit can end, wherever it hangs; SQLite survives the kill.
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONPATH": path},
            stdin=order,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
        )

    def _wait(self) -> bool:
        """Wait for the sync that runs, within what is left of the time; whether it succeeded."""
        if self._process is None:
            return False
        begun = time.monotonic()
        try:
            self._process.wait(max(self.left_s, 0))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self._warn("the store did not answer in time")
        finally:
            self.left_s -= time.monotonic() - begun
        return self._ended()

    def _ended(self) -> bool:
        assert self._process is not None and self._said is not None
        code, process = self._process.returncode, self._process
        self._process = None
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip().splitlines()
        self._said.close()
        if code > 0 and code != BUSY:
            self._warn(said[-1] if said else f"process {process.pid} ended with status {code}")
        return code == 0

    def _warn(self, reason: str) -> None:
        if not self.warned:
            logging.getLogger("seedwise").warning(
                "%s: tracking of %s is behind (%s): seedwise sync completes it", self.store, self.study, reason
            )
        self.warned = True


def main() -> int:
    """Sync in passing, in a process of its own: the order on standard input; never waits for the lock."""
    import pandas as pd

    from seedwise.tables import TableError
    from seedwise.trainer.mirror import sync

    os.nice(5)  # the job goes first
    order = json.load(sys.stdin)
    try:
        sync(order["store"], order["study"], Path(order["root"]), wait_s=0, runs=pd.DataFrame(order["runs"]))
    except Busy:
        return BUSY
    except (TrackingError, TableError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
