"""Words at high and at low token entropy, read from a checkpoint's samples (EAPO, arXiv 2609.33781, figure 2)."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from seedwise.evals.frames import frame
from seedwise.evals.metrics_words import enrichment, word_entropies
from seedwise.tables import ENRICHED, TableError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from seedwise.engines.base import ReadingEngine

_LOG = logging.getLogger(__name__)
_KEY = ["step", "benchmark", "problem", "sample"]


def some(samples: pd.DataFrame, scores: pd.DataFrame, most: int, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """At most ``most`` samples, drawn at random, and their scores: what ``tails`` takes, by its names."""
    ordered = samples.sort_values(_KEY, ignore_index=True)
    taken = ordered.iloc[sorted(rng.permutation(len(ordered))[:most])]
    return {"samples": taken, "scores": scores.merge(taken[_KEY], on=_KEY)}


def tails(
    engine: ReadingEngine,
    tokenizer: PreTrainedTokenizerBase,
    *,
    samples: pd.DataFrame,
    scores: pd.DataFrame,
    problems: pd.DataFrame,
    temperature: float,
    share: float = 0.1,
    least: int = 5,
) -> pd.DataFrame:
    """Rows of ``ENRICHED``: words in the entropy tails of correct and of incorrect responses.

    engine: holds the checkpoint that wrote the samples.  samples, scores: of the same samples, of this checkpoint and
    one benchmark.  problems: ``tables.PROBLEMS``, prompts as they were given.  share, least: as for ``enrichment``.
    A response is read from its text in one forward pass; where the text does not give back the number of tokens that
    was drawn it is passed over, and how many were is logged.

    Raises TableError where samples and scores are not of the same samples or of several checkpoints.
    """
    both = samples.merge(scores[[*_KEY, "correct"]], on=_KEY, how="outer", indicator=True)
    if (both["_merge"] != "both").any():
        raise TableError("scores: they are not those of the samples; score again")
    if both.groupby(_KEY[:2]).ngroups > 1:
        raise TableError("samples: words are read for one checkpoint and one benchmark; select them")
    asked = {row["problem"]: row["prompt"] for row in problems.to_dict("records")}
    read, prompts, responses = [], [], []
    for row in both.sort_values(_KEY).to_dict("records"):
        found = tokenizer(row["text"], add_special_tokens=False, return_offsets_mapping=True)
        if len(found["input_ids"]) == row["tokens"] - (row["stop"] == "stop") and found["input_ids"]:
            read.append((row["text"], found["offset_mapping"], "correct" if row["correct"] else "incorrect"))
            prompts.append(tokenizer(asked[row["problem"]])["input_ids"])
            responses.append(found["input_ids"])
    if len(read) < len(both):
        _LOG.warning(
            "%d of %d responses cannot be read back from their text: left out", len(both) - len(read), len(both)
        )
    entropies = engine.entropies(prompts, responses, temperature) if read else []
    words_B = [word_entropies(text, spans, these) for (text, spans, _), these in zip(read, entropies, strict=True)]
    rows = enrichment(words_B, [outcome for *_, outcome in read], share=share, least=least)
    return frame(ENRICHED, [asdict(row) for row in rows])
