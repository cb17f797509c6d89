"""``seedwise add-seeds``: the seeds of the next declared look, into the study file; and the level it will have."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from seedwise import looks
from seedwise.grid import expand
from seedwise.layout import RESULTS, Layout
from seedwise.reading import load
from seedwise.report.decisions import nominal
from seedwise.report.facts import Look
from seedwise.study import Study


class SeedsError(ValueError):
    """Seeds that may not be added; one line with file, key, value and remedy."""


@dataclass(frozen=True)
class Added:
    """What was written.  look: its number, from 1, of ``planned`` (seeds per method at each).  skipped: seeds of the
    looks left out before it.  level: what a p of the family may be at most at this look.
    """

    study: Study
    path: Path
    new: tuple[int, ...]
    planned: tuple[int, ...]
    look: int
    skipped: tuple[int, ...]
    level: float

    def __str__(self) -> str:
        """The outcome in a few lines."""
        compare, total = self.study.compare, self.planned[self.look - 1]
        m = len(compare.family)
        lines = [
            f"{self.path}: seeds {', '.join(map(str, self.new))} added: {total} per method, "
            f"look {self.look} of {len(self.planned)}",
            f"level of the next analysis: p <= {self.level:.3g} ({compare.spending} spending of {compare.alpha:g}, "
            + (f"shared by {m} comparisons)" if m > 1 else "one comparison)"),
        ]
        if self.skipped:
            lines.append(f"looks left out: at {', '.join(map(str, self.skipped))} seeds; what they would spend is kept")
        if any(block.seeds is not None for block in self.study.blocks):
            lines.append("blocks with seeds of their own keep them")
        return "\n".join(lines)


def add_seeds(path: Path, look: int | None = None, root: Path = RESULTS) -> Added:
    """Append the next integers to ``seeds`` of a study file, as many as a declared look asks for.

    look: number of the look, from 1; None: the first that has more seeds than the study.  root: where results lie,
    whose record of looks says which were taken.  Comments and the style of the file stay.  Raises StudyError,
    LookError, and SeedsError where no look is declared or left, the declaration changed, or the file cannot be edited
    safely.
    """
    study = load(path)
    planned, number = study.compare.looks, len(study.seeds)
    if planned is None:
        raise SeedsError(
            f"{path}: compare.looks: null: declare the seeds of every look before the first, [3, 5, 7, 10]"
        )
    shown = f"{path}: compare.looks: {list(planned)}"
    if look is not None and not 1 <= look <= len(planned):
        raise SeedsError(f"{shown}: no look {look}: give 1 to {len(planned)}")
    chosen = next((k for k, S in enumerate(planned, 1) if number < S), None) if look is None else look
    if chosen is None:
        raise SeedsError(f"{shown}: all are used, the study has {number} seeds: a further look was not declared")
    total = planned[chosen - 1]
    if total <= number:
        raise SeedsError(f"{shown}: look {chosen} has {total} seeds, the study {number} already: leave out --look")
    taken = _taken(path, study, Layout(expand(study, str(path)), root).looks, total)
    new = tuple(range(max(study.seeds) + 1, max(study.seeds) + 1 + total - number))
    _write(path, study, new)
    declared = looks.registration(study.compare.model_dump(mode="json"))
    level = nominal(
        study.compare, Look(chosen, total, planned, (*taken, total), declared, declared), len(study.compare.family)
    )
    skipped = tuple(S for S in planned if number < S < total)
    return Added(study, path, new, planned, chosen, skipped, level)


def _taken(path: Path, study: Study, record: Path, total: int) -> list[int]:
    """Seeds at the declared looks taken so far."""
    entries = looks.read(record)
    if not entries:
        return []
    first, now = entries[0].declaration, study.compare.model_dump(mode="json")
    for key in ("looks", "spending"):
        if first[key] != now[key]:
            raise SeedsError(
                f"{path}: compare.{key}: {now[key]}: was {first[key]} at the first look: take back the change"
            )
    taken = sorted({entry.seeds for entry in entries if entry.declared})
    if taken and taken[-1] >= total:
        raise SeedsError(f"{path}: seeds: {record} holds a look at {taken[-1]} seeds: give back the seeds it had")
    return taken


def _write(path: Path, study: Study, new: Sequence[int]) -> None:
    """Append seeds to the file, after reading the edited text back: nothing but the seeds may have changed."""
    target = path.resolve()
    with target.open(encoding="utf-8", newline="") as file:
        text = file.read()
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(_edited(text, new))
        if load(temporary) != study.model_copy(update={"seeds": (*study.seeds, *new)}):
            raise SeedsError(
                f"{path}: seeds: editing them would change more: write seeds: {[*study.seeds, *new]} yourself"
            )
        shutil.copymode(target, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _edited(text: str, new: Sequence[int]) -> str:
    """The text with seeds after the last one, in the style of the list."""
    root = yaml.compose(text, yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)  # the study was read before, and its seeds are a list
    (node,) = (value for key, value in root.value if key.value == "seeds")
    last = node.value[-1]
    start, end = last.start_mark.index, last.end_mark.index
    if node.flow_style:
        return text[:end] + "".join(f", {seed}" for seed in new) + text[end:]
    dash = text[text.rfind("\n", 0, start) + 1 : start]
    line = re.compile(r"\r?\n|\Z").search(text, end)
    assert line is not None  # every text has an end
    added = "".join(f"{line[0] or chr(10)}{dash}{seed}" for seed in new)
    return text[: line.start()] + added + text[line.start() :]
