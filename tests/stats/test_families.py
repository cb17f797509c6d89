import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student
from statsmodels.stats.multitest import multipletests

from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.curves import welch
from seedwise.stats.families import bh, family, holm
from seedwise.stats.results import Contrast, StatsError
from seedwise.stats.tost import tost


def contrast(d, se, df=20.0, **changes):
    """A contrast as tw_contrast gives it for this difference, standard error and df."""
    fields = {"V_seed": None, "df_seed": None, "V_prob": None, "df_prob": None, "V_res": None, "df_res": None}
    p = 2 * student.sf(abs(d / se), df)
    half = student.ppf(0.975, df) * se
    values = {"d": d, "se": se, "df": df, "t": d / se, "p": p, "lo": d - half, "hi": d + half, "V": se**2}
    return Contrast(**{**fields, **values, "branch": "sum", **changes})


def untested(reason="an interval over seeds needs at least 2, got 1"):
    return replace(contrast(0.1, 0.01), se=None, df=None, t=None, p=None, lo=None, hi=None, reason=reason)


def test_g12_golden(golden):
    case = golden["G12"]
    assert holm(case["p"]) == tuple(golden.printed(p) for p in case["holm"])
    assert bh(case["p"]) == tuple(golden.printed(p) for p in case["bh"])


def stepped_down(p):
    """Holm 1979: the i-th smallest of m (from 0) times m - i, never below the one before, at most 1."""
    adjusted, highest = [0.0] * len(p), 0.0
    for i, at in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        highest = max(highest, (len(p) - i) * p[at])
        adjusted[at] = min(highest, 1.0)
    return tuple(adjusted)


