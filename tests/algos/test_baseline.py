"""Baselines: arithmetic by hand, the literal definitions, floating-point traps."""

from __future__ import annotations

import pytest
import torch
from algos.made import advantages, doubles, groups, stream
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import (
    DivideByGroupMean,
    DivideByGroupStd,
    FixedBaseline,
    GroupMean,
    LeaveOneOut,
    NegMask,
    PosMask,
    Quantile,
    RandomSparsity,
    rank,
)
from seedwise.algos.presets import preset

few = settings(max_examples=60, deadline=None)


def alone(part, rewards, penalty=None, seed=0):
    """Advantages of one group under one part."""
    view = groups([rewards], None if penalty is None else [penalty])
    return part(view.rewards_PG, view, {}, stream(seed))[0].tolist()


def test_leave_one_out_by_hand():
    # the winner's rivals average 0, each loser's rivals average 1/3
    assert alone(LeaveOneOut(), [1.0, 0, 0, 0]) == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])


def test_leave_one_out_of_one_is_refused():
    with pytest.raises(ValueError, match="group_size is 1, use 2 or more"):
        alone(LeaveOneOut(), [1.0])


def test_group_mean_and_std_by_hand():
    # mean 1/2; squared deviations 4 * 1/4, over n - 1 = 3: std sqrt(1/3)
    got = advantages(preset("grpo", eps=0), groups([[1.0, 1, 0, 0]]))
    assert got[0].tolist() == pytest.approx([3**0.5 / 2, 3**0.5 / 2, -(3**0.5) / 2, -(3**0.5) / 2])


def test_population_std_by_hand():
    # two successes in four: p = 1/2, population std sqrt(p (1 - p)) = 1/2
    got = advantages(Algorithm(baseline=(GroupMean(), DivideByGroupStd(ddof=0, eps=0))), groups([[1.0, 1, 0, 0]]))
    assert got[0].tolist() == pytest.approx([1, 1, -1, -1])


@pytest.mark.parametrize("G", [2, 3, 4, 5, 8, 10, 16])
def test_group_std_has_the_bits_of_trl(G):
    # trl.trainer.utils.nanstd, line by line, on rewards without NaN; Tensor.std differs in the last bit at G = 8
    rewards_PG = torch.cat([torch.rand(200, G, generator=stream()), torch.ones(G, G).tril()[: G - 1]])
    variance_P1 = ((rewards_PG - rewards_PG.nanmean(1, keepdim=True)) ** 2).nanmean(1, keepdim=True)
    count_P1 = torch.full((len(rewards_PG), 1), G)
    std_P1 = (variance_P1 * (count_P1 / (count_P1 - 1))).sqrt()
    expected_PG = (rewards_PG - rewards_PG.nanmean(1, keepdim=True)) / (std_P1 + 1e-4)
    assert torch.equal(advantages(preset("grpo", eps=1e-4), groups(rewards_PG)), expected_PG)


def test_divide_by_group_mean_by_hand():
    # one success in four: (1 - 1/4) / (1/4) = 3, (0 - 1/4) / (1/4) = -1
    maxrl = Algorithm(baseline=(GroupMean(), DivideByGroupMean()))
    assert advantages(maxrl, groups([[1.0, 0, 0, 0]]))[0].tolist() == [3, -1, -1, -1]


def test_divide_by_a_negative_mean_would_turn_the_sign():
    # rewards -1 and 1 with mean -1/2: dividing would punish the success
    maxrl = Algorithm(baseline=(GroupMean(), DivideByGroupMean()))
    assert advantages(maxrl, groups([[1.0, -1, -1, -1]])).abs().max() == 0


@pytest.mark.parametrize(("b", "expected"), [(0.0, [1, 0, 0]), (1.0, [0, -1, -1]), (0.25, [0.75, -0.25, -0.25])])
def test_fixed_baseline_by_hand(b, expected):
    assert alone(FixedBaseline(b=b), [1.0, 0, 0]) == expected


