"""Which jobs Snakemake will run, from which files are missing.

A path holds the id of what it is for, so a job runs exactly when a file that is asked for is missing.  What is
asked for starts at the report: a file that is there asks for nothing that it was made from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seedwise.layout import Layout

STAGES = ("data", "base", "train", "sample", "score", "resample", "measure", "analyse", "report", "track")
TRAINED = ("spec.json", "metrics.parquet", "timing.parquet", "trained.json")


@dataclass(frozen=True)
class Job:
    """One job.  subject: run, base, model folder or problems by name; the study's name for the last three stages.
    missing: its files that are asked for and not there."""

    stage: str
    subject: str
    missing: tuple[Path, ...] = ()


def planned(layout: Layout) -> list[Job]:
    """The jobs that ``snakemake`` would run now, stage by stage."""
    makers = dict(_outputs(layout))
    missing: dict[tuple[str, str], list[Path]] = {}
    waiting = [layout.report, layout.marker("report"), layout.marker("tracking")]
    seen: set[Path] = set()
    for path in waiting:
        if path in seen or path.exists():
            continue
        seen.add(path)
        job = makers[path]
        if job not in missing:
            waiting += inputs(layout, *job)
        missing.setdefault(job, []).append(path)
    order = {subject: place for place, subject in enumerate(layout.subjects)}
    jobs = [Job(stage, subject, tuple(paths)) for (stage, subject), paths in missing.items()]
    return sorted(jobs, key=lambda job: (STAGES.index(job.stage), order.get(job.subject, 0)))


def inputs(layout: Layout, stage: str, subject: str) -> list[Path]:
    """The files that a job reads and another job makes."""
    grid = layout.grid
    if stage == "data":
        exclude = grid.problems[subject].exclude
        return [layout.problems(exclude)] if exclude else []
    if stage == "train":
        run = grid.runs[subject]
        origin = [layout.run(run.init_from) / "trained.json"] if run.init_from else []
        return [layout.problems(run.data), layout.model(run.base) / "files.json", *origin]
    if stage == "analyse":
        found = [path for name in layout.subjects if (path := layout.continuations(name))]
        return [*(layout.scores(name) for name in layout.subjects), *found]
    if stage == "report":
        curves = [layout.run(name) / "metrics.parquet" for name in grid.runs]
        return [layout.marker("analysis"), *curves, *(layout.measures(name) for name in layout.subjects)]
    if stage == "track":
        return [layout.marker("report")]
    if stage == "base":
        return []
    if stage == "measure":
        return layout.measured_from(subject)
    asked = [layout.problems(name) for name in layout.benchmarks(subject).values()]
    read = {
        "sample": [_weights(layout, subject)],
        "score": [layout.sampled(subject)],
        "resample": [_weights(layout, subject), layout.scores(subject), layout.sampled(subject)],
    }
    return [*read[stage], *asked]


def _weights(layout: Layout, subject: str) -> Path:
    """What says that the subject's weights are there."""
    if subject in layout.grid.bases:
        return layout.model(layout.grid.bases[subject].folder) / "files.json"
    return layout.run(subject) / "trained.json"


def _outputs(layout: Layout) -> Iterator[tuple[Path, tuple[str, str]]]:
    """Every file that a job asks for -> the stage and subject that make it."""
    for name in layout.grid.problems:
        yield layout.problems(name), ("data", name)
    for name in layout.grid.models:
        yield layout.model(name) / "files.json", ("base", name)
    for name in layout.grid.runs:
        yield from ((layout.run(name) / file, ("train", name)) for file in TRAINED)
    for name in layout.subjects:
        yield from ((path, (stage, name)) for stage, path in evaluated(layout, name).items())
    study = layout.grid.study.study
    yield layout.marker("analysis"), ("analyse", study)
    yield from ((path, ("report", study)) for path in (layout.report, layout.marker("report")))
    yield layout.marker("tracking"), ("track", study)


def evaluated(layout: Layout, subject: str) -> dict[str, Path]:
    """sample, score, where the study wants it resample, and measure -> the file that says it is done."""
    path = layout.continuations(subject)
    resampled = {} if path is None else {"resample": path}
    measured = {"measure": layout.measures(subject)}
    return {"sample": layout.sampled(subject), "score": layout.scores(subject), **resampled, **measured}