# few examples: statsmodels, called bare, collects all garbage on every call of Holm
@settings(max_examples=8, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_equals_its_definition_and_statsmodels(p):
    assert holm(p) == pytest.approx(stepped_down(p), abs=1e-15)
    assert holm(p) == pytest.approx(tuple(multipletests(p, method="holm")[1]), abs=1e-15)


class Cycle:
    def __init__(self):
        self.own = self


def test_holm_walks_no_garbage_but_its_own():
    gc.disable()  # or a collection of its own could come in between
    gc.unfreeze()  # what an import of another test froze
    try:
        abandoned = weakref.ref(Cycle())
        assert holm([0.01, 0.04]) == pytest.approx((0.02, 0.04))
        assert (abandoned() is None, gc.get_freeze_count()) == (False, 0)
        multipletests([0.01, 0.04], method="holm")
        assert abandoned() is None
    finally:
        gc.enable()


def test_objects_frozen_by_others_stay_frozen():
    gc.freeze()
    try:
        abandoned = weakref.ref(Cycle())
        holm([0.01, 0.04])
        assert gc.get_freeze_count() > 0, "thawed ones would leave it at 0"
        assert abandoned() is not None, "and they were not walked"
    finally:
        gc.unfreeze()


def test_a_missing_p_leaves_a_family_of_three():  # case 29
    # .01 x 3, .02 x 2, .9; with a fourth test the second would be .02 x 3
    assert holm([0.01, None, 0.02, 0.9]) == pytest.approx((0.03, None, 0.04, 0.9))
    assert holm([0.01, float("nan"), 0.02, 0.9])[1] is None
    assert bh([0.01, None, 0.02, 0.9]) == pytest.approx((0.03, None, 0.03, 0.9))
    assert holm([None, None]) == (None, None)
    assert holm([]) == ()


def test_a_member_that_was_not_tested_says_why():  # case 29
    strong = contrast(0.05, 0.02)
    three = {"a": strong, "b": contrast(0.01, 0.02), "c": contrast(0.04, 0.02)}
    result = family({**three, "one seed": untested()}, smallest_effect=0.02)
    alone = family(three, smallest_effect=0.02)
    assert result.m == 3
    assert {name: result.members[name] for name in three} == dict(alone.members)
    missing = result.members["one seed"]
    assert (missing.p_adjusted, missing.verdict, missing.lo) == (None, None, None)
    assert missing.reason == "not tested (an interval over seeds needs at least 2, got 1)"


@pytest.mark.parametrize("adjust", [holm, bh])
@pytest.mark.parametrize("value", [-0.01, 1.2, float("inf")])
def test_p_values_outside_0_to_1_are_refused_with_the_value(adjust, value):  # case 32
    with pytest.raises(StatsError, match=rf"p-value {value} is outside 0..1"):
        adjust([0.5, value])


@pytest.mark.parametrize(
    ("d", "se", "verdict"),
    [
        (0.05, 0.01, "superior"),  # t = 5
        (-0.05, 0.01, "inferior"),
        (0.0, 0.005, "equivalent"),  # 4 se inside the margin on both sides
        (0.01, 0.002, "superior-but-small"),  # t = 5 on both tests
        (-0.01, 0.002, "inferior-but-small"),
        (0.01, 0.02, "inconclusive"),
    ],
)
def test_verdicts(d, se, verdict):
    member = family({"x": contrast(d, se)}, smallest_effect=0.02).members["x"]
    assert member.verdict == verdict


def test_equivalence_is_adjusted_like_superiority():
    close = contrast(0.0, 0.01)  # one-sided t = 2, df 20: p = .0296
    assert family({"x": close}, smallest_effect=0.02).members["x"].verdict == "equivalent"
    eight = family({str(i): close for i in range(8)}, smallest_effect=0.02)
    assert {m.verdict for m in eight.members.values()} == {"inconclusive"}
    assert eight.members["0"].tost_p_adjusted == pytest.approx(8 * eight.members["0"].tost_p)


def test_family_interval_is_bonferroni():
    wide = family({str(i): contrast(0.03, 0.01) for i in range(5)}, smallest_effect=0.02).members["0"]
    one = contrast(0.03, 0.01)
    half = student.ppf(1 - 0.01 / 2, 20) * 0.01  # .05 / 5
    assert (wide.lo, wide.hi) == pytest.approx((0.03 - half, 0.03 + half))
    assert wide.lo < one.lo


def test_identical_methods_are_inconclusive_with_the_reason():  # case 30
    scores = {m: {"b": np.ones((3, 4))} for m in "AB"}
    member = family({"A": tw_contrast(scores, {"A": 1, "B": -1})}, smallest_effect=0.02).members["A"]
    assert (member.p_adjusted, member.tost_p, member.lo, member.verdict) == (1, None, None, "inconclusive")
    assert member.reason == "no variance over seeds or problems: p is 1, no interval"


def test_a_family_has_one_estimand():
    with pytest.raises(StatsError, match="'x' was tested for E1, the family is about E2"):
        family({"x": contrast(0.1, 0.1, target="E1")}, smallest_effect=0.02)
    assert family({"x": contrast(0.1, 0.1, target="E1")}, smallest_effect=0.02, estimand="E1").m == 1


def test_g14_tost_golden(golden):
    case, data = golden["G14"], golden["G13"]
    result = tost(welch(data["A"], data["B"]), 0.05)
    got = (result.p, result.t_low, result.p_low, result.t_high, result.p_high)
    assert got == tuple(golden.printed(case[k]) for k in ("p", "t_low", "p_low", "t_upp", "p_upp"))
    assert welch(data["A"], data["B"]).df == golden.printed(case["df_low"])


def test_tost_agrees_with_the_90_percent_interval():
    rng = np.random.default_rng(0)
    for _ in range(50):
        result = welch(rng.normal(0, 1, 4), rng.normal(0, 1, 6), alpha=0.1)
        inside = result.lo > -1.5 and result.hi < 1.5
        assert (tost(result, 1.5).p <= 0.05) == inside


def test_tost_without_a_standard_error_or_margin():
    result = tost(untested(), 0.02)
    assert (result.p, result.reason) == (None, "an interval over seeds needs at least 2, got 1")
    with pytest.raises(StatsError, match="delta: 0: equivalence needs a margin above 0"):
        tost(contrast(0.1, 0.1), 0)
