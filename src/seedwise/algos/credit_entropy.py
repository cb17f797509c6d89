"""Credit from entropy beside EAPO's: what is added to an advantage, and which groups are held back.

Dimension key:  B rows (samples), T completion tokens, N groups.

"The rows given" are those of this process, which in a training of one process are the whole rollout. Of
several processes each would pool its own rows only, unless it is given the rows of all.

The sources of these rules are secondary (notes, re-implementations): they are experimental.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from seedwise.algos.part import Horizon, Part
from seedwise.algos.views import TokenView

if TYPE_CHECKING:
    from torch import Generator, Tensor

Scope = Literal["rollout", "response"]


def needed(field_BT: Tensor | None, kind: str, name: str) -> Tensor:
    """An optional field of a view without gradient.  Raises ValueError where it was not filled."""
    if field_BT is None:
        raise ValueError(f"{kind} needs {name} in its view")
    return field_BT.detach()


class EntropyAdv(Part):
    """Entropy added to the advantage (EntropyAdv, arXiv:2506.14758; experimental: from re-implementations).

    ``A_it = A_i + min(alpha H_it, |A_i| / kappa)``. What is added is never negative, so it strengthens a
    positive advantage and softens a negative one; it never turns a sign, and 0 stays 0. H is the old
    policy's entropy, where the source takes the present policy's: they agree at the first update after a
    rollout.

    alpha: advantage per nat; 0.4 is the source's for GRPO, 0.1 for PPO.  kappa: above 1.
    """

    horizon: ClassVar[Horizon] = "row"
    even: ClassVar[bool] = False
    experimental: ClassVar[bool] = True
    kind: Literal["entropy_adv"] = "entropy_adv"
    alpha: float = Field(default=0.4, ge=0)
    kappa: float = Field(default=2.0, gt=1)

    @property
    def needs(self) -> frozenset[str]:
        """Entropy."""
        return frozenset({"entropy"})

    def __call__(self, adv_B: Tensor, view: TokenView, state: dict, rng: Generator) -> Tensor:
        """Token advantages ``[B, T]``, 0 on padding."""
        entropy_BT = needed(view.entropy_BT, self.kind, "entropy")
        adv_B1 = adv_B[:, None]
        return (adv_B1 + (self.alpha * entropy_BT).minimum(adv_B1.abs() / self.kappa)) * view.mask_BT


class Hapo(Part):
    """Advantages larger at tokens of high entropy, whatever the sign (HAPO, arXiv:2604.11056, first version).

    ``A_it = A_i + alpha sign(A_i) clip(z_it, -|A_i| / phi, |A_i| / phi)`` with z the standardised entropy
    (population standard deviation), so each ``|A_it|`` lies within ``(1 +- alpha / phi) |A_i|``.
    Experimental: equations from notes on the first version, where the method is called EAPO.

    alpha: below phi, or signs could turn.  eps: keeps z defined where all entropies are equal (then 0), nats.
    scope: mean and deviation over all response tokens of the rows given (``rollout``; the source does not
        say) or over the tokens of each ``response``.
    """

    horizon: ClassVar[Horizon] = "rollout"
    even: ClassVar[bool] = False
    experimental: ClassVar[bool] = True
    kind: Literal["hapo"] = "hapo"
    alpha: float = Field(default=0.2, ge=0)
    phi: float = Field(default=2.0, gt=0)
    scope: Scope = "rollout"
    eps: float = Field(default=1e-8, gt=0)

    @model_validator(mode="after")
    def _signs_stay(self) -> Self:
        if self.alpha >= self.phi:
            raise ValueError(f"alpha {self.alpha} is not below phi {self.phi}, so a sign could turn: lower alpha")
        return self

    @property
    def needs(self) -> frozenset[str]:
        """Entropy."""
        return frozenset({"entropy"})

    def __call__(self, adv_B: Tensor, view: TokenView, state: dict, rng: Generator) -> Tensor:
        """Token advantages ``[B, T]``, 0 on padding."""
        entropy_BT = needed(view.entropy_BT, self.kind, "entropy")
        z_BT = standardised(entropy_BT, view.mask_BT, self.scope, self.eps).to(adv_B.dtype)
        adv_B1 = adv_B[:, None]
        bound_B1 = adv_B1.abs() / self.phi
        return (adv_B1 + self.alpha * adv_B1.sign() * z_BT.clamp(-bound_B1, bound_B1)) * view.mask_BT


def standardised(entropy_BT: Tensor, mask_BT: Tensor, scope: Scope, eps: float) -> Tensor:
    """Entropy minus its mean, over its population standard deviation plus eps: ``[B, T]``, float64.

    Float64 because the mean of equal float32 values leaves dust as large as eps.
    """
    value_BT, mask_BT = entropy_BT.double(), mask_BT.double()

    def total(x_BT: Tensor) -> Tensor:
        return x_BT.sum(1, keepdim=True) if scope == "response" else x_BT.sum()

    count = total(mask_BT).clamp(min=1)
    apart_BT = value_BT - total(value_BT * mask_BT) / count
    return apart_BT / ((total(apart_BT.square() * mask_BT) / count).sqrt() + eps)


class Gepo(Part):
    """Hold back successes of groups of low entropy and failures of groups of high entropy (GEPO, arXiv:2607.16850).

    A group's entropy is the mean surprisal of its sampled tokens, ``H_g = -sum log pi / sum T`` (nats).
    ``A_i`` is multiplied by alpha_low where ``A_i > 0`` and ``H_g < low``, by alpha_high where ``A_i < 0`` and
    ``H_g > high``. The thresholds follow ``mean - beta_low std`` and ``mean + beta_high std`` of H_g over the
    groups given (population std) as moving averages of rate gamma, which start at the first rollout's
    values and take each rollout in before they judge it; the source leaves these three points open.
    Experimental: equations from a third party's script.

    alpha_low, alpha_high: within 0..1, alpha_high the smaller, or lengths collapse.
    beta_low, beta_high: standard deviations.  gamma: rate per rollout.
    state: ``low`` and ``high``, nats, null before the first rollout.
    """

    horizon: ClassVar[Horizon] = "rollout"
    even: ClassVar[bool] = True
    experimental: ClassVar[bool] = True
    kind: Literal["gepo"] = "gepo"
    alpha_low: float = Field(default=0.5, ge=0, le=1)
    alpha_high: float = Field(default=0.2, ge=0, le=1)
    beta_low: float = Field(default=0.2, ge=0)
    beta_high: float = Field(default=0.3, ge=0)
    gamma: float = Field(default=0.01, gt=0, le=1)

    @model_validator(mode="after")
    def _failures_are_held_back_more(self) -> Self:
        if self.alpha_high >= self.alpha_low:
            raise ValueError(
                f"alpha_high {self.alpha_high} is not below alpha_low {self.alpha_low}, where lengths collapse: "
                "lower alpha_high"
            )
        return self

    @property
    def needs(self) -> frozenset[str]:
        """Old log-probabilities."""
        return frozenset({"old_logp"})

    def start(self) -> dict:
        """No thresholds yet."""
        return {"low": None, "high": None}

    def __call__(self, adv_B: Tensor, view: TokenView, state: dict, rng: Generator) -> Tensor:
        """Token advantages ``[B, T]``, the same on every token of a response, 0 on padding; ``state`` is updated."""
        entropy_N, of_NB = group_surprisal(needed(view.old_logp_BT, self.kind, "old_logp"), view)
        mean, std = entropy_N.mean().item(), entropy_N.std(correction=0).item()
        for name, value in {"low": mean - self.beta_low * std, "high": mean + self.beta_high * std}.items():
            before = value if state[name] is None else state[name]
            state[name] = (1 - self.gamma) * before + self.gamma * value
        entropy_B = entropy_N @ of_NB
        held_B = adv_B.where(~((adv_B > 0) & (entropy_B < state["low"])), self.alpha_low * adv_B)
        held_B = held_B.where(~((adv_B < 0) & (entropy_B > state["high"])), self.alpha_high * adv_B)
        return held_B[:, None] * view.mask_BT


def group_surprisal(logp_BT: Tensor, view: TokenView) -> tuple[Tensor, Tensor]:
    """(mean surprisal of each group's tokens ``[N]`` in nats, 1.0 where a row is of a group ``[N, B]``), float64."""
    # sums by a product with 0/1 and not by index_add, whose order of addition differs from run to run on a GPU
    of_NB = (view.group_B.unique()[:, None] == view.group_B).double()
    mask_BT = view.mask_BT.double()
    total_N = of_NB @ (-logp_BT.double() * mask_BT).sum(1)
    return total_N / (of_NB @ mask_BT.sum(1)).clamp(min=1), of_NB
