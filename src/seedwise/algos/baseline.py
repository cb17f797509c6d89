"""Baselines: what a sample's reward is compared with.

Dimension key:  P prompts, G samples of one prompt.

A baseline is a chain over ``adv_PG``, which starts as ``rewards_PG``: one part that centres, then at
most one that scales. It sees whole groups, gathered from every process, and never tokens.

A flat group, one whose rewards are all equal, says nothing about which sample was better: parts that
take their comparison from the group give it exactly 0, where floating-point means would leave dust.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from seedwise.algos.part import Part
from seedwise.algos.views import GroupView

if TYPE_CHECKING:
    from torch import Generator, Tensor

Level = Annotated[float, Field(gt=0, lt=1)]
Role = Literal["centres", "scales"]
Interpolation = Literal["order", "linear"]
Reading = Literal["qae_value", "grpo_value"]


def flat(rewards_PG: Tensor) -> Tensor:
    """Which groups have all rewards equal: bool ``[P, 1]``."""
    return rewards_PG.amax(1, keepdim=True) == rewards_PG.amin(1, keepdim=True)


class GroupMean(Part):
    """Subtract the mean reward of the group (GRPO, arXiv:2402.03300)."""

    role: ClassVar[Role] = "centres"
    kind: Literal["group_mean"] = "group_mean"

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units; the sum over a group is 0."""
        return (adv_PG - adv_PG.mean(1, keepdim=True)).masked_fill(flat(adv_PG), 0.0)


class LeaveOneOut(Part):
    """Subtract the mean reward of the other samples (RLOO, arXiv:2402.14740).

    ``R_i - sum_{j != i} R_j / (G - 1)``, which is ``G / (G - 1)`` times the group-mean advantage.
    Raises ValueError for a group of one, which has no others.
    """

    role: ClassVar[Role] = "centres"
    kind: Literal["leave_one_out"] = "leave_one_out"

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units; the sum over a group is 0."""
        G = adv_PG.shape[1]
        if G < 2:
            raise ValueError(
                f"leave_one_out compares a sample with the others of its group: group_size is {G}, use 2 or more"
            )
        return ((adv_PG - adv_PG.mean(1, keepdim=True)) * (G / (G - 1))).masked_fill(flat(adv_PG), 0.0)


class Quantile(Part):
    """Subtract the K-quantile of the group's rewards (QAE, arXiv:2509.22611, equations 3 and 4).

    ``b = inf{x : F(x) >= K}``, which is the m-th smallest reward, ``m = ceil(K G)``. On 0/1 rewards with
    success rate p, ``b = 0`` if ``p <= 1 - m/G`` (a hard group: only successes are active), else ``b = 1``
    (an easy one: only failures are). The inactive samples get exactly 0.

    interpolation: ``order`` is the paper's definition. ``linear`` is what the authors' code computes
    (torch.quantile): the two agree where ``K (G - 1)`` is whole; elsewhere its b may lie between two
    rewards, so that both signs are active. Floating-point dust can stand where the paper has 0.
    """

    role: ClassVar[Role] = "centres"
    kind: Literal["quantile"] = "quantile"
    K: Level = 0.4
    interpolation: Interpolation = "order"

    def threshold(self, rewards_PG: Tensor) -> Tensor:
        """The baseline of each group, ``[P, 1]``, in reward units."""
        if self.interpolation == "linear":
            return rewards_PG.quantile(self.K, dim=1, keepdim=True)
        m = rank(self.K, rewards_PG.shape[1])
        return rewards_PG.sort(1).values[:, m - 1 : m]

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units."""
        return (adv_PG - self.threshold(adv_PG)).masked_fill(flat(adv_PG), 0.0)


def rank(K: float, G: int) -> int:
    """Which of G sorted rewards is the K-quantile, counted from 1: ``m = ceil(K G)``, at least 1.

    1e-9 is taken off because ``0.14 * 50`` is ``7.000000000000001`` in float64.
    """
    return max(1, math.ceil(K * G - 1e-9))


