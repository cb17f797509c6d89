"""The embedded model: a character-level Qwen3 small enough to train on one CPU core.

Its weights ship with the package (folder ``embedded``); ``warmstart.py`` made them.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

WEIGHTS = Path(__file__).parent / "embedded"
ALPHABET = "0123456789+-*/()=#.,:?! \nabcdefghijklmnopqrstuvwxyz"
CONTEXT_TOKENS = 256
_SPECIAL = ("<pad>", "<eos>", "<unk>")


def tokenizer() -> PreTrainedTokenizerFast:
    """One token per character of ALPHABET, anything else ``<unk>``; decoding joins without spaces."""
    vocabulary = {token: i for i, token in enumerate((*_SPECIAL, *ALPHABET))}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT_TOKENS,
    )


def config() -> Qwen3Config:
    """The architecture; 0.40 M parameters, embeddings tied."""
    return Qwen3Config(
        vocab_size=len(_SPECIAL) + len(ALPHABET),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=CONTEXT_TOKENS,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )


def untrained(seed: int) -> Qwen3ForCausalLM:
    """Fresh weights, a function of ``seed`` alone: N(0, 0.02) for matrices, 1 for norms."""
    model = Qwen3ForCausalLM(config())
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, weight in sorted(model.named_parameters()):
            if weight.dim() > 1:
                weight.normal_(0.0, 0.02, generator=rng)
    return model
