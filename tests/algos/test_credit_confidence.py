"""UCAS: arithmetic by hand, groups, silence, bounds."""

from __future__ import annotations

import math

import pytest
import torch
from algos.made import doubles, stream, tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.algos.credit_confidence import Ucas, scaled, standardised_in_group

few = settings(max_examples=60, deadline=None)


def credited(part, adv, confidence, logits, lengths=None, group=None):
    confidence_BT = doubles(confidence)
    B, T = confidence_BT.shape
    mask_BT = (torch.arange(T) < torch.tensor(lengths or [T] * B)[:, None]).double()
    view = tokens(mask_BT, confidence_BT=confidence_BT, logit_BT=doubles(logits))
    return part(doubles(adv), view._replace(group_B=torch.tensor(group or [0] * B)), {}, stream())


def test_responses_by_hand():
    # sums 2 and 4 have mean 3 and sample std sqrt(2), so s is -1/sqrt 2 and +1/sqrt 2, no token part
    part, s = Ucas(weight=0, eps=1e-300), 2**-0.5
    confidence = [[1.0, 1.0], [3.0, 1.0]]
    got = credited(part, [2.0, 2.0], confidence, [[0.0, 1.0]] * 2)
    # an unsure success counts more, a sure one less
    assert got[:, 0].tolist() == pytest.approx([2 * math.exp(0.25 * s), 2 * math.exp(-0.25 * s)])
    got = credited(part, [-2.0, -2.0], confidence, [[0.0, 1.0]] * 2)
    # an unsure failure counts less, a sure one more
    assert got[:, 0].tolist() == pytest.approx([-2 * math.exp(-0.35 * s), -2 * math.exp(0.35 * s)])


def test_tokens_by_hand():
    # logits 1, 3, 5 and 2 over the rows are 0, 1/2, 1 and 1/4; all confidences are equal, so s is 0
    got = credited(Ucas(weight=0.1), [1.0, -1.0], [[1.0, 1.0]] * 2, [[1.0, 3.0], [5.0, 2.0]])
    assert got.tolist() == [pytest.approx([1.0, 0.95]), pytest.approx([-1.1, -1.025])]


def test_a_positive_advantage_stops_at_zero():
    got = credited(Ucas(weight=0.5), [0.2], [[1.0, 1.0]], [[0.0, 1.0]])
    assert got.tolist() == [[0.2, 0.0]]


def test_silent_responses_are_penalised_unless_they_are_kept():
    confidence, logits = [[1.0, 1.0], [2.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]
    got = credited(Ucas(), [0.0, 0.0], confidence, logits)
    assert got.tolist() == [pytest.approx([0.0, -0.05]), pytest.approx([-0.05, 0.0])]
    got = credited(Ucas(silent="kept"), [0.0, -1.0], confidence, logits)
    assert got[0].tolist() == [0, 0]
    assert (got[1] < 0).all()


def test_confidence_is_summed_so_length_counts():
    # equal confidence of every token: the longer response is the surer one, by its length alone
    got = credited(Ucas(weight=0), [1.0, 1.0], [[1.0, 9.0], [1.0, 1.0]], [[0.0, 0.0]] * 2, lengths=[1, 2])
    assert got[0, 0] > 1 > got[1, 0]
    assert got[0, 1] == 0


def test_groups_are_standardised_apart():
    # 1 and 3 in one group, 10 and 30 in the other: the same scores
    got_B = standardised_in_group(doubles([1.0, 10.0, 3.0, 30.0]), torch.tensor([7, 2, 7, 2]), 1e-300)
    assert got_B.tolist() == pytest.approx([-(2**-0.5), -(2**-0.5), 2**-0.5, 2**-0.5])


def test_a_group_of_equal_confidence_or_of_one_has_scores_of_zero():
    # the mean of three times 0.1 is not 0.1 in float64; eps swallows the dust
    got_B = standardised_in_group(doubles([0.1, 0.1, 0.1, 5.0]), torch.tensor([0, 0, 0, 1]), 1e-6)
    assert got_B.abs().max() < 1e-9


def test_scaled_by_hand():
    mask_BT = doubles([[1, 1, 0], [1, 0, 0]])
    got_BT = scaled(doubles([[2.0, 6.0, 99.0], [4.0, -99.0, 0.0]]), mask_BT) * mask_BT
    assert got_BT.tolist() == [[0, 1, 0], [0.5, 0, 0]]
    assert (scaled(doubles([[3.0, 3.0, 9.0]]), doubles([[1, 1, 0]])) == 0.5).all()
    assert (scaled(doubles([[3.0]]), doubles([[0]])) == 0.5).all()


@few
@given(
    adv=st.lists(st.sampled_from([-1.5, -0.2, 0.0, 0.03, 2.0]), min_size=3, max_size=3),
    confidence=st.lists(st.lists(st.floats(0, 20), min_size=4, max_size=4), min_size=3, max_size=3),
    logits=st.lists(st.lists(st.floats(-30, 30), min_size=4, max_size=4), min_size=3, max_size=3),
)
def test_signs_and_bounds(adv, confidence, logits):
    got_BT, adv_B1 = credited(Ucas(), adv, confidence, logits), doubles(adv)[:, None]
    # of three values a score is at most 2 / sqrt 3 = 1.155; a token takes 0.05 away at most
    assert (got_BT[adv_B1.expand_as(got_BT) > 0] >= 0).all()
    assert (got_BT <= adv_B1.clamp(min=0) * math.exp(0.25 * 1.16)).all()
    assert (got_BT >= adv_B1.clamp(max=0) * math.exp(0.35 * 1.16) - 0.05 - 1e-12).all()
    silent_BT = credited(Ucas(silent="kept"), adv, confidence, logits)
    assert (silent_BT[doubles(adv) == 0] == 0).all()
    assert torch.equal(silent_BT[doubles(adv) != 0], got_BT[doubles(adv) != 0])


def test_padding_may_hold_anything():
    got = credited(Ucas(), [1.0, 1.0], [[1.0, math.nan], [2.0, 1.0]], [[0.0, 1e9], [1.0, 0.5]], lengths=[1, 2])
    assert got[0, 1] == 0
    assert got.isfinite().all()


def test_it_says_what_it_needs():
    assert Ucas().needs == {"confidence", "logit"}
    for field, missing in (("logit_BT", "confidence"), ("confidence_BT", "logit")):
        view = tokens(torch.ones(1, 1), **{field: torch.ones(1, 1)})
        with pytest.raises(ValueError, match=f"ucas needs {missing} in its view"):
            Ucas()(torch.ones(1), view, {}, stream())