class PosMask(Part):
    """Silence successes of easy groups; failures are always active (QAE's POS-MASK, equation 7).

    A success is a sample whose ``correct`` is 1, and a group is hard when at least m = ceil(K G) of its
    samples fail, as in Quantile; penalties never move this gate.

    reading ``qae_value`` (the paper's equations): a success is compared with the failures' reward and a
    failure with the successes' reward, both without penalties; on 0/1 rewards b is 0 for successes and 1
    for failures, so the active side carries +-1, or +-1/sigma when divide_by_group_std follows.
    reading ``grpo_value`` (the paper's text calls DAPO a special case, which holds only so): the
    group-mean advantage, then the masked side is set to 0.
    """

    role: ClassVar[Role] = "centres"
    kind: Literal["pos_mask"] = "pos_mask"
    K: Level = 0.4
    reading: Reading = "qae_value"

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units."""
        success_PG, hard_P1 = _gate(view.correct_PG, self.K)
        value_PG = _two_sided(adv_PG, success_PG, view, self.reading)
        return value_PG.masked_fill((success_PG & ~hard_P1) | flat(adv_PG), 0.0)


class NegMask(Part):
    """Silence failures of hard groups; successes are always active (QAE's NEG-MASK, equation 8).

    Gate and readings are those of PosMask.
    """

    role: ClassVar[Role] = "centres"
    kind: Literal["neg_mask"] = "neg_mask"
    K: Level = 0.4
    reading: Reading = "qae_value"

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units."""
        success_PG, hard_P1 = _gate(view.correct_PG, self.K)
        value_PG = _two_sided(adv_PG, success_PG, view, self.reading)
        return value_PG.masked_fill((~success_PG & hard_P1) | flat(adv_PG), 0.0)


def _gate(correct_PG: Tensor, K: float) -> tuple[Tensor, Tensor]:
    """(success ``[P, G]``, hard ``[P, 1]``), both bool."""
    success_PG = correct_PG >= 1
    failures_P1 = (~success_PG).sum(1, keepdim=True)
    return success_PG, failures_P1 >= rank(K, success_PG.shape[1])


def _two_sided(adv_PG: Tensor, success_PG: Tensor, view: GroupView, reading: Reading) -> Tensor:
    """Values of both sides before one is silenced."""
    if reading == "grpo_value":
        return adv_PG - adv_PG.mean(1, keepdim=True)
    verdict_PG = view.rewards_PG - view.penalty_PG
    failure_P1, success_P1 = verdict_PG.amin(1, keepdim=True), verdict_PG.amax(1, keepdim=True)
    return (adv_PG - failure_P1).where(success_PG, adv_PG - success_P1)


class RandomSparsity(Part):
    """As many active samples as Quantile(K) has, chosen at random: is QAE's gain only its sparsity?

    In each group, n_act samples chosen uniformly keep their group-mean advantage, where n_act is the
    number QAE would have active there; the others get exactly 0. A control of this project's own.

    match: ``count`` keeps QAE's number of active samples, group by group.
    """

    role: ClassVar[Role] = "centres"
    kind: Literal["random_sparsity"] = "random_sparsity"
    K: Level = 0.4
    match: Literal["count"] = "count"

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units; ``rng`` chooses who stays active."""
        active_P1 = (adv_PG != Quantile(K=self.K).threshold(adv_PG)).sum(1, keepdim=True)
        place_PG = adv_PG.new_empty(adv_PG.shape).uniform_(generator=rng).argsort(1).argsort(1)
        value_PG = adv_PG - adv_PG.mean(1, keepdim=True)
        return value_PG.masked_fill((place_PG >= active_P1) | flat(adv_PG), 0.0)


class FixedBaseline(Part):
    """Subtract the same number everywhere: b = 0 learns from successes only, b = 1 from failures only.

    Unlike the others it needs no contrast within the group, so a flat group keeps ``R - b``.
    """

    role: ClassVar[Role] = "centres"
    kind: Literal["fixed_baseline"] = "fixed_baseline"
    b: float

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units."""
        return adv_PG - self.b


class DivideByGroupStd(Part):
    """Divide by the standard deviation of the group's rewards plus eps; a flat group gets 0.

    ddof: 1 for the sample standard deviation (TRL, verl, this project), 0 for the population's (QAE's
    proofs).  eps: 1e-6 as in verl and QAE's code; TRL has 1e-4.
    """

    role: ClassVar[Role] = "scales"
    kind: Literal["divide_by_group_std"] = "divide_by_group_std"
    ddof: Literal[0, 1] = 1
    eps: float = Field(default=1e-6, ge=0)

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, without unit."""
        rewards_PG = view.rewards_PG
        G = rewards_PG.shape[1]
        # not Tensor.std: this is TRL's order of operations, and the last bit differs at G = 8
        square_P1 = (rewards_PG - rewards_PG.mean(1, keepdim=True)).pow(2).mean(1, keepdim=True)
        std_P1 = (square_P1 * (G / max(G - self.ddof, 1))).sqrt()
        return (adv_PG / (std_P1 + self.eps)).masked_fill(flat(rewards_PG), 0.0)


class DivideByGroupMean(Part):
    """Divide by the mean reward of the group, so that rare successes weigh more (MaxRL).

    A group whose mean is not positive gets 0: it never succeeds, or the sign would turn.
    """

    role: ClassVar[Role] = "scales"
    kind: Literal["divide_by_group_mean"] = "divide_by_group_mean"

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, without unit."""
        mean_P1 = view.rewards_PG.mean(1, keepdim=True)
        return (adv_PG / mean_P1).masked_fill((mean_P1 <= 0) | flat(view.rewards_PG), 0.0)
