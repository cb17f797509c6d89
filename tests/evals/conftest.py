"""A tiny random Qwen3, the embedded tokenizer, problems of chain sums, and a grader."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pandas as pd
import pytest
import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from seedwise.engines.transformers import Transformers
from seedwise.grading.pool import Grader
from seedwise.models.embedded import tokenizer as embedded_tokenizer

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return embedded_tokenizer()


@pytest.fixture(scope="session")
def engine(tokenizer: PreTrainedTokenizerFast) -> Transformers:
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=128,
    )
    model = Qwen3ForCausalLM(config)
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _, weight in sorted(model.named_parameters()):
            if weight.dim() > 1:
                weight.normal_(0.0, 0.3, generator=rng)
    return Transformers(model.eval(), tokenizer)


@pytest.fixture(scope="session")
def grader() -> Iterator[Grader]:
    with Grader() as grader:
        yield grader


@pytest.fixture(scope="session")
def problems_of() -> Callable[..., pd.DataFrame]:
    def build(**answers: str) -> pd.DataFrame:
        """One chain sum per keyword: its name and its gold answer, marked by # in a completion."""
        return pd.DataFrame(
            [
                {
                    "problem": name,
                    "prompt": f"{name}=?",
                    "answer": answer,
                    "source": "reasoning_gym:chain_sum",
                    "verifier": "reasoning_gym:chain_sum",
                    "difficulty": None,
                    "metadata": json.dumps({"answer_rule": {"rule": "marker", "marker": "#"}, "entry": {}}),
                }
                for name, answer in answers.items()
            ]
        )

    return build


@pytest.fixture(scope="session")
def run() -> dict[str, object]:
    return {"run": "qae.G8.s1-00000000", "model": "embedded", "method": "qae", "setting": "G8", "seed": 1}