def test_fixed_baseline_teaches_from_a_flat_group_unless_divided_by_its_std():
    assert alone(FixedBaseline(b=0.5), [1.0, 1, 1]) == [0.5, 0.5, 0.5]
    divided = Algorithm(baseline=(FixedBaseline(b=0.5), DivideByGroupStd()))
    assert advantages(divided, groups([[1.0, 1, 1]])).abs().max() == 0


@pytest.mark.parametrize(
    ("K", "G", "m"), [(0.14, 50, 7), (0.4, 10, 4), (0.4, 8, 4), (0.4, 16, 7), (0.01, 8, 1), (0.9, 8, 8), (0.55, 20, 11)]
)
def test_rank(K, G, m):
    assert rank(K, G) == m


@few
@given(
    rewards=st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.5, 1.0]), min_size=1, max_size=12), percent=st.integers(1, 99)
)
def test_quantile_is_the_smallest_reward_below_which_a_share_K_lies(rewards, percent):
    # inf{x : F(x) >= K} word for word, in whole numbers: F(x) >= K means 100 * #{R <= x} >= percent * G
    share = [x for x in sorted(rewards) if 100 * sum(reward <= x for reward in rewards) >= percent * len(rewards)]
    assert Quantile(K=percent / 100).threshold(doubles([rewards])).item() == share[0]


