"""What the papers say of weights, of queries (QAE) and of tokens (EAPO), against the parts that train.

Dimension key:  G samples of one prompt, B rows, T tokens, V actions, N decisions.  p: share of correct samples.
"""

from __future__ import annotations

import math

import pytest
import torch
from algos.made import advantages, doubles, groups, loss_view, stream, tokens, window
from scipy.optimize import minimize
from scipy.special import rel_entr
from torch import Tensor

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import DivideByGroupStd, GroupMean, NegMask, PosMask, Quantile
from seedwise.algos.credit import Entropic
from seedwise.algos.objective import Clipped, Objective, PerSequence

G = 16
LENGTHS_G = torch.tensor([1, 2, 3, 4] * 4)
MASK_BT = (torch.arange(4) < LENGTHS_G[:, None]).double()
LOW, HIGH = 0.2, 0.28


# ---------------------------------------------------------------- QAE, Proposition 4.1


def method(baseline: object, ddof: int | None) -> Algorithm:
    """The objective of the proposition: token means of a response, then the mean over responses."""
    scales = () if ddof is None else (DivideByGroupStd(ddof=ddof, eps=0),)
    objective = Objective(surrogate=Clipped(low=LOW, high=HIGH), average=PerSequence())
    return Algorithm(baseline=(baseline, *scales), objective=objective)


def loss(algorithm: Algorithm, logp_BT: Tensor, old_BT: Tensor, n1: int) -> Tensor:
    """The real loss of a group whose first n1 responses are correct."""
    rewards_PG = (torch.arange(G) < n1).double()[None]
    adv_BT = algorithm.credit(advantages(algorithm, groups(rewards_PG))[0], tokens(MASK_BT), {}, stream())
    view, objective = loss_view(old_BT, adv_BT, MASK_BT), algorithm.objective
    return objective(logp_BT, view, window(MASK_BT), objective.start(), stream())


def sides(ratio_BT: Tensor, n1: int) -> tuple[Tensor, Tensor]:
    """(E_+ s+, E_- s-): token means of ``min(rho, 1 + high)`` over correct, of ``max(rho, 1 - low)`` over wrong."""
    length_B = MASK_BT.sum(1)
    capped_B = (ratio_BT.clamp(max=1 + HIGH) * MASK_BT).sum(1) / length_B
    floored_B = (ratio_BT.clamp(min=1 - LOW) * MASK_BT).sum(1) / length_B
    return capped_B[:n1].mean(), floored_B[n1:].mean()


def odds(p: float, sigma: float) -> dict[str, float]:
    """Weight of a success side, p / sigma, and of a failure side, (1 - p) / sigma, unless gated."""
    return {"success": p / sigma, "failure": (1 - p) / sigma}


def weights(baseline: object, p: float, sigma: float) -> tuple[float, float]:
    """(weight of E_+ s+, weight of -E_- s-) by Proposition 4.1 and equations 7 and 8."""
    if isinstance(baseline, GroupMean):
        return p * (1 - p) / sigma, p * (1 - p) / sigma
    side, hard = odds(p, sigma), G - round(p * G) >= baseline.K * G - 1e-9
    success, failure = side["success"], side["failure"]
    gated = {
        Quantile: (success * hard, failure * (not hard)),
        PosMask: (success * hard, failure),
        NegMask: (success, failure * (not hard)),
    }
    return gated[type(baseline)]


BASELINES = [GroupMean(), *(Quantile(K=K) for K in (0.2, 0.4, 0.6, 0.8)), PosMask(K=0.4), NegMask(K=0.4)]


@pytest.mark.parametrize("ddof", [0, 1, None], ids=["population std", "sample std", "no std"])
@pytest.mark.parametrize("baseline", BASELINES, ids=lambda part: f"{part.kind} {getattr(part, 'K', '')}")
@pytest.mark.parametrize("n1", range(1, G))
def test_proposition_4_1_query_weights(n1, baseline, ddof):
    """``-loss = w_+ E_+ s+ - w_- E_- s-``, in value and in gradient, for every p = n1 / G (arXiv:2509.22611).

    With the population's std: the mean has ``w_+ = w_- = sqrt(p (1 - p))``; the quantile ``w_+ = sqrt(p / (1 - p))``
    on hard queries, ``w_- = sqrt((1 - p) / p)`` on easy ones, and 0 else. Without std the same times
    ``sigma = sqrt(p (1 - p))``; with the sample's std times ``sqrt((G - 1) / G)``.
    Breaks with: std of the other ddof, an average per token, Quantile(1 - K), the surrogate's bounds exchanged.
    """
    p = n1 / G
    population = math.sqrt(p * (1 - p))
    sigma = {0: population, 1: population * math.sqrt(G / (G - 1)), None: 1.0}[ddof]
    plus, minus = weights(baseline, p, sigma)
    if ddof == 0 and isinstance(baseline, Quantile):
        # the forms of the paper
        assert (plus, minus) in (
            (pytest.approx(math.sqrt(p / (1 - p))), 0),
            (0, pytest.approx(math.sqrt((1 - p) / p))),
        )
    rng = stream(n1)
    old_BT = -torch.rand(G, 4, generator=rng, dtype=torch.float64)
    logp_BT = (old_BT + 0.3 * torch.randn(G, 4, generator=rng, dtype=torch.float64)).requires_grad_()
    real = loss(method(baseline, ddof), logp_BT, old_BT, n1)
    s_plus, s_minus = sides((logp_BT - old_BT).exp(), n1)
    stated = -(plus * s_plus - minus * s_minus)
    assert real.item() == pytest.approx(stated.item(), abs=1e-13)
    gradients = [torch.autograd.grad(value, logp_BT)[0] for value in (real, stated)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-14)

    # where every ratio is 1 the sums of the gradient over either side are the weights themselves
    at_old_BT = old_BT.clone().requires_grad_()
    pull_BT = -torch.autograd.grad(loss(method(baseline, ddof), at_old_BT, old_BT, n1), at_old_BT)[0]
    assert (pull_BT[:n1].sum().item(), -pull_BT[n1:].sum().item()) == pytest.approx((plus, minus), abs=1e-13)


