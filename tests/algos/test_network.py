"""The network as baseline: scored before it learns, gradients against autograd, saved and continued."""

from __future__ import annotations

import pytest
import torch
from algos.made import advantages, doubles, groups, stream

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import DivideByGroupStd
from seedwise.algos.network import NetworkBaseline, gradients, predicted, rooted

STATES_PH = doubles([[1.0, 2.0, -2.0, 0.5], [0.3, -1.0, 0.0, 4.0], [5.0, 5.0, -5.0, 5.0]])
VIEW = groups([[1.0, 1, 1, 0], [1.0, 0, 0, 0], [0.0, 0, 0, 0]])._replace(prompt_PH=STATES_PH)


def rollout(part, state, view=VIEW, seed=0):
    return part(view.rewards_PG, view, state, stream(seed))


def test_the_first_rollout_is_compared_with_the_prior():
    # v begins at 0, so b is 1/2 whatever W was drawn
    part, state = NetworkBaseline(), NetworkBaseline().start()
    assert rollout(part, state).tolist() == [[0.5, 0.5, 0.5, -0.5], [0.5, -0.5, -0.5, -0.5], [-0.5] * 4]
    assert rollout(NetworkBaseline(prior=0.25), part.start())[2].tolist() == [-0.25] * 4


def test_one_step_by_hand():
    # one prompt, one unit, a state of one number, whose root mean square is 1 after scaling: x = 1.
    # W = 0.5, c = 0, v = 2, d = 0.1: h = tanh 0.5, b = 2 h + 0.1; of four responses one is correct, p = 1/4
    h = torch.tanh(doubles([0.5])).item()
    weights = [doubles([[0.5]]), doubles([0.0]), doubles([2.0]), doubles([0.1])]
    view = groups([[1.0, 0, 0, 0]])._replace(prompt_PH=doubles([[3.0]]))
    state = {"weights": weights}
    got = rollout(NetworkBaseline(units=1, lr=0.1, passes=1), state, view)
    b = 2 * h + 0.1
    assert got[0].tolist() == pytest.approx([1 - b, -b, -b, -b])
    error = 2 * (b - 0.25)
    assert [weight.item() for weight in state["weights"]] == pytest.approx(
        [
            0.5 - 0.1 * error * 2 * (1 - h * h),
            0.0 - 0.1 * error * 2 * (1 - h * h),
            2.0 - 0.1 * error * h,
            0.1 - 0.1 * error,
        ]
    )


def test_gradients_are_those_of_autograd():
    x_PH, rate_P = rooted(STATES_PH), doubles([0.75, 0.25, 0.0])
    weights = [torch.randn(shape, generator=stream(3), dtype=torch.float64) for shape in ((5, 4), (5,), (5,), (1,))]
    leaves = [weight.clone().requires_grad_() for weight in weights]
    loss = (predicted(x_PH, leaves) - rate_P).square().mean()
    for found, expected in zip(gradients(x_PH, rate_P, weights), torch.autograd.grad(loss, leaves), strict=True):
        torch.testing.assert_close(found, expected)


def test_it_learns_what_prompts_look_like():
    part, state = NetworkBaseline(), NetworkBaseline().start()
    for _ in range(300):
        adv_PG = rollout(part, state)
    # b has come from 1/2 to each group's success rate
    assert (VIEW.rewards_PG - adv_PG)[:, 0].tolist() == pytest.approx([0.75, 0.25, 0.0], abs=0.02)


def test_a_rollout_is_scored_before_it_teaches():
    part, state = NetworkBaseline(lr=0.05), NetworkBaseline().start()
    rollout(part, state)
    before = [weight.clone() for weight in state["weights"]]
    adv_PG = rollout(part, state)
    # other verdicts on the same prompts: the same b
    other = groups([[0.0] * 4, [1.0] * 4, [1.0] * 4])._replace(prompt_PH=STATES_PH)
    other_PG = rollout(part, {"weights": before}, other)
    torch.testing.assert_close(VIEW.rewards_PG - adv_PG, other.rewards_PG - other_PG, rtol=0, atol=1e-15)


def test_what_a_penalty_takes_off_does_not_move_it():
    part = NetworkBaseline()
    plain, penalised = part.start(), part.start()
    rollout(part, plain)
    lower = groups(VIEW.correct_PG.tolist(), penalty=[[-0.5] * 4] * 3)._replace(prompt_PH=STATES_PH)
    rollout(part, penalised, lower)
    for one, other in zip(plain["weights"], penalised["weights"], strict=True):
        assert torch.equal(one, other)


def test_the_size_of_a_state_does_not_matter_and_zeros_are_allowed():
    torch.testing.assert_close(rooted(STATES_PH * 1e4), rooted(STATES_PH))
    assert rooted(torch.zeros(1, 4)).tolist() == [[0.0] * 4]
    part = NetworkBaseline()
    assert rollout(part, part.start(), VIEW._replace(prompt_PH=torch.zeros(3, 4))).isfinite().all()


def test_weights_come_from_the_stream_and_nothing_reaches_the_policy():
    part = NetworkBaseline()
    first, again, other = part.start(), part.start(), part.start()
    states_PH = STATES_PH.clone().requires_grad_()
    adv_PG = rollout(part, first, VIEW._replace(prompt_PH=states_PH), seed=1)
    rollout(part, again, seed=1)
    rollout(part, other, seed=2)
    assert not adv_PG.requires_grad
    assert torch.equal(first["weights"][0], again["weights"][0])
    assert not torch.equal(first["weights"][0], other["weights"][0])
    assert not any(weight.requires_grad for weight in first["weights"])


def test_float32_rewards_and_half_states():
    view = groups(torch.tensor([[1.0, 0.0]]))._replace(prompt_PH=torch.tensor([[1.0, -2.0]], dtype=torch.bfloat16))
    got = rollout(NetworkBaseline(), NetworkBaseline().start(), view)
    assert got.dtype == torch.float32
    assert got.tolist() == [[0.5, -0.5]]


def test_it_says_what_it_needs():
    part = NetworkBaseline()
    assert part.needs == {"prompt_states"}
    with pytest.raises(ValueError, match="network_baseline needs prompt_states in its view"):
        rollout(part, part.start(), VIEW._replace(prompt_PH=None))


def test_a_flat_group_keeps_an_advantage_unless_divided_by_its_std():
    # R - b is 0.5 for all of a group of equal successes at first
    view = groups([[1.0, 1, 1]])._replace(prompt_PH=STATES_PH[:1])
    assert advantages(Algorithm(baseline=(NetworkBaseline(),)), view).tolist() == [[0.5] * 3]
    assert advantages(Algorithm(baseline=(NetworkBaseline(), DivideByGroupStd())), view).abs().max() == 0


@pytest.mark.parametrize("fields", [{"units": 0}, {"lr": 0}, {"passes": 0}, {"prior": 1.5}, {"units": 5000}])
def test_fields_are_checked(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        NetworkBaseline(**fields)
