"""Which jobs Snakemake will run, from which files are missing.

A path holds the id of what it is for, so a job runs exactly when a file that is asked for is missing.  What is
asked for starts at the report: a file that is there asks for nothing that it was made from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
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


def planned(layout: Layout, only: str | None = None) -> list[Job]:
    """The jobs that ``snakemake`` would run now, stage by stage; of the subjects, with ``only``, that one alone."""
    among = layout.subjects if only is None else _line(layout, only)
    makers = dict(_outputs(layout, among))
    missing: dict[tuple[str, str], list[Path]] = {}
    waiting = [layout.report, layout.marker("report"), layout.marker("tracking")]
    seen: set[Path] = set()
    for path in waiting:
        if path in seen or path.exists():
            continue
        seen.add(path)
        job = makers[path]
        if job not in missing:
            waiting += [source for source in inputs(layout, *job, among) if source in makers]
        missing.setdefault(job, []).append(path)
    order = {subject: place for place, subject in enumerate(layout.subjects)}
    jobs = [
        Job(stage, subject, tuple(paths))
        for (stage, subject), paths in missing.items()
        if only is None or subject == only
    ]
    return sorted(jobs, key=lambda job: (STAGES.index(job.stage), order.get(job.subject, 0)))


def _line(layout: Layout, subject: str) -> list[str]:
    """A subject and the runs that start from it, or from one of those: they ask for what is its own."""
    found = [subject]
    started = [(name, run.init_from) for name, run in layout.grid.runs.items() if run.init_from]
    for origin in found:
        found += [name for name, start in started if start == origin and name not in found]
    return found


def inputs(layout: Layout, stage: str, subject: str, among: Collection[str] | None = None) -> list[Path]:
    """The files that a job reads and another job makes; of stages that read all subjects, with ``among``, only those
    of these."""
    grid = layout.grid
    if stage == "data":
        exclude = grid.problems[subject].exclude
        return [layout.problems(exclude)] if exclude else []
    if stage == "train":
        run = grid.runs[subject]
        origin = [layout.weights(run.init_from)] if run.init_from else []
        return [layout.problems(run.data), layout.backbone(run.base), *origin]
    if stage == "analyse":
        subjects = layout.subjects if among is None else among
        found = [path for name in subjects if (path := layout.continuations(name))]
        return [*(layout.scores(name) for name in subjects), *found]
    if stage == "report":
        subjects = layout.subjects if among is None else among
        curves = [layout.file(name, "metrics.parquet") for name in subjects if name in grid.runs]
        return [layout.marker("analysis"), *curves, *map(layout.measures, subjects)]
    if stage == "track":
        return [layout.marker("report")]
    if stage == "base":
        return []
    if stage == "measure":
        return layout.measured_from(subject)
    asked = layout.benchmarks(subject)
    if stage == "resample":
        problems = layout.problems(asked[layout.resampled])
        return [layout.weights(subject), layout.scores(subject), layout.sampled(subject), problems]
    first = layout.weights(subject) if stage == "sample" else layout.sampled(subject)
    return [first, *map(layout.problems, asked.values())]


def _outputs(layout: Layout, subjects: Collection[str]) -> Iterator[tuple[Path, tuple[str, str]]]:
    """Every file that a job asks for -> the stage and subject that make it: of these subjects, and shared."""
    for name in layout.grid.problems:
        yield layout.problems(name), ("data", name)
    for name in layout.grid.models:
        yield layout.backbone(name), ("base", name)
    for name in subjects:
        if name in layout.grid.runs:
            yield from ((layout.file(name, file), ("train", name)) for file in TRAINED)
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
