"""The ``seedwise`` command: one thin command per stage of the workflow, and a few for people."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import typer

# One thread per process: jobs use cores through Snakemake.  This must stand before NumPy or torch is imported.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from seedwise import conclude, stages
from seedwise import layout as layouts

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)

StudyFile = Annotated[Path, typer.Option("--study", envvar="SEEDWISE_STUDY", help="study file")]
Spending = Literal["obf", "pocock"]
DEFAULT = Path("config/config.yaml")


def _holding(study: Path, name: str) -> layouts.Layout:
    """The layout of a study that must hold ``name``."""
    layout = layouts.read(study)
    layout.check(name)
    return layout


@app.command()
def data(name: str, study: StudyFile = DEFAULT) -> None:
    """Build one file of problems, e.g. same-1a2b3c4d."""
    stages.data(_holding(study, name), name)


@app.command()
def base(name: str, study: StudyFile = DEFAULT) -> None:
    """Write the folder of an untrained model."""
    stages.base(_holding(study, name), name)


@app.command()
def train(run: str, study: StudyFile = DEFAULT, work: Path = layouts.WORK) -> None:
    """Train one run; a training that was stopped continues where it saved last."""
    stages.train(_holding(study, run), run, work)


@app.command()
def sample(subject: str, study: StudyFile = DEFAULT) -> None:
    """Sample all checkpoints of a run (or a base) on all benchmarks."""
    stages.sample(_holding(study, subject), subject)


@app.command()
def score(subject: str, study: StudyFile = DEFAULT) -> None:
    """Grade the samples of a run (or a base)."""
    stages.score(_holding(study, subject), subject)


@app.command()
def resample(subject: str, study: StudyFile = DEFAULT) -> None:
    """Continue responses from before windows of high and low entropy."""
    stages.resample(_holding(study, subject), subject)


@app.command()
def analyse(study: StudyFile = DEFAULT) -> None:
    """Compare the methods of a study: tables under results/<study>/analysis."""
    conclude.analyse(layouts.read(study))


@app.command()
def report(study: StudyFile = DEFAULT) -> None:
    """Write tables, figures and report.html of a study."""
    typer.echo(f"report: {conclude.report(layouts.read(study)).absolute()}")


@app.command()
def sync(
    study: StudyFile = DEFAULT,
    record: Annotated[
        Path | None, typer.Option(help="write the outcome here; a store that refuses is then no failure")
    ] = None,
) -> None:
    """Mirror what is new in the study's files to MLflow."""
    typer.echo(conclude.sync(layouts.read(study), record))


@app.command()
def docs(check: Annotated[bool, typer.Option(help="fail when stale, write nothing")] = False) -> None:
    """Write config/schema.json, config/README.md and docs/methods.md from the models and the parts."""
    from seedwise import reference

    stale = [path for folder in reference.FILES for path in reference.write(Path(folder), check=check)]
    if check and stale:
        raise stages.StageError(f"{', '.join(map(str, stale))}: stale: run seedwise docs")


@app.command()
def explain(
    method: Annotated[str, typer.Argument(help="a preset, a preset with parameters, qae:K=0.6, or an expression")],
    rewards: Annotated[str, typer.Option(help="JSON list: the verdict on each response of one group")],
    entropies: Annotated[str | None, typer.Option(help="JSON: of each response, nats of its tokens")] = None,
    lengths: Annotated[str | None, typer.Option(help="JSON list: tokens of each response")] = None,
    logprobs: Annotated[str | None, typer.Option(help="JSON: the same, log-probabilities of the tokens")] = None,
    teacher_logprobs: Annotated[
        str | None, typer.Option(help="JSON: the same, of a teacher that has read a correct response")
    ] = None,
    logits: Annotated[str | None, typer.Option(help="JSON: the same, logits of the sampled tokens")] = None,
    confidences: Annotated[
        str | None, typer.Option(help="JSON: the same, logsumexp of the logits less their mean, nats")
    ] = None,
    ids: Annotated[str | None, typer.Option(help="JSON: the same, token ids")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one object: baseline, advantages, token_advantages")] = False,
) -> None:
    """Show what a method does to one group: its baseline, the advantages of responses and of their tokens."""
    from seedwise import explain as explaining

    shown = explaining.explain(
        method,
        rewards,
        lengths=lengths,
        entropies=entropies,
        logprobs=logprobs,
        teacher_logprobs=teacher_logprobs,
        logits=logits,
        confidences=confidences,
        ids=ids,
    )
    if as_json:
        typer.echo(shown.json())
    else:
        explaining.show(shown)


@app.command("suggest-k")
def suggest_k(
    run: Annotated[str, typer.Argument(help="a baseline run of the study: its name, or a beginning no other run has")],
    study: StudyFile = DEFAULT,
    as_json: Annotated[bool, typer.Option("--json", help="one object: entropy_nats, label, K, why, rule")] = False,
) -> None:
    """Say which K the QAE paper's rule of thumb gives after a baseline run, from the run's entropy."""
    from seedwise import suggest

    suggestion = suggest.suggest(layouts.read(study), run)
    if as_json:
        typer.echo(suggestion.json())
    else:
        suggest.show(suggestion)


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


def main() -> None:
    """Entry point: an error of one of our own types is meant for the user: its text, no traceback, exit code 2."""
    try:
        app()
    except Exception as error:
        if not type(error).__module__.startswith("seedwise."):
            raise
        print(f"seedwise: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
