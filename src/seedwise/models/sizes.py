"""How many parameters a backbone has, without loading or asking for it, and the arithmetic a token costs.

Counts of hub models are those of their published dimensions: embeddings, attention with its norms, gated MLPs,
and of a mixture of experts all of its experts (total) or those that one token meets (active).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from seedwise.models.fingerprint import EMBEDDED

if TYPE_CHECKING:
    from seedwise.study import ModelSpec


@dataclass(frozen=True)
class Size:
    """Parameters.  total: all of them.  active: those that take part in one token."""

    total: float
    active: float


def flops(size: Size, *, generated: float, trained: float, scored: float = 0.0, adapter: bool = False) -> float:
    """Floating-point operations of a training, from tokens.

    Two per active parameter and token for a forward pass (generation, or a pass that only scores), two more for the
    gradient of the activations and two for that of the weights, which a low-rank adapter does without (Kaplan et al.,
    arXiv 2001.08361, section 2.1).  Attention over the context and the optimizer are left out.
    """
    return size.active * (2 * generated + (4 if adapter else 6) * trained + 2 * scored)


def _qwen3(layers: int, hidden: int, mlp: int, heads: int, kv_heads: int, *, tied: bool, experts: int = 0) -> Size:
    """A Qwen3 model: vocabulary 151,936, heads of 128 dimensions; 8 of the experts meet a token."""
    vocabulary, head = 151_936, 128
    attention = 2 * hidden * heads * head + 2 * hidden * kv_heads * head + 2 * head
    outside = hidden * vocabulary * (1 if tied else 2) + hidden

    def whole(met: int) -> int:
        return outside + layers * (attention + 2 * hidden + 3 * hidden * mlp * met + hidden * experts)

    return Size(whole(experts or 1), whole(8 if experts else 1))


def _olmo3(layers: int, hidden: int, mlp: int) -> Size:
    """An Olmo 3 model: vocabulary 100,278, as many key as query heads, norms of queries and keys over all heads."""
    block = 4 * hidden * hidden + 3 * hidden * mlp + 4 * hidden
    total = 2 * 100_278 * hidden + hidden + layers * block
    return Size(total, total)


_QWEN3 = {
    "0.6B": _qwen3(28, 1024, 3072, 16, 8, tied=True),
    "1.7B": _qwen3(28, 2048, 6144, 16, 8, tied=True),
    "4B": _qwen3(36, 2560, 9728, 32, 8, tied=True),
    "8B": _qwen3(36, 4096, 12288, 32, 8, tied=False),
    "14B": _qwen3(40, 5120, 17408, 40, 8, tied=False),
    "30B-A3B": _qwen3(48, 2048, 768, 32, 4, tied=False, experts=128),
}
HUB = {f"Qwen/Qwen3-{name}{ending}": size for name, size in _QWEN3.items() for ending in ("", "-Base")} | {
    f"allenai/Olmo-3-{name}": _olmo3(32, 4096, 11008) for name in ("1025-7B", "7B-Think-SFT", "7B-Think-DPO")
}


def size(spec: ModelSpec) -> Size | None:
    """The size of a backbone; None where it is not known offline: a hub id not in HUB, a GGUF file, no safetensors."""
    if spec.kind == "hub":
        return HUB.get(str(spec.id))
    if spec.kind == "gguf":
        return None
    folder = EMBEDDED if spec.kind == "embedded" else Path(str(spec.path))
    total = float(sum(_entries(sorted(folder.glob("*.safetensors")))))
    return Size(total, total) if total else None


def _entries(files: Iterable[Path]) -> Iterable[int]:
    """Numbers in each tensor of safetensors files, read from their headers alone."""
    for file in files:
        with open(file, "rb") as handle:
            (length,) = struct.unpack("<Q", handle.read(8))
            header = json.loads(handle.read(length))
        yield from (prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")