def test_the_quantile_weighs_rare_successes_less_than_the_mean_does():
    """Mass per response is ``sqrt(p / (1 - p))`` against ``2 sqrt(p (1 - p))``: a factor ``1 / (2 (1 - p))``.

    Below 1 for p < 1/2 and above beyond, up to the gate. Breaks with: advantages not divided by the std.
    """
    for n1 in range(1, G // 2 + 1):
        rewards_PG = (torch.arange(G) < n1).double()[None]
        quantile, mean = (
            advantages(method(part, 0), groups(rewards_PG)).abs().mean().item()
            for part in (Quantile(K=0.4), GroupMean())
        )
        assert mean == pytest.approx(2 * math.sqrt(n1 / G * (1 - n1 / G)))
        assert quantile / mean == pytest.approx(1 / (2 * (1 - n1 / G)))


# ---------------------------------------------------------------- EAPO: the Gibbs problem


def shares(part: Entropic, advantage: float, h_T: Tensor) -> Tensor:
    """What share of a response's credit each token gets, ``[T]``; h as it is, for q10 = 0 and q90 = 1 keep it."""
    view = tokens(torch.ones(1, len(h_T)), entropy_BT=h_T[None], entropy_quantiles=(0.0, 1.0))
    return part(doubles([advantage]), view, {}, stream())[0] / advantage / len(h_T)


def gibbs(q_T: Tensor, sign: float, h_T: Tensor, kappa: float) -> float:
    """``sum q sign(A) h - KL(q, uniform) / kappa``, nats."""
    T = len(h_T)
    return float(sign * (q_T * h_T).sum()) - rel_entr(q_T.numpy(), 1 / T).sum() / kappa


def solved(sign: float, h_T: Tensor, kappa: float) -> Tensor:
    """The maximum over the simplex, by sequential quadratic programming from the uniform point."""
    T = len(h_T)

    def gradient(q_T: Tensor) -> Tensor:
        return -sign * h_T + ((T * q_T).log() + 1) / kappa

    found = minimize(
        lambda q: -gibbs(torch.from_numpy(q), sign, h_T, kappa),
        [1 / T] * T,
        jac=lambda q: gradient(torch.from_numpy(q)).numpy(),
        method="SLSQP",
        bounds=[(1e-9, 1)] * T,
        constraints={"type": "eq", "fun": lambda q: q.sum() - 1, "jac": lambda q: [1.0] * T},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    assert abs(found.x.sum() - 1) < 1e-12
    return torch.from_numpy(found.x)


@pytest.mark.parametrize("kappa", [0.3, math.log(4), 4.0])
@pytest.mark.parametrize("advantage", [0.7, -1.9])
@pytest.mark.parametrize("seed", range(3))
def test_entropic_weights_solve_the_gibbs_problem(seed, advantage, kappa):
    """``w / T = argmax_q sum q sign(A) h - KL(q, uniform) / kappa`` over the simplex (arXiv:2609.33781, equation 5).

    With Z the mean of ``exp(kappa sign(A) h)`` the objective at q is ``log(Z) / kappa - KL(q, w / T) / kappa``: the gap
    to any other q is ``KL(q, w / T) / kappa``, and the maximum is the only one.
    Breaks with: another kappa, a sign turned, weights not normalised over the response.
    """
    rng = stream(seed)
    h_T, sign = torch.rand(7, generator=rng, dtype=torch.float64), math.copysign(1, advantage)
    q_T = shares(Entropic(kappa=kappa, eps=1e-15), advantage, h_T)
    torch.testing.assert_close(solved(sign, h_T, kappa), q_T, rtol=0, atol=2e-6)
    best = gibbs(q_T, sign, h_T, kappa)
    for scale in (1e-3, 0.1, 1.0):
        noise_T = scale * torch.randn(7, generator=rng, dtype=torch.float64)
        other_T = (q_T.log() + noise_T).softmax(0)
        gap = best - gibbs(other_T, sign, h_T, kappa)
        assert gap > 0
        assert gap == pytest.approx(rel_entr(other_T.numpy(), q_T.numpy()).sum() / kappa, abs=1e-14)


@pytest.mark.parametrize(("b_plus", "b_minus"), [(-1, 1), (1, 1), (-1, -1), (0, 0)])
def test_directions_solve_the_gibbs_problem_of_their_own_sign(b_plus, b_minus):
    """b takes the place of sign(A); at 0 there is nothing to gain and credit is uniform.  Breaks with: b exchanged."""
    h_T, part = doubles([0.0, 0.2, 0.5, 1.0]), Entropic(b_plus=b_plus, b_minus=b_minus, eps=1e-15)
    for advantage, b in ((1.0, b_plus), (-1.0, b_minus)):
        torch.testing.assert_close(solved(b, h_T, part.kappa), shares(part, advantage, h_T), rtol=0, atol=2e-6)


# ---------------------------------------------------------------- EAPO, Proposition 3

PI_N = torch.linspace(0.5, 0.99, 50, dtype=torch.float64)  # of the preferred of two options, surer and surer


def correction(pi_N: Tensor, success: bool) -> Tensor:
    """What cross-entropy would move the log-odds of a chosen option with belief pi, once the outcome is known."""
    odds_N = pi_N.logit().requires_grad_()
    outcome_N = torch.full_like(pi_N, float(success))
    told = torch.nn.functional.binary_cross_entropy_with_logits(odds_N, outcome_N, reduction="sum")
    return torch.autograd.grad(told, odds_N)[0].abs()


def expected(success: bool, right_N: Tensor) -> Tensor:
    """The expected correction given the outcome, over the option chosen and the option that is right.

    right_N: probability that the preferred option is the right one.
    """
    chosen_NV = torch.stack([PI_N, 1 - PI_N], 1)
    right_NV = torch.stack([right_N, 1 - right_N], 1)
    joint_NV = chosen_NV * (right_NV if success else 1 - right_NV)
    moved_NV = torch.stack([correction(PI_N, success), correction(1 - PI_N, success)], 1)
    return (joint_NV * moved_NV).sum(1) / joint_NV.sum(1)


def test_proposition_3_correction_grows_with_entropy_after_success_and_falls_after_failure():
    """A binary decision: the policy takes an option with probability ``pi``, its belief that this one is right.

    Stated here, since our source (arXiv:2609.33781) has it in words only. The correction of the belief is ``1 - pi``
    after success and ``pi`` after failure. Which option is right does not depend on what the policy prefers. Then the
    expected corrections are ``2 pi (1 - pi)`` and ``1 - 2 pi (1 - pi)``, and ``pi (1 - pi)`` grows with the entropy of
    a binary choice: after success the credit is due where entropy is high, after failure where it is low, as
    Entropic gives it. Breaks with: b_minus 1, b_plus -1, success and failure exchanged.
    """
    entropy_N = torch.distributions.Bernoulli(PI_N).entropy()
    assert (entropy_N.diff() < 0).all()
    unrelated_N = torch.full_like(PI_N, 0.5)
    after_success_N, after_failure_N = expected(True, unrelated_N), expected(False, unrelated_N)
    torch.testing.assert_close(after_success_N, 2 * PI_N * (1 - PI_N), rtol=0, atol=1e-14)
    torch.testing.assert_close(after_failure_N, 1 - 2 * PI_N * (1 - PI_N), rtol=0, atol=1e-14)
    assert (after_success_N.diff() < 0).all()
    assert (after_failure_N.diff() > 0).all()
    h_N = entropy_N / math.log(2)
    for advantage, due_N in ((1.0, after_success_N), (-1.0, after_failure_N)):
        assert torch.equal(shares(Entropic(), advantage, h_N).argsort(), due_N.argsort())


def test_proposition_3_needs_a_policy_whose_preference_says_nothing_of_the_outcome():
    """If the preferred option is right with just its probability, failure corrects by 1/2 at every entropy.

    ``pi (1 - pi) (pi + 1 - pi) / (2 pi (1 - pi))``; after success it still grows with entropy:
    ``pi (1 - pi) / (pi^2 + (1 - pi)^2)``. Breaks with: the outcome unrelated to the preference.
    """
    torch.testing.assert_close(expected(False, PI_N), torch.full_like(PI_N, 0.5), rtol=0, atol=1e-14)
    calibrated_N = expected(True, PI_N)
    torch.testing.assert_close(calibrated_N, PI_N * (1 - PI_N) / (PI_N**2 + (1 - PI_N) ** 2), rtol=0, atol=1e-14)
    assert (calibrated_N.diff() < 0).all()
