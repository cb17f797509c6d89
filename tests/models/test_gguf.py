"""A GGUF file, made here, becomes a dense model that says the same, ends its answers, and takes an adapter."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from peft import get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.convert_slow_tokenizer import bytes_to_unicode

from seedwise.models import load
from seedwise.models.fingerprint import backbone, located
from seedwise.models.prompts import spoken, stop_token_ids
from seedwise.study import Lora, ModelSpec

torch.set_num_threads(1)

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOKENS = [*SPECIAL, *bytes_to_unicode().values(), "12", "34"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}{{ '<|im_start|>' }}"
HEADS, KV_HEADS = 2, 1
# transformers' names -> those of the format, in a layer
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
PACKED = "blk.0.ffn_up.weight"


def original() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=128,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _, weight in sorted(model.named_parameters()):
            if weight.dim() > 1:
                weight.normal_(0.0, 0.4, generator=rng)
    return model.eval()


def rotated(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries and keys as llama.cpp orders them: the two halves of a head interleaved."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def tensors(model: LlamaForCausalLM) -> dict[str, np.ndarray]:
    state = {name: weight.detach().numpy() for name, weight in model.named_parameters()}
    found = {
        "token_embd.weight": state["model.embed_tokens.weight"],
        "output_norm.weight": state["model.norm.weight"],
        **{f"blk.0.{new}.weight": state[f"model.layers.0.{old}.weight"] for old, new in NAMES.items()},
    }
    for name, heads in (("attn_q", HEADS), ("attn_k", KV_HEADS)):
        found[f"blk.0.{name}.weight"] = rotated(found[f"blk.0.{name}.weight"], heads)
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LlamaForCausalLM]:
    """An importable package with tiny.gguf in it, and the model it was made from."""
    site, model = tmp_path_factory.mktemp("site"), original()
    package = site / "tiny_model"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('a dependency that is not here')\n")
    writer = gguf.GGUFWriter(package / "tiny.gguf", "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(64)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(32 // HEADS)
    writer.add_layer_norm_rms_eps(model.config.rms_norm_eps)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)))  # 3: special
    writer.add_token_merges(["1 2", "3 4"])
    writer.add_add_space_prefix(False)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    kind = gguf.GGMLQuantizationType.Q8_0
    for name, weight in tensors(model).items():
        if name == PACKED:  # blocks of 32 with one scale
            blocks = gguf.quants.quantize(weight, kind)
            writer.add_tensor(name, blocks, raw_dtype=kind)
            with torch.no_grad():
                up = model.model.layers[0].mlp.up_proj.weight
                up.copy_(torch.from_numpy(gguf.quants.dequantize(blocks, kind)))
        else:
            writer.add_tensor(name, np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return site, model


@pytest.fixture(scope="module")
def spec(made) -> Iterator[ModelSpec]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(made[0])
        yield ModelSpec.model_validate(
            {"kind": "gguf", "path": "package:tiny_model", "file": "tiny.gguf", "chat_template": "tokenizer"}
        )


@pytest.fixture(scope="module")
def folder(spec: ModelSpec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported model."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    load.export(spec, folder)
    return folder


def logits(model, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits


def test_the_model_is_dense_tied_and_says_what_it_was_made_from(folder: Path, made):
    model, tokenizer = load.load(folder)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert {path.suffix for path in folder.iterdir()} <= {".safetensors", ".json", ".jinja"}
    ids = tokenizer("12+7=")["input_ids"]
    torch.testing.assert_close(logits(model, ids), logits(made[1], ids), rtol=1e-5, atol=1e-5)


def test_the_tokenizer_ends_where_the_file_says(folder: Path, spec: ModelSpec):
    _, tokenizer = load.load(folder)
    assert [tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token] == [*SPECIAL[1:], SPECIAL[2]]
    assert tokenizer.unk_token == SPECIAL[0]
    assert stop_token_ids(spec, tokenizer) == (2,)
    assert tokenizer.convert_ids_to_tokens(tokenizer("12 3")["input_ids"]) == ["12", "Ġ", "3"]


def test_the_file_s_chat_template_is_the_tokenizer_s_own(folder: Path, spec: ModelSpec):
    import pandas as pd

    _, tokenizer = load.load(folder)
    prompt = spoken(spec, tokenizer, pd.DataFrame({"prompt": ["1+2="]}))["prompt"][0]
    assert prompt == "<|im_start|>1+2=<|im_end|><|im_start|>"
    # <|im_start|> 1 + 2 = <|im_end|> <|im_start|>, nothing put before it
    assert tokenizer([prompt])["input_ids"][0][0] == 1 and len(tokenizer([prompt])["input_ids"][0]) == 7


def test_an_adapter_leaves_the_tied_embeddings_alone(folder: Path, tmp_path: Path):
    base, tokenizer = load.load(folder)
    model = get_peft_model(base, load.lora_config(Lora(rank=2)))
    trained = {
        name.split(".lora_")[0].rpartition(".")[2] for name, weight in model.named_parameters() if weight.requires_grad
    }
    assert trained == {name.rpartition(".")[2] for name in NAMES if name.endswith("_proj")}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:  # zero at the start: the adapter would change nothing
                weight.fill_(0.1)
    ids = tokenizer("12+7=")["input_ids"]
    expected, untrained = logits(model, ids), logits(load.load(folder)[0], ids)
    model.save_pretrained(tmp_path / "adapter")
    found = logits(load.load(folder, adapter=tmp_path / "adapter")[0], ids)
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, untrained)


def test_a_package_is_found_without_being_imported(spec: ModelSpec, made):
    assert located("package:tiny_model") == made[0] / "tiny_model"
    assert set(backbone(spec)) == {"tiny.gguf"}
    assert "tiny_model" not in sys.modules


@pytest.mark.parametrize(
    ("path", "file", "message"),
    [
        ("package:seedwise_no_such", "a.gguf", "path package:seedwise_no_such: no such package in this environment"),
        ("package:tiny_model", "none.gguf", "none.gguf: no such GGUF file; check path and file"),
        (
            "package:tiny_model",
            "__init__.py",
            "cannot be had .*; check the file, and that the package gguf is installed",
        ),
    ],
)
def test_what_cannot_be_had_is_one_line(spec: ModelSpec, tmp_path: Path, path: str, file: str, message: str):
    with pytest.raises(load.ModelError, match=message) as error:
        load.export(spec.model_copy(update={"path": path, "file": file}), tmp_path / "model")
    assert "\n" not in str(error.value)


def test_a_path_that_names_no_package_is_refused_at_parse():
    with pytest.raises(ValueError, match="path 'package:no/such': name a Python package"):
        ModelSpec.model_validate({"kind": "gguf", "path": "package:no/such", "file": "a.gguf"})
