"""Credit from a teacher: the policy itself, once it has read a correct response.

Dimension key:  B rows (samples), T completion tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from seedwise.algos.credit_entropy import needed
from seedwise.algos.part import Horizon, Part
from seedwise.algos.views import TokenView

if TYPE_CHECKING:
    from torch import Generator, Tensor


class Rlrt(Part):
    """Reward a correct response for what its teacher would not have said (RLRT, arXiv:2605.10781).

    ``w_t = (P_S / P_T)^sign(A)`` with P_S the old policy's probability of the sampled token and P_T the same policy's
    after it has read another correct response of the group. A correct response (``correct`` is 1) gets
    ``A_it = A_i ((1 - mix) + mix clip(w_t, 1 - eps_w, 1 + eps_w))``, any other, and one without a teacher (NaN), keeps
    ``A_i``. No sign turns. The source finds training to diverge where wrong responses are weighted too.
    Experimental: equations from notes; which correct response is read, and in which words, is this project's choice.

    mix: the source's lambda; 0 is uniform.  eps_w: 1 for base models, 0.5 for instructed and 0.2 for reasoning ones.
    """

    horizon: ClassVar[Horizon] = "row"
    even: ClassVar[bool] = False
    experimental: ClassVar[bool] = True
    kind: Literal["rlrt"] = "rlrt"
    mix: float = Field(default=0.5, ge=0, le=1)
    eps_w: float = Field(default=1.0, gt=0, le=1)

    @property
    def needs(self) -> frozenset[str]:
        """Log-probabilities of the old policy and of the teacher."""
        return frozenset({"old_logp", "teacher_logp"})

    def __call__(self, adv_B: Tensor, view: TokenView, state: dict, rng: Generator) -> Tensor:
        """Token advantages ``[B, T]``, 0 on padding."""
        student_BT = needed(view.old_logp_BT, self.kind, "old_logp")
        teacher_BT = needed(view.teacher_logp_BT, self.kind, "teacher_logp")
        adv_B1 = adv_B[:, None]
        weight_BT = ((student_BT - teacher_BT) * adv_B1.sign()).exp().clamp(1 - self.eps_w, 1 + self.eps_w)
        taught_BT = (view.correct_B[:, None] >= 1) & ~weight_BT.isnan()
        factor_BT = (1 - self.mix + self.mix * weight_BT).where(taught_BT, 1.0)
        return adv_B1 * factor_BT.to(adv_B.dtype) * view.mask_BT
