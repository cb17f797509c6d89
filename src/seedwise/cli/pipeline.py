"""The stages of the workflow: what the rules call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seedwise import layout as layouts
from seedwise import machine as machines
from seedwise.cli.app import DEFAULT, MachineFile, StudyFile, app


def _holding(study: Path, name: str) -> layouts.Layout:
    """The layout of a study that must hold ``name``."""
    layout = layouts.read(study)
    layout.check(name)
    return layout


@app.command()
def data(name: str, study: StudyFile = DEFAULT) -> None:
    """Build one file of problems, e.g. same-1a2b3c4d."""
    from seedwise import stages

    stages.data(_holding(study, name), name)


@app.command()
def base(name: str, study: StudyFile = DEFAULT) -> None:
    """Write the folder of an untrained model."""
    from seedwise import stages

    stages.base(_holding(study, name), name)


@app.command()
def train(
    run: str,
    study: StudyFile = DEFAULT,
    work: Path = layouts.WORK,
    give_up: Annotated[
        str | None,
        typer.Option(help="take no further step, it counts with the weights it has; the reason, e.g. 'out of memory'"),
    ] = None,
) -> None:
    """Train one run; a training that was stopped continues where it saved last."""
    from seedwise import stages

    stages.train(_holding(study, run), run, work, give_up)


@app.command()
def sample(subject: str, study: StudyFile = DEFAULT, machine: MachineFile = None) -> None:
    """Sample all checkpoints of a run (or a base) on all benchmarks."""
    engine = machines.engine(machine, "sample")  # before anything heavy: it may be another Python's to do
    from seedwise import stages

    stages.sample(_holding(study, subject), subject, engine=engine)


@app.command()
def score(subject: str, study: StudyFile = DEFAULT) -> None:
    """Grade the samples of a run (or a base)."""
    from seedwise import stages

    stages.score(_holding(study, subject), subject)


@app.command()
def measure(subject: str, study: StudyFile = DEFAULT) -> None:
    """Measure the samples of a run (or a base) beside their scores: docs/metrics.md."""
    from seedwise import stages

    stages.measure(_holding(study, subject), subject)


@app.command()
def resample(subject: str, study: StudyFile = DEFAULT, machine: MachineFile = None) -> None:
    """Continue responses from before windows of high and low entropy."""
    engine = machines.engine(machine, "resample")  # before anything heavy: it may be another Python's to do
    from seedwise import stages

    stages.resample(_holding(study, subject), subject, engine=engine)


@app.command()
def analyse(
    study: StudyFile = DEFAULT,
    partial: Annotated[
        bool, typer.Option(help="only the runs that have scores, marked, in results/<study>/partial")
    ] = False,
) -> None:
    """Compare the methods of a study: tables under results/<study>/analysis."""
    from seedwise import conclude

    layout = layouts.read(study)
    if partial:
        typer.echo(f"report: {conclude.partial(layout).absolute()}")
    else:
        conclude.analyse(layout)


@app.command()
def report(study: StudyFile = DEFAULT) -> None:
    """Write tables, figures and report.html of a study."""
    from seedwise import conclude

    typer.echo(f"report: {conclude.report(layouts.read(study)).absolute()}")


@app.command()
def sync(
    study: StudyFile = DEFAULT,
    record: Annotated[
        Path | None, typer.Option(help="write the outcome here; a store that refuses is then no failure")
    ] = None,
) -> None:
    """Mirror what is new in the study's files to MLflow."""
    from seedwise import conclude

    typer.echo(conclude.sync(layouts.read(study), record))
