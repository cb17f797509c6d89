"""Budget forcing: a response that ends is made to go on, a number of times, under one budget of tokens.

Source: s1 (arXiv 2501.19393) and EAPO (arXiv 2609.33781), figure 6 and appendix C.3: the end token, or what follows the
end of thinking, is taken off, ``Wait`` is put in its place, and the policy continues with the tokens that are left, as
it samples otherwise.  Forced tokens count in the length.  Two differences from s1: a continuation may end at once
(s1 asks for at least one token), and a budget that is used up forces no answer; such a response is cut by length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from seedwise.engines.distinct import check_distinct, check_seeds
from seedwise.evals.frames import frame
from seedwise.identity import stream
from seedwise.tables import SAMPLES

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from seedwise.engines.base import Completion, Engine, Sampling, Stop


@dataclass(frozen=True)
class _Response:
    """One response as it stands: all its tokens, the stop token included, and the stream that drew the last of them."""

    ids: list[int]
    stop: Stop
    seed: int


def forced(
    engine: Engine,
    tokenizer: PreTrainedTokenizerBase,
    problems: pd.DataFrame,
    *,
    run: str,
    step: int,
    benchmark: str,
    n: int,
    sampling: Sampling,
    continuations: int = 4,
    word: str = "Wait",
    end_of_thinking: int | None = None,
    first: int = 0,
) -> dict[int, pd.DataFrame]:
    """Responses ``first`` to n - 1 to each of N problems with 0 to ``continuations`` forced continuations each.

    problems: ``tables.PROBLEMS``.  sampling: its max_tokens is the whole budget of a response, forced tokens included.
    end_of_thinking: the token, e.g. ``</think>``, from which on a response is taken off before it goes on; None, or
    where the response has none: its stop token only.

    Returns for each number of continuations rows of ``tables.SAMPLES``, to be scored and measured like any samples;
    ``seed`` is the stream of the last continuation.  Number j goes on from what number j - 1 wrote, so one pass gives
    all of them, and number 0 are the samples of ``evals.samples.sample`` with the same budget.  A response that was cut
    by length, or has no token left after the word, stays as it is.

    Raises ValueError for a word without tokens or with unknown ones, a negative number of continuations, and what
    sampling raises.
    """
    if continuations < 0:
        raise ValueError(f"continuations: {continuations}; give 0 or more")
    said = _tokens(tokenizer, word)
    if problems.empty:
        return {j: frame(SAMPLES, []) for j in range(continuations + 1)}
    about = [(run, step, benchmark, name, k) for name in problems["problem"] for k in range(first, n)]
    prompts: list[list[int]] = tokenizer(problems["prompt"].tolist())["input_ids"]
    seeds = [stream(*parts) for parts in about]
    check_seeds(engine, prompts[0])
    groups = engine.generate(prompts, n - first, sampling, seeds)
    check_distinct(groups, sampling)
    drawn = [completion for group in groups for completion in group]
    responses = [_Response(done.ids, done.stop, seed) for done, seed in zip(drawn, seeds, strict=True)]
    found = {0: _frame(tokenizer, responses, about, engine.name)}
    for j in range(1, continuations + 1):
        seeds = [stream(*parts, "forced", j) for parts in about]
        responses = _continued(engine, responses, prompts, n - first, said, sampling, seeds, end_of_thinking)
        found[j] = _frame(tokenizer, responses, about, engine.name)
    return found


def _tokens(tokenizer: PreTrainedTokenizerBase, word: str) -> list[int]:
    ids: list[int] = tokenizer(word, add_special_tokens=False)["input_ids"]
    if not ids or tokenizer.unk_token_id in ids:
        raise ValueError(f"word: {word!r} has no tokens of its own in this tokenizer; name a word that it can write")
    return ids


def _continued(
    engine: Engine,
    responses: Sequence[_Response],
    prompts: Sequence[list[int]],
    n: int,
    said: list[int],
    sampling: Sampling,
    seeds: Sequence[int],
    end_of_thinking: int | None,
) -> list[_Response]:
    """Every response that ended and has tokens left, continued once."""
    kept = [_kept(response, end_of_thinking) + said for response in responses]
    rows = [b for b, response in enumerate(responses) if response.stop == "stop" and len(kept[b]) < sampling.max_tokens]
    groups: list[list[Completion]] = []
    if rows:
        groups = engine.generate(
            [prompts[b // n] + kept[b] for b in rows],
            1,
            sampling,
            [seeds[b] for b in rows],
            budgets=[sampling.max_tokens - len(kept[b]) for b in rows],
        )
    longer = list(responses)
    for b, (completion,) in zip(rows, groups, strict=True):
        longer[b] = _Response(kept[b] + completion.ids, completion.stop, seeds[b])
    return longer


def _kept(response: _Response, end_of_thinking: int | None) -> list[int]:
    if end_of_thinking in response.ids:
        return response.ids[: response.ids.index(end_of_thinking)]
    return response.ids[:-1] if response.stop == "stop" else list(response.ids)


def _frame(
    tokenizer: PreTrainedTokenizerBase,
    responses: Sequence[_Response],
    about: Sequence[tuple[str, int, str, str, int]],
    engine: str,
) -> pd.DataFrame:
    spoken = [response.ids[:-1] if response.stop == "stop" else response.ids for response in responses]
    texts = tokenizer.batch_decode(spoken, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    rows = [
        {
            "step": step,
            "benchmark": benchmark,
            "problem": problem,
            "sample": k,
            "text": text,
            "tokens": len(response.ids),
            "stop": response.stop,
            "seed": response.seed,
            "engine": engine,
        }
        for (_, step, benchmark, problem, k), text, response in zip(about, texts, responses, strict=True)
    ]
    return frame(SAMPLES, rows)
