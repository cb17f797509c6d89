"""Scores and answers of any system, and how many seeds a difference takes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import typer

from seedwise.cli.app import app

Spending = Literal["obf", "pocock"]


@app.command()
def compare(
    file: Annotated[Path, typer.Argument(help="CSV or Parquet: method, seed, benchmark, problem, samples, correct")],
    reference: Annotated[str, typer.Option(help="the method all others are compared with")],
    smallest_effect: Annotated[float, typer.Option(help="smallest difference of interest, score units")] = 0.02,
    alpha: Annotated[float, typer.Option(help="family-wise error allowed")] = 0.05,
    metric: Annotated[str, typer.Option(help="avg@n or pass@k; its macro average is what is claimed about")] = "avg@n",
    family: Annotated[str | None, typer.Option(help="a,b: methods with verdicts; all but the reference")] = None,
    out: Annotated[Path | None, typer.Option(help="write tables, figures and report.html into this folder")] = None,
    simulations: Annotated[int, typer.Option(min=0, help="simulated families of the self-audit; 0: none")] = 2000,
    as_json: Annotated[bool, typer.Option("--json", help="one object; its contrasts are a list")] = False,
) -> None:
    """Compare the scores of any system's methods as a study's are compared; a seed is a training run."""
    from seedwise import comparing

    made = comparing.compare(
        file,
        reference,
        smallest_effect=smallest_effect,
        alpha=alpha,
        metric=metric,
        family=family,
        out=out,
        simulations=simulations,
    )
    if as_json:
        typer.echo(made.json())
    else:
        comparing.show(made)


@app.command()
def power(
    scores: Annotated[Path | None, typer.Argument(help="a pilot's scores, as for compare")] = None,
    study: Annotated[Path | None, typer.Option(help="or an analysed study's file")] = None,
    components: Annotated[
        str | None, typer.Option(help="or SDs in score units: seed=0.019,interaction=0.073,residual=0.093,sample=0.36")
    ] = None,
    effect: Annotated[float, typer.Option(help="difference to detect, score units")] = 0.03,
    seeds: Annotated[str, typer.Option(help="seeds per method, 3,5,8")] = "",
    problems: Annotated[str, typer.Option(help="numbers of problems, 30,130")] = "",
    samples: Annotated[str, typer.Option(help="samples of a problem, 8,16")] = "",
    target: Annotated[float, typer.Option("--power", help="power asked for")] = 0.8,
    alpha: Annotated[float, typer.Option(help="family-wise error allowed")] = 0.05,
    comparisons: Annotated[int, typer.Option(help="comparisons that share alpha")] = 1,
    looks: Annotated[str, typer.Option(help="seeds per method at several looks, 3,5,7,10")] = "",
    spending: Annotated[Spending, typer.Option(help="how alpha is spent over the looks")] = "obf",
    train_cost: Annotated[float | None, typer.Option(help="cost of training one seed")] = None,
    sample_cost: Annotated[float | None, typer.Option(help="cost of one sample, in the same unit")] = None,
    figure: Annotated[Path | None, typer.Option(help="write the power figure, FILE.svg")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one object: components, designs, needed")] = False,
) -> None:
    """Seeds, problems and samples that a difference takes, and the most that any number of seeds can reach."""
    from seedwise import pilot, powering, powerview

    found = powering.power(
        pilot.only(scores, study, components),
        powering.Question(effect, target, alpha, comparisons, powering.numbers("--looks", looks), spending),
        seeds=powering.numbers("--seeds", seeds),
        problems=powering.numbers("--problems", problems),
        samples=powering.numbers("--samples", samples),
        costs=powering.costs(train_cost, sample_cost),
    )
    if figure is not None:
        powerview.figure(found, figure)
    if as_json:
        typer.echo(found.json())
    else:
        powerview.show(found)


@app.command()
def add_seeds(
    study: Annotated[Path, typer.Argument(help="study file whose compare.looks declare the seeds of every look")],
    look: Annotated[int | None, typer.Option(help="number of the look, from 1; the next where not given")] = None,
) -> None:
    """Write the seeds of the next declared look into a study file, and say which level it will have."""
    from seedwise import seeds

    typer.echo(str(seeds.add_seeds(study, look)))


@app.command()
def grade(
    file: Annotated[Path, typer.Argument(help='JSONL: {"gold": ..., "answer": ...} a line')],
    rule: Annotated[str, typer.Option(help="the answer where no box closes: box (none), marker, whole")] = "whole",
    marker: Annotated[str | None, typer.Option(help="text before the answer, for --rule marker")] = None,
    workers: Annotated[int, typer.Option(min=1, help="processes that judge")] = 1,
    time_limit: Annotated[float, typer.Option(min=0.1, help="CPU seconds for one answer")] = 2.0,
) -> None:
    """Grade anyone's answers: a JSON verdict a line to stdout, how many of each to stderr."""
    from seedwise import grade as grading
    from seedwise.grading.pool import Grader

    counted: Counter[str] = Counter()
    with Grader(workers, time_limit) as grader:
        for graded in grading.grade(file, grading.rule_of(rule, marker), grader):
            typer.echo(json.dumps(graded.plain()))
            counted[graded.verdict.verdict] += 1
    typer.echo(grading.summary(counted), err=True)
