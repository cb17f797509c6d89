"""What a method does, and the pages made from the code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seedwise import layout as layouts
from seedwise.cli.app import DEFAULT, StudyFile, app


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
def docs(check: Annotated[bool, typer.Option(help="fail when stale, write nothing")] = False) -> None:
    """Write config/schema.json, config/README.md, docs/methods.md and docs/metrics.md from the code."""
    from seedwise import reference
    from seedwise.stages import StageError  # with pandas, which only this command needs

    stale = [path for folder in reference.FILES for path in reference.write(Path(folder), check=check)]
    if check and stale:
        raise StageError(f"{', '.join(map(str, stale))}: stale: run seedwise docs")
