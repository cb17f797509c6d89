"""One table over all presets: what every method must satisfy, and where methods differ."""

from __future__ import annotations

import pytest
import torch
from algos.made import ALL_PRESETS, advantages, doubles, groups, stream, tokens
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.presets import PRESETS, preset

# (preset, group sum is 0, a function of the group's rewards alone, divides by its std so that their scale drops out)
TABLE = [
    ("grpo", True, True, True),
    ("dr_grpo", True, True, False),
    ("clip_higher", True, True, True),
    ("dapo", True, True, True),
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
    ("ucas", True, True, True),
    ("gepo", True, True, True),
    ("rlrt", True, True, True),
    ("cispo", True, True, True),
    ("clip_cov", True, True, True),
    ("kl_cov", True, True, True),
    ("qae_clip_cov", False, True, True),
    ("qae_kl_cov", False, True, True),
    ("qae_gspo", False, True, True),
]
NAMES = [row[0] for row in TABLE]
# presets that share a chain of baselines or a credit rule share its properties: the first stands for all
CHAINS = list({ALL_PRESETS[name].baseline: name for name in reversed(NAMES)}.values())
CREDITS = list({ALL_PRESETS[name].credit: name for name in reversed(NAMES)}.values())
ZERO_SUM = [row[0] for row in TABLE if row[1] and row[0] in CHAINS]
NOT_ZERO_SUM = [row[0] for row in TABLE if not row[1]]
DETERMINISTIC = [row[0] for row in TABLE if row[2] and row[0] in CHAINS]
SCALE_FREE = [row[0] for row in TABLE if row[3] and row[0] in CHAINS]
# credit that redistributes an advantage within its response; the rest adds to it or takes away
MEAN_KEPT = [name for name in CREDITS if ALL_PRESETS[name].credit.kind in ("uniform", "entropic")]
# takes something away from tokens of responses that have no advantage too
PENALISES_ALL = ["ucas"]
# subtracts the mean of the rollout last, so dust moves the sign of a sample at the mean
WITHIN_GROUPS = [name for name in CHAINS if name != "reinforce_pp"]

few = settings(max_examples=25, deadline=None)
binary = st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=5, max_size=5), min_size=1, max_size=4)


def test_the_table_has_every_preset():
    assert sorted(NAMES) == sorted(PRESETS)


def test_rows_of_one_chain_of_baselines_say_the_same():
    said = {}
    for name, *row in TABLE:
        assert said.setdefault(ALL_PRESETS[name].baseline, row) == row, name


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


@pytest.mark.parametrize("name", NOT_ZERO_SUM)
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


def credited(algorithm, adv, entropies, lengths, group=(0, 1, 2), order=(0, 1, 2), step=0):
    """(token advantages, mask) of three responses, by default each a group, of which the second is correct."""
    rows = torch.tensor(order)
    mask_BT, entropy_BT = doubles([[1.0] * length + [0.0] * (6 - length) for length in lengths]), doubles(entropies)
    fields = {
        "entropy_BT": entropy_BT,
        "entropy_quantiles": (0.3, 1.7),
        "old_logp_BT": -entropy_BT,
        "surprisal_quantiles": (0.3, 1.7),
        "ids_BT": (entropy_BT > 1).long(),
        "logit_BT": 3 * entropy_BT,
        "confidence_BT": 4 - entropy_BT,
        "teacher_logp_BT": -entropy_BT.square(),
    }
    shuffled = {key: value[rows] if isinstance(value, torch.Tensor) else value for key, value in fields.items()}
    view = tokens(mask_BT[rows], step, **shuffled)
    view = view._replace(correct_B=doubles([0, 1, 0])[rows], group_B=torch.tensor(group)[rows])
    credit = algorithm.credit
    return credit(doubles(adv)[rows], view, credit.start(), stream()), view.mask_BT


@pytest.mark.parametrize("name", MEAN_KEPT)
@few
@given(**responses)
def test_credit_keeps_the_mean_and_the_sign(name, adv, entropies, lengths):
    adv_BT, mask_BT = credited(ALL_PRESETS[name], adv, entropies, lengths)
    assert (adv_BT.sum(1) / mask_BT.sum(1)).tolist() == pytest.approx(adv, abs=1e-12)
    assert torch.equal(adv_BT.sign(), doubles(adv).sign()[:, None] * mask_BT)


@pytest.mark.parametrize("name", CREDITS)
@few
@given(**responses)
def test_credit_turns_no_sign_and_leaves_padding_at_zero(name, adv, entropies, lengths):
    adv_BT, mask_BT = credited(ALL_PRESETS[name], adv, entropies, lengths)
    assert (adv_BT * (1 - mask_BT)).abs().max() == 0
    assert (adv_BT * doubles(adv)[:, None] >= 0).all()
    assert name in PENALISES_ALL or (adv_BT[doubles(adv) == 0] == 0).all()


