"""The continuation experiment: does the policy decide its fate where it is uncertain?

Chosen responses are cut before their window of highest and of lowest mean token entropy, and the policy
goes on from there many times.  Reward (how often the continuations are right) and overlap (how alike
they begin) are compared between the two windows.  Source: EAPO (arXiv 2609.33781), table 1 and table 7.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from seedwise.engines.distinct import check_distinct
from seedwise.evals.frames import frame
from seedwise.evals.windows import Bounds, Choice, choose, pair
from seedwise.identity import stream
from seedwise.tables import CONTINUATIONS, TableError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from seedwise.engines.base import Completion, ReadingEngine, Sampling
    from seedwise.grading.pool import Grader
    from seedwise.grading.verify import Verdict
    from seedwise.study import Resample

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cut:
    """Where a response is cut: before one of its two windows.

    response: the sample's number.  start: tokens kept.  length: tokens of the whole response, no stop token.
    entropy: mean token entropy of the window, nats.
    """

    problem: str
    response: int
    outcome: str
    window: str
    start: int
    length: int
    entropy: float


def continuations(
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
) -> pd.DataFrame:
    """Run the experiment on the samples of one checkpoint and one benchmark: rows of ``tables.CONTINUATIONS``.

    samples, scores: ``tables.SAMPLES`` and ``tables.SCORES`` of the same samples.  problems: theirs.
    sampling: as the samples were drawn; a continuation may use the tokens its response had left.
    A response is read from its text; where the text does not give back the number of tokens that was
    drawn it is passed over.  What was passed over, and too few problems in the band, is logged; without
    any the table is empty.

    Raises TableError where samples and scores are not of the same samples or of several checkpoints.
    """
    drawn = _joined(samples, scores)
    asked = {row["problem"]: row for row in problems.to_dict("records")}
    ids = {key: _tokens(tokenizer, row) for key, row in drawn.items()}
    bounds = Bounds(settings.window, settings.edge, settings.apart)
    where = (run, *_place(samples)) if len(samples) else (run,)
    choice = _chosen(drawn, ids, bounds, settings, where)
    prompts = {name: tokenizer(asked[name]["prompt"])["input_ids"] for name in {name for name, *_ in choice.responses}}
    cuts = _cuts(engine, choice, prompts, ids, bounds, sampling)
    kept = [list(ids[cut.problem, cut.response] or ())[: cut.start] for cut in cuts]
    groups = engine.generate(
        [prompts[cut.problem] + prefix for cut, prefix in zip(cuts, kept, strict=True)],
        settings.continuations,
        sampling,
        [
            stream(*where, "continuation", cut.problem, cut.response, cut.window, m)
            for cut in cuts
            for m in range(settings.continuations)
        ],
        budgets=[sampling.max_tokens - cut.start for cut in cuts],
    )
    check_distinct(groups, sampling)
    verdicts = _graded(tokenizer, grader, [asked[cut.problem] for cut in cuts], kept, groups)
    rows = []
    for cut, group, judged in zip(cuts, groups, verdicts, strict=True):
        shared = overlaps([completion.ids for completion in group], settings.window)
        rows += [_row(cut, m, shared[m], verdict) for m, verdict in enumerate(judged)]
    return frame(CONTINUATIONS, rows)


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


def _joined(samples: pd.DataFrame, scores: pd.DataFrame) -> dict[tuple[str, int], dict[str, Any]]:
    """(problem, sample) -> its row of samples with the verdict, sorted."""
    key = ["step", "benchmark", "problem", "sample"]
    both = samples.merge(scores[[*key, "verdict"]], on=key, how="outer", indicator=True)
    if (both["_merge"] != "both").any():
        raise TableError("scores: they are not those of the samples; score again")
    if both.groupby(key[:2]).ngroups > 1:
        raise TableError("samples: the experiment takes one checkpoint and one benchmark; select them")
    rows = both.sort_values(key).to_dict("records")
    return {(row["problem"], int(row["sample"])): row for row in rows}


def _place(samples: pd.DataFrame) -> tuple[int, str]:
    return int(samples["step"].iloc[0]), str(samples["benchmark"].iloc[0])


def _tokens(tokenizer: PreTrainedTokenizerBase, row: dict[str, Any]) -> list[int] | None:
    """A response's tokens without the stop token; None where its text gives another number of them."""
    ids: list[int] = tokenizer(row["text"], add_special_tokens=False)["input_ids"]
    return ids if len(ids) == row["tokens"] - (row["stop"] == "stop") else None


