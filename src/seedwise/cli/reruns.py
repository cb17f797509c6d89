"""What will run again and why, where it stands, and whether what is stored is as recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seedwise import layout as layouts
from seedwise.cli.app import DEFAULT, AsJson, StudyFile, app, echo
from seedwise.reruns.ledger import STAGES, Stage


@app.command()
def plan(
    study: StudyFile = DEFAULT,
    as_json: AsJson = False,
    device: Annotated[str, typer.Option(help="GPU of the estimate in GPU hours, e.g. h100")] = "h200",
    mfu: Annotated[float, typer.Option(help="share of its peak that training reaches")] = 0.35,
    mfu_generation: Annotated[float, typer.Option(help="share of its peak that generation reaches")] = 0.1,
    length: Annotated[float, typer.Option(help="length of a response, as a share of max_tokens")] = 0.4,
    discarded: Annotated[float, typer.Option(help="share of groups that dynamic sampling draws in vain")] = 0.5,
    active: Annotated[float, typer.Option(help="share of tokens that a sparse baseline trains")] = 0.3,
    parameters: Annotated[
        list[str] | None, typer.Option(help="model=number, e.g. mine=8e9: parameters of a model of the study")
    ] = None,
) -> None:
    """Say what Snakemake will run, why, and what it will cost; starts nothing."""
    from seedwise.reruns import planning, stated

    given = dict(map(stated.parameter, parameters or ()))
    assumed = stated.Assumed(device, mfu, mfu_generation, length, discarded, active, given)
    found = planning.plan(layouts.read(study), assumed=assumed)
    echo([found.json()] if as_json else planning.lines(found))


@app.command()
def why(
    run: Annotated[str, typer.Argument(help="a run or base of the study: its name, or a beginning no other has")],
    study: StudyFile = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Say why one run will run again, in full."""
    from seedwise.reruns import planning

    layout = layouts.read(study)
    name = planning.subject(layout, run)
    found = planning.plan(layout, only=name)
    echo([found.json()] if as_json else planning.told(found, name))


@app.command()
def diff(a: Path, b: Path, as_json: AsJson = False) -> None:
    """Compare two study files: the runs they share, and the settings that differ."""
    from seedwise.reruns import comparing

    found = comparing.compare(layouts.read(a), layouts.read(b), (str(a), str(b)))
    echo([found.json()] if as_json else comparing.lines(found))


@app.command()
def status(
    study: StudyFile = DEFAULT,
    watch: Annotated[bool, typer.Option(help="go on looking until interrupted")] = False,
    as_json: AsJson = False,
) -> None:
    """Show where every run stands: stages, steps, reward, time left, and the last lines of what failed."""
    from seedwise.reruns import status as standing

    layout = layouts.read(study)
    if as_json:
        typer.echo(standing.Look(layout).status().json())
    elif watch:
        standing.watch(layout, seconds=5.0)
    else:
        standing.show(layout)


@app.command()
def verify(study: StudyFile = DEFAULT, as_json: AsJson = False) -> None:
    """Check stored files against their records, and records against the study, the code and the data."""
    from seedwise.reruns import verifying

    layout = layouts.read(study)
    found, notes = verifying.verify(layout), list(verifying.notes(layout))
    shown = [*map(str, found or [f"{study}: every stored file is as recorded"]), *notes]
    echo([verifying.as_json(found, notes)] if as_json else shown)
    if found:
        raise typer.Exit(1)


@app.command()
def gc(
    studies: Annotated[
        list[Path] | None, typer.Argument(help="studies to keep results of; default: config/*.yaml")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="delete what is listed")] = False,
) -> None:
    """List results that no study refers to, with their sizes; delete them with --yes."""
    from seedwise.reruns import collecting

    files = studies or sorted(DEFAULT.parent.glob("*.yaml"))
    found = collecting.leftovers([layouts.read(file) for file in files], layouts.RESULTS)
    echo(collecting.collect(found, layouts.RESULTS) if yes else collecting.lines(found))


@app.command()
def accept(
    run: Annotated[str | None, typer.Argument(help="a run or base, or a beginning no other has")] = None,
    every: Annotated[bool, typer.Option("--all", help="everything that is planned for changed code alone")] = False,
    reason: Annotated[str, typer.Option(help="why the edit changes no result")] = "",
    stage: Annotated[Stage | None, typer.Option(help="only results of this stage; default: of every stage")] = None,
    study: StudyFile = DEFAULT,
) -> None:
    """Hold an edit of code to be neutral: results made before it stay valid, once the checks have passed."""
    from seedwise.reruns import accepting, planning
    from seedwise.stages import StageError  # with pandas, which only this command needs

    layout = layouts.read(study)
    if (run is None) != every:
        raise StageError("accept: name one run, or --all")
    stages = [stage] if stage else STAGES
    names = [planning.subject(layout, run)] if run else accepting.candidates(layout, stages)
    echo(accepting.lines(accepting.accept(layout, names, reason, stages=stages)))
