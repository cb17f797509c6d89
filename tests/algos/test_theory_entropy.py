"""What the papers say of entropy, on a softmax bandit in float64, with the parts that train.

Dimension key:  V actions, G samples of the policy, B rows of one token.

A bandit is a policy ``pi = softmax(z)`` over V actions with rewards 0 or 1. A sample is a response of one token, and
an update is ``z + step d`` with d the descent direction of the real objective, at the first update after a rollout
(every ratio is 1).
"""

from __future__ import annotations

import itertools

import pytest
import torch
from algos.made import advantages, doubles, groups, loss_view, stream, tokens, window
from torch import Tensor

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import DivideByGroupStd, FixedBaseline, GroupMean, Quantile
from seedwise.algos.credit import Entropic
from seedwise.algos.objective import Objective
from seedwise.algos.presets import preset

COUNTS_V = torch.tensor([8, 4, 2, 1, 1])  # of G = 16 samples
ACTIONS_G = torch.arange(5).repeat_interleave(COUNTS_V)
# the policy that these samples represent exactly: averages over the group are expectations under it
EXACT_V = (COUNTS_V.double() / 16).log()
SUBSETS = [row for row in itertools.product([0.0, 1.0], repeat=5) if 0 < sum(row) < 5]
POPULATION_STD = DivideByGroupStd(ddof=0, eps=0)
B_GRID = (0.0, 0.25, 0.5, 0.75, 1.0)


def normal(z_V: Tensor) -> Tensor:
    return z_V.log_softmax(-1)


def bare(z_V: Tensor) -> Tensor:
    """Logits in place of log-probabilities: the update without the pull of the softmax's normaliser."""
    return z_V


def direction(algorithm: Algorithm, z_V: Tensor, actions_G: Tensor, adv_G: Tensor, score=normal) -> Tensor:
    """Minus the gradient of the objective with respect to the logits, ``[V]``."""
    z_V = z_V.clone().requires_grad_()
    logp_BT, mask_BT = score(z_V)[actions_G][:, None], torch.ones(len(actions_G), 1, dtype=torch.float64)
    adv_BT = algorithm.credit(adv_G, tokens(mask_BT), algorithm.credit.start(), stream())
    view = loss_view(logp_BT.detach(), adv_BT, mask_BT)
    loss = algorithm.objective(logp_BT, view, window(mask_BT), algorithm.objective.start(), stream())
    return -torch.autograd.grad(loss, z_V)[0]


def learned(algorithm: Algorithm, z_V: Tensor, actions_G: Tensor, rewards_V: Tensor, score=normal) -> Tensor:
    """The direction that a group of samples teaches."""
    return direction(algorithm, z_V, actions_G, advantages(algorithm, groups(rewards_V[actions_G][None]))[0], score)


def entropy(z_V: Tensor) -> Tensor:
    return -(z_V.log_softmax(-1) * z_V.softmax(-1)).sum(-1)


def covariance(x_V: Tensor, y_V: Tensor, pi_V: Tensor) -> Tensor:
    return (pi_V * (x_V - pi_V @ x_V) * (y_V - pi_V @ y_V)).sum()


def slope(z_V: Tensor, d_V: Tensor) -> float:
    """Change of entropy per unit of step along d, nats, by the identity."""
    return -covariance(z_V.log_softmax(-1), d_V, z_V.softmax(-1)).item()


# ---------------------------------------------------------------- the entropy-covariance identity


@pytest.mark.parametrize("method", ["grpo", "clip_higher", "rloo", "qae", "pos_mask", "neg_mask", "psr", "kl_cov"])
@pytest.mark.parametrize("seed", range(3))
def test_entropy_changes_by_minus_the_covariance_of_log_prob_and_its_change(method, seed):
    """``dH = -Cov_pi(log pi, d log pi) = -Cov_pi(log pi, dz)``, exactly to first order.

    From ``dH/dz_a = -pi_a (log pi_a + H)``; the two covariances agree since ``d log pi`` and ``dz`` differ by a
    constant over actions (arXiv:2505.22617; arXiv:2509.22611, section 4). Breaks with: a covariance not centred.
    """
    rng = stream(seed)
    z_V = torch.randn(6, generator=rng, dtype=torch.float64)
    rewards_V = doubles([1, 0, 0, 1, 0, 0])
    actions_G = torch.cat([torch.tensor([0, 1]), z_V.softmax(-1).multinomial(6, True, generator=rng)])
    d_V = learned(preset(method), z_V, actions_G, rewards_V)
    assert d_V.abs().max() > 1e-3, "an update of zero shows nothing"

    _, by_autograd = torch.autograd.functional.jvp(entropy, (z_V,), (d_V,))
    _, logp_change_V = torch.autograd.functional.jvp(normal, (z_V,), (d_V,))
    assert slope(z_V, d_V) == pytest.approx(by_autograd.item(), abs=1e-14)
    assert slope(z_V, logp_change_V) == pytest.approx(by_autograd.item(), abs=1e-14)

    # what is left of a finite step is of second order: half the step, a quarter of the error
    errors = [(entropy(z_V + step * d_V) - entropy(z_V)).item() - step * slope(z_V, d_V) for step in (2e-3, 1e-3)]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.02)
    assert abs(errors[0]) > 1e-10, "an error of rounding shows nothing"


