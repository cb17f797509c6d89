"""One table over all presets: what every method must satisfy, and where methods differ."""

from __future__ import annotations

import pytest
import torch
from algos.made import ALL_PRESETS, advantages, doubles, groups, stream, tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.algos.algorithm import PRESETS, Algorithm, preset

# (preset, group sum is 0, a function of the group's rewards alone, divides by its std so that their scale drops out)
TABLE = [
    ("grpo", True, True, True),
    ("dr_grpo", True, True, False),
    ("clip_higher", True, True, True),
    ("rloo", True, True, False),
    ("gspo", True, True, True),
    ("qae", False, True, True),
    ("eapo", True, True, True),
    ("qae_eapo", False, True, True),
    ("pos_mask", False, True, True),
    ("neg_mask", False, True, True),
    ("random_sparsity", False, False, True),
    ("opo", True, True, False),  # all lengths are equal in these groups
    ("reinforce_pp", True, False, False),
    ("psr", False, True, False),  # takes rewards to be 0 and 1, as the next two do
    ("nsr", False, True, False),
    ("hard_gate", False, True, False),
    ("qae_scheduled", False, True, True),
    ("qae_adaptive", False, True, True),
    ("qae_dithered", False, False, True),
    ("entropy_adv", True, True, True),
    ("hapo", True, True, True),
    ("forking", True, True, True),
    ("a3po", True, True, True),
    ("less", True, True, True),
    ("gepo", True, True, True),
    ("cispo", True, True, True),
    ("clip_cov", True, True, True),
    ("kl_cov", True, True, True),
    ("qae_clip_cov", False, True, True),
    ("qae_kl_cov", False, True, True),
    ("qae_gspo", False, True, True),
]
NAMES = [row[0] for row in TABLE]
ZERO_SUM = [row[0] for row in TABLE if row[1]]
DETERMINISTIC = [row[0] for row in TABLE if row[2]]
SCALE_FREE = [row[0] for row in TABLE if row[3]]
# credit that redistributes an advantage within its response; the rest adds to it or takes away
MEAN_KEPT = [name for name in NAMES if ALL_PRESETS[name].credit.kind in ("uniform", "entropic")]
# subtracts the mean of the rollout last, so dust moves the sign of a sample at the mean
WITHIN_GROUPS = [name for name in NAMES if name != "reinforce_pp"]

few = settings(max_examples=40, deadline=None)
binary = st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=5, max_size=5), min_size=1, max_size=4)


def test_the_table_has_every_preset():
    assert sorted(NAMES) == sorted(PRESETS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_flat_group_gets_exactly_zero(name, value, dtype):
    # the mean of seven times 0.1 is not 0.1 in float32, and divided by eps the difference would be large
    view = groups(torch.full((3, 7), value, dtype=dtype))
    assert torch.equal(advantages(ALL_PRESETS[name], view), torch.zeros(3, 7, dtype=dtype))


@pytest.mark.parametrize("name", NAMES)
def test_all_wrong_under_one_penalty_is_flat_too(name):
    view = groups([[0.0] * 4, [1.0] * 4], penalty=[[-0.5] * 4, [-0.25] * 4])
    assert advantages(ALL_PRESETS[name], view).abs().max() == 0


@pytest.mark.parametrize("name", ZERO_SUM)
@few
@given(rewards=binary)
def test_group_sum_is_zero(name, rewards):
    assert advantages(ALL_PRESETS[name], groups(rewards)).sum(1).abs().max() < 1e-9


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ZERO_SUM])
def test_group_sum_is_not_zero_elsewhere(name):
    sums_P = advantages(ALL_PRESETS[name], groups([[1.0, 0, 0, 0, 0, 0, 0, 0], [1.0, 1, 1, 1, 1, 1, 0, 0]])).sum(1)
    assert sums_P.abs().max() > 0.5


@pytest.mark.parametrize("name", DETERMINISTIC)
@few
@given(rewards=binary, order=st.permutations(range(5)))
def test_samples_may_come_in_any_order(name, rewards, order):
    shuffled = advantages(ALL_PRESETS[name], groups([[row[i] for i in order] for row in rewards]))
    torch.testing.assert_close(shuffled, advantages(ALL_PRESETS[name], groups(rewards))[:, order])


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_groups_do_not_see_each_other(name):
    rows = [[1.0, 0, 0, 0, 0], [1.0, 1, 1, 1, 0], [0.0, 0, 0, 0, 0]]
    together = advantages(ALL_PRESETS[name], groups(rows))
    alone = torch.cat([advantages(ALL_PRESETS[name], groups([row])) for row in rows])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("name", WITHIN_GROUPS)
