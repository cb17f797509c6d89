"""Accept an edit as neutral: check that it only changed code, run the checks, write the ledger."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from seedwise import behaviour
from seedwise.identity import digest
from seedwise.layout import Layout
from seedwise.reruns import RerunError, ledger
from seedwise.reruns.ledger import Digests, Entry
from seedwise.reruns.published import Archive, Change
from seedwise.reruns.reasons import CODE

REPOSITORY = behaviour.ROOT.parents[1]


def accept(layout: Layout, names: list[str], reason: str, place: Path = ledger.PLACE) -> list[Entry]:
    """Write the entries by which the published results of ``names`` stay theirs; returns them, none if none is needed.

    Each run must differ from the nearest published run in code alone.  Raises RerunError where one does not, where
    the reason is empty, or where a check fails; nothing is written then.
    """
    if not reason.strip():
        raise RerunError("accept: --reason '': say why the edit changes no result")
    archive = Archive(layout.root / "runs")
    pending = [name for name in names if _code_changes(layout, archive, name, place)]
    if not pending:
        return []
    _check(ledger.read(place).checks)
    written: list[Entry] = []
    for name in pending:
        # an entry written for a run before may already cover this one, in part or whole
        if changed := _code_changes(layout, archive, name, place):
            written.append(_entry(changed, reason.strip()))
            ledger.append(written[-1], place)
    return written


def candidates(layout: Layout) -> list[str]:
    """The runs of a study that are planned for changed code alone."""
    archive = Archive(layout.root / "runs")
    found = []
    for name, run in layout.grid.runs.items():
        if name not in archive:
            near = archive.nearest(run, ledger.equated(ledger.training(run.algorithm)))
            if near and all(change.key.startswith(CODE) for change in near[1]):
                found.append(name)
    return found


def _code_changes(layout: Layout, archive: Archive, name: str, place: Path) -> list[Change]:
    """What of its code stands between a run and its published results, after the ledger as it is now."""
    run = layout.grid.runs[name]
    if name in archive:
        raise RerunError(f"{name}: trained with the code as it is: there is nothing to accept")
    near = archive.nearest(run, ledger.equated(ledger.training(run.algorithm), place))
    if near is None:
        raise RerunError(f"{name}: no earlier run of {run.method} at {run.setting}, seed {run.seed}, is published")
    nearest, changed = near
    if other := [change for change in changed if not change.key.startswith(CODE)]:
        raise RerunError(f"{name}: differs from {nearest} in more than code: {other[0]}: only edits can be accepted")
    return changed


def _check(arguments: tuple[str, ...]) -> None:
    """Run the checks of the ledger.  Raises RerunError when they fail."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
        raise RerunError(
            f"accept: python -m {' '.join(arguments)}: exit {done.returncode}: {last[-1]}: the edit is not neutral"
        )


def _entry(changed: list[Change], reason: str) -> Entry:
    changes = {
        change.key.removeprefix(CODE): Digests(old=_text(change.old), new=_text(change.new)) for change in changed
    }
    checked_out, date = commit()
    identity = digest({key: [change.old, change.new] for key, change in changes.items()})[:8]
    return Entry(id=identity, reason=reason, commit=checked_out, date=date, changes=changes)


def _text(value: str | None) -> str | None:
    """A digest without the quotes of JSON."""
    return None if value is None else value.strip('"')


def commit() -> tuple[str | None, str | None]:
    """Hash and committer's date of the commit that is checked out; (None, None) outside a repository."""
    command = ["git", "log", "-1", "--format=%H %cI"]
    shown = subprocess.run(command, cwd=behaviour.ROOT, capture_output=True, text=True, check=False)
    found, _, date = shown.stdout.strip().partition(" ")
    return (found, date) if found else (None, None)


def lines(written: list[Entry]) -> Iterator[str]:
    """What was written, for people."""
    if not written:
        yield "nothing to accept: no run is planned for changed code alone"
    for entry in written:
        yield f"accepted as {entry.id}: {', '.join(entry.changes)}: {entry.reason}"
    if written:
        yield f"{ledger.PLACE}: commit it with the edit"
