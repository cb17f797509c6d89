"""Drawing what a store lacks: of every label the samples that no part holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from seedwise.evals import store
from seedwise.evals.budget import forced
from seedwise.evals.samples import sample
from seedwise.evals.store import Part, Wanted
from seedwise.models.prompts import token_id

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from seedwise.engines.base import Engine, Sampling
    from seedwise.study import Forcing

Filled = tuple[Wanted, Part, pd.DataFrame]


def fill(
    engine: Engine,
    tokenizer: PreTrainedTokenizerBase,
    wanted: Sequence[Wanted],
    problems: Mapping[str, pd.DataFrame],
    *,
    run: str,
    step: int,
    sampling: Sampling,
    forcing: Forcing | None,
) -> Iterator[Filled]:
    """Parts that make the labels whole at a step, one after the other, each as soon as it is drawn.

    problems: benchmark -> ``tables.PROBLEMS``, as the model is asked them.  Raises what sampling raises.
    """
    for each in wanted:
        for numbers in store.gaps(each, step) if each.forced is None else ():
            rows = sample(
                engine,
                tokenizer,
                problems[each.benchmark],
                run=run,
                step=step,
                benchmark=each.label,
                n=numbers.stop,
                first=numbers.start,
                sampling=sampling,
            )
            yield each, Part(step, numbers.start, numbers.stop), rows
    if forcing is not None:
        budget = replace(sampling, max_tokens=forcing.budget or sampling.max_tokens)
        for benchmark in forcing.benchmarks:
            labels = [each for each in wanted if each.forced is not None and each.benchmark == benchmark]
            if labels:
                yield from _forced(engine, tokenizer, labels, problems[benchmark], run, step, budget, forcing)


def _forced(
    engine: Engine,
    tokenizer: PreTrainedTokenizerBase,
    labels: Sequence[Wanted],
    problems: pd.DataFrame,
    run: str,
    step: int,
    budget: Sampling,
    forcing: Forcing,
) -> Iterator[Filled]:
    """Forced continuations of one benchmark: a number goes on from the one before, so one pass gives them all."""
    end = None
    if forcing.end_of_thinking is not None:
        end = token_id(tokenizer, "end_of_thinking", forcing.end_of_thinking)
    lacking = {each: store.gaps(each, step) for each in labels if step in each.steps}
    for numbers in dict.fromkeys(gap for gaps in lacking.values() for gap in gaps):
        asked = [each for each, found in lacking.items() if numbers in found]
        drawn = forced(
            engine,
            tokenizer,
            problems,
            run=run,
            step=step,
            benchmark=asked[0].benchmark,
            n=numbers.stop,
            first=numbers.start,
            sampling=budget,
            continuations=max(each.forced or 0 for each in asked),
            word=forcing.word,
            end_of_thinking=end,
        )
        for each in asked:
            rows = drawn[each.forced or 0].assign(benchmark=each.label)
            yield each, Part(step, numbers.start, numbers.stop), rows
