"""The part of a study that is there when runs failed for good: tables with the seeds they have, and marked.

A study that ran under ``--keep-going`` and lost runs has no analysis, which needs every score.  Its part has one, with
an id of its own in a folder of its own, so that the two are never taken for each other.  A run that is missing lowers
the number of seeds and is named with its reason.  One that ran out of memory may not be missing: leaving it out would
choose seeds by how they went, so it has to be counted with the weights it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from seedwise.grid import Grid
from seedwise.layout import Layout

NO_MEMORY = ": out of memory: "  # as faults.py says it
NOT_STARTED = "not started"
SILENT = "ended without a word: killed, or its machine was lost"
TAIL = 8192


class PartialError(RuntimeError):
    """The runs that are there cannot stand for the study; one line with the remedy."""


@dataclass(frozen=True)
class Partial(Layout):
    """A layout whose runs are those with scores.  whole: all that was planned.  missing: run -> why it has none."""

    whole: Grid | None = None
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Beside the folders of the whole analysis."""
        return super().folder / "partial"

    @property
    def looks(self) -> Path:
        """The study's own record: looking at a part is a look at the data."""
        return super().folder / "looks.jsonl"

    @property
    def planned(self) -> Grid:
        """All that the study declares."""
        return self.whole or self.grid

    @property
    def cautions(self) -> tuple[str, ...]:
        """How many runs are missing, which, and why."""
        lost = "; ".join(f"{name} ({why})" for name, why in self.missing.items())
        of = f"{len(self.missing)} of {len(self.planned.runs)} runs"
        return (f"PARTIAL: {of} have no scores, so S is lower than planned: {lost}.",)

    @property
    def measured(self) -> list[str]:
        """Those whose measures were taken."""
        return [name for name in self.subjects if self.measures(name).exists()]

    def continuations(self, subject: str) -> Path | None:
        """None also where the experiment has not been done."""
        path = super().continuations(subject)
        return path if path is not None and path.exists() else None


def of_what_is_there(layout: Layout) -> Partial:
    """The part of a study whose runs have scores.

    Raises PartialError where nothing is missing, nothing is there, a base is missing, or a run counts though it
    stopped.
    """
    study, missing = layout.grid.study.study, {}
    for name in layout.subjects:
        if not layout.scores(name).exists():
            missing[name] = reason(layout, name)
    if not missing:
        raise PartialError(f"{study}: every run has scores: seedwise analyse")
    for name, why in missing.items():
        if name in layout.grid.bases:
            raise PartialError(f"{name}: {why}: the untrained model stands in every table: start snakemake again")
        if NO_MEMORY in why:
            raise PartialError(
                f"{name}: out of memory: it counts with the weights it has: seedwise train {name} --give-up "
                "'out of memory', and start snakemake again"
            )
    there = {name: run for name, run in layout.grid.runs.items() if name not in missing}
    if not there:
        raise PartialError(f"{study}: no run has scores: start snakemake again")
    return Partial(replace(layout.grid, runs=there), layout.root, layout.grid, missing)


def reason(layout: Layout, name: str) -> str:
    """Why a subject has no scores: the stage it failed in and the last line of its log."""
    logs = layout.root / "logs"
    sampled, scores = layout.sampled(name), layout.scores(name)
    stages = {
        "sample": (sampled, logs / "sample" / f"{name}.{sampled.stem}.log"),
        "score": (scores, logs / "score" / f"{name}.{scores.parent.name}.log"),
    }
    if name in layout.grid.runs:
        stages = {"train": (layout.run(name) / "trained.json", logs / "train" / f"{name}.log")} | stages
    for stage, (made, log) in stages.items():
        if not made.exists():
            return f"{stage}: {_last_line(log)}"
    return NOT_STARTED


def _last_line(log: Path) -> str:
    if not log.exists():
        return NOT_STARTED
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("seedwise: ") if lines else SILENT
