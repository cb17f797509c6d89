"""Credit: how a sample's advantage is shared among its tokens.

Dimension key:  B rows (samples) held by this process, T completion tokens.

A group may be split over processes here, so credit works row by row; what it must know of the whole
rollout (pooled quantiles) comes in the view. It is computed on all rows before any is left out of the
update, so leaving zero-advantage rows out does not touch it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from seedwise.algos.credit_confidence import Ucas
from seedwise.algos.credit_entropy import EntropyAdv, Gepo, Hapo
from seedwise.algos.credit_teacher import Rlrt
from seedwise.algos.credit_tokens import A3po, ForkingTokens, Less
from seedwise.algos.part import Horizon, Part
from seedwise.algos.views import TokenView
from seedwise.algos.views import pooled_quantiles as pooled_quantiles

if TYPE_CHECKING:
    from torch import Generator, Tensor

Source = Literal["entropy", "surprisal"]


class Uniform(Part):
    """Every response token gets the advantage of its sample."""

    horizon: ClassVar[Horizon] = "row"
    even: ClassVar[bool] = True
    kind: Literal["uniform"] = "uniform"

    def __call__(self, adv_B: Tensor, view: TokenView, state: dict, rng: Generator) -> Tensor:
        """Token advantages ``[B, T]``, 0 on padding."""
        return adv_B[:, None] * view.mask_BT


class Entropic(Part):
    """Entropic credit (EAPO, arXiv:2609.33781, equation 4 and the authors' trainer).

    ``A_it = A_i w_it`` with ``w_it = exp(kappa d_i h_it) / mean_u exp(kappa d_i h_iu)``, the mean over the
    response's own tokens, so the mean of ``A_it`` over the response is ``A_i`` and no sign turns. h is
    the old policy's entropy scaled to 0..1 by the rollout's pooled q10 and q90; ``d_i = b_plus`` for
    ``A_i > 0``, ``b_minus`` for ``A_i < 0``. Each weight lies within ``exp(-kappa) .. exp(kappa)``.
    Where ``kappa d_i`` is 0 the result equals Uniform bit for bit.

    kappa: log of the largest ratio of two weights in a response; at most 20, where float32 sums begin to
        lose their small terms.
    b_plus, b_minus: direction for positive and negative advantages, -1, 0 or 1; (1, -1) is EAPO.
    eps: keeps the scale defined when q10 = q90.
    source: ``entropy`` (nats, whole vocabulary) or ``surprisal`` (-log-probability of the sampled token;
        the paper's C.1, where reward collapses).
    decay_steps: kappa falls linearly to 0 over so many optimizer steps, read once per rollout; null keeps it.
    """

    horizon: ClassVar[Horizon] = "rollout"
    even: ClassVar[bool] = False
    kind: Literal["entropic"] = "entropic"
    kappa: float = Field(default=math.log(4), ge=0, le=20)
    b_plus: int = Field(default=1, ge=-1, le=1)
    b_minus: int = Field(default=-1, ge=-1, le=1)
    eps: float = Field(default=1e-8, gt=0)
    source: Source = "entropy"
    decay_steps: int | None = Field(default=None, gt=0)

    @property
    def needs(self) -> frozenset[str]:
        """The fields of the source chosen."""
        if self.source == "entropy":
            return frozenset({"entropy", "entropy_quantiles"})
        return frozenset({"old_logp", "surprisal_quantiles"})

    def kappa_at(self, step: int) -> float:
        """kappa at an optimizer step, 0-based."""
        return self.kappa if self.decay_steps is None else self.kappa * max(0.0, 1 - step / self.decay_steps)

    def uncertainty(self, view: TokenView) -> Tensor:
        """h of every token, 0..1, ``[B, T]``; padding holds whatever the source holds there."""
        if self.source == "entropy":
            source_BT, quantiles = view.entropy_BT, view.entropy_quantiles
        else:
            source_BT, quantiles = view.old_logp_BT, view.surprisal_quantiles
        if source_BT is None or quantiles is None:
            raise ValueError(f"entropic credit of {self.source} needs {' and '.join(sorted(self.needs))} in its view")
        return normalised(source_BT if self.source == "entropy" else -source_BT, *quantiles, eps=self.eps)

    def __call__(self, adv_B: Tensor, view: TokenView, state: dict, rng: Generator) -> Tensor:
        """Token advantages ``[B, T]``, 0 on padding."""
        direction_B = self.b_plus * (adv_B > 0).to(adv_B.dtype) + self.b_minus * (adv_B < 0).to(adv_B.dtype)
        strength_B1 = (self.kappa_at(view.step) * direction_B)[:, None]
        raw_BT = (strength_B1 * self.uncertainty(view)).exp() * view.mask_BT
        mean_B1 = raw_BT.sum(1, keepdim=True) / view.mask_BT.sum(1, keepdim=True).clamp(min=1)
        # a row without tokens has mean 0; the smallest mean of one with tokens is exp(-20)
        return adv_B[:, None] * (raw_BT / mean_B1.clamp(min=1e-12))


def normalised(entropy_BT: Tensor, q10: float, q90: float, eps: float = 1e-8) -> Tensor:
    """Entropy (or surprisal) scaled so that q10 becomes 0 and q90 becomes 1, clipped to 0..1, no gradient.

    With q10 = q90 it is a step at q10.
    """
    return ((entropy_BT.detach() - q10) / (q90 - q10 + eps)).clamp(0, 1)


Credit = Annotated[
    Uniform | Entropic | EntropyAdv | Hapo | ForkingTokens | A3po | Less | Ucas | Gepo | Rlrt,
    Field(discriminator="kind"),
]
