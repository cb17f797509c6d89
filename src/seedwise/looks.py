"""Every comparison is a look at the data: ``results/<study>/looks.jsonl``, one line each, only ever added to.

The file lies outside Snakemake's outputs, so no rerun removes it.  Its first line holds the declaration the
study began with.  An analysis of the same scores is the same look; one of other scores is the next.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from seedwise.identity import digest
from seedwise.report.facts import Look


class LookError(ValueError):
    """The record of looks cannot be read; one line with file, line and remedy."""


@dataclass(frozen=True)
class Sight:
    """What one comparison saw.

    seeds: planned per method of the declared families.  cells: ``model/setting/method`` -> seeds that have
    scores.  scores: digest of what the declared families rest on.  analysis: id of the analysis.
    declaration: the compare section.
    """

    seeds: int
    cells: Mapping[str, int]
    scores: str
    analysis: str
    declaration: Mapping[str, Any]

    @property
    def registration(self) -> str:
        """Digest of the declaration."""
        return registration(self.declaration)


@dataclass(frozen=True)
class Entry:
    """One line of the record.  time: ISO 8601, UTC.  reason: why the look was not declared, else None."""

    look: int
    time: str
    seeds: int
    cells: Mapping[str, int]
    registration: str
    analysis: str
    scores: str
    declared: bool
    reason: str | None
    declaration: Mapping[str, Any]


def registration(declaration: Mapping[str, Any]) -> str:
    """The digest of a compare section that every table's footer carries."""
    return digest(dict(declaration))[:16]


def read(path: str | Path) -> list[Entry]:
    """The looks taken so far, oldest first; none where the file does not exist yet.  Raises LookError."""
    path = Path(path)
    if not path.exists():
        return []
    entries = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            entries.append(Entry(**json.loads(line)))
        except (TypeError, ValueError) as error:
            raise LookError(f"{path}: line {number}: not a look ({error}): restore the file from a backup") from None
    return entries


def record(path: str | Path, sight: Sight, now: datetime) -> Look:
    """Which look this comparison is; it is added to the record unless this very analysis is there already.

    now: the time written down; no table holds it.  Raises LookError.
    """
    path = Path(path)
    entries = read(path)
    seen = (sight.analysis, sight.registration, sight.scores)
    known = next((entry for entry in entries if (entry.analysis, entry.registration, entry.scores) == seen), None)
    if known is None:
        known = _next(entries, sight, now)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            # one write of one line: whoever reads sees all of it or nothing
            file.write(json.dumps(asdict(known), sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        entries.append(known)
    return _look(entries, known)


def _next(entries: Sequence[Entry], sight: Sight, now: datetime) -> Entry:
    again = next((entry for entry in entries if entry.scores == sight.scores), None)
    number = again.look if again else 1 + max((entry.look for entry in entries), default=0)
    first = entries[0].declaration if entries else sight.declaration
    reason = _undeclared([entry for entry in entries if entry.look < number], number, sight, first)
    return Entry(
        look=number,
        time=now.isoformat(timespec="seconds"),
        seeds=sight.seeds,
        cells=dict(sight.cells),
        registration=sight.registration,
        analysis=sight.analysis,
        scores=sight.scores,
        declared=reason is None,
        reason=reason,
        declaration=dict(sight.declaration),
    )


def _undeclared(before: Sequence[Entry], number: int, sight: Sight, first: Mapping[str, Any]) -> str | None:
    planned = first["looks"]
    if (planned, first["spending"]) != (sight.declaration["looks"], sight.declaration["spending"]):
        return "compare.looks or compare.spending changed after the first look: take back the change"
    if planned is None:
        if number == 1:
            return None
        return f"look {number}, and one was declared: a study that is to grow declares compare.looks beforehand"
    shown = ", ".join(map(str, planned))
    if sight.seeds not in planned:
        return f"{sight.seeds} seeds per method, and the declared looks are at {shown}: seedwise add-seeds goes on"
    if taken := [entry.seeds for entry in before if entry.declared and entry.seeds >= sight.seeds]:
        return f"{sight.seeds} seeds per method, and a look at {max(taken)} was taken before: it cannot be repeated"
    return None


def _look(entries: Sequence[Entry], known: Entry) -> Look:
    first, planned = entries[0], entries[0].declaration["looks"]
    earlier = {entry.seeds for entry in entries if entry.declared and entry.look < known.look}
    return Look(
        known.look,
        known.seeds,
        tuple(planned) if planned is not None else None,
        (*sorted(earlier), known.seeds),
        known.registration,
        first.registration,
        known.reason,
    )
