"""Whether a study can run here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seedwise import layout as layouts
from seedwise.cli.app import DEFAULT, AsJson, StudyFile, app


@app.command()
def doctor(
    study: StudyFile = DEFAULT,
    profile: Annotated[
        Path | None, typer.Option(help="a Snakemake profile, e.g. workflow/profiles/slurm: its cluster is tried, too")
    ] = None,
    wait: Annotated[int, typer.Option(min=1, help="seconds that a job may wait for a free node")] = 60,
    as_json: AsJson = False,
) -> None:
    """Check disk, models, data, tracking store and cluster before a study starts; ends with 1 if it cannot run."""
    from seedwise.doctor.examine import examine
    from seedwise.doctor.finding import Finding, failed
    from seedwise.doctor.finding import as_json as shown
    from seedwise.reruns import planning
    from seedwise.reruns.estimates import total

    layout = layouts.read(study)
    needed = total(planning.plan(layout).disk.values())
    findings: list[Finding] = []
    for finding in examine(layout, profile, (needed.value, needed.reason), wait):
        findings.append(finding)
        if not as_json:
            typer.echo(str(finding))
    if as_json:
        typer.echo(shown(findings))
    if failed(findings):
        raise typer.Exit(1)
