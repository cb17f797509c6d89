"""Why a job is planned: its files are new, its settings, its data or its model changed, or the code it runs did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seedwise.layout import Layout
from seedwise.reruns import ledger, made
from seedwise.reruns.jobs import Job, inputs
from seedwise.reruns.published import Archive, Change, differences

CODE = "behaviour."
EVALUATION: dict[str, ledger.Stage] = {"sample": "sampling", "score": "scoring", "resample": "resampling"}
# The sections of a study that the file of a stage depends on beside what it is made from.
SECTIONS = {
    "data": ("train_data", "evaluate.benchmarks", "models"),
    "base": ("models",),
    "sample": ("evaluate", "train_data", "models"),
    "score": ("evaluate", "grading", "train_data", "models"),
    "resample": ("evaluate", "grading", "resample", "train_data", "models"),
    "measure": ("evaluate", "grading", "metrics", "train_data", "models"),
    "analyse": ("",),
    "report": ("",),
    "track": ("",),
}


@dataclass(frozen=True)
class Reason:
    """Why a job is planned.

    kind: new, spec, code, data, model, rewards (a verifier's declared version was raised), input (what it is made from
    is planned) or missing.
    nearest: the published run that ``changes`` compares with.
    """

    kind: str
    text: str
    nearest: str | None = None
    changes: tuple[Change, ...] = ()


def reasons(layout: Layout, archive: Archive, jobs: list[Job]) -> dict[tuple[str, str], tuple[Reason, ...]]:
    """(stage, subject) -> why it is planned, most telling first, for every planned job."""
    missing = {path: job for job in jobs for path in job.missing}
    recorded = _recorded(layout)
    return {
        (job.stage, job.subject): of_training(layout, archive, job.subject)
        if job.stage == "train"
        else (_of_stage(layout, job, missing, recorded),)
        for job in jobs
    }


def of_training(layout: Layout, archive: Archive, name: str) -> tuple[Reason, ...]:
    """Why a run is trained: how it differs from the nearest published run of its method point, setting and seed."""
    run = layout.grid.runs[name]
    if (layout.run(name) / "trained.json").exists():
        return (Reason("missing", "published, but files of it are gone"),)
    found = archive.nearest(run, ledger.equated(ledger.training(run.algorithm)))
    if found is None:
        return (Reason("new", f"no run of {run.method} at {run.setting}, seed {run.seed}, is published"),)
    nearest, changed = found
    kinds: dict[str, list[Change]] = {}
    for change in changed:
        kinds.setdefault(_kind(change), []).append(change)
    order = [kind for kind in ("spec", "data", "model", "rewards", "code") if kind in kinds]
    return tuple(Reason(kind, _told(kind, kinds[kind]), nearest, tuple(kinds[kind])) for kind in order)


def _kind(change: Change) -> str:
    if change.key.startswith(CODE):
        return "code"
    return {"data": "data", "base": "model", "rewards": "rewards"}.get(change.key.partition(".")[0], "spec")


def _told(kind: str, changed: list[Change]) -> str:
    if kind != "code":
        return "; ".join(map(str, changed))
    fates: dict[str, list[str]] = {}
    for change in changed:
        fate = "new" if change.old is None else "gone" if change.new is None else "changed"
        fates.setdefault(fate, []).append(change.key.removeprefix(CODE).removeprefix("seedwise."))
    return "; ".join(f"{fate} {', '.join(names)}" for fate, names in sorted(fates.items()))


def _of_stage(layout: Layout, job: Job, missing: Mapping[Path, Job], recorded: Mapping[str, Any] | None) -> Reason:
    """Why a stage other than training is planned."""
    sources = [missing[path] for path in inputs(layout, job.stage, job.subject) if path in missing]
    if sources:
        stages = ", ".join(dict.fromkeys(source.stage for source in sources))
        return Reason("input", f"what it is made from is planned: {stages}")
    stage = EVALUATION.get(job.stage)
    if stage and (codes := made.earlier(layout, stage, job.subject)):
        now = ledger.equated(ledger.evaluation(stage), stage=stage)
        found = (differences({"behaviour": code}, {"behaviour": now}) for code in codes)
        nearest = min(found, key=len)
        return Reason("code", _told("code", nearest), changes=tuple(nearest))
    earlier = _earlier(layout, job)
    shared = job.stage in ("data", "base")  # such a file may be another study's
    if not earlier or (shared and recorded is None):
        return Reason("new", "not made yet")
    if recorded is None:
        return Reason("code", f"made before as {earlier[0]}: its settings, a file it reads or its code changed")
    sections, now = SECTIONS[job.stage], layout.grid.study.model_dump(mode="json")
    changed = [
        change
        for change in differences(recorded, now)
        if any(not section or f"{change.key}.".startswith(f"{section}.") for section in sections)
    ]
    if changed:
        return Reason("spec", "; ".join(map(str, changed)), changes=tuple(changed))
    return Reason("code", f"made before as {earlier[0]} under the same settings: a file it reads or its code changed")


def _earlier(layout: Layout, job: Job) -> list[str]:
    """Ids under which the same stage of the same subject was made before."""
    folder, label = layout.run(job.subject), job.subject.rpartition("-")[0]
    place, pattern = {
        "data": (layout.root / "data", f"{label}-*.parquet"),
        "base": (layout.root / "models", f"{label}-*"),
        "sample": (folder / "samples", "*.json"),
        "score": (folder / "evals", "*"),
        "resample": (folder / "resample", "*.parquet"),
        "measure": (folder / "measures", "*.parquet"),
        "analyse": (layout.marker("analysis").parent, "*.json"),
        "report": (layout.marker("report").parent, "*.json"),
        "track": (layout.marker("tracking").parent, "*.json"),
    }[job.stage]
    return sorted(path.name.removesuffix(path.suffix) for path in place.glob(pattern))


def _recorded(layout: Layout) -> dict[str, Any] | None:
    """The study as it was when it was last analysed; None where it never was."""
    for path in sorted((layout.folder / "analysis").glob("*.json")):
        return json.loads(path.read_text())["study"]
    return None
