"""Verdict and penalty in separate channels, so that a length penalty never decides which side of a group learns.

Dimension key:  P prompts, G samples of one prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from seedwise.algos.baseline import (
    DivideByGroupMean,
    DivideByGroupStd,
    GroupMean,
    LeaveOneOut,
    NegMask,
    PosMask,
    Quantile,
    Role,
    flat,
)
from seedwise.algos.gates import HardGate
from seedwise.algos.part import Horizon, Part
from seedwise.algos.scaling import BatchStd
from seedwise.algos.schedules import DitheredQuantile, ScheduledQuantile
from seedwise.algos.views import GroupView

if TYPE_CHECKING:
    from torch import Generator, Tensor

Centre = Annotated[
    GroupMean | LeaveOneOut | Quantile | ScheduledQuantile | DitheredQuantile | PosMask | NegMask | HardGate,
    Field(discriminator="kind"),
]
Scale = Annotated[DivideByGroupStd | DivideByGroupMean | BatchStd, Field(discriminator="kind")]


class SeparateChannels(Part):
    """Gate, baseline and standard deviation from the 0/1 verdict; the penalty is added, centred, in reward units.

    ``A = scale(centre(verdict)) + weight (penalty - mean penalty)``. It is a whole chain: a part that
    divides after it would divide the penalty too. A group with equal verdicts gets the penalty's term
    alone, and a silent sample is no longer exactly 0 where penalties differ. Experimental: an extension of this
    project's own.

    centre, scale: as in a chain, on the verdict alone; scale null does not divide.
    weight: of the penalty, in advantage per reward unit.
    state: that of centre.
    """

    horizon: ClassVar[Horizon] = "rollout"
    role: ClassVar[Role] = "centres"
    experimental: ClassVar[bool] = True
    kind: Literal["separate_channels"] = "separate_channels"
    centre: Centre = Quantile()
    scale: Scale | None = DivideByGroupStd()
    weight: float = Field(default=1.0, ge=0)

    @property
    def needs(self) -> frozenset[str]:
        """What centre and scale need."""
        return self.centre.needs | (frozenset() if self.scale is None else self.scale.needs)

    def start(self) -> dict:
        """The start of centre; scales remember nothing."""
        return self.centre.start()

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``; ``adv_PG`` gives its dtype only, the rewards come from the view."""
        verdict_PG, penalty_PG = view.correct_PG.to(adv_PG.dtype), view.penalty_PG.to(adv_PG.dtype)
        alone = view._replace(rewards_PG=verdict_PG, penalty_PG=penalty_PG * 0)
        learnt_PG = self.centre(verdict_PG, alone, state, rng)
        if self.scale is not None:
            learnt_PG = self.scale(learnt_PG, alone, {}, rng)
        centred_PG = (penalty_PG - penalty_PG.mean(1, keepdim=True)).masked_fill(flat(penalty_PG), 0.0)
        return learnt_PG + self.weight * centred_PG
