"""Who is at work on a run, and how far it is, read off the files in its work folder; nothing is written."""

from __future__ import annotations

import json
import re
import socket
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from seedwise.trainer.lease import CLOCK_S, Owner

SAMPLES = "samples"
STATE = re.compile(r"state-(\d+)")
STEP = re.compile(r"step (\d+) of (\d+), ([0-9.]+) s")
JOURNAL = 2**16
"""Bytes of the end of a journal that are read: ten steps or more."""


@dataclass(frozen=True)
class Told:
    """How far a training is by its journal.  step: the last that ended since it began or went on, 0 where none did.
    reward: mean reward of its last rollout, None where it tells of none.  step_s: median time of its last steps, s."""

    step: int
    reward: float | None
    step_s: float | None


@dataclass(frozen=True)
class Holder:
    """The writer of a run.  seen: when it last said that it is alive, s since 1970."""

    owner: Owner
    seen: float


def holder(work: Path) -> Holder | None:
    """Who trains in this work folder, or samples in the folder within it; None where nobody does.

    Nobody does when the lease was given back or its process is gone on this host.

    A writer on another host counts as there: whether its Slurm job still runs is asked when the lease is taken.
    """
    return leased(work) or leased(work / SAMPLES)


def leased(folder: Path) -> Holder | None:
    """Who holds the lease in this very folder."""
    path = folder / "lease.json"
    try:
        owner, seen = Owner(**json.loads(path.read_text())), path.stat().st_mtime
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return None if owner.pid == 0 or _ended(owner) else Holder(owner, seen)


def _ended(owner: Owner) -> bool:
    """Whether the process is gone; False on another host, where this cannot be seen."""
    if owner.host != socket.gethostname():
        return False
    try:
        process = psutil.Process(owner.pid)
        return abs(process.create_time() - owner.started) > CLOCK_S or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def saved_step(work: Path) -> int:
    """The step that a stopped training goes on from; 0 where it saved none."""
    states = [int(match[1]) for path in work.glob("state-*") if (match := STATE.fullmatch(path.name))]
    return max(states, default=0)


def journalled(path: Path) -> Told | None:
    """What the end of a run's tracking.jsonl tells; None without one."""
    if not path.exists():
        return None
    from seedwise.trainer.journal import Metrics, Start, parse  # with pandas, only where a training has begun

    with open(path, "rb") as handle:
        handle.seek(max(0, path.stat().st_size - JOURNAL))
        events, _ = parse(handle.read())
    began = max((place for place, event in enumerate(events) if isinstance(event, Start)), default=-1)
    since = [event for event in events[began + 1 :] if isinstance(event, Metrics)]
    known = [event.values for event in events if isinstance(event, Metrics)]
    rewards = [values["reward"] for values in known if values.get("reward") is not None]
    seconds = [s for values in known if (s := values.get("step_seconds")) is not None]
    return Told(
        step=since[-1].step if since else 0,
        reward=rewards[-1] if rewards else None,
        step_s=statistics.median(seconds) if seconds else None,
    )


def logged_step(text: str) -> tuple[int, float] | None:
    """The last (step, seconds of it) that a training's log tells."""
    found = STEP.findall(text)
    return (int(found[-1][0]), float(found[-1][2])) if found else None


def jobs_here() -> Iterator[tuple[str, str]]:
    """(stage, subject) of the seedwise commands that run on this host."""
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        for place, word in enumerate(line[:-2]):
            if Path(word).name in ("seedwise", "seedwise.cli") or word.endswith("seedwise/cli/__main__.py"):
                yield line[place + 1], line[place + 2]
