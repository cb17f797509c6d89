"""Surrogates beside the clipped ones: CISPO, Clip-Cov, KL-Cov.

Dimension key:  B rows of the micro-batch, T completion tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from seedwise.algos.credit_tokens import highest
from seedwise.algos.part import Horizon, Part
from seedwise.algos.views import LossView

if TYPE_CHECKING:
    from torch import Generator, Tensor


class Cispo(Part):
    """The log-probability, weighted by a clipped ratio without gradient (CISPO, arXiv:2506.13585).

    ``-sg[clip(rho, floor, cap)] A log pi``: no token loses its gradient. The value says nothing. Operations
    and their order are those of TRL 1.16.0.

    floor, cap: bounds of the ratio itself. cap is TRL's epsilon_high (5 in its documentation) and
    verl's 1 + clip_ratio_high; floor is verl's 1 - clip_ratio_low, and 0, no bound, for MiniMax and TRL.
    """

    horizon: ClassVar[Horizon] = "row"
    level: ClassVar[Literal["token", "sequence"]] = "token"
    kind: Literal["cispo"] = "cispo"
    cap: float = Field(default=5.0, ge=1)
    floor: float = Field(default=0.0, ge=0, le=1)

    def __call__(self, logp_BT: Tensor, view: LossView, state: dict, rng: Generator) -> Tensor:
        """Loss of every token ``[B, T]``, to be minimised."""
        weight_BT = (logp_BT - view.old_BT).exp().clamp(self.floor, self.cap).detach()
        return -weight_BT * view.adv_BT * logp_BT

    def clipped(self, logp_BT: Tensor, view: LossView) -> tuple[Tensor, Tensor]:
        """Trained tokens with an advantage whose weight is held at floor and at cap: two bool ``[B, T]``.

        They keep their gradient. TRL counts those with a positive advantage only.
        """
        ratio_BT, live_BT = (logp_BT - view.old_BT).exp(), (view.mask_BT > 0) & (view.adv_BT != 0)
        return (ratio_BT < self.floor) & live_BT, (ratio_BT > self.cap) & live_BT


def covariance(logp_BT: Tensor, view: LossView) -> Tensor:
    """``(A - mean A) (log pi - mean log pi)`` of every token under the present policy, ``[B, T]``, no gradient.

    Means over all trained tokens of the micro-batch. Tokens with zero advantage count and have a covariance
    other than 0, as in the authors' code: for a method with many of them they shift the mean and may be
    chosen.
    """
    count = view.mask_BT.sum().clamp(min=1)
    adv_BT, now_BT = view.adv_BT.detach(), logp_BT.detach()
    apart_BT = adv_BT - (adv_BT * view.mask_BT).sum() / count
    return apart_BT * (now_BT - (now_BT * view.mask_BT).sum() / count)


def chosen_count(ratio: float, view: LossView) -> int:
    """``max(1, floor(ratio N))`` of the N trained tokens: under 1/ratio tokens the share is above ratio."""
    return max(1, int(ratio * view.mask_BT.sum().item()))


class ClipCov(Part):
    """Clipped, and a few tokens of high covariance at random get no gradient (Clip-Cov, arXiv:2505.22617).

    Candidates have ``cov_low < cov < cov_high`` (see ``covariance``) and are not held by the clip already;
    ``max(1, floor(ratio N))`` of them, drawn uniformly, have their loss multiplied by 0. They stay in the
    denominator. N counts the trained tokens of the micro-batch, zero advantage included.

    low, high: clip to ``1 - low .. 1 + high``; the recipes' 0..2.
    """

    horizon: ClassVar[Horizon] = "micro_batch"
    level: ClassVar[Literal["token", "sequence"]] = "token"
    kind: Literal["clip_cov"] = "clip_cov"
    ratio: float = Field(default=2e-4, gt=0, le=1)
    cov_low: float = 1.0
    cov_high: float = 5.0
    low: float = Field(default=1.0, ge=0, le=1)
    high: float = Field(default=1.0, ge=0)

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if self.cov_low >= self.cov_high:
            raise ValueError(f"cov_low {self.cov_low} is not below cov_high {self.cov_high}: no token lies between")
        return self

    @property
    def row_local(self) -> bool:
        """False: rows with zero advantage count in the means and may be drawn in place of others."""
        return False

    def candidates(self, logp_BT: Tensor, view: LossView) -> Tensor:
        """Tokens that may be drawn, bool ``[B, T]``."""
        cov_BT = covariance(logp_BT, view)
        low_BT, high_BT = self.clipped(logp_BT, view)
        return (cov_BT > self.cov_low) & (cov_BT < self.cov_high) & (view.mask_BT > 0) & ~low_BT & ~high_BT

    def __call__(self, logp_BT: Tensor, view: LossView, state: dict, rng: Generator) -> Tensor:
        """Loss of every token ``[B, T]``, to be minimised; ``rng`` draws the tokens left out."""
        candidate_BT = self.candidates(logp_BT, view).to(view.mask_BT.dtype)
        lot_BT = view.mask_BT.new_empty(view.mask_BT.shape).double().uniform_(generator=rng)
        drawn_BT = highest(lot_BT, candidate_BT, chosen_count(self.ratio, view))
        ratio_BT = (logp_BT - view.old_BT).exp()
        bounded_BT = ratio_BT.clamp(1 - self.low, 1 + self.high)
        return -(ratio_BT * view.adv_BT).minimum(bounded_BT * view.adv_BT) * (1 - drawn_BT)

    def clipped(self, logp_BT: Tensor, view: LossView) -> tuple[Tensor, Tensor]:
        """Trained tokens whose gradient the lower and the upper bound of the ratio removes: two bool ``[B, T]``."""
        ratio_BT, trained_BT = (logp_BT.detach() - view.old_BT).exp(), view.mask_BT > 0
        return (
            (ratio_BT < 1 - self.low) & (view.adv_BT < 0) & trained_BT,
            (ratio_BT > 1 + self.high) & (view.adv_BT > 0) & trained_BT,
        )


class KlCov(Part):
    """Unclipped, and tokens of the highest covariance are pulled to the old policy (KL-Cov, arXiv:2505.22617).

    ``-rho A`` everywhere, plus ``coef |log pi - log pi_old|`` on the ``max(1, floor(ratio N))`` tokens of
    highest covariance (see ``covariance``), of equal ones the earlier. N as in ClipCov. At the first update
    after a rollout the policies are equal and the pull has no gradient.

    ratio: the authors' code and verl's 7B recipe have 2e-3, the 32B recipe and verl's default 2e-4.
    coef: loss per nat; the recipes' 1, verl's default is 0.1.
    """

    horizon: ClassVar[Horizon] = "micro_batch"
    level: ClassVar[Literal["token", "sequence"]] = "token"
    kind: Literal["kl_cov"] = "kl_cov"
    ratio: float = Field(default=2e-3, gt=0, le=1)
    coef: float = Field(default=1.0, ge=0)

    @property
    def row_local(self) -> bool:
        """False: rows with zero advantage count in the means, and their tokens may be pulled."""
        return False

    def pulled(self, logp_BT: Tensor, view: LossView) -> Tensor:
        """1.0 on tokens that are pulled, ``[B, T]``."""
        return highest(covariance(logp_BT, view), view.mask_BT, chosen_count(self.ratio, view))

    def __call__(self, logp_BT: Tensor, view: LossView, state: dict, rng: Generator) -> Tensor:
        """Loss of every token ``[B, T]``, to be minimised."""
        log_BT = logp_BT - view.old_BT
        return -view.adv_BT * log_BT.exp() + self.coef * log_BT.abs() * self.pulled(logp_BT, view)