def _chosen(
    drawn: dict[tuple[str, int], dict[str, Any]],
    ids: dict[tuple[str, int], list[int] | None],
    bounds: Bounds,
    settings: Resample,
    where: tuple[str | int, ...],
) -> Choice:
    correct: dict[str, list[bool]] = {}
    length: dict[str, list[int | None]] = {}
    for (problem, sample), row in drawn.items():
        tokens = ids[problem, sample]
        correct.setdefault(problem, []).append(row["verdict"] == "correct")
        length.setdefault(problem, []).append(None if tokens is None else len(tokens))
    choice = choose(
        correct,
        length,
        bounds,
        band=settings.band,
        problems=settings.problems,
        responses=settings.responses,
        rng=np.random.default_rng(stream(*where, "responses")),
    )
    if choice.used < settings.problems:
        _LOG.warning(
            "%s: %d of %d problems have an accuracy in %s, %d of them have a response that can be used (wanted: %d);"
            " %d responses are too short for two windows of %d tokens, %d cannot be read back from their text",
            where[0],
            choice.in_band,
            len(correct),
            list(settings.band),
            choice.used,
            settings.problems,
            choice.too_short,
            settings.window,
            choice.unreadable,
        )
    return choice


def _cuts(
    engine: ReadingEngine,
    choice: Choice,
    prompts: dict[str, list[int]],
    ids: dict[tuple[str, int], list[int] | None],
    bounds: Bounds,
    sampling: Sampling,
) -> list[Cut]:
    """Two cuts of every chosen response whose windows differ in entropy."""
    responses = [ids[problem, sample] or [] for problem, sample, _ in choice.responses]
    asked = [prompts[problem] for problem, *_ in choice.responses]
    entropies = engine.entropies(asked, responses, sampling.temperature)
    cuts: list[Cut] = []
    for (problem, sample, outcome), entropy_T in zip(choice.responses, entropies, strict=True):
        windows = pair(entropy_T, bounds)
        if windows is None:
            _LOG.warning("problem %s, sample %d: no two windows differ in entropy; passed over", problem, sample)
            continue
        about = (problem, sample, outcome)
        cuts.append(Cut(*about, "high", windows.high, len(entropy_T), windows.entropy_high))
        cuts.append(Cut(*about, "low", windows.low, len(entropy_T), windows.entropy_low))
    return cuts


def _graded(
    tokenizer: PreTrainedTokenizerBase,
    grader: Grader,
    problems: list[dict[str, Any]],
    kept: list[list[int]],
    groups: list[list[Completion]],
) -> list[list[Verdict]]:
    """Verdicts of the whole responses: what was kept and its continuation, decoded together."""
    from seedwise.grading.pool import Item

    whole = [
        prefix + (completion.ids[:-1] if completion.stop == "stop" else completion.ids)
        for prefix, group in zip(kept, groups, strict=True)
        for completion in group
    ]
    texts = iter(tokenizer.batch_decode(whole, skip_special_tokens=True, clean_up_tokenization_spaces=False))
    items = [Item.of(problem, next(texts)) for problem, group in zip(problems, groups, strict=True) for _ in group]
    verdicts = iter(grader.grade(items))
    return [[next(verdicts) for _ in group] for group in groups]


def _row(cut: Cut, continuation: int, overlap: float | None, verdict: Verdict) -> dict[str, Any]:
    return {
        "problem": cut.problem,
        "response": cut.response,
        "outcome": cut.outcome,
        "window": cut.window,
        "continuation": continuation,
        "entropy_nats": cut.entropy,
        "start_tokens": cut.start,
        "position": cut.start / cut.length,
        "overlap_tokens": overlap,
        "correct": verdict.correct,
        "verdict": verdict.verdict,
    }
