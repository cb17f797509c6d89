"""RLRT: arithmetic by hand, who is taught, bounds."""

from __future__ import annotations

import math

import pytest
import torch
from algos.made import doubles, stream, tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.algos.credit import Uniform
from seedwise.algos.credit_teacher import Rlrt

few = settings(max_examples=60, deadline=None)
NAN = math.nan


def credited(part, adv, student, teacher, correct, lengths=None):
    student_BT = doubles(student)
    lengths = lengths or [student_BT.shape[1]] * len(adv)
    mask_BT = (torch.arange(student_BT.shape[1]) < torch.tensor(lengths)[:, None]).double()
    view = tokens(mask_BT, old_logp_BT=student_BT, teacher_logp_BT=doubles(teacher))
    return part(doubles(adv), view._replace(correct_B=doubles(correct)), {}, stream())


def test_by_hand():
    # A = 2, correct. The teacher finds the first token twice as likely: w = 1/2, factor 0.5 + 0.25 = 0.75; the second
    # a quarter as likely: w = 4, cut to 2, factor 1.5; the third as likely: 1
    log = math.log
    got = credited(Rlrt(), [2.0], [[log(0.4), log(0.4), log(0.4)]], [[log(0.8), log(0.1), log(0.4)]], [1])
    assert got[0].tolist() == pytest.approx([1.5, 3.0, 2.0])


def test_a_correct_response_below_the_baseline_turns_the_ratio_round():
    # sign(A) = -1: w = 2 where the teacher finds the token twice as likely; 1 + 0.5 * (2 - 1)
    got = credited(Rlrt(), [-1.0], [[math.log(0.4)]], [[math.log(0.8)]], [1])
    assert got.item() == pytest.approx(-1.5)


def test_eps_bounds_the_ratio_and_mix_weighs_it():
    # w = 1/2 and 4 cut to 0.8 and 1.2; a quarter of the difference is taken
    log = math.log
    part = Rlrt(mix=0.25, eps_w=0.2)
    got = credited(part, [1.0], [[log(0.4), log(0.4)]], [[log(0.8), log(0.1)]], [1])
    assert got[0].tolist() == pytest.approx([0.95, 1.05])


def test_wrong_responses_and_those_without_a_teacher_keep_their_advantage():
    # graded 0.9 is not correct; NaN has no teacher
    adv, student = [1.0, -1.0, 0.5, 1.0], [[-1.0, -2.0]] * 4
    got = credited(Rlrt(), adv, student, [[-5.0, -5.0], [-5.0, -5.0], [-5.0, -5.0], [NAN, NAN]], [0, 0, 0.9, 1])
    assert got.tolist() == [[1.0, 1.0], [-1.0, -1.0], [0.5, 0.5], [1.0, 1.0]]


def test_impossible_tokens_stay_finite():
    # a student's probability of 0 is rounding; both at 0 say nothing
    inf = math.inf
    got = credited(Rlrt(), [1.0], [[-inf, -1.0, -inf]], [[-1.0, -inf, -inf]], [1])
    assert got[0].tolist() == pytest.approx([0.5, 1.5, 1.0])


def test_padding_is_zero_and_moves_nothing():
    got = credited(Rlrt(), [1.0], [[-1.0, 0.0]], [[-1.0, NAN]], [1], lengths=[1])
    assert got.tolist() == [[1.0, 0.0]]


@few
@given(
    adv=st.lists(st.floats(-3, 3), min_size=2, max_size=2),
    student=st.lists(st.lists(st.floats(-9, 0), min_size=4, max_size=4), min_size=2, max_size=2),
    teacher=st.lists(st.lists(st.floats(-9, 0), min_size=4, max_size=4), min_size=2, max_size=2),
    mix=st.floats(0, 1),
    eps_w=st.floats(0.01, 1),
)
def test_factors_lie_within_their_bounds(adv, student, teacher, mix, eps_w):
    got_BT = credited(Rlrt(mix=mix, eps_w=eps_w), adv, student, teacher, [1, 1])
    bound_B1 = doubles(adv).abs()[:, None]
    assert (got_BT * doubles(adv)[:, None] >= 0).all()
    assert (got_BT.abs() <= bound_B1 * (1 + mix * eps_w) + 1e-12).all()
    assert (got_BT.abs() >= bound_B1 * (1 - mix * eps_w) - 1e-12).all()


def test_mix_zero_is_uniform_bit_for_bit():
    view = tokens(torch.ones(2, 2), old_logp_BT=doubles([[-1.0, -2.0]] * 2), teacher_logp_BT=doubles([[-3.0, NAN]] * 2))
    view = view._replace(correct_B=torch.ones(2))
    adv_B = torch.tensor([0.1, -0.7])
    assert torch.equal(Rlrt(mix=0)(adv_B, view, {}, stream()), Uniform()(adv_B, view, {}, stream()))


def test_it_says_what_it_needs():
    assert Rlrt().needs == {"old_logp", "teacher_logp"}
    with pytest.raises(ValueError, match="rlrt needs teacher_logp in its view"):
        Rlrt()(torch.ones(1), tokens(torch.ones(1, 1), old_logp_BT=torch.zeros(1, 1)), {}, stream())
    with pytest.raises(ValueError, match="eps_w"):
        Rlrt(eps_w=1.5)
