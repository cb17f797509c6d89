"""Gates, sparsity controls and separate channels: by hand, and where each equals QAE."""

from __future__ import annotations

import json

import pytest
import torch
from algos.made import advantages, doubles, groups, stream
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import DivideByGroupStd, GroupMean, PosMask, Quantile
from seedwise.algos.channels import SeparateChannels
from seedwise.algos.gates import BinarisedGate, DeadZone, HardGate, HistoricalMean, LearnedGate
from seedwise.algos.presets import preset
from seedwise.algos.sparsity import MatchedSparsity

few = settings(max_examples=60, deadline=None)
graded = st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.5, 1.0]), min_size=1, max_size=10)
MATCHES = ["rate", "mass", "sign", "expectation"]


def alone(part, rewards, penalty=None, seed=0, state=None):
    """Advantages of one group under one part."""
    view = groups([rewards], None if penalty is None else [penalty])
    return part(view.rewards_PG, view, part.start() if state is None else state, stream(seed))[0].tolist()


def visit(part, state, rewards, problems):
    """Advantages of groups of the problems named."""
    view = groups(rewards)._replace(prompt_P=torch.tensor(problems))
    return part(view.rewards_PG, view, state, stream()).tolist()


# ---------------------------------------------------------------- gates that look at the group alone


@pytest.mark.parametrize(
    "part", [HardGate(), BinarisedGate(), DeadZone(), *(MatchedSparsity(match=match) for match in MATCHES)]
)
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -0.7])
def test_a_flat_group_gets_exactly_zero(part, value):
    view = groups(torch.full((2, 7), value))
    assert torch.equal(part(view.rewards_PG, view, {}, stream()), torch.zeros(2, 7))


def test_hard_gate_by_hand():
    # 2 failures in 5 are a share of 0.4: hard, b = 0; 1 in 5 is not, b = 1
    assert alone(HardGate(tau=0.4), [1.0, 1, 1, 0, 0]) == [1, 1, 1, 0, 0]
    assert alone(HardGate(tau=0.4), [1.0, 1, 1, 1, 0]) == [0, 0, 0, 0, -1]


@few
@given(G=st.integers(1, 24), percent=st.integers(1, 99), data=st.data())
def test_the_gates_are_the_quantile_on_binary_rewards(G, percent, data):
    rewards, K = data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=G, max_size=G)), percent / 100
    expected = alone(Quantile(K=K), rewards)
    for part in (HardGate(tau=K), BinarisedGate(K=K), BinarisedGate(K=K, threshold=1), DeadZone(K1=K, K2=K)):
        assert alone(part, rewards) == expected


def test_hard_gate_is_qae_bit_for_bit():
    view = groups(torch.ones(15, 16).tril())
    for percent in range(1, 100):
        hard, qae = preset("hard_gate", tau=percent / 100), preset("qae", K=percent / 100)
        assert torch.equal(advantages(hard, view), advantages(qae, view))


def test_a_penalty_moves_neither_hard_gate_nor_its_b():
    # one success of four, hard at 0.4; its penalty is kept, and that of a failure
    assert alone(HardGate(tau=0.4), [1.0, 0, 0, 0], [-0.5, -1.0, 0.0, 0.0]) == [0.5, -1, 0, 0]
    # one failure of five, easy; counted by reward the penalised success would be a second one
    assert alone(HardGate(tau=0.4), [1.0, 1, 1, 1, 0], [-0.5, 0.0, 0.0, 0.0, 0.0]) == [-0.5, 0, 0, 0, -1]


