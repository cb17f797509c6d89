"""Presets that differ in how the loss is made: the GRPO family, DAPO, surrogates; and what the others are built on.

They are listed with all others in ``presets.py``.
"""

from __future__ import annotations

from typing import Literal

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import DivideByGroupStd, GroupMean, LeaveOneOut
from seedwise.algos.credit import Credit, Uniform
from seedwise.algos.members import Baseline
from seedwise.algos.objective import Clipped, FixedLength, Gspo, Objective, PerSequence, PerToken
from seedwise.algos.overlong import SoftOverlong
from seedwise.algos.robust import LengthWeighted
from seedwise.algos.sampler import DynamicSampling
from seedwise.algos.scaling import Whitening
from seedwise.algos.surrogates import Cispo, ClipCov, KlCov

GROUP_MEAN, UNIFORM = GroupMean(), Uniform()
Surplus = Literal["discard", "keep"]


def token_mean(low: float, high: float) -> Objective:
    """DAPO's objective: clipped token ratios, mean over all tokens."""
    return Objective(surrogate=Clipped(low=low, high=high), average=PerToken())


def on_clip_higher(
    low: float, high: float, eps: float, *, centre: Baseline = GROUP_MEAN, credit: Credit = UNIFORM
) -> Algorithm:
    """clip_higher with another comparison or another credit rule."""
    return Algorithm(baseline=(centre, DivideByGroupStd(eps=eps)), credit=credit, objective=token_mean(low, high))


def grpo(*, low: float = 0.2, high: float = 0.2, kl: float = 0.0, eps: float = 1e-6) -> Algorithm:
    """GRPO (DeepSeekMath, arXiv:2402.03300): group mean and std, mean over responses."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        objective=Objective(surrogate=Clipped(low=low, high=high), average=PerSequence(), kl=kl),
    )


def dr_grpo(*, length: int, low: float = 0.2, high: float = 0.2) -> Algorithm:
    """Dr. GRPO (arXiv:2503.20783): no std, token losses divided by a constant length in tokens."""
    return Algorithm(
        baseline=(GroupMean(),),
        objective=Objective(surrogate=Clipped(low=low, high=high), average=FixedLength(length=length)),
    )


def clip_higher(*, low: float = 0.2, high: float = 0.28, eps: float = 1e-6) -> Algorithm:
    """DAPO's clipping and token mean (arXiv:2503.14476) without its dynamic sampling."""
    return on_clip_higher(low, high, eps)


def dapo(
    *,
    length: int,
    cache: int | None = None,
    surplus: Surplus = "discard",
    factor: float = 3.0,
    low: float = 0.2,
    high: float = 0.28,
    eps: float = 1e-6,
) -> Algorithm:
    """DAPO (arXiv:2503.14476), the whole recipe: clip_higher, dynamic sampling, soft overlong penalty.

    The penalty starts ``cache`` tokens before ``length``, the longest completion; null is a fifth of it, as in the
    paper (4,096 of 20,480).  factor: problems of a draw, as a multiple of the groups still missing.
    """
    longest = SoftOverlong(max_length=length, cache=1).max_length  # checked, so that it can be divided
    penalty = SoftOverlong(max_length=longest, cache=max(1, longest // 5) if cache is None else cache)
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        objective=token_mean(low, high),
        sampler=DynamicSampling(surplus=surplus, factor=factor),
        penalty=penalty,
    )


def rloo(*, low: float = 0.2, high: float = 0.2) -> Algorithm:
    """RLOO (arXiv:2402.14740) with token ratios: leave-one-out, no std, no division by a response's own length."""
    return Algorithm(baseline=(LeaveOneOut(),), objective=token_mean(low, high))


def gspo(*, low: float = 3e-4, high: float = 4e-4, eps: float = 1e-6) -> Algorithm:
    """GSPO (arXiv:2507.18071): one clipped ratio per response, mean over responses."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        objective=Objective(surrogate=Gspo(low=low, high=high), average=PerSequence()),
    )


def opo(*, low: float = 0.2, high: float = 0.2) -> Algorithm:
    """OPO (arXiv:2505.23585): baseline weighted by length, no std; take one optimizer step per rollout."""
    return Algorithm(baseline=(LengthWeighted(),), objective=token_mean(low, high))


def reinforce_pp(*, low: float = 0.2, high: float = 0.2, eps: float = 1e-8) -> Algorithm:
    """REINFORCE++ with a group baseline (arXiv:2501.03262): advantages whitened over all tokens of the rollout."""
    return Algorithm(baseline=(GroupMean(), Whitening(eps=eps)), objective=token_mean(low, high))


def cispo(*, cap: float = 5.0, floor: float = 0.0, eps: float = 1e-6) -> Algorithm:
    """CISPO (arXiv:2506.13585): clipped ratios as weights, so every token keeps its gradient; token mean."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        objective=Objective(surrogate=Cispo(cap=cap, floor=floor), average=PerToken()),
    )


def clip_cov(
    *,
    ratio: float = 2e-4,
    cov_low: float = 1.0,
    cov_high: float = 5.0,
    low: float = 1.0,
    high: float = 1.0,
    eps: float = 1e-6,
) -> Algorithm:
    """Clip-Cov (arXiv:2505.22617): a few tokens of high covariance learn nothing; token mean."""
    surrogate = ClipCov(ratio=ratio, cov_low=cov_low, cov_high=cov_high, low=low, high=high)
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)), objective=Objective(surrogate=surrogate, average=PerToken())
    )


def kl_cov(*, ratio: float = 2e-3, coef: float = 1.0, eps: float = 1e-6) -> Algorithm:
    """KL-Cov (arXiv:2505.22617): tokens of the highest covariance are pulled to the old policy; token mean."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        objective=Objective(surrogate=KlCov(ratio=ratio, coef=coef), average=PerToken()),
    )
