"""Baselines that stand between the mean and the quantile: robust means, and the mean weighted by length.

Dimension key:  P prompts, G samples of one prompt.

All of them compare a sample with its own group, so a flat group gets exactly 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from seedwise.algos.baseline import Role, flat
from seedwise.algos.part import Part
from seedwise.algos.views import GroupView

if TYPE_CHECKING:
    from torch import Generator, Tensor


class Median(Part):
    """Subtract the median reward of the group: the middle one, of an even number the mean of the two middle ones.

    On 0/1 rewards it is Quantile(K = 1/2), except that a group of half successes has b = 1/2, where both
    signs are active. Experimental: a control of this project's own.
    """

    role: ClassVar[Role] = "centres"
    experimental: ClassVar[bool] = True
    kind: Literal["median"] = "median"

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units."""
        G = adv_PG.shape[1]
        sorted_PG = adv_PG.sort(1).values
        median_P1 = (sorted_PG[:, (G - 1) // 2] + sorted_PG[:, G // 2])[:, None] / 2
        return (adv_PG - median_P1).masked_fill(flat(adv_PG), 0.0)


class TrimmedMean(Part):
    """Subtract the mean of what is left when the smallest and the largest rewards of the group are dropped.

    ``floor(share G)`` samples are dropped at each end; they are left out of the mean only and have
    advantages of their own. Experimental: a control of this project's own.

    share: of the group at each end, below 1/2; 0 is the group mean.
    """

    role: ClassVar[Role] = "centres"
    experimental: ClassVar[bool] = True
    kind: Literal["trimmed_mean"] = "trimmed_mean"
    share: float = Field(default=0.25, ge=0, lt=0.5)

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units."""
        G = adv_PG.shape[1]
        # 1e-9 because 0.29 * 100 is 28.999999999999996; the bound keeps one sample, which it could cost
        cut = min(math.floor(self.share * G + 1e-9), (G - 1) // 2)
        mean_P1 = adv_PG.sort(1).values[:, cut : G - cut].mean(1, keepdim=True)
        return (adv_PG - mean_P1).masked_fill(flat(adv_PG), 0.0)


class HuberisedMean(Part):
    """Subtract Huber's estimate of location (Huber, 1964): a mean whose far samples pull with a bounded force.

    b solves ``sum_j clip(R_j - b, -delta, delta) = 0``; where an interval does, b is its middle. A large delta
    gives the group mean, a small one the median. Experimental: a control of this project's own.

    delta: reward units, the distance from which on a sample pulls no harder.
    """

    role: ClassVar[Role] = "centres"
    experimental: ClassVar[bool] = True
    kind: Literal["huberised_mean"] = "huberised_mean"
    delta: float = Field(default=0.25, gt=0)

    def location(self, rewards_PG: Tensor) -> Tensor:
        """The baseline of each group, ``[P, 1]``, in reward units."""
        R_PG = rewards_PG.double()
        # the pull is linear in b between knots R_j - delta and R_j + delta, so its zero is found exactly
        knots_PN = (R_PG[:, :, None] + R_PG.new_tensor([-self.delta, self.delta])).flatten(1).sort(1).values
        pull_PN = (R_PG[:, None, :] - knots_PN[:, :, None]).clamp(-self.delta, self.delta).sum(2)
        # dust on a stretch without pull would move b to its end
        dust_P1 = 1e-9 * self.delta + 1e-14 * R_PG.abs().sum(1, keepdim=True)
        pull_PN = pull_PN.masked_fill(pull_PN.abs() < dust_P1, 0.0)
        # pull falls from above 0 at the first knot to below 0 at the last
        upward_P1, at_least_P1 = (pull_PN > 0).sum(1, keepdim=True), (pull_PN >= 0).sum(1, keepdim=True)
        low_P1, high_P1 = (_crossing(knots_PN, pull_PN, count_P1 - 1) for count_P1 in (upward_P1, at_least_P1))
        return ((low_P1 + high_P1) / 2).to(rewards_PG.dtype)

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units."""
        return (adv_PG - self.location(adv_PG)).masked_fill(flat(adv_PG), 0.0)


def _crossing(knots_PN: Tensor, pull_PN: Tensor, before_P1: Tensor) -> Tensor:
    """Where the line from the knot ``before`` to the next one is 0, ``[P, 1]``."""
    here_P1, next_P1 = knots_PN.gather(1, before_P1), knots_PN.gather(1, before_P1 + 1)
    pull_P1, less_P1 = pull_PN.gather(1, before_P1), pull_PN.gather(1, before_P1 + 1)
    return here_P1 + (next_P1 - here_P1) * (pull_P1 / (pull_P1 - less_P1))


class LengthWeighted(Part):
    """Subtract the mean reward of the group's tokens (OPO, arXiv:2505.23585; verl's ``opo``).

    ``b = sum_j T_j R_j / sum_j T_j`` with completion lengths T: the baseline of least variance if the squared
    gradient of a response grows like its length. Long failures lower it. The paper takes one optimizer
    step per rollout, with no KL and no division by a standard deviation.
    """

    role: ClassVar[Role] = "centres"
    kind: Literal["length_weighted"] = "length_weighted"

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units; their mean over the tokens of a group is 0."""
        length_PG = view.lengths_PG.to(adv_PG.dtype)
        total_P1 = length_PG.sum(1, keepdim=True).clamp(min=1)
        mean_P1 = (length_PG * adv_PG).sum(1, keepdim=True) / total_P1
        return (adv_PG - mean_P1).masked_fill(flat(adv_PG), 0.0)
