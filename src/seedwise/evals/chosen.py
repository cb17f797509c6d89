"""The responses that the continuation experiment takes, read back from samples and scores."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from seedwise.evals.windows import Bounds, Choice, choose
from seedwise.identity import stream
from seedwise.tables import TableError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from seedwise.study import Resample

_LOG = logging.getLogger(__name__)
_KEY = ["step", "benchmark", "problem", "sample"]


@dataclass(frozen=True)
class Response:
    """A response that was chosen.

    sample: its number.  outcome: correct or incorrect.  prompt, ids: tokens, of the response without a stop token.
    """

    problem: str
    sample: int
    outcome: str
    prompt: list[int]
    ids: list[int]


def joined(samples: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Samples with their verdicts, sorted.

    Raises TableError where the two are not of the same samples, or of several checkpoints or benchmarks.
    """
    both = samples.merge(scores[[*_KEY, "verdict"]], on=_KEY, how="outer", indicator=True)
    if (both["_merge"] != "both").any():
        raise TableError("scores: they are not those of the samples; score again")
    if both.groupby(_KEY[:2]).ngroups > 1:
        raise TableError("samples: the experiment takes one checkpoint and one benchmark; select them")
    return both.drop(columns="_merge").sort_values(_KEY, ignore_index=True)


def chosen(
    tokenizer: PreTrainedTokenizerBase,
    drawn: pd.DataFrame,
    problems: Mapping[str, dict[str, Any]],
    settings: Resample,
    bounds: Bounds,
    where: tuple[str | int, ...],
) -> tuple[list[Response], Choice]:
    """Responses to problems of moderate difficulty, and how they were found.

    drawn: see ``joined``.  problems: name -> its row of ``tables.PROBLEMS``.
    where: run, step and benchmark, for the random stream.
    A response is read from its text; where that does not give back the number of tokens that was drawn it is passed
    over.  What was passed over, and too few problems in the band, is logged.
    """
    correct: dict[str, list[bool]] = {}
    ids: dict[str, list[list[int] | None]] = {}
    numbers: dict[str, list[int]] = {}
    for row in drawn.to_dict("records"):
        correct.setdefault(row["problem"], []).append(row["verdict"] == "correct")
        ids.setdefault(row["problem"], []).append(_tokens(tokenizer, row))
        numbers.setdefault(row["problem"], []).append(int(row["sample"]))
    choice = choose(
        correct,
        {name: [None if these is None else len(these) for these in found] for name, found in ids.items()},
        bounds,
        band=settings.band,
        problems=settings.problems,
        responses=settings.responses,
        rng=np.random.default_rng(stream(*where, "responses")),
    )
    if choice.used < settings.problems:
        _LOG.warning(_too_few(choice, len(correct), settings, where[0]))
    prompts = {
        name: tokenizer(problems[name]["prompt"])["input_ids"] for name in {name for name, *_ in choice.responses}
    }
    return [
        Response(name, numbers[name][k], outcome, prompts[name], ids[name][k] or [])
        for name, k, outcome in choice.responses
    ], choice


def counted(
    choice: Choice, drawn: pd.DataFrame, settings: Resample, where: tuple[Any, ...], alike: int, engine: str
) -> list[dict]:
    """The row of ``tables.CHOSEN``, none without samples.

    alike: responses without two windows that differ.  engine: name of what reads and continues.
    """
    if not len(drawn):
        return []
    _, step, benchmark = where
    low, high = settings.band
    return [
        {
            "step": step,
            "benchmark": benchmark,
            "engine": engine,
            "problems": drawn["problem"].nunique(),
            "wanted": settings.problems,
            "band_low": low,
            "band_high": high,
            "in_band": choice.in_band,
            "used": choice.used,
            "too_short": choice.too_short,
            "unreadable": choice.unreadable,
            "alike": alike,
        }
    ]


def _tokens(tokenizer: PreTrainedTokenizerBase, row: dict[str, Any]) -> list[int] | None:
    """A response's tokens without the stop token; None where its text gives another number of them."""
    ids: list[int] = tokenizer(row["text"], add_special_tokens=False)["input_ids"]
    return ids if len(ids) == row["tokens"] - (row["stop"] == "stop") else None


def _too_few(choice: Choice, problems: int, settings: Resample, run: str | int) -> str:
    return (
        f"{run}: {choice.in_band} of {problems} problems have an accuracy in {list(settings.band)}, {choice.used} of "
        f"them have a response that can be used (wanted: {settings.problems}); {choice.too_short} responses are too "
        f"short for two windows of {settings.window} tokens, {choice.unreadable} cannot be read back from their text"
    )
