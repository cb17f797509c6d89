"""A micro-batch as TRL hands it over: a dict of tensors [B, ...], prompts padded left, completions right.

Dimension key:  B rows, T completion tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def sequence(batch: dict[str, Any]) -> tuple[Tensor, Tensor, int]:
    """(ids, attention mask, completion tokens): prompts and completions joined."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    return ids, mask, batch["completion_mask"].size(1)


def active(batch: dict[str, Any]) -> dict[str, Any]:
    """The rows of a micro-batch with some token advantage other than exactly 0, padding cut to fit them.

    If there is none the shortest row stays: its advantages are 0, so it gives every parameter a gradient
    of 0 rather than none, and a distributed forward pass stays in step with the other processes.
    """
    mask_BT = batch["completion_mask"]
    keep_B = (batch["advantages"] != 0).any(1)
    if not keep_B.any():
        keep_B[mask_BT.sum(1).argmin()] = True
    longest = max(int(mask_BT[keep_B].sum(1).max()), 1)  # a masked response has none
    prompt = int(batch["prompt_mask"][keep_B].sum(1).max())
    kept = {key: value[keep_B] if value.dim() else value for key, value in batch.items()}
    left = {key: kept[key][:, -prompt:] for key in ("prompt_ids", "prompt_mask")}
    return {**{key: value[:, :longest] if value.dim() > 1 else value for key, value in kept.items()}, **left}
