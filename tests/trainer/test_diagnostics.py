"""Diagnostics by hand, and against real softmax policies that take a real step.

Dimension key:  P prompts, G samples, B rows, T tokens, N chosen tokens, V vocabulary.
"""

import math

import pytest
import torch
from torch import nn

from seedwise.algos.baseline import DivideByGroupStd, GroupMean, Quantile
from seedwise.algos.objective import Objective
from seedwise.algos.part import chain
from seedwise.algos.views import GroupView, LossView, Window
from seedwise.trainer.diagnostics import (
    Scored,
    contributions,
    entropy_change,
    entropy_identity,
    entropy_slope,
    gradient_noise,
    update_mass,
)

LOG2 = math.log(2)


def doubles(rows):
    return torch.tensor(rows, dtype=torch.float64)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def normals(*size, seed=0):
    return torch.randn(*size, generator=rng(seed), dtype=torch.float64)


def scored(z_BTV, ids_BT):
    logp_BTV = z_BTV.detach().log_softmax(-1)
    entropy_BT = torch.distributions.Categorical(logits=z_BTV.detach()).entropy()
    return Scored(logp_BTV.gather(-1, ids_BT[..., None])[..., 0], entropy_BT)


def loss(z_BTV, ids_BT, adv_BT, mask_BT):
    """The real objective at the first update after a rollout."""
    logp_BT = z_BTV.log_softmax(-1).gather(-1, ids_BT[..., None])[..., 0]
    objective = Objective()
    view, window = LossView(logp_BT.detach(), adv_BT, mask_BT), Window(mask_BT, mask_BT.sum(), len(mask_BT), 1)
    return objective(logp_BT, view, window, objective.start(), rng())


# ---------------------------------------------------------------- update mass


def test_update_mass_by_hand():
    # two groups with 1 of 2 correct: masses 1 + 1 and 3 + 0, mean 2.5; one with none: 0; nowhere both
    found = update_mass(doubles([[1, 0], [0, 1], [0, 0]]), doubles([[1, -1], [0, 3], [0, 0]])).metrics()
    assert found == {
        "update_mass_with_0_of_2_correct": (0.0, None),
        "update_mass_with_1_of_2_correct": (2.5, None),
        "update_mass_with_2_of_2_correct": (None, "no group with 2 of 2 correct in this step"),
    }


def test_a_partly_correct_answer_is_no_success():
    found = update_mass(doubles([[0.5, 1]]), doubles([[-1, 1]]))
    assert [value for value, _ in found.by_successes] == [None, 2.0, None]


@pytest.mark.parametrize(
    ("baseline", "per_response"),
    [
        (GroupMean(), lambda p: 2 * math.sqrt(p * (1 - p))),
        # hard while at least 0.4 of 8, 3.2, are wrong: up to 4 correct
        (Quantile(K=0.4), lambda p: math.sqrt(p / (1 - p)) if p <= 0.5 else math.sqrt((1 - p) / p)),
    ],
    ids=["mean", "quantile"],
)
def test_update_mass_of_the_real_parts_is_what_the_paper_says(baseline, per_response):
    rewards_PG = torch.ones(9, 8, dtype=torch.float64).tril(-1)  # 0 to 8 of 8 correct
    view = GroupView(rewards_PG, rewards_PG, 0 * rewards_PG, rewards_PG, torch.arange(9), 0, 1)
    adv_PG = chain((baseline, DivideByGroupStd(ddof=0, eps=0)), ({}, {}), rewards_PG, view, rng())
    found = [value / 8 for value, _ in update_mass(rewards_PG, adv_PG).by_successes]
    assert found == pytest.approx([0, *(per_response(n1 / 8) for n1 in range(1, 8)), 0])


# ---------------------------------------------------------------- gradient noise


def test_contributions_by_hand():
    # two tokens of probability 1/2 among 1/2 and 1/2: r^2 = 1 - 2/2 + 2/4 = 1/2; A = 2: sqrt(2 * 4 / 2) = 2
    logp_BT, adv_BT = doubles([[-LOG2, -LOG2, math.nan]]), doubles([[2, 2, math.nan]])
    mask_BT, collision_BT = doubles([[1, 1, 0]]), doubles([[0.5, 0.5, math.nan]])
    assert contributions(logp_BT, adv_BT, mask_BT, collision_BT).tolist() == pytest.approx([2])
    # without the collision (1 - 1/2)^2 = 1/4: with two options it is at its farthest, low by sqrt(2)
    assert contributions(logp_BT, -adv_BT, mask_BT).tolist() == pytest.approx([math.sqrt(2)])


