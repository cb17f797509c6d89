"""The continuation experiment: does the policy decide its fate where it is uncertain?

Chosen responses are cut before their window of highest and of lowest mean token entropy, and the policy
goes on from there many times.  Reward (how often the continuations are right) and overlap (how alike
they begin) are compared between the two windows.  Source: EAPO (arXiv 2609.33781), table 1 and table 7.
Beside it: success along whole responses, the words in the tails of entropy, and one worked example.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from seedwise.evals.along import along
from seedwise.evals.chosen import Response, chosen, counted, joined
from seedwise.evals.continuing import Continued, Cut, Policy, continued
from seedwise.evals.frames import frame
from seedwise.evals.metrics_tails import some, tails
from seedwise.evals.windows import Bounds, pair
from seedwise.identity import stream
from seedwise.tables import RESAMPLED

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from seedwise.engines.base import ReadingEngine, Sampling
    from seedwise.grading.pool import Grader
    from seedwise.study import Resample

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Window:
    """A window of a response and the cut before it.  entropy: mean over its tokens, nats."""

    cut: Cut
    entropy: float


def experiment(
    engine: ReadingEngine,
    tokenizer: PreTrainedTokenizerBase,
    *,
    samples: pd.DataFrame,
    scores: pd.DataFrame,
    problems: pd.DataFrame,
    settings: Resample,
    sampling: Sampling,
    grader: Grader,
    run: str,
) -> dict[str, pd.DataFrame]:
    """Run the experiment on the samples of one checkpoint and one benchmark: name -> rows of ``tables.RESAMPLED``.

    samples, scores: ``tables.SAMPLES`` and ``tables.SCORES`` of the same samples.  problems: theirs.
    sampling: as the samples were drawn; a continuation may use the tokens its response had left.
    Where too few problems lie in the band the experiment takes those there are, and ``chosen`` says how many; without
    any the other tables are empty, but for the words, which need no problem of moderate difficulty.

    Raises TableError where samples and scores are not of the same samples or of several checkpoints.
    """
    drawn = joined(samples, scores)
    where = (run, int(drawn["step"].iloc[0]), str(drawn["benchmark"].iloc[0])) if len(drawn) else (run,)
    asked = {row["problem"]: row for row in problems.to_dict("records")}
    policy = Policy(engine, tokenizer, sampling, grader, asked, where)
    bounds = Bounds(settings.window, settings.edge, settings.apart)
    responses, choice = chosen(tokenizer, drawn, asked, settings, bounds, where)
    windows = _windows(policy, responses, bounds)
    read = some(samples, scores, settings.words, np.random.default_rng(stream(*where, "words")))
    words = tails(engine, tokenizer, **read, problems=problems, temperature=sampling.temperature, least=1)
    groups = continued(policy, [window.cut for window in windows], settings.continuations, "continuations")
    rows = {
        "continuations": _rows(windows, groups, settings.window),
        "chosen": counted(choice, drawn, settings, where, len(responses) - len(windows) // 2, engine.name),
        "along": along(policy, responses, settings.positions, settings.per_position),
        "example": _example(policy, windows, groups, settings.window),
    }
    return {name: frame(RESAMPLED[name], found) for name, found in rows.items()} | {"words": words}


def overlaps(ids_MT: Sequence[Sequence[int]], window: int) -> list[float | None]:
    """Of each of M continuations, the mean length in tokens of the prefix it shares with the M - 1 others.

    Only the first ``window`` tokens count, a stop token among them.  Their mean is the mean over all
    pairs.  None where there is no other continuation.
    """
    if len(ids_MT) < 2:
        return [None] * len(ids_MT)
    prefixes_MT = [[tuple(ids[:length]) for length in range(1, min(window, len(ids)) + 1)] for ids in ids_MT]
    shared = Counter(prefix for prefixes in prefixes_MT for prefix in prefixes)
    return [sum(shared[prefix] - 1 for prefix in prefixes) / (len(ids_MT) - 1) for prefixes in prefixes_MT]


def _windows(policy: Policy, responses: Sequence[Response], bounds: Bounds) -> list[Window]:
    """Two windows of every response that has two which differ in entropy, the high one first."""
    entropies = policy.engine.entropies(
        [response.prompt for response in responses],
        [response.ids for response in responses],
        policy.sampling.temperature,
    )
    found: list[Window] = []
    for response, entropy_T in zip(responses, entropies, strict=True):
        both = pair(entropy_T, bounds)
        if both is None:
            about = (response.problem, response.sample)
            _LOG.warning("problem %s, sample %d: no two windows differ in entropy; passed over", *about)
            continue
        found.append(Window(Cut(response, "high", both.high), both.entropy_high))
        found.append(Window(Cut(response, "low", both.low), both.entropy_low))
    return found


def _rows(windows: Sequence[Window], groups: Sequence[Sequence[Continued]], length: int) -> list[dict[str, Any]]:
    """Rows of ``tables.CONTINUATIONS``.  length: of a window, tokens."""
    rows = []
    for window, group in zip(windows, groups, strict=True):
        shared = overlaps([one.ids for one in group], length)
        rows += [_row(window, m, shared[m], one) for m, one in enumerate(group)]
    return rows


def _row(window: Window, m: int, overlap: float | None, one: Continued) -> dict[str, Any]:
    response, start = window.cut.response, window.cut.start
    return {
        "problem": response.problem,
        "response": response.sample,
        "outcome": response.outcome,
        "window": window.cut.name,
        "continuation": m,
        "entropy_nats": window.entropy,
        "start_tokens": start,
        "position": start / len(response.ids),
        "overlap_tokens": overlap,
        "correct": one.verdict.correct,
        "verdict": one.verdict.verdict,
    }


def _example(
    policy: Policy, windows: Sequence[Window], groups: Sequence[Sequence[Continued]], length: int
) -> list[dict[str, Any]]:
    """Rows of ``tables.EXAMPLE``: all texts of one response, the one whose two windows differ most in entropy.

    So it is chosen before any continuation is looked at.  Of equal ones the first.
    """
    if not windows:
        return []
    gaps = [windows[at].entropy - windows[at + 1].entropy for at in range(0, len(windows), 2)]
    first = 2 * int(np.argmax(gaps))
    rows = []
    for window, group in zip(windows[first : first + 2], groups[first : first + 2], strict=True):
        ids, start = window.cut.response.ids, window.cut.start
        before, inside = (_text(policy, part) for part in (ids[:start], ids[start : start + length]))
        about = {"prompt": policy.problems[window.cut.response.problem]["prompt"], "before": before, "inside": inside}
        about |= {"window_tokens": length, "length_tokens": len(ids)}
        rows += [_row(window, m, None, one) | about | {"after": one.text} for m, one in enumerate(group)]
    return rows


def _text(policy: Policy, ids: list[int]) -> str:
    return policy.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
