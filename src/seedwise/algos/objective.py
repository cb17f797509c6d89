"""Objectives: from log-probabilities and token advantages to the loss of one micro-batch.

Dimension key:  B rows of the micro-batch, T completion tokens.

A surrogate gives a loss per token, an average makes it a number. Averages divide by counts of the
whole optimizer step that they are given, so leaving rows with zero advantage out changes nothing.
Operations and their order are those of TRL 1.16.0, so that equal settings give equal bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from seedwise.algos.part import Horizon, Part, composed
from seedwise.algos.surrogates import Cispo, ClipCov, KlCov
from seedwise.algos.views import LossView, Window

if TYPE_CHECKING:
    from torch import Generator, Tensor

KLEstimator = Literal["k1", "k2", "k3"]


class Clipped(Part):
    """PPO's clipped surrogate per token, ``-min(rho A, clip(rho, 1 - low, 1 + high) A)``.

    high above low is clip-higher (DAPO, arXiv:2503.14476: 0.2 and 0.28).
    dual: for A < 0, cap the loss at ``-dual A`` however large rho is (dual clip; verl 3, DAPO's recipe
    10); null leaves it uncapped, as TRL does.
    """

    horizon: ClassVar[Horizon] = "row"
    level: ClassVar[Literal["token", "sequence"]] = "token"
    kind: Literal["clipped"] = "clipped"
    low: float = Field(default=0.2, ge=0, le=1)
    high: float = Field(default=0.28, ge=0)
    dual: float | None = Field(default=None, gt=1)

    def __call__(self, logp_BT: Tensor, view: LossView, state: dict, rng: Generator) -> Tensor:
        """Loss of every token ``[B, T]``, to be minimised."""
        gain_BT = _clipped_gain((logp_BT - view.old_BT).exp(), view.adv_BT, self.low, self.high)
        if self.dual is not None:
            gain_BT = gain_BT.where(view.adv_BT >= 0, gain_BT.maximum(self.dual * view.adv_BT))
        return -gain_BT

    def clipped(self, logp_BT: Tensor, view: LossView) -> tuple[Tensor, Tensor]:
        """Trained tokens whose gradient the lower and the upper bound removes: two bool ``[B, T]``."""
        return _outside((logp_BT - view.old_BT).exp(), view, self.low, self.high)


class Gspo(Part):
    """GSPO (arXiv:2507.18071): one ratio per response, ``s = exp(mean_t log rho_t)``, clipped as a whole.

    level: ``sequence`` has the same ratio on every token. ``token`` is GSPO-token, ``sg[s] rho/sg[rho]``: the
    same value, but each token's gradient is weighted by its own advantage, so credit rules count.
    """

    horizon: ClassVar[Horizon] = "row"
    kind: Literal["gspo"] = "gspo"
    low: float = Field(default=3e-4, ge=0, le=1)
    high: float = Field(default=4e-4, ge=0)
    level: Literal["token", "sequence"] = "sequence"

    def ratio(self, logp_BT: Tensor, view: LossView) -> Tensor:
        """s, ``[B, 1]`` or for level ``token`` ``[B, T]``."""
        log_BT = logp_BT - view.old_BT
        length_B = view.mask_BT.sum(1).clamp(min=1)
        ratio_B1 = ((log_BT * view.mask_BT).sum(1) / length_B)[:, None].exp()
        return ratio_B1 if self.level == "sequence" else ratio_B1.detach() * (logp_BT - logp_BT.detach()).exp()

    def __call__(self, logp_BT: Tensor, view: LossView, state: dict, rng: Generator) -> Tensor:
        """Loss of every token ``[B, T]``, to be minimised."""
        return -_clipped_gain(self.ratio(logp_BT, view), view.adv_BT, self.low, self.high)

    def clipped(self, logp_BT: Tensor, view: LossView) -> tuple[Tensor, Tensor]:
        """Trained tokens of responses beyond the lower and the upper bound: two bool ``[B, T]``."""
        return _outside(self.ratio(logp_BT, view), view, self.low, self.high)


def _clipped_gain(ratio_BT: Tensor, adv_BT: Tensor, low: float, high: float) -> Tensor:
    return (ratio_BT * adv_BT).minimum(ratio_BT.clamp(1 - low, 1 + high) * adv_BT)


def _outside(ratio_BT: Tensor, view: LossView, low: float, high: float) -> tuple[Tensor, Tensor]:
    trained_BT = view.mask_BT > 0
    return (
        (ratio_BT < 1 - low) & (view.adv_BT < 0) & trained_BT,
        (ratio_BT > 1 + high) & (view.adv_BT > 0) & trained_BT,
    )


class PerToken(Part):
    """Mean over all trained tokens of the optimizer step (DAPO): long responses weigh more."""

    horizon: ClassVar[Horizon] = "micro_batch"
    kind: Literal["per_token"] = "per_token"

    def __call__(self, loss_BT: Tensor, window: Window, state: dict, rng: Generator) -> Tensor:
        """The micro-batch's share of the step's loss, a scalar."""
        return (loss_BT * window.mask_BT).sum() / window.tokens


class PerSequence(Part):
    """Mean over rows of the mean over a row's tokens (GRPO): every response weighs the same."""

    horizon: ClassVar[Horizon] = "micro_batch"
    kind: Literal["per_sequence"] = "per_sequence"

    def __call__(self, loss_BT: Tensor, window: Window, state: dict, rng: Generator) -> Tensor:
        """The micro-batch's share of the step's loss, a scalar."""
        loss_B = (loss_BT * window.mask_BT).sum(1) / window.mask_BT.sum(1).clamp(min=1)
        return loss_B.sum() / window.rows / window.microbatches


