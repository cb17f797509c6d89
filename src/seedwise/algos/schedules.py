"""K over time: schedules, the quantile that follows one, and a quantile between two ranks.

Dimension key:  P prompts, G samples of one prompt.

A schedule is asked once per rollout, ``at(view, state)``, and answers with a level K between 0 and 1. The
level in use stands in the baseline's state under ``K``. All of this extends QAE (arXiv:2509.22611) by designs of
this project's own, so the parts are experimental.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from seedwise.algos.baseline import Level, Role, flat, rank
from seedwise.algos.controller import AdaptiveK, in_order, smoothed, within
from seedwise.algos.part import Horizon, Part
from seedwise.algos.views import GroupView

if TYPE_CHECKING:
    from torch import Generator, Tensor


class Constant(Part):
    """The same K throughout, for which a study may write the number alone."""

    kind: Literal["constant"] = "constant"
    K: Level = 0.4

    def at(self, view: GroupView, state: dict) -> float:
        """K."""
        return self.K


class _Ramp(Part):
    """From ``start`` to ``end`` over ``steps`` optimizer steps, then ``end``; null: over the whole run."""

    experimental: ClassVar[bool] = True
    start_K: Level = 0.6
    end_K: Level = 0.4
    steps: int | None = Field(default=None, gt=0)

    @property
    def paced(self) -> bool:
        """True without steps of its own."""
        return self.steps is None

    def progress(self, view: GroupView) -> float:
        """How far the ramp has come at the rollout, 0..1."""
        return min(1.0, view.step / (self.steps or view.steps))


class Linear(_Ramp):
    """K falls or rises in a straight line: ``K = start_K + (end_K - start_K) min(1, step / steps)``. Experimental.

    steps: optimizer steps; null takes those of the run.
    """

    kind: Literal["linear"] = "linear"

    def at(self, view: GroupView, state: dict) -> float:
        """K of the rollout."""
        return self.start_K + (self.end_K - self.start_K) * self.progress(view)


class Cosine(_Ramp):
    """K along half a cosine, slow at both ends: half way it is where Linear is. Experimental.

    ``K = end_K + (start_K - end_K) (1 + cos(pi min(1, step / steps))) / 2``.

    steps: optimizer steps; null takes those of the run.
    """

    kind: Literal["cosine"] = "cosine"

    def at(self, view: GroupView, state: dict) -> float:
        """K of the rollout."""
        return self.end_K + (self.start_K - self.end_K) * (1 + math.cos(math.pi * self.progress(view))) / 2


class TwoPhase(Part):
    """``start_K`` before the optimizer step ``switch`` (0-based), ``end_K`` from it on. Experimental."""

    experimental: ClassVar[bool] = True
    kind: Literal["two_phase"] = "two_phase"
    start_K: Level = 0.6
    end_K: Level = 0.4
    switch: int = Field(gt=0)

    def at(self, view: GroupView, state: dict) -> float:
        """K of the rollout."""
        return self.start_K if view.step < self.switch else self.end_K


class SuccessRate(Part):
    """K follows the success rate, so that the gate stays at the difficulty of today: ``K = 1 - pbar``. Experimental.

    ``pbar <- decay pbar + (1 - decay) p`` with p the verdicts' mean over the rollout in hand, the first of which
    starts it; then K is clipped to ``lowest .. highest``.

    state: ``rate``, pbar.
    """

    horizon: ClassVar[Horizon] = "rollout"
    experimental: ClassVar[bool] = True
    kind: Literal["success_rate"] = "success_rate"
    decay: float = Field(default=0.9, ge=0, lt=1)
    lowest: Level = 0.2
    highest: Level = 0.8

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        in_order(self.lowest, self.highest)
        return self

    def start(self) -> dict:
        """Nothing measured."""
        return {"rate": None}

    def at(self, view: GroupView, state: dict) -> float:
        """K of the rollout; moves the rate."""
        state["rate"] = smoothed(state["rate"], view.correct_PG.double().mean().item(), self.decay)
        return within(1 - state["rate"], self.lowest, self.highest)


def _constant(written: object) -> object:
    return {"kind": "constant", "K": written} if isinstance(written, int | float) else written


Kinds = Annotated[
    Constant | Linear | Cosine | TwoPhase | SuccessRate | AdaptiveK,
    Field(discriminator="kind"),
]
Schedule = Annotated[Kinds, BeforeValidator(_constant, json_schema_input_type=Level | Kinds)]


class ScheduledQuantile(Part):
    """Subtract the K-quantile of the group's rewards, as Quantile does, with a K that changes. Experimental.

    schedule: how K moves; a number is a K that does not, which is Quantile bit for bit.
    dither: draw the rank as DitheredQuantile does, so that small changes of K act where ``K G`` is between two ranks.
    state: ``K`` in use (null before the first rollout), ``schedule`` the schedule's own.
    """

    horizon: ClassVar[Horizon] = "rollout"
    role: ClassVar[Role] = "centres"
    experimental: ClassVar[bool] = True
    kind: Literal["scheduled_quantile"] = "scheduled_quantile"
    schedule: Schedule = Linear()
    dither: bool = False

    @property
    def needs(self) -> frozenset[str]:
        """What the schedule needs."""
        return self.schedule.needs

    @property
    def paced(self) -> bool:
        """Whether its schedule is."""
        return self.schedule.paced

    def start(self) -> dict:
        """No K in use, and the schedule's start."""
        return {"K": None, "schedule": self.schedule.start()}

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units; sets ``state["K"]``."""
        K = state["K"] = self.schedule.at(view, state["schedule"])
        if self.dither:
            return _below_rank(adv_PG, dithered(K, adv_PG, rng))
        return _below_rank(adv_PG, adv_PG.new_full((len(adv_PG), 1), rank(K, adv_PG.shape[1])))


class DitheredQuantile(Part):
    """Subtract a quantile whose rank is drawn group by group, so that K acts between two ranks too. Experimental.

    The m-th smallest reward, ``m = floor(K G)`` or one more with probability ``K G - floor(K G)``, within 1..G:
    the mean of m is ``K G``, where Quantile's m is a staircase of width 1/G. Where ``K G`` is whole the two are equal.
    """

    role: ClassVar[Role] = "centres"
    experimental: ClassVar[bool] = True
    kind: Literal["dithered_quantile"] = "dithered_quantile"
    K: Level = 0.4

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units; ``rng`` draws the ranks."""
        return _below_rank(adv_PG, dithered(self.K, adv_PG, rng))


def dithered(K: float, rewards_PG: Tensor, rng: Generator) -> Tensor:
    """A rank for every group, counted from 1, ``[P, 1]`` in the dtype of the rewards."""
    P, G = rewards_PG.shape
    whole = math.floor(K * G)
    up_P1 = rewards_PG.new_empty((P, 1)).uniform_(generator=rng) < K * G - whole
    return (whole + up_P1.to(rewards_PG.dtype)).clamp(1, G)


def _below_rank(rewards_PG: Tensor, m_P1: Tensor) -> Tensor:
    """Rewards less the m-th smallest of their group, ``[P, G]``."""
    b_P1 = rewards_PG.sort(1).values.gather(1, m_P1.long() - 1)
    return (rewards_PG - b_P1).masked_fill(flat(rewards_PG), 0.0)
