"""Who may write to a store, and a sync from inside a job that never holds the job up."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from seedwise.identity import digest
from seedwise.tables import TableError

SQLITE = "sqlite:///"
BUSY = 75  # exit status of a sync that found the lock held (EX_TEMPFAIL)


class TrackingError(RuntimeError):
    """The mirror could not be brought up to date; the files are complete all the same."""


class Busy(TrackingError):
    """Another sync holds the lock of the store."""


def file_of(store: str) -> Path:
    """The file of a SQLite store."""
    return Path(store.removeprefix(SQLITE))


@contextmanager
def only_writer(store: str, root: Path, wait_s: float) -> Iterator[None]:
    """Hold the lock of a store.  Raises Busy when it is not free within ``wait_s`` seconds."""
    file = file_of(store).absolute() if store.startswith(SQLITE) else root / f"tracking-{digest(store)[:8]}"
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{file}.lock").acquire(timeout=wait_s):
            yield
    except Timeout:
        raise Busy(
            f"{file}.lock: another sync held it for more than {wait_s:g} s: wait for it, then seedwise sync"
        ) from None


def sync_in_passing(store: str, study: str, root: Path, *, limit_s: float = 5.0) -> bool:
    """The same from inside a job: never waits for the lock, ends within ``limit_s`` seconds, never raises.

    Returns whether the mirror is now up to date.  What is missing is named in one warning, and a later
    ``seedwise sync`` completes it.  Does not create a SQLite store, which takes longer than a job should wait.
    """
    log = logging.getLogger("seedwise")
    if store.startswith(SQLITE) and not file_of(store).exists():
        log.warning("%s does not exist yet: seedwise sync creates it", file_of(store))
        return False
    program = "import sys; from seedwise.trainer.passing import main; sys.exit(main())"
    command = [sys.executable, "-c", program, store, study, str(root)]
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        # A process of its own is what a time limit can end, wherever it hangs; SQLite survives the kill.
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        reason = f"not done after {limit_s:g} s" if isinstance(error, subprocess.TimeoutExpired) else str(error)
        log.warning("%s: tracking of %s is behind (%s): seedwise sync completes it", store, study, reason)
        return False
    if done.returncode not in (0, BUSY):
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        log.warning("%s: tracking of %s is behind (%s): seedwise sync completes it", store, study, reason)
    return done.returncode == 0


def main() -> int:
    """Sync in passing, in a process of its own: arguments store, study, root; never waits for the lock."""
    from seedwise.trainer.tracking import sync

    store, study, root = sys.argv[1:]
    try:
        sync(store, study, Path(root), wait_s=0)
    except Busy:
        return BUSY
    except (TrackingError, TableError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
