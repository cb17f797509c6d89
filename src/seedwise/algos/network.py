"""A small network as baseline: what a prompt looks like says how likely it is to be solved.

Dimension key:  P prompts, G samples of one prompt, H width of the model's states, U units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from seedwise.algos.baseline import Role
from seedwise.algos.part import Horizon, Part
from seedwise.algos.views import GroupView

if TYPE_CHECKING:
    from torch import Generator, Tensor


class NetworkBaseline(Part):
    """Subtract a success rate that a small network predicts from the prompt: ``b(q) = v tanh(W x + c) + d``.

    x is the prompt's state, scaled to a mean square of 1 and without gradient, so nothing of b reaches the policy. A
    rollout is scored before it teaches: then ``passes`` gradient steps of plain SGD lower the mean over prompts of
    ``(b - p)^2``, p the mean verdict of the group. So b never knows the responses it judges, and the policy gradient
    stays unbiased. It begins at ``prior`` everywhere. A flat group keeps ``R - b``. Experimental: an extension
    of this project's own.

    units: U.  lr: of the SGD; above ``1 / (U + 1)`` it may not settle.  passes: gradient steps per rollout.
    prior: b before anything is learnt.
    state: ``weights``, the tensors W ``[U, H]``, c ``[U]``, v ``[U]``, d ``[1]``, float64; null before the first one.
    """

    horizon: ClassVar[Horizon] = "rollout"
    role: ClassVar[Role] = "centres"
    experimental: ClassVar[bool] = True
    kind: Literal["network_baseline"] = "network_baseline"
    units: int = Field(default=16, ge=1, le=1024)
    lr: float = Field(default=0.02, gt=0)
    passes: int = Field(default=10, ge=1)
    prior: float = Field(default=0.5, ge=0, le=1)

    @property
    def needs(self) -> frozenset[str]:
        """States of the prompts."""
        return frozenset({"prompt_states"})

    def start(self) -> dict:
        """No weights: how wide they are is known at the first rollout."""
        return {"weights": None}

    def __call__(self, adv_PG: Tensor, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """Advantages ``[P, G]``, in reward units; moves the weights. ``rng`` draws them at the first rollout."""
        if view.prompt_PH is None:
            raise ValueError("network_baseline needs prompt_states in its view")
        x_PH = rooted(view.prompt_PH)
        if state["weights"] is None:
            state["weights"] = self.drawn(x_PH, rng)
        weights = [weight.to(x_PH) for weight in state["weights"]]
        b_P = predicted(x_PH, weights)
        rate_P = view.correct_PG.to(x_PH).mean(1)
        for _ in range(self.passes):
            slopes = gradients(x_PH, rate_P, weights)
            weights = [weight - self.lr * slope for weight, slope in zip(weights, slopes, strict=True)]
        state["weights"] = weights
        return adv_PG - b_P[:, None].to(adv_PG.dtype)

    def drawn(self, x_PH: Tensor, rng: Generator) -> list[Tensor]:
        """Weights before anything is learnt: W random of variance 1/H, v at 0, so that b is ``prior``."""
        H = x_PH.shape[1]
        first_UH = x_PH.new_empty((self.units, H)).normal_(0.0, H**-0.5, generator=rng)
        zeros_U = x_PH.new_zeros(self.units)
        return [first_UH, zeros_U, zeros_U.clone(), x_PH.new_full((1,), self.prior)]


def rooted(prompt_PH: Tensor) -> Tensor:
    """States divided by their root mean square, float64 and without gradient; a state of zeros stays one."""
    x_PH = prompt_PH.detach().double()
    return x_PH / x_PH.square().mean(1, keepdim=True).sqrt().clamp(min=1e-12)


def predicted(x_PH: Tensor, weights: list[Tensor]) -> Tensor:
    """b of every prompt, ``[P]``."""
    first_UH, shift_U, second_U, level_1 = weights
    return (x_PH @ first_UH.T + shift_U).tanh() @ second_U + level_1


def gradients(x_PH: Tensor, rate_P: Tensor, weights: list[Tensor]) -> list[Tensor]:
    """Gradient of the mean over prompts of ``(b - rate)^2`` by W, c, v and d."""
    first_UH, shift_U, second_U, level_1 = weights
    hidden_PU = (x_PH @ first_UH.T + shift_U).tanh()
    error_P = 2 * (hidden_PU @ second_U + level_1 - rate_P) / len(rate_P)
    slope_PU = error_P[:, None] * second_U * (1 - hidden_PU.square())
    return [slope_PU.T @ x_PH, slope_PU.sum(0), hidden_PU.T @ error_P, error_P.sum().reshape(1)]
