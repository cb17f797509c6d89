"""Model folders: what is copied, what is refused, adapters."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest
import torch
from peft import get_peft_model

from seedwise.models import embedded, load

torch.set_num_threads(1)


def spec(kind, **fields):
    return SimpleNamespace(**{"kind": kind, "id": None, "revision": None, "path": None, "file": None, **fields})


def logits(model, tokenizer):
    with torch.no_grad():
        return model(**tokenizer(["4+3-2+5=", "9-9-9+1="], return_tensors="pt")).logits


def test_the_embedded_model_is_exported_whole(tmp_path):
    load.export(spec("embedded"), tmp_path / "model")
    expected = logits(*load.load(embedded.WEIGHTS))
    assert torch.equal(logits(*load.load(tmp_path / "model")), expected)


def test_a_folder_leaves_code_and_pickles_behind(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(embedded.WEIGHTS, source)
    for name in ("modeling_evil.py", "pytorch_model.bin", "optimizer.pt"):
        (source / name).write_bytes(b"x")
    load.export(spec("folder", path=str(source)), tmp_path / "model")
    assert {p.suffix for p in (tmp_path / "model").iterdir()} == {".safetensors", ".json"}
    load.load(tmp_path / "model")


def test_a_pickled_checkpoint_is_refused(tmp_path):
    shutil.copytree(embedded.WEIGHTS, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    model, _ = load.load(embedded.WEIGHTS)
    torch.save(model.state_dict(), tmp_path / "model" / "pytorch_model.bin")
    with pytest.raises(load.ModelError, match="no safetensors weights"):
        load.load(tmp_path / "model")
    with pytest.raises(load.ModelError, match="no safetensors weights"):
        load.export(spec("folder", path=str(tmp_path / "model")), tmp_path / "out")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (spec("hub", id="a/b"), "revision is missing"),
        (spec("folder", path="no/such/folder"), "no such model folder"),
        (spec("gguf", path="no/such", file="q.gguf"), "no such GGUF file"),
        (spec("onnx"), "unknown; use embedded"),
    ],
)
def test_what_cannot_be_had_is_one_line(wrong, message, tmp_path):
    with pytest.raises(load.ModelError, match=message) as error:
        load.export(wrong, tmp_path / "model")
    assert "\n" not in str(error.value)


def test_a_hub_model_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(load.ModelError, match=r"seedwise-no/such@0123abc: cannot be had") as error:
        load.export(spec("hub", id="seedwise-no/such", revision="0123abc"), tmp_path / "model")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("targets", ["all-linear", ("q_proj", "v_proj")])
def test_an_adapter_survives_saving(tmp_path, targets):
    base, tokenizer = load.load(embedded.WEIGHTS)
    before = logits(base, tokenizer)
    lora = SimpleNamespace(rank=4, alpha=8.0, targets=targets, dropout=0.0)
    model = get_peft_model(base, load.lora_config(lora))
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:  # zero at the start: the adapter would change nothing
                weight.normal_(0.0, 0.1, generator=rng)
    expected = logits(model, tokenizer)
    model.save_pretrained(tmp_path)
    assert not torch.allclose(expected, before)
    torch.testing.assert_close(logits(*load.load(embedded.WEIGHTS, adapter=tmp_path)), expected)


def test_a_pickled_adapter_is_refused(tmp_path):
    torch.save({}, tmp_path / "adapter_model.bin")
    with pytest.raises(load.ModelError, match=r"no adapter_model\.safetensors"):
        load.load(embedded.WEIGHTS, adapter=tmp_path)