class FixedLength(Part):
    """Sum over a row's tokens divided by a constant, then mean over rows (Dr. GRPO, arXiv:2503.20783).

    length: tokens, the longest completion the training allows.
    """

    horizon: ClassVar[Horizon] = "micro_batch"
    kind: Literal["fixed_length"] = "fixed_length"
    length: int = Field(gt=0)

    def __call__(self, loss_BT: Tensor, window: Window, state: dict, rng: Generator) -> Tensor:
        """The micro-batch's share of the step's loss, a scalar."""
        return (loss_BT * window.mask_BT).sum() / (window.rows * self.length) / window.microbatches


class KLPenalty(Part):
    """Pull towards the reference policy: ``weight`` times the KL of each token, added to its loss.

    As in DeepSeekMath the penalty carries no importance ratio (TRL's use_bias_correction_kl is false).

    weight: above 0.  estimator: see ``kl_divergence``.
    """

    horizon: ClassVar[Horizon] = "row"
    kind: Literal["kl_penalty"] = "kl_penalty"
    weight: float = Field(gt=0)
    estimator: KLEstimator = "k3"

    @property
    def needs(self) -> frozenset[str]:
        """The reference policy."""
        return frozenset({"ref_logp"})

    @property
    def row_local(self) -> bool:
        """False: the penalty of a row with zero advantage would be missing from the mean."""
        return False

    def __call__(self, logp_BT: Tensor, view: LossView, state: dict, rng: Generator) -> Tensor:
        """What to add to the loss of every token, ``[B, T]``."""
        if view.ref_BT is None:
            raise ValueError("a KL penalty needs ref_logp in its view")
        return self.weight * kl_divergence(logp_BT, view.ref_BT, self.estimator)


def kl_divergence(logp_BT: Tensor, ref_BT: Tensor, estimator: KLEstimator) -> Tensor:
    """KL(policy, reference) in nats estimated from the sampled tokens, ``[B, T]``.

    With ``d = ref - logp``: k1 is ``-d``, k2 is ``d**2 / 2``, k3 is ``exp(d) - d - 1`` (DeepSeekMath).
    k1 and k3 are unbiased on-policy; k2 and k3 are never negative.
    """
    gap_BT = ref_BT - logp_BT
    if estimator == "k1":
        return -gap_BT
    if estimator == "k2":
        return gap_BT.square() / 2
    return gap_BT.exp() - gap_BT - 1


Surrogate = Annotated[Clipped | Gspo | Cispo | ClipCov | KlCov, Field(discriminator="kind")]
Average = Annotated[PerToken | PerSequence | FixedLength, Field(discriminator="kind")]


class Objective(Part):
    """Surrogate, average and KL penalty.

    kl: weight of the penalty; 0 has none and needs no reference policy.
    kl_estimator: see ``kl_divergence``; k1 is refused, since its gradient ignores the reference.
    """

    horizon: ClassVar[Horizon] = "micro_batch"
    surrogate: Surrogate = Clipped()
    average: Average = PerToken()
    kl: float = Field(default=0.0, ge=0)
    kl_estimator: KLEstimator = "k3"

    @model_validator(mode="after")
    def _penalty_depends_on_the_reference(self) -> Self:
        if self.kl and self.kl_estimator == "k1":
            raise ValueError(
                "the gradient of k1 does not depend on the reference policy, so kl would pull nowhere: "
                "set kl_estimator to k2 or k3, or kl to 0"
            )
        return self

    @property
    def penalty(self) -> KLPenalty | None:
        """The KL penalty as a part; None at kl 0."""
        return KLPenalty(weight=self.kl, estimator=self.kl_estimator) if self.kl else None

    @property
    def parts(self) -> tuple[Part, ...]:
        """Surrogate, average and the penalty where there is one."""
        return (self.surrogate, self.average, *(() if self.penalty is None else (self.penalty,)))

    @property
    def needs(self) -> frozenset[str]:
        """Optional view fields that some part looks at."""
        return frozenset().union(*(part.needs for part in self.parts))

    @property
    def row_local(self) -> bool:
        """Whether every part is."""
        return all(part.row_local for part in self.parts)

    def start(self) -> dict:
        """The states of surrogate, average and penalty."""
        return {"surrogate": self.surrogate.start(), "average": self.average.start(), "penalty": {}}

    def __call__(self, logp_BT: Tensor, view: LossView, window: Window, state: dict, rng: Generator) -> Tensor:
        """The loss of one micro-batch, a scalar; summed over a step's micro-batches it is the step's loss."""
        return composed(self, logp_BT, view, window, state, rng)
