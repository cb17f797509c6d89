"""From logits and a uniform number to a token: temperature, top_k, top_p, inversion of the cumulative distribution.

Rows are taken a block at a time, so that what is made on the way stays small beside the logits of a large vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from seedwise.engines.base import Sampling

_BLOCK = 2**21  # logits of a block, 8 MB in float32


class Draws(NamedTuple):
    """One token of each of B rows, with its log-probability and, where wanted, the entropy of its distribution."""

    token_B: Tensor
    logp_B: Tensor
    entropy_B: Tensor | None


def log_softmax(logits: Tensor, temperature: float) -> Tensor:
    """Natural log-probabilities over the last axis, float32; temperature 0 stands for 1."""
    return torch.log_softmax(logits.float() / (temperature or 1.0), dim=-1)


def entropies(logits: Tensor, temperature: float) -> Tensor:
    """Entropy in nats over the last axis, at a temperature as for ``log_softmax``."""
    found = [_entropy_nats(log_softmax(block, temperature).exp()) for (block,) in _blocks(logits.flatten(0, -2))]
    return torch.cat(found).view(logits.shape[:-1])


def _entropy_nats(p: Tensor) -> Tensor:
    return torch.special.entr(p).sum(-1)


def draw(logits_BV: Tensor, noise_B: Tensor, sampling: Sampling, *, entropy: bool = False) -> Draws:
    """A token of every row.  Log-probabilities and entropies are those at the sampling temperature (1 if it is 0),
    before truncation.

    noise_B: uniform numbers in [0, 1), float64; the token is the first whose cumulative probability exceeds it.
    """
    blocks = [_draw(*block, sampling, entropy) for block in _blocks(logits_BV, noise_B)]
    if len(blocks) == 1:
        return blocks[0]
    token_B, logp_B = (torch.cat([block[i] for block in blocks]) for i in (0, 1))
    return Draws(token_B, logp_B, torch.cat([block.entropy_B for block in blocks]) if entropy else None)


def _blocks(logits_BV: Tensor, *others_B: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """These tensors some rows at a time."""
    rows = max(1, _BLOCK // logits_BV.shape[1])
    return zip(*(tensor.split(rows) for tensor in (logits_BV, *others_B)), strict=True)


def _draw(logits_BV: Tensor, noise_B: Tensor, sampling: Sampling, entropy: bool) -> Draws:
    logp_BV = log_softmax(logits_BV, sampling.temperature)
    p_BV = logp_BV.exp()
    entropy_B = _entropy_nats(p_BV) if entropy else None
    if sampling.temperature == 0:
        token_B = logp_BV.argmax(1)
    else:
        kept_BV = truncate(logp_BV, sampling)
        token_B = _inverted(p_BV if kept_BV is logp_BV else kept_BV.exp(), noise_B)
    return Draws(token_B, logp_BV.gather(1, token_B[:, None])[:, 0], entropy_B)


def _inverted(p_BV: Tensor, noise_B: Tensor) -> Tensor:
    cumulative_BV = p_BV.double().cumsum_(1)
    total_B = cumulative_BV[:, -1]
    # noise * total may round up to the total, which no token exceeds
    threshold_B = torch.minimum(noise_B * total_B, torch.nextafter(total_B, torch.zeros_like(total_B)))
    return torch.searchsorted(cumulative_BV, threshold_B[:, None], right=True)[:, 0]


def truncate(logp_BV: Tensor, sampling: Sampling) -> Tensor:
    """Log-probabilities with -inf outside the top_k tokens and, among those, outside the top_p nucleus."""
    if 0 < sampling.top_k < logp_BV.shape[1]:
        least_B1 = logp_BV.topk(sampling.top_k, dim=1).values[:, -1:]
        logp_BV = logp_BV.masked_fill(logp_BV < least_B1, -torch.inf)
    if sampling.top_p < 1:
        ordered_BV, order_BV = logp_BV.sort(dim=1, descending=True)
        share_BV = ordered_BV.softmax(dim=1)
        outside_BV = share_BV.cumsum(1) - share_BV >= sampling.top_p
        logp_BV = logp_BV.masked_fill(outside_BV.scatter(1, order_BV, outside_BV), -torch.inf)
    return logp_BV