def test_a_sure_token_and_one_without_advantage_do_not_pull():
    assert contributions(doubles([[0, -LOG2]]), doubles([[5, 0]]), torch.ones(1, 2)).tolist() == [0]


@pytest.mark.parametrize("seed", range(3))
def test_a_contribution_is_the_norm_of_the_gradient_where_each_state_has_its_own_logits(seed):
    z_BTV = normals(4, 3, 5, seed=seed).requires_grad_()
    ids_BT = torch.randint(0, 5, (4, 3), generator=rng(seed))
    adv_BT, mask_BT = normals(4, 3, seed=seed + 9), doubles([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]])
    gradient_BTV = torch.autograd.grad(loss(z_BTV, ids_BT, adv_BT, mask_BT), z_BTV)[0] * mask_BT.sum()
    exact_B = gradient_BTV.flatten(1).norm(dim=1)
    logp_BT, collision_BT = scored(z_BTV, ids_BT).logp_BT, z_BTV.detach().softmax(-1).square().sum(-1)
    torch.testing.assert_close(contributions(logp_BT, adv_BT, mask_BT, collision_BT), exact_B)
    ratio_B = exact_B / contributions(logp_BT, adv_BT, mask_BT)
    assert ((ratio_B > 1) & (ratio_B <= math.sqrt(2))).all()


def test_gradient_noise_by_hand():
    found = gradient_noise(doubles([[3, 0], [1, 1]]), torch.tensor([[True, False], [True, True]]))
    # all: group means 1.5 and 1, sample variance 1/8, over 2 groups 1/16; mean 5/4
    assert found.gradient_variance_all == (pytest.approx(1 / 16), None)
    assert found.gradient_noise_all == (pytest.approx(0.25 / 1.25), None)
    # active: m = 5/3; 3 - 5/3 = 4/3 and 2 - 10/3 = -4/3; 2/1 * 32/9 / 3^2 = 64/81
    assert found.gradient_variance_active == (pytest.approx(64 / 81), None)
    assert found.gradient_noise_active == (pytest.approx((8 / 9) / (5 / 3)), None)


def test_groups_without_an_active_response_count_among_all_only():
    active_PG = torch.tensor([[True, False], [False, False], [True, True]])
    found = gradient_noise(doubles([[3, 0], [0, 0], [1, 1]]), active_PG)
    assert found.gradient_variance_active == (pytest.approx(64 / 81), None)
    # group means 1.5, 0, 1: mean 5/6, squares 4/9 + 25/36 + 1/36 = 7/6, over 2 and over 3
    assert found.gradient_variance_all == (pytest.approx(7 / 36), None)


def test_gradient_noise_that_does_not_exist_is_null():
    found = gradient_noise(doubles([[1, 0], [0, 0]]), torch.tensor([[True, False], [False, False]])).metrics()
    why = "a variance needs at least 2 groups with an active response, got 1"
    assert found["gradient_variance_active"] == found["gradient_noise_active"] == (None, why)
    assert found["gradient_variance_all"] == (pytest.approx(1 / 16), None)
    still = gradient_noise(doubles([[0, 0], [0, 0]]), torch.ones(2, 2, dtype=torch.bool))
    assert still.gradient_variance_all == (0.0, None)
    assert still.gradient_noise_all == (None, "the mean contribution is 0")
    alone = gradient_noise(doubles([[1, 2]]), torch.ones(1, 2, dtype=torch.bool))
    assert alone.gradient_variance_all == (None, "a variance needs at least 2 groups, got 1")


def test_the_variance_over_all_has_no_bias_though_responses_of_a_group_resemble_each_other():
    # a response is u_p + e_pg, both uniform on 0..1: the mean over 6 groups of 4 has variance (1/12 + 1/48) / 6;
    # ignoring the groups would give half: (1/12 + 1/12) / 24. The estimate varies by sqrt(2/5) of itself, less over
    # 2,000 draws: 1.4 %
    u_RP1, e_RPG = (torch.rand(2000, 6, G, generator=rng(G), dtype=torch.float64) for G in (1, 4))
    half_PG = torch.tensor([[True, True, False, False]] * 6)
    found = [gradient_noise(draw_PG, half_PG) for draw_PG in u_RP1 + e_RPG]
    mean = sum(each.gradient_variance_all[0] for each in found) / 2000
    assert mean == pytest.approx((1 / 12 + 1 / 48) / 6, rel=0.06)
    mean = sum(each.gradient_variance_active[0] for each in found) / 2000
    assert mean == pytest.approx((1 / 12 + 1 / 24) / 6, rel=0.06)


