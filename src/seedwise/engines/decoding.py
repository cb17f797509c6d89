"""One batch of completions, token by token, with a key-value cache.

Each distinct prompt of the batch is prefilled once and its cache is copied to its completions; rows that
have ended leave the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from seedwise.engines.base import Sampling
from seedwise.engines.cache import Reserved
from seedwise.engines.drawing import Draws, draw
from seedwise.engines.streams import uniforms

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_BLOCK = 64  # tokens of random numbers computed at a time
_COMPACT = 0.85  # the batch is compacted when at most this share of its rows is still being written


def decode(
    model: PreTrainedModel,
    prompts_B: list[Sequence[int]],
    seeds_B: list[int],
    limits_B: list[int],
    sampling: Sampling,
    *,
    entropy: bool,
) -> Drawn:
    """Draw one completion for each of B rows.

    prompts_B: token ids.  seeds_B: the rows' random streams.  limits_B: tokens of each row at most, in place
    of ``sampling.max_tokens``.
    """
    device = model.device
    rows = _prefill(model, prompts_B, limits_B)
    drawn = Drawn.empty(len(prompts_B), max(limits_B), entropy, device)
    stops = torch.tensor(sampling.stop_token_ids, dtype=torch.long, device=device)
    seeds = np.asarray(seeds_B, dtype=np.uint64)
    noise_BT = torch.empty(0, device=device)
    for t in range(max(limits_B)):
        if t % _BLOCK == 0:
            noise_BT = torch.from_numpy(uniforms(seeds[rows.row_B.cpu().numpy()], t, t + _BLOCK)).to(device)
        draws = draw(rows.logits_BV, noise_BT[:, t % _BLOCK], sampling, entropy=entropy)
        token_B = draws.token_B
        drawn.put(t, rows.row_B, draws)
        rows.done_B |= torch.isin(token_B, stops) | (rows.limit_B <= t + 1)
        left = len(rows.done_B) - int(rows.done_B.sum())
        if left == 0:
            break
        if left <= _COMPACT * len(rows.done_B):
            keep = (~rows.done_B).nonzero()[:, 0]
            rows.keep(keep)
            token_B, noise_BT = token_B[keep], noise_BT[keep]
        rows.advance(model, token_B)
    return drawn


def _prefill(model: PreTrainedModel, prompts_B: list[Sequence[int]], limits_B: list[int]) -> _Rows:
    """One forward pass over the distinct prompts, then one row per completion."""
    places: dict[tuple[int, ...], int] = {}
    of_B = [places.setdefault(tuple(prompt), len(places)) for prompt in prompts_B]
    longest = max(len(prompt) for prompt in places)
    ids = np.zeros((len(places), longest), dtype=np.int64)
    real = np.zeros((len(places), longest + max(limits_B)), dtype=bool)
    real[:, longest:] = True
    for prompt, place in places.items():
        ids[place, longest - len(prompt) :] = prompt
        real[place, longest - len(prompt) :] = True
    device = model.device
    real_BL, of = torch.from_numpy(real).to(device), torch.tensor(of_B, device=device)
    out = model(
        input_ids=torch.from_numpy(ids).to(device),
        attention_mask=None if real.all() else real_BL[:, :longest],
        position_ids=(real_BL[:, :longest].cumsum(1) - 1).clamp(min=0),
        use_cache=True,
        logits_to_keep=1,
    )
    cache = out.past_key_values
    cache.layers = [Reserved.of(layer) if type(layer) is DynamicLayer else layer for layer in cache.layers]
    cache.batch_select_indices(of)
    return _Rows(
        cache=cache,
        logits_BV=out.logits[:, -1][of],
        real_BL=None if real.all() else real_BL[of],
        position_B=real_BL[:, :longest].sum(1)[of],
        limit_B=torch.tensor(limits_B, device=device),
        row_B=torch.arange(len(of_B), device=device),
        done_B=torch.zeros(len(of_B), dtype=torch.bool, device=device),
        length=longest,
    )


@dataclass
class Drawn:
    """What was drawn for each of B rows: ids, log-probabilities and entropies [B, T]; junk after a row has ended."""

    ids_BT: Tensor
    logp_BT: Tensor
    entropy_BT: Tensor | None

    @classmethod
    def empty(cls, rows: int, tokens: int, entropy: bool, device: torch.device) -> Drawn:
        """Room for B rows of T tokens; entropies only where they are wanted."""
        logp_BT = torch.zeros(rows, tokens, device=device)
        ids_BT = torch.zeros(rows, tokens, dtype=torch.long, device=device)
        return cls(ids_BT, logp_BT, torch.zeros_like(logp_BT) if entropy else None)

    def put(self, t: int, row_B: Tensor, draws: Draws) -> None:
        """Write token ``t`` of the rows ``row_B``."""
        self.ids_BT[row_B, t] = draws.token_B
        self.logp_BT[row_B, t] = draws.logp_B
        if self.entropy_BT is not None and draws.entropy_B is not None:
            self.entropy_BT[row_B, t] = draws.entropy_B


@dataclass
class _Rows:
    """The rows still in the batch: their cache, next-token logits, mask, next position, limit and place."""

    cache: Cache
    logits_BV: Tensor
    real_BL: Tensor | None
    position_B: Tensor
    limit_B: Tensor
    row_B: Tensor
    done_B: Tensor
    length: int

    def keep(self, index: Tensor) -> None:
        self.cache.batch_select_indices(index)
        self.position_B, self.limit_B = self.position_B[index], self.limit_B[index]
        self.row_B, self.done_B = self.row_B[index], self.done_B[index]
        self.real_BL = None if self.real_BL is None else self.real_BL[index]

    def advance(self, model: PreTrainedModel, token_B: Tensor) -> None:
        self.length += 1
        del self.logits_BV  # the largest tensor here: not two of them at once
        out = model(
            input_ids=token_B[:, None],
            attention_mask=None if self.real_BL is None else self.real_BL[:, : self.length],
            position_ids=self.position_B[:, None],
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self.logits_BV = out.logits[:, -1]
        self.position_B = self.position_B + 1
