"""From logits and a uniform number to a token: temperature, top_k, top_p, inversion of the cumulative distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from seedwise.engines.base import Sampling


def log_softmax(logits: Tensor, temperature: float) -> Tensor:
    """Natural log-probabilities over the last axis, float32; temperature 0 stands for 1."""
    return torch.log_softmax(logits.float() / (temperature or 1.0), dim=-1)


def entropy_nats(logp: Tensor) -> Tensor:
    """Entropy in nats over the last axis."""
    return torch.special.entr(logp.exp()).sum(-1)


def draw(logits_BV: Tensor, noise_B: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Tokens [B] and log-probabilities [B, V] at the sampling temperature (1 if it is 0), before truncation.

    noise_B: uniform numbers in [0, 1), float64; the token is the first whose cumulative probability exceeds it.
    """
    logp_BV = log_softmax(logits_BV, sampling.temperature)
    if sampling.temperature == 0:
        return logp_BV.argmax(1), logp_BV
    cumulative_BV = truncate(logp_BV, sampling).exp().double().cumsum(1)
    total_B = cumulative_BV[:, -1]
    # noise * total may round up to the total, which no token exceeds
    threshold_B = torch.minimum(noise_B * total_B, torch.nextafter(total_B, torch.zeros_like(total_B)))
    return torch.searchsorted(cumulative_BV, threshold_B[:, None], right=True)[:, 0], logp_BV


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
