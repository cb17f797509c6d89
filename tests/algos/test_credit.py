"""Credit rules: bounds, the uniform limits, surprisal, decay, pooled quantiles."""

from __future__ import annotations

import math

import pytest
import torch
from algos.made import doubles, stream, tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.algos.credit import Entropic, Uniform, normalised
from seedwise.algos.views import pooled_quantiles

few = settings(max_examples=60, deadline=None)
MASK_BT = torch.tensor([[1.0, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]])
ENTROPY_BT = torch.tensor([[0.1, 0.9, 0.4, 2.0, 7.0], [0.0, 1.1, 0.2, 0.3, 0.1], [0.5, 0.6, 0.7, 0.8, 0.9]])
ADV_B = torch.tensor([1.3, -0.7, 0.0])


def credited(part, adv_B=ADV_B, step=0, **fields):
    fields = fields or {"entropy_BT": ENTROPY_BT, "entropy_quantiles": (0.1, 1.0)}
    return part(adv_B, tokens(MASK_BT, step=step, **fields), {}, stream())


def test_uniform_by_hand():
    assert Uniform()(torch.tensor([2.0, -1.0, 0.5]), tokens(MASK_BT), {}, stream()).tolist() == [
        [2, 2, 2, 2, 0],
        [-1, -1, 0, 0, 0],
        [0.5] * 5,
    ]


@pytest.mark.parametrize("part", [Entropic(kappa=0), Entropic(b_plus=0, b_minus=0)], ids=["kappa 0", "(0, 0)"])
def test_no_direction_is_uniform_bit_for_bit(part):
    assert torch.equal(credited(part), credited(Uniform()))


def test_entropic_differs_where_it_has_a_direction():
    assert not torch.equal(credited(Entropic()), credited(Uniform()))


def test_entropic_by_hand():
    # kappa = log 4, h = 0 and 1: raw weights 1 and 4 after success, mean 2.5; 1 and 1/4 after failure, mean 0.625
    view = tokens(torch.ones(2, 2), entropy_BT=doubles([[0, 9], [0, 9]]), entropy_quantiles=(1.0, 2.0))
    got = Entropic(kappa=math.log(4))(doubles([1, -1]), view, {}, stream())
    assert got[0].tolist() == pytest.approx([0.4, 1.6])
    assert got[1].tolist() == pytest.approx([-1.6, -0.4])


def test_directions_act_on_their_own_sign():
    same = credited(Entropic(b_plus=0, b_minus=-1))
    assert torch.equal(same[0], credited(Uniform())[0])
    assert torch.equal(same[1], credited(Entropic())[1])
    # turning b_minus to +1 gives failures the weights that successes have
    turned = credited(Entropic(b_plus=1, b_minus=1), adv_B=torch.tensor([-1.3, -0.7, 0.0]))
    torch.testing.assert_close(turned[0], -credited(Entropic())[0])


@few
@given(kappa=st.floats(0, 20), seed=st.integers(0, 50), sign=st.sampled_from([-1.0, 1.0]))
def test_weights_stay_within_the_ratio_and_average_one(kappa, seed, sign):
    entropy_BT = torch.rand(1, 9, generator=stream(seed), dtype=torch.float64) * 3
    view = tokens(torch.ones(1, 9), entropy_BT=entropy_BT, entropy_quantiles=(0.5, 2.5))
    weight_T = Entropic(kappa=kappa)(doubles([sign]), view, {}, stream())[0] * sign
    assert weight_T.mean().item() == pytest.approx(1)
    assert math.exp(-kappa) * (1 - 1e-9) <= weight_T.min().item()
    assert weight_T.max().item() <= math.exp(kappa) * (1 + 1e-9)
    assert weight_T.max().item() <= weight_T.min().item() * math.exp(kappa) * (1 + 1e-9)
    # more entropy, more credit after success and less after failure
    ordered_T = weight_T[entropy_BT[0].argsort()]
    assert (sign * ordered_T.diff() >= -1e-12).all()


@pytest.mark.parametrize("kappa", [1.0, 20.0])
def test_a_response_without_tokens_stays_finite(kappa):
    view = tokens(torch.tensor([[0.0, 0.0], [1.0, 1.0]]), entropy_BT=torch.ones(2, 2), entropy_quantiles=(0.0, 1.0))
    assert Entropic(kappa=kappa)(torch.tensor([-1.0, -1.0]), view, {}, stream()).tolist() == [[0, 0], [-1, -1]]


def test_surprisal_takes_the_place_of_entropy():
    part = Entropic(source="surprisal")
    got = credited(part, old_logp_BT=-ENTROPY_BT, surprisal_quantiles=(0.1, 1.0))
    assert torch.equal(got, credited(Entropic()))
    assert part.needs == {"old_logp", "surprisal_quantiles"}
    assert Entropic().needs == {"entropy", "entropy_quantiles"}
    with pytest.raises(ValueError, match="surprisal needs old_logp and surprisal_quantiles in its view"):
        credited(part)


def test_kappa_decays_linearly_to_zero():
    part = Entropic(kappa=1.0, decay_steps=4)
    assert [part.kappa_at(step) for step in (0, 1, 2, 4, 9)] == [1.0, 0.75, 0.5, 0.0, 0.0]
    assert torch.equal(credited(part, step=2), credited(Entropic(kappa=0.5)))
    assert torch.equal(credited(part, step=9), credited(Uniform()))


def test_normalised_is_a_step_when_the_quantiles_coincide():
    assert normalised(doubles([0.6, 0.7, 0.8]), 0.7, 0.7).tolist() == [0, 0, 1]


def test_normalised_carries_no_gradient():
    entropy_BT = torch.rand(2, 3, requires_grad=True)
    assert not normalised(entropy_BT, 0.1, 0.9).requires_grad


@few
@given(values=st.lists(st.floats(0, 5), min_size=1, max_size=40))
def test_pooled_quantiles_interpolate_as_torch_does(values):
    values_N = doubles(values)
    expected = [values_N.quantile(level).item() for level in (0.1, 0.9)]
    assert list(pooled_quantiles(values_N)) == pytest.approx(expected, abs=1e-12)


def test_pooled_quantiles_of_nothing_are_refused():
    with pytest.raises(ValueError, match="no response token"):
        pooled_quantiles(torch.empty(0))


@pytest.mark.parametrize(
    "fields", [{"kappa": -1}, {"kappa": 21}, {"b_plus": 2}, {"b_minus": 0.5}, {"source": "logits"}, {"decay_steps": 0}]
)
def test_fields_are_checked(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        Entropic(**fields)