@few
@given(successes=st.integers(1, 15), percent=st.integers(1, 99), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_quantile_learns_from_one_side_only(successes, percent, dtype):
    rewards_PG = torch.tensor([[1.0] * successes + [0.0] * (16 - successes)], dtype=dtype)
    adv = advantages(preset("qae", K=percent / 100), groups(rewards_PG))[0].tolist()
    failures = 16 - successes
    hard = 100 * failures >= percent * 16  # enough failures to reach the quantile
    assert [value != 0 for value in adv] == (
        [True] * successes + [False] * failures if hard else [False] * successes + [True] * failures
    )


@pytest.mark.parametrize("successes", range(1, 8))
def test_extreme_levels_are_positive_only_and_negative_only(successes):
    rewards = [1.0] * successes + [0.0] * (8 - successes)
    # m = 1: b is the smallest reward; m = G: the largest
    assert alone(Quantile(K=0.1), rewards) == alone(FixedBaseline(b=0), rewards)
    assert alone(Quantile(K=0.9), rewards) == alone(FixedBaseline(b=1), rewards)


@pytest.mark.parametrize(
    ("G", "K", "successes", "b"), [(8, 0.4, 5, 0.8), (10, 0.4, 6, 0.6), (4, 0.4, 2, 0.2), (8, 0.6, 3, 0.2)]
)
def test_linear_interpolation_activates_both_signs_where_the_order_statistic_does_not(G, K, successes, b):
    # G = 8, K = 0.4: place 0.4 * 7 = 2.8 between the third and fourth of 0 0 0 1 1 1 1 1, so b = 0.8
    rewards = [1.0] * successes + [0.0] * (G - successes)
    assert Quantile(K=K, interpolation="linear").threshold(doubles([rewards])).item() == pytest.approx(b)
    linear, order = alone(Quantile(K=K, interpolation="linear"), rewards), alone(Quantile(K=K), rewards)
    assert min(linear) < 0 < max(linear)
    assert not min(order) < 0 < max(order)


@pytest.mark.parametrize("K", [0.2, 0.4, 0.6, 0.8])
def test_interpolations_agree_where_the_place_is_whole(K):
    # the paper's G = 16: K * 15 = 3, 6, 9, 12
    rewards_PG = torch.ones(15, 16).tril()
    linear_P1, order_P1 = (Quantile(K=K, interpolation=how).threshold(rewards_PG) for how in ("linear", "order"))
    torch.testing.assert_close(linear_P1, order_P1, atol=1e-6, rtol=0)
    assert set(order_P1.flatten().tolist()) == {0.0, 1.0}, "the order statistic is exactly a reward"


def test_masks_by_hand():
    hard, easy = [1.0, 1, 0, 0, 0, 0, 0, 0, 0, 0], [1.0, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    # successes are compared with 0, failures with 1; a mask silences one side of one kind of group
    assert alone(PosMask(K=0.4), hard) == [1] * 2 + [-1] * 8
    assert alone(PosMask(K=0.4), easy) == [0] * 8 + [-1] * 2
    assert alone(NegMask(K=0.4), hard) == [1] * 2 + [0] * 8
    assert alone(NegMask(K=0.4), easy) == [1] * 8 + [-1] * 2


def test_masks_read_as_group_mean_values():
    # mean 0.2: successes 0.8, failures -0.2, of which the masked side is silenced
    hard = [1.0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert alone(PosMask(K=0.4, reading="grpo_value"), hard) == pytest.approx([0.8] * 2 + [-0.2] * 8)
    assert alone(NegMask(K=0.4, reading="grpo_value"), hard) == pytest.approx([0.8] * 2 + [0] * 8)


@few
@given(successes=st.integers(1, 9), percent=st.integers(1, 99))
def test_masks_together_are_the_quantile(successes, percent):
    rewards, K = [1.0] * successes + [0.0] * (10 - successes), percent / 100
    pairs = zip(alone(PosMask(K=K), rewards), alone(NegMask(K=K), rewards), strict=True)
    assert [positive if positive == negative else 0 for positive, negative in pairs] == alone(Quantile(K=K), rewards)


def test_a_penalty_never_moves_the_gate_of_a_mask():
    # the success is 0.5 too long, a failure 1.0: still one success of four, hard at K = 0.4 (m = 2)
    penalty = [-0.5, -1.0, 0.0, 0.0]
    assert alone(NegMask(K=0.4), [1.0, 0, 0, 0], penalty) == [0.5, 0, 0, 0]
    assert alone(PosMask(K=0.4), [1.0, 0, 0, 0], penalty) == [0.5, -2, -1, -1]


@few
@given(successes=st.integers(0, 8), seed=st.integers(0, 99))
def test_random_sparsity_keeps_as_many_as_the_quantile(successes, seed):
    rewards = [1.0] * successes + [0.0] * (8 - successes)
    kept = alone(RandomSparsity(K=0.4), rewards, seed=seed)
    mean = alone(GroupMean(), rewards)
    assert sum(value != 0 for value in kept) == sum(value != 0 for value in alone(Quantile(K=0.4), rewards))
    assert all(value in (0, expected) for value, expected in zip(kept, mean, strict=True))


def test_random_sparsity_chooses_uniformly_and_by_its_stream():
    # two successes of eight are active under K = 0.4, so each of eight samples is kept in 1/4 of the groups;
    # with 4,000 groups the share has standard error sqrt(0.25 * 0.75 / 4000) = 0.007
    view = groups([[1.0, 1, 0, 0, 0, 0, 0, 0]] * 4000)
    part = RandomSparsity(K=0.4)
    kept_PG = part(view.rewards_PG, view, {}, stream(3)) != 0
    assert kept_PG.double().mean(0).tolist() == pytest.approx([0.25] * 8, abs=0.035)
    assert torch.equal(kept_PG, part(view.rewards_PG, view, {}, stream(3)) != 0)
    assert not torch.equal(kept_PG, part(view.rewards_PG, view, {}, stream(4)) != 0)


@pytest.mark.parametrize("K", [0.0, 1.0, -0.1, float("nan")])
@pytest.mark.parametrize("part", [Quantile, PosMask, NegMask, RandomSparsity])
def test_levels_lie_strictly_between_zero_and_one(part, K):
    with pytest.raises(ValueError, match="K"):
        part(K=K)