def test_binarised_gate_by_hand():
    # successes 1.0 and 0.5; three failures of five, ceil(0.4 * 5) = 2: hard. The failures' mean is (0.25 + 0.5) / 3
    got = alone(BinarisedGate(K=0.4, threshold=0.5), [1.0, 0.5, 0.25, 0.25, 0.25])
    assert got == [0.75, 0.25, 0, 0, 0]
    # one failure of five: easy. The successes' mean is (1 + 1 + 0.5 + 0.5) / 4 = 0.75
    assert alone(BinarisedGate(K=0.4, threshold=0.5), [1.0, 1, 0.5, 0.5, -0.25]) == [0, 0, 0, 0, -1]
    # all of one side: nothing to be compared with, though rewards differ
    assert alone(BinarisedGate(K=0.4, threshold=0.5), [1.0, 0.5]) == [0, 0]
    assert alone(BinarisedGate(K=0.4, threshold=0.5), [0.25, 0.0]) == [0, 0]


@few
@given(rewards=graded, percent=st.integers(1, 99))
def test_binarised_gate_learns_from_one_side_with_the_right_sign(rewards, percent):
    adv = alone(BinarisedGate(K=percent / 100, threshold=0.5), rewards)
    assert all(value >= 0 if reward >= 0.5 else value <= 0 for value, reward in zip(adv, rewards, strict=True))
    assert not (min(adv) < 0 < max(adv))


def test_dead_zone_by_hand():
    # sorted: -1 -0.25 0 0.5 1; the 0.4-quantile is the second, the 0.6-quantile the third
    assert alone(DeadZone(K1=0.4, K2=0.6), [1.0, 0.5, 0, -0.25, -1]) == [1, 0.5, 0, 0, -0.75]
    # two failures in five reach the first gate and not the second: silent
    assert alone(DeadZone(K1=0.4, K2=0.6), [1.0, 1, 1, 0, 0]) == [0] * 5


@few
@given(rewards=graded, percent=st.integers(1, 99))
def test_dead_zone_of_one_level_is_the_quantile(rewards, percent):
    assert alone(DeadZone(K1=percent / 100, K2=percent / 100), rewards) == alone(Quantile(K=percent / 100), rewards)


def test_dead_zone_in_order():
    with pytest.raises(ValueError, match="K1 0.6 is above K2 0.4.*exchange them"):
        DeadZone(K1=0.6, K2=0.4)


# ---------------------------------------------------------------- baselines that remember


def test_historical_mean_by_hand():
    part, state = HistoricalMean(decay=0.5), HistoricalMean(decay=0.5).start()
    # first visit: both problems start from the rollout's mean 3/8
    assert visit(part, state, [[1.0, 1, 0, 0], [1.0, 0, 0, 0]], [7, 9]) == [
        [0.625, 0.625, -0.375, -0.375],
        [0.625, -0.375, -0.375, -0.375],
    ]
    # then half way to their own means 1/2 and 1/4
    assert state["mean"] == {7: 0.4375, 9: 0.3125}
    # scored before it moves: problem 9 is compared with 0.3125 although all four succeed now
    assert visit(part, state, [[1.0, 1, 1, 1]], [9]) == [[0.6875] * 4]
    assert state["mean"] == {7: 0.4375, 9: 0.65625}


def test_historical_mean_of_a_problem_drawn_twice_is_scored_once_and_moved_twice():
    part, state = HistoricalMean(decay=0.5), {"mean": {3: 0.0}}
    assert visit(part, state, [[1.0, 1], [1.0, 1]], [3, 3]) == [[1, 1], [1, 1]]
    assert state["mean"] == {3: 0.75}


def test_learned_gate_by_hand():
    part = LearnedGate(K=0.4, decay=0.5, prior=0.5)
    state = part.start()
    # never seen: phat is the prior 0.5, not above 1 - K = 0.6, so b = 0 although all but one succeed
    assert visit(part, state, [[1.0, 1, 1, 0]], [5]) == [[1, 1, 1, 0]]
    assert state["rate"] == {5: 0.75}
    # 0.75 is above 0.6: b = 1 although all but one fail now
    assert visit(part, state, [[1.0, 0, 0, 0]], [5]) == [[0, -1, -1, -1]]
    assert state["rate"] == {5: 0.5}


