"""K over time: schedules and the controller by hand, dithering, where each equals QAE."""

from __future__ import annotations

import json

import pytest
import torch
from algos.made import advantages, by_id, golden, groups, stream
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.algos.baseline import FixedBaseline, Quantile
from seedwise.algos.controller import AdaptiveK, relative_variance
from seedwise.algos.presets import preset
from seedwise.algos.schedules import (
    Constant,
    Cosine,
    DitheredQuantile,
    Linear,
    ScheduledQuantile,
    SuccessRate,
    TwoPhase,
    dithered,
)

few = settings(max_examples=60, deadline=None)
VIEW = groups([[1.0, 1, 1, 0, 0, 0, 0, 0]])
ALL_COUNTS = groups(torch.ones(16, 16).tril())


def levels(schedule, steps, view=VIEW):
    """K at the optimizer steps named."""
    state = schedule.start()
    return [schedule.at(view._replace(step=step), state) for step in steps]


def steered(part, entropies):
    """(K after every rollout, the state at the end)."""
    state = part.start()
    return [part.at(VIEW._replace(entropy=entropy), state) for entropy in entropies], state


# ---------------------------------------------------------------- schedules


def test_linear_by_hand():
    assert levels(Linear(start_K=0.6, end_K=0.4, steps=4), [0, 1, 2, 4, 9]) == pytest.approx([0.6, 0.55, 0.5, 0.4, 0.4])
    # without steps, over the ten of the run
    assert levels(Linear(start_K=0.2, end_K=0.8), [0, 5]) == pytest.approx([0.2, 0.5])


def test_cosine_by_hand():
    # cos(pi / 3) = 1/2: a third of the way it has come a quarter
    assert levels(Cosine(start_K=0.6, end_K=0.4, steps=6), [0, 2, 3, 6, 9]) == pytest.approx([0.6, 0.55, 0.5, 0.4, 0.4])


def test_two_phase_by_hand():
    assert levels(TwoPhase(start_K=0.6, end_K=0.4, switch=3), [0, 2, 3, 9]) == [0.6, 0.6, 0.4, 0.4]


def test_constant():
    assert levels(Constant(K=0.3), [0, 9]) == [0.3, 0.3]
    assert ScheduledQuantile(schedule=0.3).schedule == Constant(K=0.3)


def test_success_rate_by_hand():
    part, state = SuccessRate(decay=0.5), SuccessRate(decay=0.5).start()
    # three of eight: pbar starts there, K = 5/8
    assert part.at(VIEW, state) == 0.625
    # then all succeed: pbar = (3/8 + 1) / 2 = 11/16, K = 5/16
    assert part.at(groups([[1.0] * 8]), state) == 0.3125
    assert part.at(groups([[1.0] * 8]), state) == 0.2, "5/32 lies below the lowest"
    assert part.at(groups([[0.0] * 8] * 9), {"rate": None}) == 0.8


def test_success_rate_does_not_see_penalties():
    state = SuccessRate().start()
    assert SuccessRate().at(groups([[1.0, 0]], penalty=[[-1.0, -0.5]]), state) == 0.5


@pytest.mark.parametrize(
    "schedule", [Constant(), Linear(), Cosine(), TwoPhase(switch=3), SuccessRate(), AdaptiveK(target=0.3)]
)
def test_a_scheduled_quantile_is_the_quantile_of_the_level_in_use(schedule):
    part = ScheduledQuantile(schedule=schedule)
    state = part.start()
    assert state["K"] is None
    for step in range(4):
        view = ALL_COUNTS._replace(step=step)
        got_PG = part(view.rewards_PG, view, state, stream())
        assert 0 < state["K"] < 1
        assert torch.equal(got_PG, Quantile(K=state["K"])(view.rewards_PG, view, {}, stream()))
        state = json.loads(json.dumps(state))  # as it comes back with a checkpoint


