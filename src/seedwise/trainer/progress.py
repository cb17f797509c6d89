"""What the files of a run tell, and how far its mirror has come: a cursor per store and study, beside the files.

A source is the bytes of a journal.  The cursor holds how many of them were replayed and their digest, so a
journal that was only added to is told from one that was rewritten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from seedwise import tables
from seedwise.trainer.journal import End, Event, Metrics, Start, from_run_folder, gone, lines, parse


@dataclass(frozen=True)
class Cursor:
    """run_id: the MLflow run replayed into.  sources: name -> [bytes, sha256 of them].  steps: metric -> last step."""

    run_id: str
    sources: dict[str, list[int | str]]
    steps: dict[str, int]


def load(path: Path) -> Cursor | None:
    """The cursor at ``path``; None when there is none that can be read, and the run is replayed from its start."""
    try:
        return Cursor(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, json.JSONDecodeError, TypeError):
        return None


def save(cursor: Cursor, path: Path) -> None:
    """Write the cursor, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(asdict(cursor), sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(path)


def whole_lines(data: bytes) -> bytes:
    """Without the last line if a writer has not ended it yet."""
    return data[: data.rfind(b"\n") + 1]


def unread(cursor: Cursor, sources: Mapping[str, bytes]) -> list[Event] | None:
    """The events after the cursor; None when they do not continue what was replayed.

    They do not when a source was rewritten, or when a step that was replayed comes again: a training that
    resumed from a checkpoint repeats steps, and MLflow would keep both values.
    """
    events: list[Event] = []
    for name, data in sources.items():
        size, digest = cursor.sources.get(name, [0, sha256(b"").hexdigest()])
        if len(data) < int(size) or sha256(data[: int(size)]).hexdigest() != digest:
            return None
        events += parse(data[int(size) :])[0]
    repeated = any(
        event.step <= cursor.steps.get(name, -1)
        for event in events
        if isinstance(event, Metrics)
        for name in event.values
    )
    return None if repeated else events


def advanced(run_id: str, before: Cursor | None, sources: Mapping[str, bytes], events: Iterable[Event]) -> Cursor:
    """The cursor after ``events``, with which ``sources`` have been replayed to their end."""
    steps = dict(before.steps) if before else {}
    for event in events:
        if isinstance(event, Metrics):
            for name in event.values:
                steps[name] = max(steps.get(name, -1), event.step)
    replayed: dict[str, list[int | str]] = {
        name: [len(data), sha256(data).hexdigest()] for name, data in sources.items()
    }
    return Cursor(run_id, replayed, steps)


def journal(folder: Path) -> bytes:
    """The whole lines of a run's tracking.jsonl; without one, what from_run_folder derives."""
    file = folder / "tracking.jsonl"
    return whole_lines(file.read_bytes()) if file.exists() else lines(from_run_folder(folder))


def scores(counts: Path) -> dict[str, list[Event]]:
    """run -> mean score of each checkpoint and benchmark, as the comparison counted them; time 0, they have none."""
    if not counts.exists():
        return {}
    found: dict[str, list[Event]] = {}
    frame = tables.read(tables.COUNTS, counts).assign(score=lambda rows: rows["correct"] / rows["samples"])
    for (run, step, benchmark), rows in frame.groupby(["run", "step", "benchmark"]):
        values: dict[str, float | None] = {f"{benchmark}/avg@{rows['samples'].max()}": float(rows["score"].mean())}
        found.setdefault(str(run), []).append(Metrics(time=0.0, step=int(step), values=values))
    return found


def status(events: Iterable[Event]) -> tuple[str, float]:
    """MLflow status of a run and the time of its last event: a process that is gone without an end was killed."""
    status, at, start = "FINISHED", 0.0, None
    for event in events:
        at = max(at, event.time)
        if isinstance(event, Start):
            status, start = "RUNNING", event
        elif isinstance(event, End):
            status, start = event.status, None
    return ("KILLED", at) if start is not None and gone(start) else (status, at)


def joint_status(statuses: set[str]) -> str:
    """Of a method point, from its runs: done when all are."""
    if statuses <= {"SCHEDULED"}:
        return "SCHEDULED"
    if statuses & {"SCHEDULED", "RUNNING"}:
        return "RUNNING"
    return "FINISHED" if statuses == {"FINISHED"} else "FAILED"
