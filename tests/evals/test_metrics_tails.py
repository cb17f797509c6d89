"""Words at high and low entropy, read from samples."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from seedwise import tables
from seedwise.engines.base import Sampling
from seedwise.evals.metrics_tails import some, tails
from seedwise.evals.samples import sample
from seedwise.evals.scores import score
from seedwise.tables import ENRICHED, TableError


class Spaced:
    """A tokenizer that splits at spaces, a space belonging to the word behind it."""

    def __call__(
        self, text: str, add_special_tokens: bool = True, return_offsets_mapping: bool = False
    ) -> dict[str, Any]:
        starts = [0, *(i for i, c in enumerate(text) if c == " ")] if text else []
        spans = list(zip(starts, [*starts[1:], len(text)], strict=True))
        return {"input_ids": list(range(len(spans))), "offset_mapping": spans}


class Known:
    """An engine that reads the entropies 1, 2, 3, ... into every response."""

    def __init__(self) -> None:
        self.read: list[Any] = []

    def entropies(self, prompts: Any, responses: Any, temperature: float) -> list[list[float]]:
        self.read.append((prompts, responses, temperature))
        return [[1.0 + t for t, _ in enumerate(response)] for response in responses]


def samples_of(*rows: tuple[str, int, int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """text, tokens, correct."""
    key = [{"step": 20, "benchmark": "b", "problem": "p", "sample": k} for k in range(len(rows))]
    samples = [
        about | {"text": text, "tokens": n, "stop": "stop"} for about, (text, n, _) in zip(key, rows, strict=True)
    ]
    scores = [about | {"correct": correct} for about, (*_, correct) in zip(key, rows, strict=True)]
    return pd.DataFrame(samples), pd.DataFrame(scores)


PROBLEMS = pd.DataFrame([{"problem": "p", "prompt": "what now"}])


def test_by_hand(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # four words each and the stop token; the third text does not give back its 9 tokens
    samples, scores = samples_of(("so we try it", 5, 1), ("so we end it", 5, 0), ("lost", 9, 0))
    engine = Known()
    with caplog.at_level(logging.WARNING):
        found = tails(
            engine,
            Spaced(),
            samples=samples,
            scores=scores,
            problems=PROBLEMS,
            temperature=0.7,
            share=0.25,
            least=1,  # pyright: ignore[reportArgumentType]
        )
    assert "1 of 3 responses cannot be read back from their text: left out" in caplog.text
    assert engine.read == [([[0, 1], [0, 1]], [[0, 1, 2, 3], [0, 1, 2, 3]], 0.7)]
    # 8 words, a quarter is 2: it (4 nats) twice above, so (1 nat) twice below; each is 1 of 4 words of its outcome
    assert found[found["count"] > 0][["outcome", "tail", "word", "count", "of", "enrichment"]].values.tolist() == [
        ["correct", "high", "it", 1, 1, 4.0],
        ["correct", "low", "so", 1, 1, 4.0],
        ["incorrect", "high", "it", 1, 1, 4.0],
        ["incorrect", "low", "so", 1, 1, 4.0],
    ]
    # 2 outcomes, 2 tails, 4 words each
    assert len(found) == 16
    assert set(found["tail_words"]) == {1} and set(found["words"]) == {4}
    tables.write(ENRICHED, found, tmp_path / "enriched.parquet")
    assert tables.read(ENRICHED, tmp_path / "enriched.parquet").equals(found)


def test_a_real_engine_and_tokenizer(engine, tokenizer, problems_of, grader) -> None:
    problems = problems_of(a="1", b="2")
    sampling = Sampling(12, temperature=0.9, stop_token_ids=(1,))
    samples = sample(engine, tokenizer, problems, run="r", step=20, benchmark="b", n=16, sampling=sampling)
    found = tails(
        engine,
        tokenizer,
        samples=samples,
        scores=score(samples, problems, grader),
        problems=problems,
        temperature=0.9,
        least=1,
    )
    assert list(found.columns) == [name for name, *_ in ENRICHED.columns]
    assert set(found["tail"]) == {"high", "low"}
    assert (found["count"] <= found["of"]).all()


def test_refused() -> None:
    samples, scores = samples_of(("so", 2, 1), ("we", 2, 0))
    other = scores.assign(step=[20, 40]), samples.assign(step=[20, 40])
    for drawn, judged, words in (
        (samples, scores.iloc[:1], "not those of the samples"),
        (other[1], other[0], "select"),
    ):
        with pytest.raises(TableError, match=words):
            tails(Known(), Spaced(), samples=drawn, scores=judged, problems=PROBLEMS, temperature=1.0)  # pyright: ignore[reportArgumentType]


def test_a_few_responses_with_their_scores() -> None:
    samples, scores = samples_of(*[("so", 2, k % 2) for k in range(10)])
    few = some(samples.iloc[::-1], scores, 4, np.random.default_rng(0))
    assert len(few["samples"]) == len(few["scores"]) == 4
    assert few["samples"]["sample"].tolist() == few["scores"]["sample"].tolist() == sorted(few["samples"]["sample"])
    other = some(samples, scores, 4, np.random.default_rng(1))
    assert other["samples"]["sample"].tolist() != few["samples"]["sample"].tolist()
    assert len(some(samples, scores, 99, np.random.default_rng(0))["scores"]) == 10
    none = some(samples, scores, 0, np.random.default_rng(0))
    found = tails(Known(), Spaced(), **none, problems=PROBLEMS, temperature=1.0)  # pyright: ignore[reportArgumentType]
    assert len(found) == 0
