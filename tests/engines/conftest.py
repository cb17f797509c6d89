"""A tiny random Qwen3 with the embedded tokenizer: large weights, so that its distributions are far from uniform."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from seedwise.models.embedded import tokenizer as embedded_tokenizer

torch.set_num_threads(1)


def tiny(seed: int = 0) -> Qwen3ForCausalLM:
    config = Qwen3Config(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=128,
        tie_word_embeddings=False,
    )
    model = Qwen3ForCausalLM(config)
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, weight in sorted(model.named_parameters()):
            if weight.dim() > 1:
                weight.normal_(0.0, 0.4, generator=rng)
    return model.eval()


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return embedded_tokenizer()


@pytest.fixture(scope="session")
def model() -> Qwen3ForCausalLM:
    return tiny()


@pytest.fixture(scope="session")
def tiny_model() -> Callable[[], Qwen3ForCausalLM]:
    return tiny