@pytest.mark.parametrize("seed", range(3))
def test_the_identity_holds_state_by_state_where_states_share_parameters(seed):
    """With ``z = f(theta)[state]`` it is the change that reaches the state that counts, whoever caused it.

    Breaks with: the change that a state's own sample causes alone, which for the last row is none.
    """
    rng = stream(seed)
    x_BD, w_DH, v_HV = (torch.randn(*size, generator=rng, dtype=torch.float64) for size in ((4, 3), (3, 5), (5, 6)))
    actions_B, adv_BT = torch.tensor([0, 1, 2, 3]), doubles([[1], [-1], [0.5], [0]])

    def logits(w_DH: Tensor) -> Tensor:
        return (x_BD @ w_DH).tanh() @ v_HV

    w_DH = w_DH.requires_grad_()
    logp_BT = logits(w_DH).log_softmax(-1)[torch.arange(4), actions_B][:, None]
    mask_BT = torch.ones_like(adv_BT)
    objective = Objective()
    view = loss_view(logp_BT.detach(), adv_BT)
    loss = objective(logp_BT, view, window(mask_BT), objective.start(), stream())
    d_DH = -torch.autograd.grad(loss, w_DH)[0]
    w_DH = w_DH.detach()
    z_BV, change_BV = torch.autograd.functional.jvp(lambda w: logits(w).log_softmax(-1), (w_DH,), (d_DH,))
    _, dH_B = torch.autograd.functional.jvp(lambda w: entropy(logits(w)), (w_DH,), (d_DH,))
    slopes = [slope(z_V, change_V) for z_V, change_V in zip(z_BV, change_BV, strict=True)]
    assert slopes == pytest.approx(dH_B.tolist(), abs=1e-14)
    assert abs(slopes[3]) > 1e-4, "the row without advantage changes too, through the others"


# ---------------------------------------------------------------- QAE, Proposition 4.2


def methods(scales: tuple, K: float) -> tuple[Algorithm, Algorithm, list[Algorithm]]:
    """(QAE, the mean, fixed baselines over B_GRID), with or without division by the standard deviation."""
    centring = [Quantile(K=K), GroupMean(), *(FixedBaseline(b=b) for b in B_GRID)]
    found = [Algorithm(baseline=(part, *scales)) for part in centring]
    return found[0], found[1], found[2:]


@pytest.mark.parametrize("scales", [(), (POPULATION_STD,)], ids=["plain", "std"])
@pytest.mark.parametrize("K", [0.2, 0.4, 0.6, 0.8])
def test_proposition_4_2_the_quantile_is_the_safest_baseline_on_either_side(K, scales):
    """``dH(b) = -step Cov_pi(log pi, pi (r - b)) / sigma`` rises with b, so that of all b in 0..1 the K-quantile has

    - on a hard query (n0 >= K G, b = 0) the lowest change: entropy cannot explode faster under any other;
    - on an easy query (b = 1) the highest: entropy cannot collapse faster under any other.

    It rises because ``d/db = step Cov_pi(log pi, pi) / sigma``, and log is increasing (arXiv:2509.22611,
    Proposition 4.2, whose statement our source gives in words). The update is the bandit reduction's,
    ``dz_a = step pi_a (r_a - b)``. Breaks with: Quantile(1 - K), or a threshold that is the mean.
    """
    pi_V = EXACT_V.exp()
    qae, mean, fixed = methods(scales, K)
    sides = set()
    for rewards in map(doubles, SUBSETS):
        p = float(pi_V @ rewards)
        sigma = (p * (1 - p)) ** 0.5 if scales else 1.0
        changes = [slope(EXACT_V, learned(each, EXACT_V, ACTIONS_G, rewards, bare)) for each in fixed]
        by_b = [slope(EXACT_V, pi_V * (rewards - b) / sigma) for b in B_GRID]
        assert changes == pytest.approx(by_b, abs=1e-14)
        assert all(low < high for low, high in itertools.pairwise(changes))
        hard = 16 - round(16 * p) >= K * 16 - 1e-9
        sides.add(hard)
        d_V, mean_d_V = (learned(each, EXACT_V, ACTIONS_G, rewards, bare) for each in (qae, mean))
        assert slope(EXACT_V, d_V) == pytest.approx(min(changes) if hard else max(changes), abs=1e-14)
        # strictly on the safe side of the mean, to first order and in a step that is taken
        assert (slope(EXACT_V, d_V) < slope(EXACT_V, mean_d_V)) == hard
        after, mean_after = (entropy(EXACT_V + 1e-3 * d).item() for d in (d_V, mean_d_V))
        assert (after < mean_after) == hard
    assert sides == {True, False}, "both halves are covered"


