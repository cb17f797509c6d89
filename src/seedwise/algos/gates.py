"""Gates: baselines that decide which side of a group learns, by a rule other than the group's quantile.

Dimension key:  P prompts, G samples of one prompt.

HardGate, BinarisedGate and DeadZone look at the group alone and give a flat one exactly 0. HistoricalMean and
LearnedGate compare with what the problem did before, so a flat group keeps an advantage unless
divide_by_group_std follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from seedwise.algos.baseline import Level, Quantile, Role, flat, rank
from seedwise.algos.part import Horizon, Part
from seedwise.algos.views import GroupView

if TYPE_CHECKING:
    from torch import Generator, Tensor


class HardGate(Part):
    """Subtract 0 where failures make up at least the share tau of the group, else 1: QAE's gate without a quantile.

    ``b = 1{n0 / G < tau}``, n0 failures by the verdict. On 0/1 rewards it is Quantile(K = tau); penalties never
    move it. Experimental: a control of this project's own.
    """

    role: ClassVar[Role] = "centres"
    experimental: ClassVar[bool] = True
    kind: Literal["hard_gate"] = "hard_gate"
    tau: Level = 0.4

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units."""
        b_P1 = (~_hard(view.correct_PG >= 1, self.tau)).to(adv_PG.dtype)
        return (adv_PG - b_P1).masked_fill(flat(adv_PG), 0.0)


class BinarisedGate(Part):
    """Gate graded rewards as if they were 0/1, and keep their magnitude.

    A sample counts as a success if its reward is at least ``threshold``; a group is hard if at least
    ``ceil(K G)`` of its samples do not. In a hard group a success gets its reward less the mean reward of the
    failures, in an easy one a failure gets its reward less the mean reward of the successes; the others
    get exactly 0. On 0/1 rewards, at a threshold above 0 and up to 1, it is Quantile(K). Experimental: an
    extension of this project's own.

    threshold: reward units.
    """

    role: ClassVar[Role] = "centres"
    experimental: ClassVar[bool] = True
    kind: Literal["binarised_gate"] = "binarised_gate"
    K: Level = 0.4
    threshold: float = 0.5

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units; a success is never below 0 and a failure never above."""
        success_PG = adv_PG >= self.threshold
        # never empty: a group of failures alone is hard and one of successes alone is easy, so all of it is silent
        silent_PG = success_PG != _hard(success_PG, self.K)
        mean_P1 = (adv_PG * silent_PG).sum(1, keepdim=True) / silent_PG.sum(1, keepdim=True)
        return (adv_PG - mean_P1).masked_fill(silent_PG, 0.0)


def _hard(success_PG: Tensor, level: float) -> Tensor:
    """Which groups fail often enough to reach the level: bool ``[P, 1]``."""
    return (~success_PG).sum(1, keepdim=True) >= rank(level, success_PG.shape[1])


class DeadZone(Part):
    """Silence what lies between two quantiles of the group, for graded rewards.

    ``A = max(R - b2, 0) - max(b1 - R, 0)`` with b1 and b2 the K1- and K2-quantile (order statistics, as in
    Quantile), so the middle gets exactly 0 and each end is measured from its own edge. K1 = K2 is
    Quantile. On 0/1 rewards a group whose success rate lies between the two gates is silent. Experimental: an
    extension of this project's own.
    """

    role: ClassVar[Role] = "centres"
    experimental: ClassVar[bool] = True
    kind: Literal["dead_zone"] = "dead_zone"
    K1: Level = 0.4
    K2: Level = 0.6

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.K1 > self.K2:
            raise ValueError(f"K1 {self.K1} is above K2 {self.K2}: the zone would be empty, exchange them")
        return self

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units."""
        b1_P1, b2_P1 = Quantile(K=self.K1).threshold(adv_PG), Quantile(K=self.K2).threshold(adv_PG)
        return (adv_PG - b2_P1).clamp(min=0) - (b1_P1 - adv_PG).clamp(min=0)


class HistoricalMean(Part):
    """Subtract what the problem's reward was on earlier visits: ``b <- decay b + (1 - decay) mean(R)`` per problem.

    A group is scored before it moves the mean. A problem seen for the first time starts from the mean reward of
    its rollout, so the part needs two epochs to differ from a batch mean. A flat group keeps ``R - b``.
    Experimental: an extension of this project's own.

    state: ``mean``, problem -> b in reward units.
    """

    horizon: ClassVar[Horizon] = "rollout"
    role: ClassVar[Role] = "centres"
    experimental: ClassVar[bool] = True
    kind: Literal["historical_mean"] = "historical_mean"
    decay: float = Field(default=0.7, ge=0, lt=1)

    def start(self) -> dict:
        """No problem seen."""
        return {"mean": {}}

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units; moves the means of the problems in the rollout."""
        b_P1 = _remembered(state["mean"], view.prompt_P, adv_PG.mean().item(), adv_PG)
        for problem, b, reward in _visits(view.prompt_P, b_P1, adv_PG):
            state["mean"][problem] = self.decay * state["mean"].get(problem, b) + (1 - self.decay) * reward
        return adv_PG - b_P1


class LearnedGate(Part):
    """Subtract 0 where the problem was hard on earlier visits, else 1: a gate without same-sample bias.

    ``b = 1{phat > 1 - K}``, phat being the problem's success rate by the verdict, averaged over past visits with
    weights falling by ``decay``; the group itself moves phat only after it was scored. A flat group keeps ``R - b``.
    Experimental: an extension of this project's own.

    prior: phat of a problem never seen.
    state: ``rate``, problem -> phat.
    """

    role: ClassVar[Role] = "centres"
    experimental: ClassVar[bool] = True
    kind: Literal["learned_gate"] = "learned_gate"
    K: Level = 0.4
    decay: float = Field(default=0.7, ge=0, lt=1)
    prior: float = Field(default=0.5, ge=0, le=1)

    def start(self) -> dict:
        """No problem seen."""
        return {"rate": {}}

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units; moves the rates of the problems in the rollout."""
        success_PG = (view.correct_PG >= 1).double()
        phat_P1 = _remembered(state["rate"], view.prompt_P, self.prior, success_PG)
        for problem, _, now in _visits(view.prompt_P, phat_P1, success_PG):
            state["rate"][problem] = self.decay * state["rate"].get(problem, now) + (1 - self.decay) * now
        # 1e-9 because 1 - 0.9 is 0.09999999999999998 in float64, which 1/10 exceeds
        return adv_PG - (phat_P1 > 1 - self.K + 1e-9).to(adv_PG.dtype)


def _remembered(known: dict[int, float], prompt_P: Tensor, otherwise: float, like_PG: Tensor) -> Tensor:
    """What is known of each group's problem, ``[P, 1]``."""
    return like_PG.new_tensor([[known.get(problem, otherwise)] for problem in prompt_P.tolist()])


def _visits(prompt_P: Tensor, before_P1: Tensor, values_PG: Tensor) -> list[tuple[int, float, float]]:
    """(problem, what was known before the rollout, mean over the group) of every group."""
    now_P = values_PG.double().mean(1)
    return list(zip(prompt_P.tolist(), before_P1.flatten().tolist(), now_P.tolist(), strict=True))
