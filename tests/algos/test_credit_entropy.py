"""EntropyAdv, HAPO, GEPO: golden cases, arithmetic by hand, bounds, signs, order of rows, state."""

from __future__ import annotations

import json

import pytest
import torch
from algos.made import by_id, doubles, golden, stream, tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import GroupMean
from seedwise.algos.credit import Uniform
from seedwise.algos.credit_entropy import EntropyAdv, Gepo, Hapo, standardised
from seedwise.algos.objective import Gspo, Objective

few = settings(max_examples=60, deadline=None)
near = lambda value: pytest.approx(value, abs=6e-11, rel=0)  # noqa: E731
MASK_BT = torch.tensor([[1.0, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]])
ENTROPY_BT = torch.tensor([[0.1, 0.9, 0.4, 2.0, 7.0], [0.0, 1.1, 0.2, 0.3, 0.1], [0.5, 0.6, 0.7, 0.8, 0.9]])
ADV_B = torch.tensor([1.3, -0.7, 0.0])
PARTS = [EntropyAdv(), Hapo(), Hapo(scope="response"), Gepo()]


def credited(part, adv_B=ADV_B, mask_BT=MASK_BT, state=None, group_B=None, **fields):
    fields = fields or {"entropy_BT": ENTROPY_BT, "old_logp_BT": -ENTROPY_BT}
    view = tokens(mask_BT, **fields)
    if group_B is not None:
        view = view._replace(group_B=torch.tensor(group_B))
    return part(adv_B, view, part.start() if state is None else state, stream())


@pytest.mark.parametrize("case", golden("EntropyAdv"), ids=by_id)
def test_entropy_adv_golden(case):
    inputs = case["inputs"]
    part = EntropyAdv(alpha=inputs["alpha"], kappa=inputs["kappa"])
    got = credited(part, doubles([inputs["advantage"]]), torch.ones(1, 1), entropy_BT=doubles([[inputs["entropy"]]]))
    assert got.item() == near(case["expected"]["token_advantage"])


@pytest.mark.parametrize("case", golden("HAPO"), ids=by_id)
@pytest.mark.parametrize("scope", ["rollout", "response"])
def test_hapo_golden(case, scope):
    inputs = case["inputs"]
    part = Hapo(alpha=inputs["alpha"], phi=inputs["phi"], scope=scope)
    got = credited(part, doubles([inputs["advantage"]]), torch.ones(1, 4), entropy_BT=doubles([inputs["entropies"]]))
    assert got[0].tolist() == near(case["expected"]["token_advantages"])


def test_entropy_adv_by_hand():
    # |A| / kappa is 0.5: 0.4 H reaches it at H = 1.25; what is added is positive for both signs
    entropy_BT = doubles([[0.5, 1.25, 9.0], [0.5, 1.25, 9.0]])
    got = credited(EntropyAdv(), doubles([1, -1]), torch.ones(2, 3), entropy_BT=entropy_BT)
    assert got[0].tolist() == pytest.approx([1.2, 1.5, 1.5])
    assert got[1].tolist() == pytest.approx([-0.8, -0.5, -0.5])


def test_hapo_pools_the_tokens_of_its_scope():
    # response: 0 and 2 lie one deviation from their mean 1, 10 is its own mean; rollout: mean 5.5, std sqrt(20.75)
    entropy_BT, mask_BT = doubles([[0, 2, 99], [10, 10, 99]]), doubles([[1, 1, 0], [1, 1, 0]])
    z_BT = standardised(entropy_BT, mask_BT, "response", 1e-8) * mask_BT
    assert z_BT.tolist() == [pytest.approx([-1, 1, 0]), [0, 0, 0]]
    std = (((5.5**2 + 3.5**2) + 2 * 4.5**2) / 4) ** 0.5
    z_BT = standardised(entropy_BT, mask_BT, "rollout", 1e-8) * mask_BT
    assert z_BT.tolist() == [pytest.approx([-5.5 / std, -3.5 / std, 0]), pytest.approx([4.5 / std, 4.5 / std, 0])]


@pytest.mark.parametrize("scope", ["rollout", "response"])
def test_hapo_of_equal_entropies_is_uniform(scope):
    # the float32 mean of fifteen times 0.7 is not 0.7
    got = credited(Hapo(scope=scope), entropy_BT=torch.full((3, 5), 0.7))
    torch.testing.assert_close(got, credited(Uniform()), rtol=1e-7, atol=0)


@pytest.mark.parametrize("part", [EntropyAdv(alpha=0), Hapo(alpha=0)], ids=lambda part: part.kind)
def test_alpha_zero_is_uniform_bit_for_bit(part):
    assert torch.equal(credited(part), credited(Uniform()))
    assert not torch.equal(credited(type(part)()), credited(Uniform()))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.kind)