def test_proposition_4_2_is_an_equality_for_a_uniform_policy():
    """``Cov_pi(log pi, pi)`` is 0 there, and no baseline is safer.  Breaks with: a covariance not centred."""
    z_V, rewards_V, actions_G = torch.zeros(4, dtype=torch.float64), doubles([1, 0, 0, 0]), torch.arange(4)
    qae, mean, fixed = methods((), 0.4)
    slopes = [slope(z_V, learned(each, z_V, actions_G, rewards_V, bare)) for each in (qae, mean, *fixed)]
    assert slopes == pytest.approx([0] * len(slopes), abs=1e-15)


@pytest.mark.parametrize("rewards", [SUBSETS[0], SUBSETS[7], SUBSETS[-1]], ids=str)
def test_what_proposition_4_2_leaves_out(rewards):
    """Its reduction drops the softmax's normaliser, which in expectation cancels the baseline.

    The gradient of ``log pi_a`` is ``e_a - pi``, so ``E dz = step pi (r - b) - step pi (p - b) = step pi (r - p)``
    whatever b is: on samples that represent the policy exactly all baselines change entropy alike. What b moves in a
    real update is its noise. Breaks with: the update without the normaliser (``bare``).
    """
    rewards_V = doubles(rewards)
    pi_V = EXACT_V.exp()
    qae, mean, fixed = methods((), 0.4)
    for each in (qae, mean, *fixed):
        d_V = learned(each, EXACT_V, ACTIONS_G, rewards_V)
        torch.testing.assert_close(d_V, pi_V * (rewards_V - pi_V @ rewards_V), rtol=0, atol=1e-15)
    apart = [slope(EXACT_V, learned(each, EXACT_V, ACTIONS_G, rewards_V, bare)) for each in (fixed[0], fixed[-1])]
    assert apart[1] - apart[0] > 0.1


# ---------------------------------------------------------------- EAPO: a single negative logit update


def punished(z_V: Tensor, strength: float) -> Tensor:
    """The logits after one step on a failed sample of action 0, with token advantage ``-strength``."""
    return z_V + direction(preset("clip_higher"), z_V, torch.tensor([0]), doubles([-strength]))


def kl(from_V: Tensor, to_V: Tensor) -> float:
    return (from_V.softmax(-1) * (from_V.log_softmax(-1) - to_V.log_softmax(-1))).sum().item()


@pytest.mark.parametrize("V", [2, 3, 8])
@pytest.mark.parametrize("seed", range(4))
def test_a_negative_update_lowers_the_sample_sharpens_the_rest_and_moves_away(V, seed):
    """``z' = z - s (e_y - pi)`` with strength s > 0, so ``pi'`` is pi tilted by ``exp(s t)`` with ``t = pi - e_y``.

    For all s, not only small ones (arXiv:2609.33781; our source has no more than the three claims):

    - ``d log pi'_y / ds = t_y - E' t < 0``, for t is lowest at y: the sample's probability falls strictly with s;
    - of the others' conditional distribution q', ``dH/ds = -Cov_q'(log q', t) <= 0``, for ``log q' = log q + s t``
      grows with ``pi``, and t is pi there: entropy of the rest does not rise, and stays only if the rest is uniform;
    - ``d KL(pi', pi) / ds = s Var'(t) >= 0`` and ``d KL(pi, pi') / ds = E' t - E t >= 0``.

    Breaks with: a positive advantage, or an update of the sampled logit alone for the fall of the rest's entropy.
    """
    z_V = torch.randn(V, generator=stream(seed), dtype=torch.float64)
    after = [punished(z_V, s) for s in (0.0, 0.01, 0.1, 0.4, 1.6, 5.0)]
    assert torch.equal(after[0], z_V)
    for before_V, after_V in itertools.pairwise(after):
        assert after_V.log_softmax(-1)[0] < before_V.log_softmax(-1)[0]
        assert (entropy(after_V[1:]) < entropy(before_V[1:])) == (V > 2), "of one action it is and stays 0"
        assert kl(after_V, z_V) > kl(before_V, z_V)
        assert kl(z_V, after_V) > kl(z_V, before_V)


def test_entropic_credit_punishes_a_sure_choice_more_than_an_unsure_one():
    """After failure strength falls with entropy, so the same choice loses more where the policy was surer.

    Breaks with: b_minus 1 or 0.
    """
    # h = 0, 1/2, 1 under kappa = log 4: raw 1, 1/2, 1/4, mean 7/12, so the strengths are 12/7, 6/7, 3/7
    view = tokens(torch.ones(1, 3), entropy_BT=doubles([[1, 1.5, 2]]), entropy_quantiles=(1.0, 2.0))
    strengths = (-Entropic()(doubles([-1]), view, {}, stream())[0]).tolist()
    assert strengths == pytest.approx([12 / 7, 6 / 7, 3 / 7], abs=1e-7)
    z_V = doubles([1, 0, -1])
    lost = [(z_V.softmax(-1) - punished(z_V, s).softmax(-1))[0].item() for s in strengths]
    assert lost[0] > lost[1] > lost[2] > 0
