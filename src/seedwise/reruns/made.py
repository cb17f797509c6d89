"""What stages of evaluation were made before, by which code, as the records beside their files say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from seedwise.identity import digest
from seedwise.layout import Layout
from seedwise.reruns.ledger import Stage


def result(layout: Layout, stage: Stage, subject: str) -> Path | None:
    """The file by which a stage of a subject is done; None where the study does not want it."""
    if stage == "sampling":
        return layout.sampled(subject)
    return layout.scores(subject) if stage == "scoring" else layout.continuations(subject)


def codes(layout: Layout, stage: Stage, subject: str, now: Mapping[str, str]) -> list[Mapping[str, str]]:
    """The codes by which a stage was done with the same settings, on the same files: the present one, or earlier ones.

    now: the code of ``layout``.  None where it was never done, or is not wanted.
    """
    path = result(layout, stage, subject)
    return [now] if path is not None and path.exists() else earlier(layout, stage, subject)


def earlier(layout: Layout, stage: Stage, subject: str) -> list[Mapping[str, str]]:
    """The codes by which a stage that is not done was done before with the same settings, on the same files."""
    path = result(layout, stage, subject)
    if path is None or path.exists():
        return []
    place = layout.run(subject) / {"sampling": "samples", "scoring": "evals", "resampling": "resample"}[stage]
    found = {digest(code): code for code in _recorded(place, stage)}
    there = ((code, result(layout.with_code(stage, code), stage, subject)) for code in found.values())
    return [code for code, path in there if path is not None and path.exists()]


def _recorded(place: Path, stage: Stage) -> Iterator[Mapping[str, str]]:
    """The codes in the records of a folder, those of accepted edits put back; a damaged record has none."""
    for path in sorted(place.glob("*/scores.json" if stage == "scoring" else "*.json")):
        try:
            record = json.loads(path.read_text())
        except ValueError:
            continue
        if isinstance(record, Mapping) and isinstance(code := record.get("behaviour"), Mapping):
            yield code
