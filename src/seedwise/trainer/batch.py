"""A micro-batch as TRL hands it over: a dict of tensors [B, ...], prompts padded left, completions right.

Dimension key:  B rows, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def sequence(batch: dict[str, Any]) -> tuple[Tensor, Tensor, int]:
    """(ids, attention mask, completion tokens): prompts and completions joined."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    return ids, mask, batch["completion_mask"].size(1)


def trimmed(batch: dict[str, Any]) -> dict[str, Any]:
    """A micro-batch without the columns that are padding in all of its rows; one completion token stays."""
    longest = max(int(batch["completion_mask"].sum(1).max()), 1)  # a masked response has none
    prompt = int(batch["prompt_mask"].sum(1).max())
    left = {key: batch[key][:, -prompt:] for key in ("prompt_ids", "prompt_mask")}
    return {**{key: value[:, :longest] if value.dim() > 1 else value for key, value in batch.items()}, **left}


def active(batch: dict[str, Any]) -> dict[str, Any]:
    """The rows of a micro-batch with some token advantage other than exactly 0, trimmed.

    If there is none the shortest row stays: its advantages are 0, so it gives every parameter a gradient
    of 0 rather than none, and a distributed forward pass stays in step with the other processes.
    """
    mask_BT = batch["completion_mask"]
    keep_B = (batch["advantages"] != 0).any(1)
    if not keep_B.any():
        keep_B[mask_BT.sum(1).argmin()] = True
    return trimmed(_rows(batch, keep_B))


def arranged(micro_batches: Sequence[dict[str, Any]], *, skip: bool) -> list[dict[str, Any]]:
    """The micro-batches of one optimizer step with their rows dealt anew: as many, of as many rows.

    Rows that are trained (with ``skip`` those with some token advantage other than 0, else all) stand in order of
    length, the longest first, as many in one micro-batch as in another, so that there is little padding and every
    forward pass is small.  The others fill up.  A loss that is a sum over rows stays the same up to rounding.
    """
    if len(micro_batches) == 1:
        return list(micro_batches)
    first = micro_batches[0]
    whole = {key: torch.cat([part[key] for part in micro_batches]) if first[key].dim() else first[key] for key in first}
    length_B = whole["prompt_mask"].sum(1) + whole["completion_mask"].sum(1)
    train_B = (whole["advantages"] != 0).any(1) if skip else torch.ones_like(length_B, dtype=torch.bool)
    order_B = length_B.argsort(stable=True)
    trained, others = order_B[train_B[order_B]].flip(0), order_B[~train_B[order_B]]
    M, rows, found, used = len(micro_batches), len(first["advantages"]), [], 0
    for m in range(M):
        some = trained[m * len(trained) // M : (m + 1) * len(trained) // M]
        filling = others[used : used + rows - len(some)]
        used += len(filling)
        found.append(_rows(whole, torch.cat([some, filling])))
    return found


def _rows(batch: dict[str, Any], index: Tensor) -> dict[str, Any]:
    return {key: value[index] if value.dim() else value for key, value in batch.items()}
