"""More controls for the sparsity of QAE, beside RandomSparsity, which matches the count in each group.

Dimension key:  P prompts, G samples of one prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from seedwise.algos.baseline import Level, Quantile, Role, flat
from seedwise.algos.part import Horizon, Part
from seedwise.algos.views import GroupView

if TYPE_CHECKING:
    from torch import Generator, Tensor

Match = Literal["rate", "mass", "sign", "expectation"]


class MatchedSparsity(Part):
    """Group-mean advantages of samples chosen at random, as sparse as Quantile(K) in one respect.

    match ``rate``: every sample of a group that is not flat is active with the same probability, the share
    that QAE has active among them over the whole rollout.
    ``mass``: as RandomSparsity, then the group is rescaled so that its sum of ``|A|`` is QAE's; a group whose
    chosen samples all lie at the mean has no mass to rescale and gets 0.
    ``sign``: of all positive advantages of the rollout as many stay active as QAE has positive ones, and of
    all negative ones as many as QAE has negative ones, chosen uniformly: QAE's balance of signs without its gate.
    ``expectation``: as RandomSparsity, times ``G / n_act``, so that the expected advantage is the group-mean one.
    A flat group gets exactly 0. Experimental: a control of this project's own.
    """

    horizon: ClassVar[Horizon] = "rollout"
    role: ClassVar[Role] = "centres"
    experimental: ClassVar[bool] = True
    kind: Literal["matched_sparsity"] = "matched_sparsity"
    K: Level = 0.4
    match: Match = "rate"

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units; ``rng`` chooses who stays active."""
        flat_P1 = flat(adv_PG)
        value_PG = (adv_PG - adv_PG.mean(1, keepdim=True)).masked_fill(flat_P1, 0.0)
        qae_PG = (adv_PG - Quantile(K=self.K).threshold(adv_PG)).masked_fill(flat_P1, 0.0)
        chance_PG = adv_PG.new_empty(adv_PG.shape).uniform_(generator=rng)
        if self.match == "rate":
            rate = (qae_PG != 0).sum() / ((~flat_P1).sum() * adv_PG.shape[1]).clamp(min=1)
            return value_PG.masked_fill(chance_PG >= rate, 0.0)
        if self.match == "sign":
            kept_PG = _as_many(value_PG > 0, qae_PG > 0, chance_PG) | _as_many(value_PG < 0, qae_PG < 0, chance_PG)
            return value_PG.masked_fill(~kept_PG, 0.0)
        active_P1 = (qae_PG != 0).sum(1, keepdim=True)
        chosen_PG = value_PG.masked_fill(chance_PG.argsort(1).argsort(1) >= active_P1, 0.0)
        if self.match == "expectation":
            return chosen_PG * (adv_PG.shape[1] / active_P1.clamp(min=1))
        mass_P1 = chosen_PG.abs().sum(1, keepdim=True)
        return chosen_PG * (qae_PG.abs().sum(1, keepdim=True) / mass_P1).where(mass_P1 > 0, 0.0)


def _as_many(among_PG: Tensor, as_PG: Tensor, chance_PG: Tensor) -> Tensor:
    """As many of ``among`` as ``as`` holds over the rollout, those of the smallest chance: bool ``[P, G]``."""
    place_N = chance_PG.masked_fill(~among_PG, 2.0).flatten().argsort().argsort()
    return among_PG & (place_N.view_as(chance_PG) < as_PG.sum())
