"""Model folders: written once per model of a study, read by training and sampling.

Weights are safetensors only and no code that came with a model is run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.integrations.gguf import read_gguf_metadata

from seedwise.models import embedded
from seedwise.models.fingerprint import located

if TYPE_CHECKING:
    from peft import LoraConfig, PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from seedwise.study import Lora, ModelSpec

_WEIGHTS = "*.safetensors"
_SETTINGS = ("*.json", "*.txt", "*.model", "*.jinja")
# transformers' name of a special token -> that of the GGUF format
_GGUF_TOKENS = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
_SAFE: dict[str, Any] = {"use_safetensors": True, "trust_remote_code": False}


class ModelError(ValueError):
    """A model cannot be had or is not safe to read; one line that names what, where and the remedy."""


def export(model_spec: ModelSpec, folder: Path) -> None:
    """Write the model of a study as a folder: weights (safetensors), configuration, tokenizer.

    kinds: ``embedded`` (shipped weights), ``folder`` (``path``; weights are hard-linked where the file system
    can, so do not overwrite them in place), ``hub`` (``id`` at ``revision``), ``gguf`` (``file`` in ``path``, its
    blocks unpacked to float32).  ``path`` may be ``package:NAME``, see ``fingerprint.located``.  Raises ModelError.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if model_spec.kind == "embedded":
        _copy(embedded.WEIGHTS, folder, place=_copy_file)
    elif model_spec.kind == "folder":
        _copy(_place(model_spec.path), folder, place=_link)
    elif model_spec.kind == "hub":
        if not model_spec.revision:
            raise ModelError(f"model {model_spec.id}: revision is missing; name a commit of the hub repository")
        shown = f"{model_spec.id}@{model_spec.revision}"
        _write(*_read(model_spec.id, shown, "name, network and cache", revision=model_spec.revision, **_SAFE), folder)
    elif model_spec.kind == "gguf":
        _write(*_unpacked(_place(model_spec.path), model_spec.file), folder)
    else:
        raise ModelError(f"kind {model_spec.kind!r}: unknown; use embedded, folder, hub or gguf")


def load(
    folder: Path, *, adapter: Path | None = None, dtype: str = "float32", trainable: bool = False
) -> tuple[PreTrainedModel | PeftModel, PreTrainedTokenizerBase]:
    """The model of a folder, with the peft adapter of another folder on it if one is given, and its tokenizer.

    The tokenizer pads on the left, as generation needs it, with the end token where the model has no padding
    token.  trainable: whether the adapter is trained further.
    Raises ModelError where a folder holds no safetensors weights: pickled ones are never read.
    """
    folder = Path(folder)
    _need_safetensors(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype), local_files_only=True, **_SAFE)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if adapter is None:
        return model, tokenizer
    return _with_adapter(model, Path(adapter), trainable), tokenizer


def lora_config(lora: Lora) -> LoraConfig:
    """peft's configuration for a study's ``lora`` (rank, alpha, targets, dropout)."""
    from peft import LoraConfig

    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=targets,
        lora_dropout=lora.dropout,
        bias="none",
        task_type="CAUSAL_LM",
    )


def _with_adapter(model: PreTrainedModel, adapter: Path, trainable: bool) -> PeftModel:
    from peft import PeftModel

    # peft falls back to a pickled adapter_model.bin when the safetensors file is absent
    if not (adapter / "adapter_model.safetensors").is_file():
        raise ModelError(f"{adapter}: no adapter_model.safetensors; save the adapter with safe serialization")
    return PeftModel.from_pretrained(model, str(adapter), is_trainable=trainable)


def _need_safetensors(folder: Path) -> None:
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such model folder; check the path")
    if not any(folder.glob(_WEIGHTS)):
        raise ModelError(f"{folder}: no safetensors weights, and pickled ones are never read; convert them")


def _copy(source: Path, folder: Path, place: Callable[[Path, Path], None]) -> None:
    """Only weights, settings and tokenizer files: code and pickles that lie beside them stay where they are."""
    _need_safetensors(source)
    for path in source.glob(_WEIGHTS):
        place(path.resolve(), folder / path.name)
    for pattern in _SETTINGS:
        for path in source.glob(pattern):
            _copy_file(path, folder / path.name)


def _copy_file(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)  # writing through an old hard link would change the source
    shutil.copyfile(source, target)


def _link(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without hard links
        _copy_file(source, target)


def _place(path: str) -> Path:
    try:
        return located(path)
    except FileNotFoundError as error:
        raise ModelError(f"path {error.filename}: {error.strerror}") from None


def _unpacked(source: Path, file: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A GGUF file's model with dense weights, and its tokenizer."""
    path = source / file
    if not path.is_file():
        raise ModelError(f"{path}: no such GGUF file; check path and file")
    model, tokenizer = _read(
        str(source),
        str(path),
        "the file, and that the package gguf is installed",
        gguf_file=file,
        quantization_config=GgufConfig(dequantize=True),  # without it the model counts as packed and is never saved
        local_files_only=True,
        trust_remote_code=False,
    )
    _name_tokens(tokenizer, path)
    return model, tokenizer


def _name_tokens(tokenizer: PreTrainedTokenizerBase, path: Path) -> None:
    """Special tokens as the file has them: of the llama family transformers 5.17.0 takes the first token of a text for
    its end token, and nothing such a model writes would ever end."""
    metadata, _ = read_gguf_metadata(str(path))
    for token, name in _GGUF_TOKENS.items():
        number = metadata.get(f"tokenizer.ggml.{name}_token_id")
        if number is not None:
            setattr(tokenizer, f"{token}_token", tokenizer.convert_ids_to_tokens(int(number)))


def _read(name: str, shown: str, check: str, **where: Any) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Read through transformers.  check: what may be amiss where it cannot be had."""
    of_tokenizer = {key: where[key] for key in where if key not in ("use_safetensors", "quantization_config")}
    try:
        model = AutoModelForCausalLM.from_pretrained(name, dtype="auto", **where)
        tokenizer = AutoTokenizer.from_pretrained(name, **of_tokenizer)
    except (OSError, ValueError, ImportError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"model {shown}: cannot be had ({reason}); check {check}") from None
    return model, tokenizer


def _write(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
