"""Sampling a checkpoint on a benchmark: one row per (step, benchmark, problem, sample)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from seedwise.engines.distinct import check_distinct, check_seeds
from seedwise.evals.frames import frame
from seedwise.identity import stream
from seedwise.tables import SAMPLES

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from seedwise.engines.base import Engine, Sampling


def sample(
    engine: Engine,
    tokenizer: PreTrainedTokenizerBase,
    problems: pd.DataFrame,
    *,
    run: str,
    step: int,
    benchmark: str,
    n: int,
    sampling: Sampling,
    first: int = 0,
) -> pd.DataFrame:
    """Samples ``first`` to n - 1 of each of N problems, as rows of ``tables.SAMPLES``.

    problems: ``tables.PROBLEMS``; a prompt is tokenised as it stands, its template has been applied.
    The random stream of a sample is stream(run, step, benchmark, problem, sample): no two samples of a
    study share one, and asking for more samples leaves the first ones as they are, but for rounding in another batch.

    Raises SeedIgnored or IdenticalSamples where an engine's samples are not distinct draws, ValueError
    where a prompt is too long for the model.
    """
    if problems.empty:
        return frame(SAMPLES, [])
    names = problems["problem"].tolist()
    prompts: list[list[int]] = tokenizer(problems["prompt"].tolist())["input_ids"]
    seeds = [stream(run, step, benchmark, problem, k) for problem in names for k in range(first, n)]
    check_seeds(engine, prompts[0])
    groups = engine.generate(prompts, n - first, sampling, seeds)
    check_distinct(groups, sampling)
    rows = [
        {
            "step": step,
            "benchmark": benchmark,
            "problem": problem,
            "sample": first + g,
            "text": completion.text,
            "tokens": len(completion.ids),
            "stop": completion.stop,
            "seed": seeds[p * (n - first) + g],
            "engine": engine.name,
        }
        for p, problem in enumerate(names)
        for g, completion in enumerate(groups[p])
    ]
    return frame(SAMPLES, rows)
