"""What the papers say an update does, measured: tensors in, metrics out.

Dimension key:  P prompts, G samples of one prompt, B rows, T completion tokens (padded), N chosen tokens, V vocabulary.

What each needs, and what it costs:

``update_mass``      verdicts and advantages of a rollout: nothing more than a step has
``gradient_noise``   ``contributions``: log-probabilities of the sampled tokens, as drawn: nothing more
``entropy_slope``    also their entropies: nothing more where the engine gives them
``entropy_change``   log-probabilities and entropies before and after a step: a second forward pass over all rows
``entropy_identity`` log-probabilities of the whole vocabulary before and after: a second pass, and N V numbers kept

Rows are those of all processes; padding holds anything finite.  ``adv_BT`` is what multiplies the gradient of a
token's log-probability, up to a factor common to the step: the token advantage under a mean over tokens (divided by
the response's length under a mean over responses), times the ratio and 0 where clipped if the policy is no longer
the one that drew.

The two predictions of a change of entropy.  For any small change of a softmax policy at a token's state,
``dH = -Cov_pi(log pi, d log pi)`` (the identity).  The papers' reduction treats the state as a bandit of its own and
drops the normaliser of the softmax: a step moves the logit of the sampled token by ``step A`` and no other, so that
``dH = -step A pi (log pi + H)``.  Over samples of the policy this averages to ``-step Cov_pi(log pi, pi A)``
(arXiv:2505.22617; arXiv:2509.22611, Proposition 4.2).  It leaves out two things: the normaliser, because of which a
constant added to A has no effect on average, and parameters that states share.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from seedwise.trainer.records import Value

NO_TOKEN = "no response token in this step"


@dataclass(frozen=True)
class Diagnostic:
    """Some metrics of a step."""

    def metrics(self) -> dict[str, Value]:
        """name -> (value, why it is null)."""
        return asdict(self)


# ---------------------------------------------------------------- update mass against success rate


@dataclass(frozen=True)
class UpdateMass(Diagnostic):
    """by_successes: for n1 = 0 .. G, the mean over groups with n1 correct answers of the sum of |A| over the group.

    Divided by G it is the mass per response, which with the population's std is ``2 sqrt(p (1 - p))`` for a mean
    baseline and ``sqrt(p / (1 - p))`` or ``sqrt((1 - p) / p)`` for a quantile (arXiv:2509.22611, Proposition 4.1).
    """

    by_successes: tuple[Value, ...]

    def metrics(self) -> dict[str, Value]:
        """``update_mass_with_{n1}_of_{G}_correct``, in units of advantage."""
        G = len(self.by_successes) - 1
        return {f"update_mass_with_{n1}_of_{G}_correct": value for n1, value in enumerate(self.by_successes)}


def update_mass(correct_PG: Tensor, adv_PG: Tensor) -> UpdateMass:
    """Update mass by number of successes.

    correct_PG: verdicts; 1 is a success.  adv_PG: advantages of responses.
    """
    G = correct_PG.shape[1]
    n1_P, mass_P = (correct_PG >= 1).sum(1), adv_PG.double().abs().sum(1)
    return UpdateMass(tuple(_mass_at(mass_P[n1_P == n1], n1, G) for n1 in range(G + 1)))


def _mass_at(mass_N: Tensor, n1: int, G: int) -> Value:
    return _finite(mass_N.mean()) if len(mass_N) else (None, f"no group with {n1} of {G} correct in this step")


# ---------------------------------------------------------------- gradient noise


@dataclass(frozen=True)
class GradientNoise(Diagnostic):
    """Noise of the mean contribution, over all responses and over active ones: see ``gradient_noise``.

    gradient_variance_all, gradient_variance_active: variance of the mean, in units of advantage squared.
    gradient_noise_all, gradient_noise_active: its square root over the mean, without unit.
    """

    gradient_variance_all: Value
    gradient_variance_active: Value
    gradient_noise_all: Value
    gradient_noise_active: Value


def contributions(logp_BT: Tensor, adv_BT: Tensor, mask_BT: Tensor, collision_BT: Tensor | None = None) -> Tensor:
    """How strongly each response pulls: ``sqrt(sum_t A_t^2 r_t^2)``, ``[B]``, in units of advantage.

    ``r^2 = 1 - 2 p + sum_v p_v^2`` is the squared gradient of the token's log-probability with respect to the logits
    at its state.  For a policy with logits of its own at every state this is the norm of the response's gradient.
    For a network it stands for it as far as tokens' gradients are orthogonal and the network passes them all on
    alike; directions, and with them the sum over responses, are lost.

    logp_BT: log-probabilities of the sampled tokens.  collision_BT: ``sum_v p_v^2`` at their states; without it
    ``(1 - p)^2`` takes the place of ``r^2``, which lies between it and twice it (the others' share of the collision
    is at least 0 and at most ``(1 - p)^2``), so the result is low by at most a factor ``sqrt(2)``.
    """
    p_BT = logp_BT.double().exp()
    square_BT = (1 - p_BT).square() if collision_BT is None else 1 - 2 * p_BT + collision_BT.double()
    return (adv_BT.double().square() * square_BT).where(mask_BT > 0, 0.0).sum(1).sqrt()


def gradient_noise(contribution_PG: Tensor, active_PG: Tensor) -> GradientNoise:
    """Variance of the mean contribution, over all responses and over active ones.

    Groups are the independent draws: responses of a group share prompt and baseline.  With C_p the sum over the n_p
    responses of a group that count and ``m = sum C / sum n``, the variance of m is
    ``P / (P - 1) sum (C_p - m n_p)^2 / (sum n)^2`` over the P groups with n_p > 0.  For all responses (n_p = G) this
    is the sample variance of the group means over P, without bias for independent prompts; for active ones n_p
    varies, m is a ratio of sums, and the bias is of order 1/P.  Both are of scalar contributions, so they tell how
    unevenly groups pull and not whether they pull the same way.

    contribution_PG: at least 0 (``contributions``).  active_PG: whether a response has an advantage other than 0.
    Null where fewer than two groups count; the noise also where the mean is 0.
    """
    all_PG = torch.ones_like(contribution_PG, dtype=torch.bool)
    (variance_all, noise_all), (variance_active, noise_active) = (
        _variance(contribution_PG.double(), counted_PG, what)
        for counted_PG, what in ((all_PG, "groups"), (active_PG.bool(), "groups with an active response"))
    )
    return GradientNoise(variance_all, variance_active, noise_all, noise_active)


def _variance(contribution_PG: Tensor, counted_PG: Tensor, what: str) -> tuple[Value, Value]:
    """(variance of the mean, its root over the mean)."""
    count_P = counted_PG.sum(1)
    some_P = count_P > 0
    P = int(some_P.sum())
    if P < 2:
        none: Value = (None, f"a variance needs at least 2 {what}, got {P}")
        return none, none
    count_P, sum_P = count_P[some_P], contribution_PG.where(counted_PG, 0.0).sum(1)[some_P]
    mean = sum_P.sum() / count_P.sum()
    variance = P / (P - 1) * (sum_P - mean * count_P).square().sum() / count_P.sum().square()
    noise = (None, "the mean contribution is 0") if mean == 0 else _finite(variance.sqrt() / mean)
    return _finite(variance), noise


# ---------------------------------------------------------------- change of entropy


class Scored(NamedTuple):
    """What one policy says of the sampled tokens: log-probabilities, and entropies of the whole vocabulary, in nats."""

    logp_BT: Tensor
    entropy_BT: Tensor


@dataclass(frozen=True)
class EntropySlope(Diagnostic):
    """entropy_slope_nats: ``-mean A pi (log pi + H)`` over all response tokens, nats per unit of logit step.

    Its sign is the direction that the bandit reduction predicts for the entropy.
    """

    entropy_slope_nats: Value


@dataclass(frozen=True)
class EntropyChange(Diagnostic):
    """Predicted against actual change of entropy over a step, both means over all response tokens, in nats.

    entropy_change_actual_nats: entropy after minus entropy before, at the same states.
    entropy_change_predicted_nats: the bandit reduction's, slope times logit_step.
    logit_step: logits per unit of ``adv_BT``, fitted (see ``entropy_change``).
    entropy_change_correlation: of the two over tokens, -1..1; no step enters it.
    """

    entropy_change_actual_nats: Value
    entropy_change_predicted_nats: Value
    logit_step: Value
    entropy_change_correlation: Value


@dataclass(frozen=True)
class EntropyIdentity(Diagnostic):
    """The identity against the actual change over a step, both means over the same N tokens, in nats.

    entropy_change_covariance_nats: ``-Cov_pi(log pi, log pi' - log pi)``.  entropy_change_chosen_nats: ``H' - H``.
    """

    entropy_change_covariance_nats: Value
    entropy_change_chosen_nats: Value


def entropy_slope(before: Scored, adv_BT: Tensor, mask_BT: Tensor) -> EntropySlope:
    """The change of entropy that the bandit reduction predicts, per unit of logit step."""
    slope_N = _slopes(before, adv_BT)[mask_BT > 0]
    return EntropySlope(_finite(slope_N.mean()) if len(slope_N) else (None, NO_TOKEN))


def entropy_change(before: Scored, after: Scored, adv_BT: Tensor, mask_BT: Tensor) -> EntropyChange:
    """Predicted against actual change of entropy.

    A learning rate says nothing of how far an optimizer moves logits, so the step is read off the sampled tokens:
    where only the sampled logit moves, ``d log pi = step A (1 - pi)``, and ``logit_step`` is the least-squares slope
    of the measured ``d log pi`` on ``A (1 - pi)``, without intercept.  No entropy enters it.  The prediction is of
    first order in the step.

    Null: step and prediction where no token has an advantage and could gain, the correlation where either side is
    the same for all tokens.
    """
    real_BT = mask_BT > 0
    logp_N, adv_N = before.logp_BT[real_BT].double(), adv_BT[real_BT].double()
    if not len(logp_N):
        none: Value = (None, NO_TOKEN)
        return EntropyChange(none, none, none, none)
    slope_N = _slopes(before, adv_BT)[real_BT]
    actual_N = (after.entropy_BT - before.entropy_BT)[real_BT].double()
    lever_N = adv_N * (1 - logp_N.exp())
    weight = lever_N.square().sum()
    if weight == 0:
        none = (None, "no token has an advantage and a probability below 1")
        return EntropyChange(_finite(actual_N.mean()), none, none, none)
    step = (lever_N * (after.logp_BT[real_BT].double() - logp_N)).sum() / weight
    return EntropyChange(
        entropy_change_actual_nats=_finite(actual_N.mean()),
        entropy_change_predicted_nats=_finite(step * slope_N.mean()),
        logit_step=_finite(step),
        entropy_change_correlation=_correlation(slope_N, actual_N),
    )


def entropy_identity(before_NV: Tensor, after_NV: Tensor) -> EntropyIdentity:
    """The entropy-covariance identity at chosen tokens, for the change that reached them whoever caused it.

    before_NV, after_NV: log-probabilities of the whole vocabulary; a token that had none before counts for nothing.
    The two results differ by terms of second order in the step.
    """
    if not len(before_NV):
        none: Value = (None, "no token was chosen")
        return EntropyIdentity(none, none)
    before_NV, after_NV = before_NV.double(), after_NV.double()
    pi_NV = before_NV.exp()
    entropy_N1 = torch.special.entr(pi_NV).sum(1, keepdim=True)
    # a token of probability 0 has log-probability -inf, and 0 times that is no number
    change_NV = (pi_NV * (before_NV + entropy_N1) * (after_NV - before_NV)).where(pi_NV > 0, 0.0)
    actual_N1 = torch.special.entr(after_NV.exp()).sum(1, keepdim=True) - entropy_N1
    return EntropyIdentity(_finite(-change_NV.sum(1).mean()), _finite(actual_N1.mean()))


def _slopes(before: Scored, adv_BT: Tensor) -> Tensor:
    """``-A pi (log pi + H)`` of every token, ``[B, T]``."""
    logp_BT = before.logp_BT.double()
    return -adv_BT.double() * logp_BT.exp() * (logp_BT + before.entropy_BT.double())


def _correlation(x_N: Tensor, y_N: Tensor) -> Value:
    # not by their deviation: the mean of equal values leaves dust
    if x_N.amax() == x_N.amin() or y_N.amax() == y_N.amin():
        return None, "one side is the same for all tokens"
    return _finite(torch.stack([x_N, y_N]).corrcoef()[0, 1])


def _finite(value: Tensor) -> Value:
    number = value.item()
    return (number, None) if math.isfinite(number) else (None, f"not finite: {number}")
