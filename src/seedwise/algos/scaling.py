"""Scaling over the whole rollout, where DivideByGroupStd scales group by group.

Dimension key:  P prompts, G samples of one prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from seedwise.algos.baseline import Role
from seedwise.algos.part import Horizon, Part
from seedwise.algos.views import GroupView

if TYPE_CHECKING:
    from torch import Generator, Tensor


class BatchStd(Part):
    """Divide by the standard deviation of all rewards of the rollout plus eps (TRL's ``scale_rewards="batch"``).

    Every group is divided by the same number, so hard and easy groups keep their relative weight. A rollout whose
    rewards are all equal gets 0; a flat group keeps what the centring part gave it.

    ddof: 1 for the sample standard deviation (TRL), 0 for the population's.  eps: TRL has 1e-4.
    """

    horizon: ClassVar[Horizon] = "rollout"
    role: ClassVar[Role] = "scales"
    kind: Literal["batch_std"] = "batch_std"
    ddof: Literal[0, 1] = 1
    eps: float = Field(default=1e-6, ge=0)

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, without unit."""
        rewards_PG = view.rewards_PG
        N = rewards_PG.numel()
        # the order of operations of TRL's nanstd
        square = (rewards_PG - rewards_PG.mean()).pow(2).mean()
        std = (square * (N / max(N - self.ddof, 1))).sqrt()
        return (adv_PG / (std + self.eps)).masked_fill(rewards_PG.amax() == rewards_PG.amin(), 0.0)


class Whitening(Part):
    """Mean 0 and variance 1 over all tokens of the rollout (REINFORCE++, arXiv:2501.03262; verl's masked_whiten).

    ``(A - mean) / sqrt(var + eps)``, in which a sample counts as often as it has tokens, with the sample variance.
    After group_mean it is verl's ``reinforce_plus_plus_baseline``, after ``{kind: fixed_baseline, b: 0}`` the
    plain form without discount. Long responses dominate both moments. The mean is subtracted a second
    time: where lengths differ it is not 0, so a flat group gets an advantage.

    eps: added to the variance.
    """

    horizon: ClassVar[Horizon] = "rollout"
    role: ClassVar[Role] = "scales"
    kind: Literal["whitening"] = "whitening"
    eps: float = Field(default=1e-8, gt=0)

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, without unit."""
        length_PG = view.lengths_PG.to(adv_PG.dtype)
        tokens = length_PG.sum()
        mean = (length_PG * adv_PG).sum() / tokens.clamp(min=1)
        variance = (length_PG * (adv_PG - mean).square()).sum() / (tokens - 1).clamp(min=1)
        return (adv_PG - mean) / (variance + self.eps).sqrt()
