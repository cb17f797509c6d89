"""Accept an edit as neutral: check that it only changed code, run the checks, write the ledger."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from seedwise import behaviour
from seedwise.identity import digest
from seedwise.layout import Layout
from seedwise.reruns import RerunError, graders, ledger, made
from seedwise.reruns.ledger import Digests, Entry, Stage
from seedwise.reruns.published import Archive, Change, differences
from seedwise.reruns.reasons import CODE
from seedwise.study import Run

REPOSITORY = behaviour.ROOT.parents[1]


def accept(
    layout: Layout,
    names: list[str],
    reason: str,
    place: Path = ledger.PLACE,
    stages: Collection[Stage] = ledger.STAGES,
) -> list[Entry]:
    """Write the entries by which the published results of ``names``, runs and bases, stay theirs; returns them.

    Each must differ from what is published in code alone.  stages: those whose code may count as unchanged.
    Raises RerunError where something else differs, where nothing does, where the reason is empty, or where a check
    fails; nothing is written then.
    """
    if not reason.strip():
        raise RerunError("accept: --reason '': say why the edit changes no result")
    draft = Draft(layout, Archive(layout.root / "runs"), reason.strip(), place)
    needing = draft.trained(names, stages)
    needing |= draft.evaluated(names, stages)
    if idle := [name for name in names if name not in needing]:
        raise RerunError(f"{idle[0]}: nothing to accept: it, or most of what is there, was made by the code as it is")
    if draft.entries:
        checks = ledger.read(place).checks
        _check(checks.every)
        if any(entry.stage != "training" for entry in draft.entries):
            _check(checks.evaluation)
    for entry in draft.entries:
        ledger.append(entry, place)
    return draft.entries


def candidates(layout: Layout, stages: Collection[Stage] = ledger.STAGES, place: Path = ledger.PLACE) -> list[str]:
    """The subjects of a study of which something is planned, or is told of its rewards, for changed code alone."""
    draft, needing = Draft(layout, Archive(layout.root / "runs"), "", place), set[str]()
    for name in layout.subjects:
        with suppress(RerunError):  # planned, and not for code alone
            needing |= draft.trained([name], stages)
    needing |= draft.evaluated(layout.subjects, stages)
    return [name for name in layout.subjects if name in needing]


@dataclass
class Draft:
    """Entries that are to be written, each stated from what the ones before leave.

    published: run -> the name under which its results lie, where accepted edits of its training make that its name.
    """

    layout: Layout
    archive: Archive
    reason: str
    place: Path
    entries: list[Entry] = field(default_factory=list)
    published: dict[str, str] = field(default_factory=dict)

    def trained(self, names: Collection[str], stages: Collection[Stage]) -> set[str]:
        """Add what puts trainings in place and lets rewards count as the present ones; returns whom that concerns.

        Raises RerunError for a run that is planned for more than code.
        """
        needing: set[str] = set()
        for name in names:
            run = self.layout.grid.runs.get(name)
            if run is not None and name not in self.archive and "training" in stages:
                self.published[name], changed = self._training(run)
                self._add("training", changed)
                needing.add(name)
            subject = self.published.get(name, name)
            while run is not None and subject in self.archive and "rewards" in stages:
                found = graders.edits(self.archive, subject, run, self.place, self.entries)
                if not found:
                    break
                self._add("rewards", found[0])
                needing.add(name)
        return needing

    def evaluated(self, names: Collection[str], stages: Collection[Stage]) -> set[str]:
        """Add what puts samples, scores and continuations in place; returns which of ``names`` that concerns.

        A stage has one code for all subjects: where they were made by several, it is that of the most, and none is
        accepted where that is the present one.
        """
        subjects, needing = self.layout.subjects, set[str]()
        then = {name: self._renamed(name) for name in subjects}
        for stage in (stage for stage in ledger.EVALUATION if stage in stages):
            now = ledger.equated(ledger.evaluation(stage), self.place, stage, self.entries)
            then = {name: layout.with_code(stage, now) for name, layout in then.items()}
            found = {name: made.codes(then[name], stage, self.published.get(name, name), now) for name in subjects}
            counts = Counter({digest(now): 0})  # first, so that of equal numbers the present one counts
            counts.update(digest(code) for each in found.values() for code in each)
            most = counts.most_common(1)[0][0]
            old = next((code for each in found.values() for code in each if digest(code) == most), now)
            if old != now and any(found[name] for name in names):
                self._add(stage, differences({"behaviour": old}, {"behaviour": now}))
                needing |= {name for name in names if old in found[name]}
                then = {name: layout.with_code(stage, old) for name, layout in then.items()}
        return needing

    def _training(self, run: Run) -> tuple[str, list[Change]]:
        """The published run that is this one but for its code, and what stands between them."""
        now = ledger.equated(ledger.training(run.algorithm), self.place, more=self.entries)
        near = self.archive.nearest(run, now)
        if near is None:
            raise RerunError(
                f"{run.name}: no earlier run of {run.method} at {run.setting}, seed {run.seed}, is published"
            )
        nearest, changed = near
        if other := [change for change in changed if not change.key.startswith(CODE)]:
            raise RerunError(
                f"{run.name}: differs from {nearest} in more than code: {other[0]}: only edits can be accepted"
            )
        return nearest, changed

    def _renamed(self, name: str) -> Layout:
        """The layout in which a run has the name under which it is published."""
        if name not in self.published:
            return self.layout
        run = self.layout.grid.runs[name].model_copy(update={"name": self.published[name]})
        return replace(self.layout, grid=replace(self.layout.grid, runs={run.name: run}))

    def _add(self, stage: Stage, changed: Collection[Change]) -> None:
        """Add an entry, unless nothing stands between any more: one for an earlier subject may cover it."""
        if changed:
            self.entries.append(_entry(stage, changed, self.reason))


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


def _entry(stage: Stage, changed: Collection[Change], reason: str) -> Entry:
    changes = {
        change.key.removeprefix(CODE).removeprefix(graders.CODE): Digests(old=_text(change.old), new=_text(change.new))
        for change in changed
    }
    checked_out, date = commit()
    content = {key: [change.old, change.new] for key, change in changes.items()}
    identity = digest(content if stage == "training" else [stage, content])[:8]
    return Entry(id=identity, stage=stage, reason=reason, commit=checked_out, date=date, changes=changes)


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
        yield "nothing to accept: nothing is planned for changed code alone"
    for entry in written:
        yield f"accepted as {entry.id}: {entry.stage}: {', '.join(entry.changes)}: {entry.reason}"
    if written:
        yield f"{ledger.PLACE}: commit it with the edit"