def test_learned_gate_at_the_boundary():
    # phat = 1/10 is not above 1 - 0.9, which is 0.09999999999999998 in float64
    assert visit(LearnedGate(K=0.9), {"rate": {0: 0.1}}, [[1.0, 0]], [0]) == [[1, 0]]
    # float32 rewards do not round phat
    view = groups(torch.tensor([[1.0, 0.0]]))
    got = LearnedGate(K=0.4)(view.rewards_PG, view, {"rate": {0: 0.6 + 2e-9}}, stream())
    assert got.tolist() == [[0, -1]]
    assert got.dtype == torch.float32


@pytest.mark.parametrize("part", [HistoricalMean(), LearnedGate(prior=0.9)])
def test_history_teaches_from_a_flat_group_unless_divided_by_its_std(part):
    state = {"mean": {0: 0.25}, "rate": {0: 0.9}}
    assert visit(part, state, [[0.0, 0]], [0])[0][0] < 0
    assert advantages(Algorithm(baseline=(part, DivideByGroupStd())), groups([[0.0, 0, 0]])).abs().max() == 0


@pytest.mark.parametrize("part", [HistoricalMean(), LearnedGate()])
def test_what_is_remembered_is_plain(part):
    state = part.start()
    visit(part, state, [[1.0, 0], [1.0, 1]], [4, 2])
    (remembered,) = state.values()
    assert sorted(remembered) == [2, 4]
    assert all(type(problem) is int and type(value) is float for problem, value in remembered.items())
    json.dumps(state)


# ---------------------------------------------------------------- sparsity controls


def sparse(match, rewards_PG, seed=0, K=0.4):
    """(advantages of the control, those of the quantile, the group-mean ones)."""
    view = groups(rewards_PG)
    parts = MatchedSparsity(K=K, match=match), Quantile(K=K), GroupMean()
    return tuple(part(view.rewards_PG, view, {}, stream(seed)) for part in parts)


MIXED = doubles([[1.0] * successes + [0.0] * (8 - successes) for successes in range(9)])


def test_matched_on_rate_by_hand():
    # over the seven groups that are not flat QAE has 1 + 2 + 3 + 4 + 3 + 2 + 1 = 16 of 56 active;
    # of 56 * 300 samples the share has standard error sqrt(2/7 * 5/7 / 16800) = 0.0035
    got_PG, _, mean_PG = sparse("rate", MIXED.repeat(300, 1))
    active_PG = got_PG != 0
    assert active_PG.sum().item() / (56 * 300) == pytest.approx(2 / 7, abs=0.015)
    assert torch.equal(got_PG[active_PG], mean_PG[active_PG])
    per_group_P = active_PG.double().view(300, 9, 8).mean((0, 2))[1:8]
    assert per_group_P.tolist() == pytest.approx([2 / 7] * 7, abs=0.04), "the same in hard and easy groups"


@few
@given(seed=st.integers(0, 99))
def test_matched_on_mass(seed):
    got_PG, qae_PG, _ = sparse("mass", MIXED, seed)
    torch.testing.assert_close(got_PG.abs().sum(1), qae_PG.abs().sum(1))
    assert torch.equal((got_PG != 0).sum(1), (qae_PG != 0).sum(1))


def test_matched_on_mass_without_mass_to_rescale():
    # 0.5 is the mean: where it alone is chosen the group is silent, never infinite
    rewards_PG = doubles([[1.0, 0.5, 0.0]] * 50)
    got_PG, _, _ = sparse("mass", rewards_PG, K=0.6)
    assert got_PG.isfinite().all()


@few
@given(seed=st.integers(0, 99))
def test_matched_on_sign(seed):
    got_PG, qae_PG, mean_PG = sparse("sign", MIXED, seed)
    assert (got_PG > 0).sum() == (qae_PG > 0).sum()
    assert (got_PG < 0).sum() == (qae_PG < 0).sum()
    assert torch.equal(got_PG[got_PG != 0], mean_PG[got_PG != 0])