def test_what_takes_from_all_is_named():
    # nothing to learn from, and yet token advantages
    adv_BT, _ = credited(ALL_PRESETS["ucas"], [0.0, 0.0, 0.0], [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]] * 3, [6, 6, 6])
    assert (adv_BT < 0).any()


@pytest.mark.parametrize("name", CREDITS)
@few
@given(**responses, order=st.permutations(range(3)))
def test_rows_may_come_in_any_order(name, adv, entropies, lengths, order):
    adv_BT, _ = credited(ALL_PRESETS[name], adv, entropies, lengths, group=(0, 0, 1))
    shuffled_BT, _ = credited(ALL_PRESETS[name], adv, entropies, lengths, group=(0, 0, 1), order=order)
    if name == "forking":  # of equal entropies the earlier token is kept
        assume(len({value for row in entropies for value in row}) == 18)
    torch.testing.assert_close(shuffled_BT, adv_BT[list(order)])


@pytest.mark.parametrize("name", SCALE_FREE)
@few
@given(
    rewards=binary,
    scale=st.sampled_from([0.5, 2.0, 100.0]),
    shift=st.sampled_from([-1.0, 0.0, 0.25, 3.0]),
)
def test_scale_and_origin_of_rewards_drop_out(name, rewards, scale, shift):
    # the sample std of a mixed group of five is at least 0.44, of which eps is 2e-6, or 4e-6 at half the scale
    view = groups(rewards)
    other = view._replace(rewards_PG=scale * view.rewards_PG + shift)
    torch.testing.assert_close(
        advantages(ALL_PRESETS[name], other), advantages(ALL_PRESETS[name], view), rtol=1e-5, atol=1e-12
    )


@pytest.mark.parametrize("name", CHAINS)
@few
@given(
    verdicts=st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]), min_size=6, max_size=6),
    penalty=st.lists(st.sampled_from([-1.0, -0.3, 0.0]), min_size=6, max_size=6),
)
def test_graded_and_penalised_rewards_are_defined(name, verdicts, penalty):
    view = groups([verdicts], [penalty])._replace(correct_PG=doubles([verdicts]))
    adv_PG = advantages(ALL_PRESETS[name], view)
    assert adv_PG.isfinite().all()
    if len(set(view.rewards_PG[0].tolist())) == 1:
        assert adv_PG.abs().max() == 0
    # whoever is strictly the best is never below whoever is strictly the worst, were it not for drawn or masked samples
    if name not in ("random_sparsity", "pos_mask", "neg_mask"):
        assert adv_PG[0, view.rewards_PG[0].argmax()] >= adv_PG[0, view.rewards_PG[0].argmin()]


@pytest.mark.parametrize("successes", range(9))
def test_extreme_ranks_are_positive_only_and_negative_only_bit_for_bit(successes):
    # m = ceil(K 8) is 1 up to K = 1/8 and 8 above 7/8
    view = groups([[1.0] * successes + [0.0] * (8 - successes)])
    for qae in ("qae", "qae_dithered"):
        assert torch.equal(advantages(preset(qae, K=0.125), view), advantages(preset("psr"), view))
    assert torch.equal(advantages(preset("qae", K=0.9), view), advantages(preset("nsr"), view))
    assert torch.equal(advantages(preset("hard_gate", tau=0.9), view), advantages(preset("nsr"), view))


NEUTRAL = {
    "eapo without kappa": ("eapo", {"kappa": 0}),
    "eapo (0, 0)": ("eapo", {"b_plus": 0, "b_minus": 0}),
    "eapo decayed": ("eapo", {"decay_steps": 1}),
    "a3po": ("a3po", {"scale": 1}),
    "entropy_adv": ("entropy_adv", {"alpha": 0}),
    "hapo": ("hapo", {"alpha": 0}),
    "forking": ("forking", {"rho": 1}),
    "rlrt": ("rlrt", {"mix": 0}),
    "ucas": ("ucas", {"success": 0, "failure": 0, "weight": 0}),
}


@pytest.mark.parametrize("name", NEUTRAL)
@few
@given(**responses)
def test_without_its_effect_credit_is_uniform_bit_for_bit(name, adv, entropies, lengths):
    base, params = NEUTRAL[name]
    got_BT, mask_BT = credited(preset(base, **params), adv, entropies, lengths, step=1)
    assert torch.equal(got_BT, doubles(adv)[:, None] * mask_BT)


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
