"""A key-value cache layer with room ahead, so that a new token is one write and not a copy of the whole cache.

transformers' own growing layer concatenates at every token: a third of the time of a small model on a CPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

_ROOM = 32  # tokens at least


class Reserved(DynamicLayer):
    """Keys and values [B, heads, L, D] as views of buffers that hold at least L tokens; grows by a quarter."""

    _layer_type = None  # not the layer of any attention type by default

    @classmethod
    def of(cls, layer: DynamicLayer) -> Reserved:
        """The same contents as ``layer``; the two share no later write."""
        own = cls()
        own.lazy_initialization(layer.keys, layer.values)
        own.keys, own.values = layer.keys, layer.values
        own._key_room, own._value_room = layer.keys, layer.values
        return own

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append T tokens; returns the keys and values of all L + T."""
        before = self.keys.shape[-2]
        after = before + key_states.shape[-2]
        if after > self._key_room.shape[-2]:
            room = after + max(_ROOM, after // 4)
            self._key_room, self._value_room = _moved(self.keys, room), _moved(self.values, room)
        self._key_room[..., before:after, :] = key_states
        self._value_room[..., before:after, :] = value_states
        self._show(after)
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep the rows ``indices``, in that order; a row may be repeated."""
        self._key_room = self._key_room.index_select(0, indices)
        self._value_room = self._value_room.index_select(0, indices)
        self._show(self.keys.shape[-2])

    def _show(self, length: int) -> None:
        self.keys, self.values = self._key_room[..., :length, :], self._value_room[..., :length, :]


def _moved(states: Tensor, room: int) -> Tensor:
    larger = torch.empty(*states.shape[:-2], room, states.shape[-1], dtype=states.dtype, device=states.device)
    larger[..., : states.shape[-2], :] = states
    return larger