@few
@given(percent=st.integers(1, 99), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_a_number_is_qae_bit_for_bit(percent, dtype):
    view = groups(torch.ones(16, 16, dtype=dtype).tril())
    part = ScheduledQuantile(schedule=percent / 100)
    expected_PG = Quantile(K=percent / 100)(view.rewards_PG, view, {}, stream())
    assert torch.equal(part(view.rewards_PG, view, part.start(), stream()), expected_PG)


def test_presets_start_where_they_say():
    algorithm = preset("qae_scheduled", start_K=0.8, end_K=0.2)
    state = algorithm.start()
    algorithm.advantages(VIEW._replace(step=5), state, stream())
    assert state["baseline"][0]["K"] == pytest.approx(0.5)
    assert preset("qae_scheduled").needs == frozenset()
    assert preset("qae_adaptive").needs == {"entropy"}


# ---------------------------------------------------------------- the controller


@pytest.mark.parametrize("case", golden("adaptive K"), ids=by_id)
def test_proportional_term(case):
    inputs = case["inputs"]
    part = AdaptiveK(K=inputs["K"], target=inputs["target"], kp=inputs["kp"], ki=inputs["ki"])
    levels_seen, _ = steered(part, [inputs["entropy"]])
    assert levels_seen == pytest.approx([case["expected"]["K"]], abs=6e-11)


def test_integral_by_hand():
    # error 0.2 twice, no smoothing: E = 0.2, then 0.5 * 0.2 + 0.2 = 0.3
    part = AdaptiveK(K=0.4, target=0.5, kp=0.1, ki=0.01, leak=0.5, smoothing=0)
    got, state = steered(part, [0.4, 0.4])
    # 0.4 + 0.02 + 0.002, then + 0.02 + 0.003
    assert got == pytest.approx([0.422, 0.445])
    assert state["E"] == pytest.approx(0.3)


def test_smoothing_by_hand():
    # the first entropy starts the mean; then 0.9 * 0.5 + 0.1 * 1.5 = 0.6, an error of -0.2
    got, state = steered(AdaptiveK(K=0.4, target=0.5, ki=0), [0.5, 1.5])
    assert state["Hbar"] == pytest.approx(0.6)
    assert got == pytest.approx([0.4, 0.39])


def test_errors_within_the_dead_band_are_none():
    part = AdaptiveK(K=0.4, target=1.0, dead_band=0.05, smoothing=0)
    got, state = steered(part, [0.96, 1.04])
    assert got == [0.4, 0.4]
    assert state["E"] == 0
    assert steered(part, [0.94])[0][0] > 0.4


def test_an_error_counts_for_one_at_most():
    # four times the target is an error of -3, taken for -1
    got, _ = steered(AdaptiveK(K=0.4, target=0.5, kp=0.05, ki=0, smoothing=0), [2.0])
    assert got == pytest.approx([0.35])


def test_anti_windup_by_hand():
    # entropy at 0 for long: error 1. K = 0.75 + 0.04 + 0.02 = 0.81 would leave the bounds, so E stays 0
    part = AdaptiveK(K=0.75, target=0.5, kp=0.04, ki=0.02, leak=1, smoothing=0)
    state = part.start()
    got = [part.at(VIEW._replace(entropy=0.0), state) for _ in range(50)]
    # without E: 0.79, then held at 0.8
    assert got[:3] == pytest.approx([0.79, 0.8, 0.8])
    assert got[-1] == 0.8
    assert state["E"] == 0, "fifty errors of 1 would have made 50"
    # the entropy turns to twice the target, error -1: E = -1 and K falls at once, by 0.04 + 0.02
    assert part.at(VIEW._replace(entropy=1.0), state) == pytest.approx(0.74)


def test_anti_windup_at_the_lower_bound():
    part = AdaptiveK(K=0.25, target=0.5, kp=0.04, ki=0.02, leak=1, smoothing=0)
    got, state = steered(part, [1.0] * 50)
    assert got[:3] == pytest.approx([0.21, 0.2, 0.2])
    assert state["E"] == 0


def test_an_integral_from_before_saturation_unwinds_at_the_bound():
    # E = 2 pushes up by 0.04 while an error of -0.2 pulls down by 0.008: K stays at its bound and E falls
    part = AdaptiveK(K=0.8, target=0.5, kp=0.04, ki=0.02, leak=1, smoothing=0)
    state = part.start() | {"E": 2.0}
    assert part.at(VIEW._replace(entropy=0.6), state) == 0.8
    assert state["E"] == pytest.approx(1.8)
    # and the other way round at the lower bound
    state = part.start() | {"E": -2.0, "K": 0.2}
    assert part.at(VIEW._replace(entropy=0.4), state) == 0.2
    assert state["E"] == pytest.approx(-1.8)


def test_the_target_is_learned_from_the_beginning_of_the_run():
    part = AdaptiveK(K=0.4, first=2, last=3, kp=0.05, ki=0, smoothing=0)
    # rollouts 2 and 3 have mean 0.5; K waits until it is known, then an error of -0.6 lowers it by 0.03
    got, state = steered(part, [9.0, 0.4, 0.6, 0.8])
    assert got == pytest.approx([0.4, 0.4, 0.4, 0.37])
    assert state["target"] == pytest.approx(0.5)


def test_by_default_from_rollouts_five_to_fifteen():
    _, state = steered(AdaptiveK(), [100.0] * 4 + [1.0, 3.0] * 5 + [2.0] + [100.0] * 3)
    assert state["target"] == 2


def test_no_entropy_to_hold():
    with pytest.raises(ValueError, match="rollouts 1 to 2 have no entropy to hold: set target, in nats"):
        steered(AdaptiveK(first=1, last=2), [0.0, 0.0])
    with pytest.raises(ValueError, match="needs entropy in its view"):
        AdaptiveK().at(VIEW._replace(entropy=None), AdaptiveK().start())


def test_a_controller_goes_on_from_its_saved_state():
    entropies = [0.5 + 0.03 * (i % 7) for i in range(30)]
    part = AdaptiveK(smoothing=0.5)
    whole, _ = steered(part, entropies)
    _, state = steered(part, entropies[:9])
    restored = json.loads(json.dumps(state))
    assert [part.at(VIEW._replace(entropy=value), restored) for value in entropies[9:]] == whole[9:]
    assert len(set(whole)) > 5


def varied(part, *windows, state=None):
    """K of one rollout for each window of gradient norms."""
    state = part.start() if state is None else state
    return [part.at(VIEW._replace(entropy=None, gradient_norms=norms), state) for norms in windows], state


def test_relative_variance_by_hand():
    # mean 2, squared distances 1 0 1 0 0 0 over 5: a variance of 0.4, over 4
    assert relative_variance([1.0, 2.0, 3.0, 2.0, 2.0, 2.0]) == pytest.approx(0.1)
    assert relative_variance([2.0] * 5) == 0
    assert relative_variance([2.0] * 4) is None
    assert relative_variance([0.0] * 9) is None


def test_a_controller_of_gradient_variance():
    part = AdaptiveK(signal="gradient_variance", target=0.2, kp=0.1, ki=0, smoothing=0)
    calm, wild = (1.0, 2.0, 3.0, 2.0, 2.0, 2.0), (0.0, 4.0, 0.0, 4.0, 2.0)
    # 0.1 is half the target, an error of 0.5: K rises by 0.05. Then variance 16 / 4 over 4 is 1, an error of -1
    got, _ = varied(part, calm, wild)
    assert got == pytest.approx([0.45, 0.35])


def test_gradient_variance_waits_until_it_is_defined():
    part = AdaptiveK(signal="gradient_variance", first=1, last=2, ki=0, kp=0.1, smoothing=0)
    calm = (1.0, 2.0, 3.0, 2.0, 2.0, 2.0)
    got, state = varied(part, (), (1.0,) * 4, (0.0,) * 7)
    assert got == [0.4, 0.4, 0.4]
    assert state == part.start(), "nothing was measured, so no rollout counts towards the target"
    got, state = varied(part, calm, calm, state=state)
    assert state["target"] == pytest.approx(0.1)
    assert got == [0.4, 0.4]


def test_the_signal_says_what_is_needed():
    for signal, needs in (("entropy", "entropy"), ("gradient_variance", "gradient_norms")):
        part = AdaptiveK(signal=signal)
        assert part.needs == {needs}
        assert ScheduledQuantile(schedule=part).needs == {needs}
        with pytest.raises(ValueError, match=f"an adaptive K needs {needs} in its view"):
            part.at(VIEW._replace(entropy=None, gradient_norms=None), part.start())
    assert preset("qae_adaptive", signal="gradient_variance").needs == {"gradient_norms"}
    # all norms equal: no variance that a controller could hold
    with pytest.raises(ValueError, match="rollouts 1 to 1 have no gradient variance to hold: set target$"):
        varied(AdaptiveK(signal="gradient_variance", first=1, last=1), (2.0,) * 5)


@few
@given(entropies=st.lists(st.floats(0, 5), min_size=1, max_size=40))
def test_k_never_leaves_its_bounds(entropies):
    got, _ = steered(AdaptiveK(target=0.5, kp=0.5, ki=0.5, smoothing=0.2), entropies)
    assert all(0.2 <= K <= 0.8 for K in got)


@pytest.mark.parametrize(("entropy", "end"), [(0.1, 0.8), (2.0, 0.2)])
def test_entropy_below_the_target_raises_k_and_above_lowers_it(entropy, end):
    got, _ = steered(AdaptiveK(target=0.5), [entropy] * 60)
    assert got[-1] == end
    assert got == sorted(got, reverse=end < 0.4)


@pytest.mark.parametrize(
    ("part", "fields", "says"),
    [
        (AdaptiveK, {"K": 0.9}, "K 0.9 lies outside 0.2 .. 0.8"),
        (AdaptiveK, {"lowest": 0.6, "highest": 0.5}, "lowest 0.6 is above highest 0.5"),
        (SuccessRate, {"lowest": 0.6, "highest": 0.5}, "lowest 0.6 is above highest 0.5"),
        (AdaptiveK, {"first": 9, "last": 8}, "first 9 comes after last 8"),
        (AdaptiveK, {"target": 0}, "target"),
        (ScheduledQuantile, {"schedule": 1}, "constant.K"),
        (ScheduledQuantile, {"schedule": {"kind": "lineal"}}, "'linear', 'cosine', 'two_phase'"),
        (TwoPhase, {}, "switch"),
    ],
)
def test_fields_are_checked(part, fields, says):
    with pytest.raises(ValueError, match=says):
        part(**fields)


# ---------------------------------------------------------------- between two ranks


def test_dithered_by_hand():
    # K G = 3.2: rank 3, or 4 in a fifth of 5,000 groups, with standard error sqrt(0.16 / 5000) = 0.006
    m_P1 = dithered(0.4, torch.zeros(5000, 8), stream())
    assert set(m_P1.flatten().tolist()) == {3.0, 4.0}
    assert m_P1.mean().item() == pytest.approx(3.2, abs=0.03)


@few
@given(G=st.integers(1, 40), m=st.integers(1, 40), seed=st.integers(0, 99))
def test_dithering_changes_nothing_where_the_rank_is_whole(G, m, seed):
    # 0.14 * 50 is 7.000000000000001, 0.29 * 100 is 28.999999999999996: nearly always 7 and 29
    if m < G:
        assert (dithered(m / G, torch.zeros(9, G), stream(seed)) == m).all()
    for K, size, whole in ((0.14, 50, 7), (0.29, 100, 29)):
        assert (dithered(K, torch.zeros(9, size), stream(seed)) == whole).all()


@pytest.mark.parametrize("successes", range(1, 8))
@pytest.mark.parametrize("seed", range(5))
def test_extreme_levels_are_positive_only_and_negative_only(successes, seed):
    view = groups([[1.0] * successes + [0.0] * (8 - successes)] * 4)

    def of(part):
        return part(view.rewards_PG, view, {}, stream(seed))

    # K G = 0.8: rank 0 does not exist, so it is 1; K G = 8 - 8e-9: 7 comes once in a hundred million groups
    assert torch.equal(of(DitheredQuantile(K=0.1)), of(FixedBaseline(b=0)))
    assert torch.equal(of(DitheredQuantile(K=1 - 1e-9)), of(FixedBaseline(b=1)))


@few
@given(percent=st.integers(1, 99), seed=st.integers(0, 99))
def test_a_dithered_group_learns_from_one_side_only_and_a_flat_one_not_at_all(percent, seed):
    view = groups(torch.ones(17, 16).tril(-1))
    adv_PG = advantages(preset("qae_dithered", K=percent / 100), view, seed)
    assert not ((adv_PG > 0).any(1) & (adv_PG < 0).any(1)).any()
    assert (adv_PG[1:16] != 0).any(1).all()
    assert adv_PG[[0, 16]].abs().max() == 0


def test_a_scheduled_quantile_may_be_dithered():
    part = ScheduledQuantile(schedule=0.4, dither=True)
    view = groups([[1.0] * 5 + [0.0] * 3] * 400)
    got_PG = part(view.rewards_PG, view, part.start(), stream(1))
    assert torch.equal(got_PG, DitheredQuantile(K=0.4)(view.rewards_PG, view, {}, stream(1)))
    # three failures: hard at rank 3 (four fifths of the groups), easy at rank 4
    assert (got_PG[:, 0] == 1).double().mean().item() == pytest.approx(0.8, abs=0.08)
