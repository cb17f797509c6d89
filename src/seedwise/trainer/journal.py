"""What a job says about itself while it runs: ``results/runs/<run>/tracking.jsonl``, one event a line.

The file is the record.  It is appended to and never edited, needs no MLflow, and survives a killed
process: at worst its last line is torn.  ``tracking.py`` replays it into MLflow.
"""

from __future__ import annotations

import fcntl
import json
import os
import posixpath
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from seedwise.trainer import lease

MAX_NAME = 230
"""Characters of an encoded name: MLflow allows 250, and a tag about a metric puts a prefix before its name."""

_TOKENS = {"@": "at", "=": "eq", "%": "pct", ":": "colon", "/": "slash", ".": "dot", "": "empty"}
_CHARACTERS = {token: character for character, token in _TOKENS.items()}


def safe_name(name: str) -> str:
    """The name in the characters MLflow allows: ``pass@16`` -> ``pass:at:16``, ``κ`` -> ``:u3ba:``.

    Different names stay different, and ``original_name`` undoes it.  Raises ValueError when the result is
    longer than ``MAX_NAME``.
    """
    kept = "-_. /"
    if name != posixpath.normpath(name) or name.startswith(("/", "..")) or name == ".":
        kept = "-_ "  # MLflow refuses what looks like another spelling of a path
    safe = "".join(c if (c.isascii() and c.isalnum()) or c in kept else f":{_token(c)}:" for c in name) or ":empty:"
    if len(safe) > MAX_NAME:
        raise ValueError(f"the name {name[:40]!r}... takes {len(safe)} characters, {MAX_NAME} are allowed: shorten it")
    return safe


def _token(character: str) -> str:
    return _TOKENS.get(character) or f"u{ord(character):x}"


def original_name(safe: str) -> str:
    """The name that ``safe_name`` encoded.  Raises ValueError on text it cannot have produced."""
    parts = safe.split(":")
    if len(parts) % 2 == 0:
        raise ValueError(f"{safe!r} is not an encoded name: a colon is missing")
    return "".join(_character(part) if index % 2 else part for index, part in enumerate(parts))


def _character(token: str) -> str:
    if token in _CHARACTERS:
        return _CHARACTERS[token]
    if re.fullmatch("u[0-9a-f]{1,6}", token):
        return chr(int(token[1:], 16))
    raise ValueError(f":{token}: stands for no character in an encoded name")


class _Event(BaseModel):
    # JSON has no NaN or infinity: they are written as text and read back as numbers.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    time: float = Field(default_factory=time.time, description="seconds since 1970")


class Start(_Event):
    """A process begins, or continues, the run.  birth: when the process started, seconds since 1970.

    after: the step it goes on from: what was noted of later steps is taken back.  None: nothing is.
    """

    event: Literal["start"] = "start"
    params: dict[str, str] = {}
    tags: dict[str, str] = {}
    host: str | None = None
    pid: int | None = None
    birth: float | None = None
    slurm_job: str | None = None
    after: int | None = Field(default=None, ge=0)

    @field_validator("params", "tags")
    @classmethod
    def _short_names(cls, named: dict[str, str]) -> dict[str, str]:
        for name in named:
            safe_name(name)
        return named


class Metrics(_Event):
    """Values at one step.  A value is a number, or null with its reason; NaN and infinity are kept as they are."""

    event: Literal["metrics"] = "metrics"
    step: int = Field(ge=0)
    values: dict[str, float | None]
    reasons: dict[str, str] = {}

    @field_validator("values")
    @classmethod
    def _short_names(cls, named: dict[str, float | None]) -> dict[str, float | None]:
        for name in named:
            safe_name(name)
        return named


class Artifact(_Event):
    """A small file of the run folder to show in MLflow.  A checkpoint is named in a tag, with its digest, instead."""

    event: Literal["artifact"] = "artifact"
    path: str = Field(description="relative to the run folder")
    folder: str = ""

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str) -> str:
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise ValueError("must lie inside the run folder")
        return path


class End(_Event):
    """The process that started the run has ended it."""

    event: Literal["end"] = "end"
    status: Literal["FINISHED", "FAILED", "KILLED"] = "FINISHED"


Event = Start | Metrics | Artifact | End
_EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


def started(params: Mapping[str, object], tags: Mapping[str, str] | None = None, after: int | None = None) -> Start:
    """The event of this process starting a run.  Nested params become dotted names, lists JSON."""
    me = lease.me()
    return Start(
        params=flat(params),
        tags=dict(tags or {}),
        host=me.host,
        pid=me.pid,
        birth=me.started,
        slurm_job=me.slurm_job,
        after=after,
    )


def flat(nested: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Nested values as text under dotted names: ``{"train": {"lr": 1e-4}}`` -> ``{"train.lr": "0.0001"}``."""
    found: dict[str, str] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return found


def gone(start: Start) -> bool:
    """Whether the process that wrote ``start`` is certainly gone; on another host only Slurm can tell."""
    if start.host is None or start.pid is None or start.birth is None:
        return False
    return lease.gone(lease.Owner(start.host, start.pid, start.birth, start.slurm_job, 0), lease.me())


def append(path: str | Path, record: Event | Mapping[str, object]) -> None:
    """Append one event to a ``tracking.jsonl``, whole: concurrent writers never mix their lines.

    A line torn by a killed process is closed first.  Raises ValueError when the record is not an event.
    """
    try:
        event = _EVENT.validate_python(dict(record) if isinstance(record, Mapping) else record)
    except ValidationError as error:
        first = error.errors()[0]
        where, given = ".".join(map(str, first["loc"])) or "event", repr(first["input"])
        given = given if len(given) < 80 else given[:80] + "..."
        raise ValueError(f"{path}: not an event: {where}: {first['msg']}, got {given}") from None
    line = event.model_dump_json().encode() + b"\n"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if file.seek(0, os.SEEK_END) and not _ends_line(file.fileno()):
            line = b"\n" + line
        file.write(line)


def _ends_line(descriptor: int) -> bool:
    return os.pread(descriptor, 1, os.fstat(descriptor).st_size - 1) == b"\n"


def lines(events: Iterable[Event]) -> bytes:
    """The events as they would stand in the file."""
    return b"".join(event.model_dump_json().encode() + b"\n" for event in events)


def parse(data: bytes) -> tuple[list[Event], int]:
    """The events of whole lines, in order, and the number of lines that hold none (torn by a kill)."""
    events, damaged = [], 0
    for line in data.splitlines():
        try:
            events.append(_EVENT.validate_json(line))
        except ValidationError:
            damaged += 1
    return events, damaged