def test_matched_on_sign_ignores_the_gate():
    # QAE has no positive advantage in the easy groups of 5 to 7 successes, the control has
    got_PG, qae_PG, _ = sparse("sign", MIXED.repeat(50, 1))
    easy_PG = MIXED.repeat(50, 1).sum(1, keepdim=True).expand(-1, 8) > 4
    assert not (qae_PG[easy_PG] > 0).any()
    assert (got_PG[easy_PG] > 0).any()


def test_matched_in_expectation():
    # the mean over many draws is the group-mean advantage; its error is at most 7 * sqrt(1/8 * 7/8 / 4000) = 0.04
    rewards_PG = doubles([[1.0, 0, 0, 0, 0, 0, 0, 0]] * 4000)
    got_PG, _, mean_PG = sparse("expectation", rewards_PG)
    assert got_PG.mean(0).tolist() == pytest.approx(mean_PG[0].tolist(), abs=0.2)
    # one of eight is active, and carries eight times its advantage
    assert set(got_PG.flatten().tolist()) == {0.0, 7.0, -1.0}


@pytest.mark.parametrize("match", MATCHES)
def test_chosen_by_the_stream(match):
    first_PG, again_PG, other_PG = (sparse(match, MIXED.repeat(9, 1), seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first_PG, again_PG)
    assert not torch.equal(first_PG, other_PG)


# ---------------------------------------------------------------- separate channels


def test_separate_channels_by_hand():
    # the verdict alone: one success of four, hard, b = 0, sample std 1/2: A = 2 for the success, 0 for the failures.
    # penalties -0.5 -1 0 0 have mean -0.375; half of the difference is added
    part = SeparateChannels(centre=Quantile(K=0.4), scale=DivideByGroupStd(eps=0), weight=0.5)
    got = alone(part, [1.0, 0, 0, 0], [-0.5, -1.0, 0.0, 0.0])
    assert got == [2 - 0.0625, -0.3125, 0.1875, 0.1875]


def test_a_penalty_flips_the_gate_of_the_quantile_and_not_of_separate_channels():
    # three successes of five, two of them penalised: sorted 0 0 0.5 0.5 1, of which the third is 0.5;
    # by the verdict the third of 0 0 1 1 1 is 1, an easy group
    rewards, penalty = [1.0, 1, 1, 0, 0], [0.0, -0.5, -0.5, 0.0, 0.0]
    assert alone(Quantile(K=0.6), rewards, penalty) == [0.5, 0, 0, -0.5, -0.5]
    part = SeparateChannels(centre=Quantile(K=0.6), scale=None, weight=0)
    assert alone(part, rewards, penalty) == [0, 0, 0, -1, -1]


@few
@given(rewards=st.lists(st.sampled_from([0.0, 1.0]), min_size=6, max_size=6))
def test_separate_channels_are_the_chain_where_nothing_is_penalised(rewards):
    for centre in (Quantile(K=0.4), GroupMean(), PosMask()):
        separate = Algorithm(baseline=(SeparateChannels(centre=centre),))
        together = Algorithm(baseline=(centre, DivideByGroupStd()))
        assert torch.equal(advantages(separate, groups([rewards])), advantages(together, groups([rewards])))


def test_separate_channels_teach_length_in_a_group_of_equal_verdicts():
    assert alone(SeparateChannels(), [0.0, 0.0], [-1.0, 0.0]) == [-0.5, 0.5]
    assert alone(SeparateChannels(), [0.0] * 3, [-0.1] * 3) == [0, 0, 0]


def test_separate_channels_pass_needs_and_state_on():
    written = {"kind": "separate_channels", "centre": {"kind": "scheduled_quantile", "schedule": {"kind": "adaptive"}}}
    algorithm = Algorithm.model_validate({"baseline": [written]})
    assert algorithm.needs == {"entropy"}
    state = algorithm.start()
    algorithm.advantages(groups([[1.0, 0, 0]]), state, stream())
    assert state["baseline"][0]["K"] == 0.4
