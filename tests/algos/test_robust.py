"""Robust means and the length-weighted mean: by hand, against SciPy and the literal definitions."""

from __future__ import annotations

import pytest
import torch
from algos.made import advantages, by_id, doubles, golden, groups, stream
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import trim_mean

from seedwise.algos.baseline import GroupMean, Quantile
from seedwise.algos.presets import preset
from seedwise.algos.robust import HuberisedMean, LengthWeighted, Median, TrimmedMean

few = settings(max_examples=60, deadline=None)
rewards_of_a_group = st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.5, 1.0]), min_size=1, max_size=9)
# to ten digits after the point, as golden values have them
TEN_DIGITS = 6e-11


def alone(part, rewards, lengths=None):
    """Advantages of one group under one part."""
    view = groups([rewards])
    view = view if lengths is None else view._replace(lengths_PG=torch.tensor([lengths]))
    return part(view.rewards_PG, view, {}, stream())[0].tolist()


@pytest.mark.parametrize("part", [Median(), TrimmedMean(), TrimmedMean(share=0), HuberisedMean(), LengthWeighted()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_flat_group_gets_exactly_zero(part, dtype):
    view = groups(torch.full((2, 7), 0.1, dtype=dtype))._replace(lengths_PG=torch.arange(14).view(2, 7))
    adv_PG = part(view.rewards_PG, view, {}, stream())
    assert torch.equal(adv_PG, torch.zeros_like(view.rewards_PG))
    assert adv_PG.dtype == dtype


@pytest.mark.parametrize("part", [Median(), TrimmedMean(), HuberisedMean(), LengthWeighted()])
@few
@given(rewards=rewards_of_a_group, seed=st.integers(0, 99))
def test_samples_may_come_in_any_order(part, rewards, seed):
    order = torch.randperm(len(rewards), generator=stream(seed)).tolist()
    expected = alone(part, rewards)
    assert alone(part, [rewards[i] for i in order]) == pytest.approx([expected[i] for i in order])


def test_median_by_hand():
    assert alone(Median(), [0.0, 0.5, 1.0]) == [-0.5, 0, 0.5]
    # the middle two are 0 and 0.5
    assert alone(Median(), [1.0, 0.5, 0.0, -1.0]) == [0.75, 0.25, -0.25, -1.25]


@pytest.mark.parametrize("successes", range(1, 9))
def test_median_is_the_quantile_at_one_half_but_for_a_tie(successes):
    rewards = [1.0] * successes + [0.0] * (9 - successes)
    assert alone(Median(), rewards) == alone(Quantile(K=0.5), rewards)
    assert alone(Median(), [1.0, 1, 0, 0]) == [0.5, 0.5, -0.5, -0.5]
    assert alone(Quantile(K=0.5), [1.0, 1, 0, 0]) == [1, 1, 0, 0]


def test_trimmed_mean_by_hand():
    # a quarter of four is one: -9 and 7 are dropped, the rest has mean 0.5
    assert alone(TrimmedMean(share=0.25), [7.0, 1, 0, -9]) == [6.5, 0.5, -0.5, -9.5]
    # a quarter of three is none
    assert alone(TrimmedMean(share=0.25), [3.0, 0, 0]) == [2, -1, -1]


def test_trimmed_mean_counts_what_a_share_says():
    # 0.29 * 100 is 28.999999999999996: of 30 ones and 70 zeros 29 ones are dropped, and 29 zeros: mean 1 / 42
    assert alone(TrimmedMean(share=0.29), [1.0] * 30 + [0.0] * 70)[-1] == pytest.approx(-1 / 42)


@few
@given(rewards=rewards_of_a_group, percent=st.integers(0, 49))
def test_trimmed_mean_is_that_of_scipy(rewards, percent):
    b = trim_mean(rewards, percent / 100)
    if len(set(rewards)) > 1:
        assert alone(TrimmedMean(share=percent / 100), rewards) == pytest.approx([r - b for r in rewards])


def test_a_share_just_below_one_half_keeps_a_sample():
    # 0.49999999999 * 4 + 1e-9 would be cut to 2 at each end, which leaves none
    assert alone(TrimmedMean(share=0.49999999999), [1.0, 1, 0, 0]) == alone(Median(), [1.0, 1, 0, 0])


def test_huberised_mean_by_hand():
    # the success pulls with 1/4, each failure back with b: 1/4 = 3 b
    assert alone(HuberisedMean(delta=0.25), [1.0, 0, 0, 0]) == pytest.approx([11 / 12, -1 / 12, -1 / 12, -1 / 12])
    # two against two pull equally hard for every b in 1/4 .. 3/4: the middle
    assert alone(HuberisedMean(delta=0.25), [1.0, 1, 0, 0]) == [0.5, 0.5, -0.5, -0.5]


@few
@given(rewards=rewards_of_a_group, delta=st.sampled_from([0.1, 0.3, 0.5, 1.0, 3.0]))
def test_huberised_mean_solves_its_equation(rewards, delta):
    def pull(b):
        return sum(min(max(reward - b, -delta), delta) for reward in rewards)

    b = HuberisedMean(delta=delta).location(doubles([rewards])).item()
    assert pull(b) == pytest.approx(0, abs=1e-12)
    root = brentq(pull, min(rewards) - delta, max(rewards) + delta)
    if abs(pull(root - 1e-3)) > 1e-9 and abs(pull(root + 1e-3)) > 1e-9:
        assert b == pytest.approx(root, abs=1e-9), "the root is one point, so it is this one"


@few
@given(rewards=rewards_of_a_group)
def test_huberised_mean_lies_between_median_and_mean_in_its_limits(rewards):
    assert alone(HuberisedMean(delta=1e3), rewards) == pytest.approx(alone(GroupMean(), rewards))
    assert alone(HuberisedMean(delta=1e-7), rewards) == pytest.approx(alone(Median(), rewards), abs=1e-6)


@pytest.mark.parametrize("case", golden("length-weighted baseline"), ids=by_id)
def test_opo(case):
    inputs, expected = case["inputs"], case["expected"]["advantages"]
    view = groups([[float(reward) for reward in inputs["rewards"]]])
    got = advantages(preset("opo"), view._replace(lengths_PG=torch.tensor([inputs["lengths"]])))[0].tolist()
    assert got == pytest.approx(expected, abs=TEN_DIGITS)
    baselines = [reward - value for reward, value in zip(inputs["rewards"], got, strict=True)]
    assert baselines == pytest.approx([case["expected"]["baseline"]] * 4, abs=TEN_DIGITS)


def test_opo_by_hand():
    # the success has 1 of 4 tokens: b = 1/4; twice as long a failure lowers it to 1/6
    assert alone(LengthWeighted(), [1.0, 0], [1, 3]) == [0.75, -0.25]
    assert alone(LengthWeighted(), [1.0, 0], [1, 5]) == pytest.approx([5 / 6, -1 / 6])
    assert alone(LengthWeighted(), [1.0, 0], [0, 0]) == [1, 0], "no tokens, no baseline"


@few
@given(
    rewards=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=5, max_size=5),
    lengths=st.lists(st.integers(1, 900), min_size=5, max_size=5),
)
def test_opo_balances_tokens_and_with_equal_lengths_samples(rewards, lengths):
    adv = alone(LengthWeighted(), rewards, lengths)
    assert sum(value * length for value, length in zip(adv, lengths, strict=True)) == pytest.approx(0, abs=1e-9)
    assert alone(LengthWeighted(), rewards, [7] * 5) == pytest.approx(alone(GroupMean(), rewards))


@pytest.mark.parametrize(
    ("part", "fields"), [(TrimmedMean, {"share": 0.5}), (TrimmedMean, {"share": -0.1}), (HuberisedMean, {"delta": 0})]
)
def test_fields_are_checked(part, fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        part(**fields)
