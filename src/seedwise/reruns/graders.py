"""Runs whose rewards came from another code of the grader than the present one.

A name covers the declared version of a verifier, not its code, so an edited grader trains nothing again.  That is said
wherever a study's results are looked at, with the remedy, and never decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from seedwise.layout import Layout
from seedwise.reruns import ledger
from seedwise.reruns.ledger import PLACE, Entry
from seedwise.reruns.published import Archive, Change, differences
from seedwise.study import Run

CODE = "reward_code."


def codes(archive: Archive, name: str) -> list[Mapping[str, str]]:
    """The codes of the grader that gave a published run its rewards, oldest first; none where it was not recorded."""
    return archive.spec(name).get("reward_code") or []


def edits(
    archive: Archive, name: str, run: Run, place: Path = PLACE, more: Iterable[Entry] = ()
) -> list[tuple[Change, ...]]:
    """How the present grader differs from each code that gave the published run ``name`` its rewards, accepted edits
    put back; those alike are left out."""
    added = tuple(more)

    def as_counted(code: Mapping[str, str]) -> dict[str, dict[str, str]]:
        return {CODE.removesuffix("."): ledger.equated(code, place, "rewards", added)}

    now = ledger.rewards(run.rewards)
    others = [code for code in codes(archive, name) if code != now]
    found = (tuple(differences(as_counted(code), as_counted(now))) for code in others)
    return [changed for changed in found if changed]


def told(layout: Layout, archive: Archive, only: str | None = None, place: Path = PLACE) -> Iterator[str]:
    """One line, where there are such runs: how many, what of the grader changed, and how to train them again.

    only: of one run.
    """
    trained = [name for name in layout.grid.runs if only in (None, name) and name in archive]
    found = {name: edits(archive, name, layout.grid.runs[name], place) for name in trained}
    earlier = [name for name in trained if found[name] or not codes(archive, name)]
    if not earlier:
        return
    changed = sorted({change.key.removeprefix(CODE) for name in earlier for each in found[name] for change in each})
    what = f"{', '.join(changed)} changed since" if changed else "which was not recorded"
    kinds = {verifier.partition(":")[0] for name in earlier for verifier in layout.grid.runs[name].rewards}
    yield (
        f"{len(earlier)} of {len(trained)} trained runs had rewards of an earlier code of the grader ({what}): if "
        f"rewards differ, raise the version of {' and '.join(sorted(kinds))} in grading/versions.py and they are "
        "trained again; if not, seedwise accept --stage rewards"
    )
