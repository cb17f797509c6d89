"""What the files of a run tell, and how far its mirror has come: a cursor per store and study, beside the files.

A source is the bytes of a journal.  The cursor holds how many of them were replayed and their digest, so a
journal that was only added to is told from one that was rewritten.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from seedwise import tables
from seedwise.trainer.journal import End, Event, Metrics, Start, flat, gone, lines, parse

RECORD, RETENTION = "trained.json", "retention.json"


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

    They do not when a source was rewritten, or when a step that was replayed is taken back or comes again: a
    training that resumed from a checkpoint repeats steps, and MLflow would keep both values.
    """
    events: list[Event] = []
    for name, data in sources.items():
        size, digest = cursor.sources.get(name, [0, sha256(b"").hexdigest()])
        if len(data) < int(size) or sha256(data[: int(size)]).hexdigest() != digest:
            return None
        events += parse(data[int(size) :])[0]
    furthest = max(cursor.steps.values(), default=0)
    if any(event.after is not None and event.after < furthest for event in events if isinstance(event, Start)):
        return None
    repeated = any(
        event.step <= cursor.steps.get(name, -1)
        for event in events
        if isinstance(event, Metrics)
        for name in event.values
    )
    return None if repeated else standing(events)


def standing(events: Iterable[Event]) -> list[Event]:
    """The events without the metrics that a later start took back."""
    kept: list[Event] = []
    for event in events:
        if isinstance(event, Start) and event.after is not None:
            after = event.after
            kept = [old for old in kept if not (isinstance(old, Metrics) and old.step > after)]
        kept.append(event)
    return kept


def advanced(run_id: str, before: Cursor | None, sources: Mapping[str, bytes], events: Iterable[Event]) -> Cursor:
    """The cursor after ``events``, with which ``sources`` have been replayed to their end, and others as before."""
    steps = dict(before.steps) if before else {}
    for event in events:
        if isinstance(event, Metrics):
            for name in event.values:
                steps[name] = max(steps.get(name, -1), event.step)
    replayed: dict[str, list[int | str]] = {
        name: [len(data), sha256(data).hexdigest()] for name, data in sources.items()
    }
    return Cursor(run_id, (before.sources if before else {}) | replayed, steps)


def journal(folder: Path) -> bytes:
    """The whole lines of a run's tracking.jsonl; without one, what from_run_folder derives."""
    file = folder / "tracking.jsonl"
    return whole_lines(file.read_bytes()) if file.exists() else lines(from_run_folder(folder))


def described(spec: Mapping[str, Any]) -> dict[str, str]:
    """Params of a run, of its spec: what was asked for, by the names of the study file (``train.lr``)."""
    named = {key: value for key, value in spec.get("run", {}).items() if key not in ("name", "model_name", "axes")}
    return flat(named)


def from_run_folder(run_folder: str | Path) -> list[Event]:
    """The events that spec.json, metrics.parquet and timing.parquet tell, for a run without a journal.

    Empty when the folder has no spec.json.  Times are those of the files, since a table has none of its own.
    Raises ``tables.TableError`` when a table is damaged.
    """
    folder = Path(run_folder)
    spec, metrics = folder / "spec.json", folder / "metrics.parquet"
    if not spec.exists():
        return []
    params = described(json.loads(spec.read_text(encoding="utf-8")))
    events: list[Event] = [Start(time=spec.stat().st_mtime, params=params)]
    for file in (metrics, folder / "timing.parquet"):
        events += _steps(file) if file.exists() else []
    if metrics.exists():
        events.append(End(time=metrics.stat().st_mtime))
    return events


def _steps(file: Path) -> Iterable[Metrics]:
    written = file.stat().st_mtime
    for step, rows in tables.read(tables.METRICS, file).groupby("step"):
        values = {row.name: None if math.isnan(row.value) else row.value for row in rows.itertuples(index=False)}
        reasons = {row.name: row.reason for row in rows.itertuples(index=False) if isinstance(row.reason, str)}
        yield Metrics(time=written, step=int(step), values=values, reasons=reasons)


def published(folder: Path) -> dict[str, str]:
    """Tags of a published run: where it ran, where it stopped, and each checkpoint's path and digest.

    Paths are relative to the results folder, so they stay true where it is moved.  Empty for a run in progress.
    """
    record, spec = folder / RECORD, folder / "spec.json"
    if not record.exists() or not spec.exists():
        return {}
    trained, told = (json.loads(path.read_text(encoding="utf-8")) for path in (record, spec))
    retained, removal = folder / RETENTION, ", removed (train.keep)"
    removed = json.loads(retained.read_text(encoding="utf-8"))["removed"] if retained.exists() else {}
    tags = {f"stack.{name}": str(value) for name, value in told.get("stack", {}).items()}
    if told.get("git_commit"):
        tags["mlflow.source.git.commit"] = told["git_commit"]
    if trained["stopped"]:
        tags["seedwise.stopped"] = "step {step}: {reason}".format(**trained["stopped"])
    for step in trained["checkpoints"]:
        files = [name for name in sorted(trained["sha256"]) if name.startswith(f"checkpoints/{step}/")]
        shown = [
            f"runs/{folder.name}/{file}, sha256 {trained['sha256'][file]}" + removal * (file in removed)
            for file in files
        ]
        tags[f"checkpoint.{step}"] = "\n".join(shown)
    return tags


def status(events: Iterable[Event], published: bool = False) -> tuple[str, float]:
    """MLflow status of a run and the time of its last event.

    A process that is gone without an end was killed, unless it had published the run.
    """
    status, at, start = "FINISHED", 0.0, None
    for event in events:
        at = max(at, event.time)
        if isinstance(event, Start):
            status, start = "RUNNING", event
        elif isinstance(event, End):
            status, start = event.status, None
    if start is not None and gone(start):
        status = "FINISHED" if published else "KILLED"
    return status, at


def joint_status(statuses: set[str]) -> str:
    """Of a method point, from its runs: done when all are."""
    if statuses <= {"SCHEDULED"}:
        return "SCHEDULED"
    if statuses & {"SCHEDULED", "RUNNING"}:
        return "RUNNING"
    return "FINISHED" if statuses == {"FINISHED"} else "FAILED"