# ---------------------------------------------------------------- change of entropy


def test_entropy_slope_by_hand():
    # probabilities 1/4 and 3/4; the rare one has log pi + H = log(1/4) - 1/4 log(1/4) - 3/4 log(3/4) = -3/4 log 3,
    # the other 1/4 log 3. A = 1 on the rare, -2 on the other: -(1/4 (-3/4)) and +2 (3/4)(1/4), times log 3
    H = 0.25 * math.log(4) + 0.75 * math.log(4 / 3)
    before = Scored(doubles([[math.log(0.25), math.log(0.75), math.nan]]), doubles([[H, H, math.nan]]))
    found = entropy_slope(before, doubles([[1, -2, 0]]), doubles([[1, 1, 0]])).metrics()
    assert found == {"entropy_slope_nats": (pytest.approx((3 / 16 + 6 / 16) / 2 * math.log(3)), None)}
    nothing = entropy_slope(before, torch.zeros(1, 3), torch.zeros(1, 3))
    assert nothing.entropy_slope_nats == (None, "no response token in this step")


def bandits(step, seed=0):
    """(before, after, advantages, mask) of 60 bandits, one sample each, of which only the sampled logit moves."""
    z_BTV, adv_BT = normals(20, 3, 6, seed=seed), normals(20, 3, seed=seed + 1)
    mask_BT = (torch.arange(3) < torch.arange(20)[:, None] % 3 + 1).double()
    ids_BT = torch.randint(0, 6, (20, 3), generator=rng(seed))
    moved_BTV = z_BTV.scatter_add(-1, ids_BT[..., None], step * adv_BT[..., None])
    return scored(z_BTV, ids_BT), scored(moved_BTV, ids_BT), adv_BT, mask_BT


def test_on_bandits_the_predicted_change_is_the_actual_one_to_first_order():
    gaps, steps = [], (2e-3, 1e-3)
    for step in steps:
        found = entropy_change(*bandits(step))
        assert found.logit_step[0] == pytest.approx(step, rel=2e-3)
        assert found.entropy_change_predicted_nats[0] == pytest.approx(found.entropy_change_actual_nats[0], rel=0.05)
        assert found.entropy_change_correlation[0] > 0.9999
        before, _, adv_BT, mask_BT = bandits(step)
        slope = entropy_slope(before, adv_BT, mask_BT).entropy_slope_nats[0]
        gaps.append(found.entropy_change_actual_nats[0] - step * slope)
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.02)


def test_entropy_change_by_hand():
    # two tokens, each at 1/2 of two options; A = 1, -1; log pi moved by 0.3 and -0.1: lever A (1 - pi) = 1/2, -1/2,
    # so step = (0.15 + 0.05) / 0.5 = 0.4; log pi + H = 0, so nothing is predicted and nothing can be correlated
    before = Scored(doubles([[-LOG2, -LOG2]]), doubles([[LOG2, LOG2]]))
    after = Scored(before.logp_BT + doubles([[0.3, -0.1]]), doubles([[LOG2 - 0.2, LOG2]]))
    found = entropy_change(before, after, doubles([[1, -1]]), torch.ones(1, 2)).metrics()
    assert found["logit_step"] == (pytest.approx(0.4), None)
    assert found["entropy_change_actual_nats"] == (pytest.approx(-0.1), None)
    assert found["entropy_change_predicted_nats"] == (pytest.approx(0), None)
    assert found["entropy_change_correlation"] == (None, "one side is the same for all tokens")


def test_padding_counts_for_nothing():
    before, after, adv_BT, mask_BT = bandits(1e-2)
    found = entropy_change(before, after, adv_BT, mask_BT)
    spoilt = [Scored(*(x.where(mask_BT > 0, 7.0) for x in each)) for each in (before, after)]
    assert entropy_change(*spoilt, adv_BT.where(mask_BT > 0, 9.0), mask_BT) == found
    assert entropy_change(before, after, adv_BT, torch.ones_like(mask_BT)) != found


