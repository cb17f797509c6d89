"""What parts remember between steps, kept in memory and in a folder of two plain files.

``Algorithm.start`` says how it is laid out: plain values, tensors, lists and dicts.  ``memory.json`` holds
it with dicts as lists of pairs, since JSON would turn integer keys into text; its tensors stand in
``tensors.safetensors``.  The folder is one of its own because vLLM takes every safetensors file that lies
beside a model for weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import load_file, save_file
from torch import Tensor

if TYPE_CHECKING:
    from seedwise.algos.algorithm import Algorithm


def start(algorithm: Algorithm, problems: int) -> dict:
    """The memory before the first step.  problems: number of training problems, which samplers count."""
    return {**algorithm.start(), "sampler": algorithm.sampler.start(problems)}


def save(memory: dict, folder: Path) -> None:
    """Write the memory into a new folder."""
    folder.mkdir()
    tensors: dict[str, Tensor] = {}
    content = _plain(memory, tensors)
    (folder / "memory.json").write_text(json.dumps(content, allow_nan=False) + "\n")
    save_file(tensors, folder / "tensors.safetensors")


def load(folder: Path, device: str = "cpu") -> dict:
    """The memory ``save`` wrote, every number with the same bits."""
    tensors = load_file(folder / "tensors.safetensors", device=device)
    memory = _restored(json.loads((folder / "memory.json").read_text()), tensors)
    assert isinstance(memory, dict)
    return memory


def _plain(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        name = f"tensor{len(tensors)}"
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"pairs": [[key, _plain(item, tensors)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return [_plain(item, tensors) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a part remembers {type(value).__name__}: use numbers, text, lists, dicts or tensors")


def _restored(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_restored(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    return {key: _restored(item, tensors) for key, item in value["pairs"]}
