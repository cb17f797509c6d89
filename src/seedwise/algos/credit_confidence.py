"""Credit from confidence: how far the policy is from a uniform one, and how large the logits it sampled were.

Dimension key:  B rows (samples), T completion tokens, N groups.

"The rows given" are those of this process, which in a training of one process are the whole rollout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from seedwise.algos.credit_entropy import needed
from seedwise.algos.part import Horizon, Part
from seedwise.algos.views import TokenView

if TYPE_CHECKING:
    from torch import Generator, Tensor

Silent = Literal["penalised", "kept"]


class Ucas(Part):
    """Weigh responses and tokens by how unsure the policy was (UCAS, arXiv:2510.10649 and the authors' code).

    Of a response: ``c_i = sum_t (logsumexp z_t - mean_v z_t)`` over logits z, standardised within its group to s_i
    (sample standard deviation). ``A_i`` is multiplied by ``exp(-success s_i)`` where it is above 0, else by
    ``exp(failure s_i)``, so an unsure success and a sure failure count more. Of a token: ``weight l_t`` is then
    subtracted, with l the logit of the sampled token scaled to 0..1 over the response tokens of the rows given (1/2
    where all are equal); a positive advantage stops at 0, a negative one grows. c is a sum over tokens, so it grows
    with the length. All responses of a group must be among the rows given.

    success, failure: per standard deviation; at most 4.  weight: advantage.  eps: nats, keeps s defined where all c
        are equal (then 0).
    silent: responses whose advantage is 0, of a flat group or silenced by a baseline, are ``penalised`` too in the
        authors' code and then train; ``kept`` leaves them at 0, as a sparse baseline means it.
    """

    horizon: ClassVar[Horizon] = "rollout"
    even: ClassVar[bool] = False
    kind: Literal["ucas"] = "ucas"
    success: float = Field(default=0.25, ge=0, le=4)
    failure: float = Field(default=0.35, ge=0, le=4)
    weight: float = Field(default=0.05, ge=0)
    eps: float = Field(default=1e-6, gt=0)
    silent: Silent = "penalised"

    @property
    def needs(self) -> frozenset[str]:
        """Logits of the sampled tokens and the confidence of the policy."""
        return frozenset({"logit", "confidence"})

    def __call__(self, adv_B: Tensor, view: TokenView, state: dict, rng: Generator) -> Tensor:
        """Token advantages ``[B, T]``, 0 on padding."""
        sure_BT = needed(view.confidence_BT, self.kind, "confidence").double().masked_fill(view.mask_BT <= 0, 0.0)
        score_B = standardised_in_group(sure_BT.sum(1), view.group_B, self.eps)
        factor_B = (-self.success * score_B).exp().where(adv_B > 0, (self.failure * score_B).exp())
        first_B1 = (adv_B * factor_B.to(adv_B.dtype))[:, None]
        level_BT = scaled(needed(view.logit_BT, self.kind, "logit"), view.mask_BT).to(adv_B.dtype)
        adv_BT = first_B1 - self.weight * level_BT
        adv_BT = adv_BT.clamp(min=0).where(first_B1 > 0, adv_BT)
        if self.silent == "kept":
            adv_BT = adv_BT.masked_fill(first_B1 == 0, 0.0)
        return adv_BT * view.mask_BT


def standardised_in_group(value_B: Tensor, group_B: Tensor, eps: float) -> Tensor:
    """Values minus the mean of their group, over its sample standard deviation plus eps: ``[B]``, float64."""
    of_NB = (group_B.unique()[:, None] == group_B).double()
    count_N = of_NB.sum(1)
    apart_B = value_B.double() - (of_NB @ value_B.double() / count_N) @ of_NB
    variance_N = of_NB @ apart_B.square() / (count_N - 1).clamp(min=1)
    return apart_B / (variance_N.sqrt() @ of_NB + eps)


def scaled(value_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Values under the mask scaled to 0 for the least and 1 for the largest; 1/2 where all are equal: ``[B, T]``."""
    real_N = value_BT[mask_BT > 0]
    if len(real_N) == 0 or bool(real_N.amax() == real_N.amin()):
        return mask_BT.new_full(mask_BT.shape, 0.5)
    return (value_BT - real_N.amin()) / (real_N.amax() - real_N.amin())
