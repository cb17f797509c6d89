"""How many rows fit: what a row takes while it is written, from the model's own sizes, and batches made from that.

Three things grow with the rows of a batch: keys and values, the activations of the pass over the prompts, and the
logits.  With a few hundred rows a small vocabulary and two layers take megabytes, a real model gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ON_CPU = 2**30  # bytes of a batch
_SHARE = 0.25  # of a GPU's memory: weights, optimizer and the update have the rest


@dataclass(frozen=True)
class Footprint:
    """Bytes of one row.

    cache: of the keys and values of a token.  prefill: of the activations of a prompt's token, in the layer that is
    computed.  logits: of the next-token logits, which stand twice when the rows of a prompt are made from its pass.
    """

    cache: int
    prefill: int
    logits: int

    @classmethod
    def of(cls, model: PreTrainedModel) -> Footprint:
        """Of a model, whose layers all count as layers of full attention: an upper bound."""
        config, number = model.config.get_text_config(), model.dtype.itemsize
        heads = config.num_attention_heads
        kv_heads = getattr(config, "num_key_value_heads", None) or heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        return cls(
            cache=2 * config.num_hidden_layers * kv_heads * width * number,
            # residual, normed, queries, keys, values, attended; gate, up and their product
            prefill=(6 * config.hidden_size + 3 * inner) * number,
            logits=2 * config.vocab_size * number,
        )

    def row(self, prompt: int, limit: int) -> int:
        """Bytes of a row of so many prompt tokens that may write ``limit`` more; the cache has a quarter of room."""
        return (prompt + limit) * self.cache * 5 // 4 + prompt * self.prefill + self.logits


def room(device: torch.device) -> int:
    """Bytes that a batch may take on a device: 1 GiB of a CPU's memory, a quarter of a GPU's."""
    if device.type != "cuda":
        return _ON_CPU
    return int(_SHARE * torch.cuda.get_device_properties(device).total_memory)


def batches(
    rows: Sequence[int], prompts: Sequence[int], limits: Sequence[int], footprint: Footprint, room: int, most: int
) -> Iterator[list[int]]:
    """The rows in their order, as many at a time as fit into ``room`` bytes, at least 1 and at most ``most``.

    prompts, limits: of each row by its number, in tokens.  Every row of a batch is as long as its longest.
    """
    batch: list[int] = []
    longest = furthest = 0
    for row in rows:
        prompt, limit = max(longest, prompts[row]), max(furthest, limits[row])
        if batch and (len(batch) == most or (len(batch) + 1) * footprint.row(prompt, limit) > room):
            yield batch
            batch, prompt, limit = [], prompts[row], limits[row]
        batch.append(row)
        longest, furthest = prompt, limit
    if batch:
        yield batch
