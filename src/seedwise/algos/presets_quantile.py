"""Presets of QAE: its quantile on every objective, its ablations and controls, K over time.

They are listed with all others in ``presets.py``.
"""

from __future__ import annotations

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import (
    FixedBaseline,
    Interpolation,
    NegMask,
    PosMask,
    Quantile,
    RandomSparsity,
    Reading,
)
from seedwise.algos.controller import AdaptiveK, Signal
from seedwise.algos.gates import HardGate
from seedwise.algos.presets_group import clip_cov, gspo, kl_cov, on_clip_higher
from seedwise.algos.schedules import DitheredQuantile, Linear, ScheduledQuantile


def qae(
    *,
    K: float = 0.4,
    interpolation: Interpolation = "order",
    low: float = 0.2,
    high: float = 0.28,
    eps: float = 1e-6,
) -> Algorithm:
    """QAE (arXiv:2509.22611): clip_higher with the group's K-quantile in place of its mean."""
    return on_clip_higher(low, high, eps, centre=Quantile(K=K, interpolation=interpolation))


def pos_mask(
    *, K: float = 0.4, reading: Reading = "qae_value", low: float = 0.2, high: float = 0.28, eps: float = 1e-6
) -> Algorithm:
    """QAE's POS-MASK (equation 7): successes of easy groups are silent."""
    return on_clip_higher(low, high, eps, centre=PosMask(K=K, reading=reading))


def neg_mask(
    *, K: float = 0.4, reading: Reading = "qae_value", low: float = 0.2, high: float = 0.28, eps: float = 1e-6
) -> Algorithm:
    """QAE's NEG-MASK (equation 8): failures of hard groups are silent."""
    return on_clip_higher(low, high, eps, centre=NegMask(K=K, reading=reading))


def random_sparsity(*, K: float = 0.4, low: float = 0.2, high: float = 0.28, eps: float = 1e-6) -> Algorithm:
    """Control for QAE: clip_higher on as many responses of each group as QAE has active, chosen at random."""
    return on_clip_higher(low, high, eps, centre=RandomSparsity(K=K))


def psr(*, low: float = 0.2, high: float = 0.28, eps: float = 1e-6) -> Algorithm:
    """Positive samples only: b = 0, so that failures (reward 0) are silent; QAE's limit of small K."""
    return on_clip_higher(low, high, eps, centre=FixedBaseline(b=0))


def nsr(*, low: float = 0.2, high: float = 0.28, eps: float = 1e-6) -> Algorithm:
    """Negative samples only: b = 1, so that successes (reward 1) are silent; QAE's limit of large K."""
    return on_clip_higher(low, high, eps, centre=FixedBaseline(b=1))


def hard_gate(*, tau: float = 0.4, low: float = 0.2, high: float = 0.28, eps: float = 1e-6) -> Algorithm:
    """Control for QAE: its gate written without a quantile; on 0/1 rewards the same at tau = K."""
    return on_clip_higher(low, high, eps, centre=HardGate(tau=tau))


def qae_scheduled(
    *,
    start_K: float = 0.6,
    end_K: float = 0.4,
    steps: int | None = None,
    low: float = 0.2,
    high: float = 0.28,
    eps: float = 1e-6,
) -> Algorithm:
    """QAE with a K that moves in a straight line over so many optimizer steps (null: the whole run)."""
    schedule = Linear(start_K=start_K, end_K=end_K, steps=steps)
    return on_clip_higher(low, high, eps, centre=ScheduledQuantile(schedule=schedule))


def qae_adaptive(
    *,
    K: float = 0.4,
    signal: Signal = "entropy",
    target: float | None = None,
    kp: float = 0.05,
    ki: float = 0.005,
    low: float = 0.2,
    high: float = 0.28,
    eps: float = 1e-6,
) -> Algorithm:
    """QAE with a K that holds the policy's entropy, in nats, or the gradient's relative variance at a target.

    A target of null is learned from the run's beginning.
    """
    schedule = AdaptiveK(K=K, signal=signal, target=target, kp=kp, ki=ki)
    return on_clip_higher(low, high, eps, centre=ScheduledQuantile(schedule=schedule))


def qae_dithered(*, K: float = 0.4, low: float = 0.2, high: float = 0.28, eps: float = 1e-6) -> Algorithm:
    """QAE with a rank drawn group by group, so that a K between two ranks has an effect of its own."""
    return on_clip_higher(low, high, eps, centre=DitheredQuantile(K=K))


def qae_clip_cov(
    *,
    K: float = 0.4,
    ratio: float = 2e-4,
    cov_low: float = 1.0,
    cov_high: float = 5.0,
    low: float = 1.0,
    high: float = 1.0,
    eps: float = 1e-6,
) -> Algorithm:
    """QAE on Clip-Cov (arXiv:2509.22611)."""
    below = clip_cov(ratio=ratio, cov_low=cov_low, cov_high=cov_high, low=low, high=high, eps=eps)
    return _with_quantile(below, K)


def qae_kl_cov(*, K: float = 0.4, ratio: float = 2e-3, coef: float = 1.0, eps: float = 1e-6) -> Algorithm:
    """QAE on KL-Cov (arXiv:2509.22611)."""
    return _with_quantile(kl_cov(ratio=ratio, coef=coef, eps=eps), K)


def qae_gspo(*, K: float = 0.4, low: float = 3e-4, high: float = 4e-4, eps: float = 1e-6) -> Algorithm:
    """QAE on GSPO (arXiv:2509.22611)."""
    return _with_quantile(gspo(low=low, high=high, eps=eps), K)


def _with_quantile(algorithm: Algorithm, K: float) -> Algorithm:
    return algorithm.model_copy(update={"baseline": (Quantile(K=K), *algorithm.baseline[1:])})