@few
@given(rewards=binary)
def test_no_success_is_punished_and_no_failure_rewarded(name, rewards):
    view = groups(rewards)
    adv_PG = advantages(ALL_PRESETS[name], view)
    assert (adv_PG[view.correct_PG == 1] >= 0).all()
    assert (adv_PG[view.correct_PG == 0] <= 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_at_most_one_side_is_lost(name):
    # of two successes in eight something is learnt by every method
    assert advantages(ALL_PRESETS[name], groups([[1.0, 1, 0, 0, 0, 0, 0, 0]])).abs().sum() > 0


@pytest.mark.parametrize("name", SCALE_FREE)
def test_rewards_of_minus_one_and_one_change_nothing(name):
    # (R - b) doubles and so does the standard deviation; only eps notices
    zero_one, plus_minus = [[1.0, 0, 0, 0, 0]], [[1.0, -1, -1, -1, -1]]
    algorithm = ALL_PRESETS[name]
    expected = advantages(algorithm, groups(zero_one))[0].tolist()
    assert advantages(algorithm, groups(plus_minus))[0].tolist() == pytest.approx(expected, rel=1e-5)


responses = {
    "adv": st.lists(st.sampled_from([-2.0, -0.5, 0.0, 1.5]), min_size=3, max_size=3),
    "entropies": st.lists(st.lists(st.floats(0, 4), min_size=6, max_size=6), min_size=3, max_size=3),
    "lengths": st.lists(st.integers(1, 6), min_size=3, max_size=3),
}


def credited(name, adv, entropies, lengths):
    """(token advantages, mask) of three responses, each a group, of which the second is correct."""
    mask_BT, entropy_BT = doubles([[1.0] * length + [0.0] * (6 - length) for length in lengths]), doubles(entropies)
    ids_BT = (entropy_BT > 1).long()
    fields = {"entropy_BT": entropy_BT, "entropy_quantiles": (0.3, 1.7), "old_logp_BT": -entropy_BT, "ids_BT": ids_BT}
    view = tokens(mask_BT, **fields)._replace(correct_B=doubles([0, 1, 0]), group_B=torch.arange(3))
    credit = ALL_PRESETS[name].credit
    return credit(doubles(adv), view, credit.start(), stream()), mask_BT


@pytest.mark.parametrize("name", MEAN_KEPT)
@few
@given(**responses)
def test_credit_keeps_the_mean_and_the_sign(name, adv, entropies, lengths):
    adv_BT, mask_BT = credited(name, adv, entropies, lengths)
    assert (adv_BT.sum(1) / mask_BT.sum(1)).tolist() == pytest.approx(adv, abs=1e-12)
    assert torch.equal(adv_BT.sign(), doubles(adv).sign()[:, None] * mask_BT)


@pytest.mark.parametrize("name", NAMES)
@few
@given(**responses)
def test_credit_turns_no_sign_and_leaves_padding_at_zero(name, adv, entropies, lengths):
    adv_BT, mask_BT = credited(name, adv, entropies, lengths)
    assert (adv_BT * (1 - mask_BT)).abs().max() == 0
    assert (adv_BT * doubles(adv)[:, None] >= 0).all()
    assert (adv_BT[doubles(adv) == 0] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_spec_is_json_and_comes_back_the_same(name):
    algorithm = ALL_PRESETS[name]
    assert Algorithm.model_validate(algorithm.model_dump(mode="json")) == algorithm
    assert Algorithm.model_validate_json(algorithm.model_dump_json()) == algorithm


@pytest.mark.parametrize(("name", "without_std"), [("grpo", 0.75), ("qae", 1.0), ("pos_mask", 1.0), ("neg_mask", 1.0)])
def test_eps_reaches_the_division(name, without_std):
    # one success in four: the sample std is sqrt((0.75**2 + 3 * 0.25**2) / 3) = 0.5
    got = advantages(preset(name, eps=0.5), groups([[1.0, 0, 0, 0]]))[0, 0].item()
    assert got == pytest.approx(without_std / (0.5 + 0.5))