def test_entropy_change_that_does_not_exist_is_null_with_the_reason():
    before, after, adv_BT, mask_BT = bandits(1e-2)
    still = entropy_change(before, after, 0 * adv_BT, mask_BT)
    assert still.entropy_change_actual_nats[0] is not None
    why = (None, "no token has an advantage and a probability below 1")
    assert still.logit_step == still.entropy_change_predicted_nats == still.entropy_change_correlation == why
    nowhere = entropy_change(before, after, adv_BT, 0 * mask_BT).metrics()
    assert set(nowhere.values()) == {(None, "no response token in this step")}
    broken = entropy_change(before, Scored(after.logp_BT, after.entropy_BT * math.nan), adv_BT, mask_BT)
    assert broken.entropy_change_actual_nats == (None, "not finite: nan")


def test_what_the_bandit_reduction_leaves_out():
    # one state, its samples in the very shares of the policy, all with A = 1: e_a - pi averages to 0 and nothing
    # moves, while without the normaliser -Cov(log pi, pi) < 0 is predicted per unit of step
    pi_V = doubles([0.5, 0.25, 0.125, 0.125])
    ids_BT, ones_BT = torch.tensor([[0], [0], [0], [0], [1], [1], [2], [3]]), torch.ones(8, 1, dtype=torch.float64)
    z_V = pi_V.log().requires_grad_()
    gradient_V = torch.autograd.grad(loss(z_V.expand(8, 1, 4), ids_BT, ones_BT, ones_BT), z_V)[0]
    assert gradient_V.abs().max() < 1e-15
    predicted = entropy_slope(scored(z_V.expand(8, 1, 4), ids_BT), ones_BT, ones_BT).entropy_slope_nats[0]
    # log2 pi = -1, -2, -3, -3: mean -7/4; mean of pi 11/32; mean of the product -(16 + 8 + 3 + 3)/64.
    # covariance (-30 + 38.5)/64
    assert predicted == pytest.approx(-8.5 / 64 * LOG2)


def test_entropy_identity_by_hand():
    # from 1/2, 1/2 no small change moves entropy; from 1/4, 3/4, where log pi + H is -3/4 log 3 and 1/4 log 3, with
    # log-probabilities changed by x and y: -(1/4 (-3/4 log 3) x + 3/4 (1/4 log 3) y) = 3/16 log 3 (x - y)
    before_NV = doubles([[0.5, 0.5], [0.25, 0.75]]).log()
    found = entropy_identity(before_NV, before_NV + doubles([[0.2, -0.3], [0.03, 0.01]]))
    assert found.entropy_change_covariance_nats == (pytest.approx(3 / 16 * math.log(3) * 0.02 / 2), None)
    impossible = entropy_identity(doubles([[0, -math.inf]]), doubles([[0, -math.inf]])).metrics()
    assert impossible == {"entropy_change_covariance_nats": (0.0, None), "entropy_change_chosen_nats": (0.0, None)}
    none = entropy_identity(torch.empty(0, 3), torch.empty(0, 3)).metrics()
    assert set(none.values()) == {(None, "no token was chosen")}


class Policy(nn.Module):
    """Logits of the next token from the two before it; states share all parameters."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Parameter(normals(7, 8, seed=1))
        self.out = nn.Parameter(normals(8, 7, seed=2))

    def forward(self, ids_BT):
        return (self.embed[ids_BT[:, :-2]] - self.embed[ids_BT[:, 1:-1]]).tanh() @ self.out


def test_the_identity_holds_for_a_network_whose_states_share_parameters():
    ids_BL = torch.randint(0, 7, (16, 8), generator=rng(3))
    ids_BT, adv_B1, mask_BT = ids_BL[:, 2:], normals(16, 1, seed=4), torch.ones(16, 6, dtype=torch.float64)
    adv_BT = adv_B1 * mask_BT
    gaps = []
    for lr in (0.04, 0.02):
        policy = Policy()
        before_BTV = policy(ids_BL)
        loss(before_BTV, ids_BT, adv_BT, mask_BT).backward()
        torch.optim.SGD(policy.parameters(), lr=lr).step()
        after_BTV = policy(ids_BL)
        both = [z_BTV.detach().log_softmax(-1).flatten(0, 1) for z_BTV in (before_BTV, after_BTV)]
        identity = entropy_identity(*both)
        measured = entropy_change(scored(before_BTV, ids_BT), scored(after_BTV, ids_BT), adv_BT, mask_BT)
        actual = measured.entropy_change_actual_nats[0]
        assert identity.entropy_change_chosen_nats[0] == pytest.approx(actual, abs=1e-14)
        gaps.append(actual - identity.entropy_change_covariance_nats[0])
        assert measured.logit_step[0] > 0, "the update raises what has an advantage"
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.1)
    assert abs(gaps[1]) < 0.1 * abs(actual)
