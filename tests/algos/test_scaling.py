"""Scaling over the rollout: by hand, against a sum over repeated tokens, bits of TRL."""

from __future__ import annotations

import pytest
import torch
from algos.made import advantages, doubles, groups, stream
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import FixedBaseline, GroupMean
from seedwise.algos.presets import preset
from seedwise.algos.scaling import BatchStd, Whitening

few = settings(max_examples=40, deadline=None)


def test_batch_std_by_hand():
    # 1 1 0 0 and 1 0 0 0: mean 3/8, squared deviations 3 * 25/64 + 5 * 9/64 = 15/8, over 8: 15/64
    rewards = [[1.0, 1, 0, 0], [1.0, 0, 0, 0]]
    got_PG = advantages(Algorithm(baseline=(GroupMean(), BatchStd(ddof=0, eps=0))), groups(rewards))
    std = (15 / 64) ** 0.5
    assert got_PG.tolist() == [
        pytest.approx([0.5 / std, 0.5 / std, -0.5 / std, -0.5 / std]),
        pytest.approx([0.75 / std, -0.25 / std, -0.25 / std, -0.25 / std]),
    ]


@pytest.mark.parametrize("ddof", [0, 1])
def test_batch_std_is_that_of_torch(ddof):
    rewards_PG = torch.rand(5, 8, generator=stream(), dtype=torch.float64)
    got_PG = advantages(Algorithm(baseline=(GroupMean(), BatchStd(ddof=ddof))), groups(rewards_PG))
    std = rewards_PG.std(correction=ddof)
    torch.testing.assert_close(got_PG, (rewards_PG - rewards_PG.mean(1, keepdim=True)) / (std + 1e-6))


@pytest.mark.parametrize(("P", "G"), [(1, 4), (3, 5), (8, 8)])
def test_batch_std_has_the_bits_of_trl(P, G):
    # trl.trainer.utils.nanstd over the whole batch, line by line, on rewards without NaN
    rewards_PG = torch.rand(P, G, generator=stream())
    rewards_N = rewards_PG.flatten()
    variance = ((rewards_N - rewards_N.nanmean()) ** 2).nanmean()
    count = torch.tensor(P * G)
    std = (variance * (count / (count - 1))).sqrt()
    expected_PG = (rewards_PG - rewards_PG.nanmean(1, keepdim=True)) / (std + 1e-4)
    assert torch.equal(
        advantages(Algorithm(baseline=(GroupMean(), BatchStd(eps=1e-4))), groups(rewards_PG)), expected_PG
    )


@pytest.mark.parametrize("value", [0.1, -0.7])
def test_batch_std_of_equal_rewards_is_zero_and_of_one_flat_group_is_not(value):
    # a mean of 21 times 0.1 is not 0.1 in float32, and what is left would be divided by eps
    raw = Algorithm(baseline=(FixedBaseline(b=0), BatchStd()))
    assert advantages(raw, groups(torch.full((3, 7), value))).abs().max() == 0
    # a flat group keeps what came before: R - 0 here, 0 after the group mean
    rewards = [[1.0, 1, 1], [1.0, 0, 0]]
    assert advantages(raw, groups(rewards))[0].abs().min() > 0
    assert advantages(Algorithm(baseline=(GroupMean(), BatchStd())), groups(rewards))[0].abs().max() == 0


def test_whitening_by_hand():
    # A = 1/2 on 1 token and -1/2 on 3: mean -1/4; squared deviations (3/4)**2 + 3 (1/4)**2 = 3/4, over n - 1 = 3: 1/4
    view = groups([[1.0, 0]])._replace(lengths_PG=torch.tensor([[1, 3]]))
    got_PG = Algorithm(baseline=(GroupMean(), Whitening(eps=1e-300))).advantages(view, {"baseline": [{}, {}]}, stream())
    assert got_PG.tolist() == [[1.5, -0.5]]


def test_whitening_gives_a_flat_group_an_advantage():
    # the flat group stands at 0, below which the mean of the tokens lies: 3 of 6 tokens have -1/2, 1 has 1/2: -1/6
    view = groups([[1.0, 0], [1.0, 1]])._replace(lengths_PG=torch.tensor([[1, 3], [1, 1]]))
    flat_group = advantages(preset("reinforce_pp"), view)[1]
    assert flat_group[0] == flat_group[1]
    assert flat_group[0] > 0.1
    equal_lengths = view._replace(lengths_PG=torch.ones(2, 2))
    assert advantages(preset("reinforce_pp"), equal_lengths)[1].tolist() == [0, 0]


@few
@given(
    rewards=st.lists(st.sampled_from([0.0, 1.0, -0.5]), min_size=6, max_size=6),
    lengths=st.lists(st.integers(1, 9), min_size=6, max_size=6),
)
def test_whitening_is_that_of_all_tokens_laid_out(rewards, lengths):
    # verl's masked_whiten on every token of the rollout, one after the other
    view = groups(doubles([rewards[:3], rewards[3:]]))._replace(lengths_PG=torch.tensor([lengths[:3], lengths[3:]]))
    centred_PG = advantages(Algorithm(baseline=(GroupMean(),)), view)
    tokens_N = centred_PG.flatten().repeat_interleave(torch.tensor(lengths))
    expected_N = (tokens_N - tokens_N.mean()) * (tokens_N.var(correction=1) + 1e-8).rsqrt()
    got_N = advantages(preset("reinforce_pp"), view).flatten().repeat_interleave(torch.tensor(lengths))
    torch.testing.assert_close(got_N, expected_N)


def test_whitening_without_tokens_or_contrast_is_finite():
    view = groups([[1.0, 0]])
    for lengths in ([[0, 0]], [[1, 0]]):
        got_PG = advantages(preset("reinforce_pp"), view._replace(lengths_PG=torch.tensor(lengths)))
        assert got_PG.isfinite().all()
    assert advantages(preset("reinforce_pp"), groups([[1.0, 1], [0.0, 0]])).abs().max() == 0