@few
@given(seed=st.integers(0, 999), order=st.permutations(range(4)))
def test_signs_padding_and_order_of_rows(part, seed, order):
    rng = stream(seed)
    entropy_BT = torch.rand(4, 6, generator=rng, dtype=torch.float64) * 3
    mask_BT = (torch.arange(6) < torch.randint(0, 7, (4, 1), generator=rng)).double()
    adv_B, groups = doubles([1.5, -0.4, 0.0, 2.0]), [0, 0, 3, 3]
    fields = {"entropy_BT": entropy_BT, "old_logp_BT": -entropy_BT}
    got_BT = credited(part, adv_B, mask_BT, group_B=groups, **fields)
    assert torch.equal(got_BT.sign(), adv_B.sign()[:, None] * mask_BT)
    moved = {name: value[order] for name, value in fields.items()}
    moved_BT = credited(part, adv_B[order], mask_BT[order], group_B=[groups[i] for i in order], **moved)
    torch.testing.assert_close(moved_BT, got_BT[order])


@few
@given(entropies=st.lists(st.floats(0, 9), min_size=2, max_size=8), advantage=st.floats(-5, 5))
def test_sizes_stay_within_their_bounds(entropies, advantage):
    adv_B, mask_BT, fields = doubles([advantage]), torch.ones(1, len(entropies)), {"entropy_BT": doubles([entropies])}
    size_BT = credited(Hapo(), adv_B, mask_BT, **fields).abs()
    assert size_BT.min() >= 0.9 * abs(advantage) - 1e-12
    assert size_BT.max() <= 1.1 * abs(advantage) + 1e-12
    added_BT = credited(EntropyAdv(), adv_B, mask_BT, **fields) - advantage
    assert added_BT.min() >= 0
    assert added_BT.max() <= abs(advantage) / 2 + 1e-12


GROUPS = [0, 0, 7, 7]
# group 0: (0.5 + 0.5 + 2) / 3 tokens = 1; group 7: 3.  mean 2, population std 1: low 1.8, high 2.3
LOGP_BT = -doubles([[0.5, 0.5], [2.0, 99.0], [3.0, 3.0], [3.0, 3.0]])
LENGTHS_BT = doubles([[1, 1], [1, 0], [1, 1], [1, 1]])


def test_gepo_by_hand():
    state = Gepo().start()
    got = credited(Gepo(), doubles([1, -1, -1, 1]), LENGTHS_BT, state, GROUPS, old_logp_BT=LOGP_BT)
    # held back: successes of the sure group, failures of the unsure one
    assert got.tolist() == [[0.5, 0.5], [-1, 0], [-0.2, -0.2], [1, 1]]
    assert state == pytest.approx({"low": 1.8, "high": 2.3})


def test_gepo_thresholds_move_slowly():
    state = Gepo().start()
    for factor in (1, 2):
        got = credited(Gepo(), doubles([1, -1, -1, 1]), LENGTHS_BT, state, GROUPS, old_logp_BT=factor * LOGP_BT)
    # second rollout: estimates 3.6 and 4.6, of which 1 % is taken in; H = 2 is no longer low
    assert state == pytest.approx({"low": 0.99 * 1.8 + 0.036, "high": 0.99 * 2.3 + 0.046})
    assert got.tolist() == [[1, 1], [-1, 0], [-0.2, -0.2], [1, 1]]
    assert json.loads(json.dumps(state)) == state


def test_gepo_of_one_group_has_no_spread_and_holds_nothing_back():
    assert torch.equal(credited(Gepo()), credited(Uniform()))


def test_gepo_is_the_only_even_one():
    assert [part.even for part in PARTS] == [False, False, False, True]
    assert all(part.experimental for part in PARTS)
    # so it is the only one that a ratio of the whole response lets through
    objective = Objective(surrogate=Gspo())
    assert Algorithm(baseline=(GroupMean(),), credit=Gepo(), objective=objective).credit == Gepo()
    with pytest.raises(ValueError, match="credit hapo has no effect under gspo of level sequence"):
        Algorithm(baseline=(GroupMean(),), credit=Hapo(), objective=objective)


@pytest.mark.parametrize(("part", "field"), [(EntropyAdv(), "entropy"), (Hapo(), "entropy"), (Gepo(), "old_logp")])
def test_missing_fields_are_named(part, field):
    assert part.needs == {field}
    with pytest.raises(ValueError, match=f"{part.kind} needs {field} in its view"):
        credited(part, ids_BT=torch.zeros(3, 5))


@pytest.mark.parametrize(
    ("part", "fields", "says"),
    [
        (EntropyAdv, {"kappa": 1}, "kappa"),
        (EntropyAdv, {"alpha": -0.1}, "alpha"),
        (Hapo, {"alpha": 2}, "alpha 2.0 is not below phi 2.0, so a sign could turn: lower alpha"),
        (Hapo, {"scope": "batch"}, "scope"),
        (Gepo, {"alpha_high": 0.5}, "alpha_high 0.5 is not below alpha_low 0.5"),
        (Gepo, {"gamma": 0}, "gamma"),
    ],
)
def test_fields_are_checked(part, fields, says):
    with pytest.raises(ValueError, match=says):
        part(**fields)
