from math import sqrt

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from scipy.stats import t as student

from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.results import StatsError
from seedwise.stats.sequential import repeated_interval, seed_information, spend, variance_information


@pytest.mark.parametrize("kind", ["obf", "pocock"])
def test_g17_lan_demets_golden(golden, kind):
    case = golden["G17"]
    looks = spend(seed_information([3, 5, 7, 10]), 0.05, kind)
    assert [look.spent for look in looks] == [golden.printed(value) for value in case[f"{kind}_spent"]]
    # bounds and levels are printed with six decimals
    assert [look.z for look in looks] == pytest.approx(case[f"{kind}_z"], abs=6e-7)
    assert [look.nominal_p for look in looks] == pytest.approx(case[f"{kind}_nominal_p"], abs=6e-7)


def test_published_bounds(golden):
    three = spend([1 / 3, 2 / 3, 1])
    assert [look.z for look in three] == pytest.approx(golden["G17"]["obf_3_equal_looks_z"], abs=6e-7)
    # SeqBounds.jl, alpha .10
    four = spend([0.25, 0.5, 0.75, 1], 0.1)
    assert [look.z for look in four] == pytest.approx([3.74955, 2.53993, 2.01604, 1.72014], abs=5e-5)


@pytest.mark.parametrize("kind", ["obf", "pocock"])
def test_one_look_is_the_fixed_test(kind):
    (look,) = spend([1.0], 0.05, kind)
    assert (look.spent, look.z, look.nominal_p) == pytest.approx((0.05, norm.ppf(0.975), 0.05), rel=1e-12)


def test_two_looks_by_hand():
    # Pocock at t = 1/2: .05 ln(1 + (e - 1)/2) = .031006; z = 2.157; the rest is spent at t = 1:
    # P(|B(1/2)| < z1 sqrt(1/2), |B(1)| >= z2) from the bivariate normal with correlation sqrt(1/2)
    first, second = spend([0.5, 1], 0.05, "pocock")
    assert first.spent == pytest.approx(0.05 * np.log(1 + (np.e - 1) / 2))
    both = [[1, sqrt(0.5)], [sqrt(0.5), 1]]
    bounds = np.array([first.z, second.z])
    stay = multivariate_normal.cdf(bounds, cov=both, lower_limit=-bounds, rng=np.random.default_rng(0))
    assert 1 - stay == pytest.approx(0.05, abs=1e-5)


@pytest.mark.parametrize("kind", ["obf", "pocock"])
def test_brownian_paths_leave_with_alpha(kind):
    looks = spend(seed_information([3, 5, 7, 10]), 0.05, kind)
    t = np.array([look.t for look in looks])
    steps = np.random.default_rng(0).normal(size=(200_000, 4)) * np.sqrt(np.diff(t, prepend=0))
    left = np.abs(steps.cumsum(axis=1)) >= np.array([look.z for look in looks]) * np.sqrt(t)
    by_look = np.maximum.accumulate(left, axis=1).mean(axis=0)
    # standard error sqrt(.05 .95 / 200000) = .0005
    assert by_look.tolist() == pytest.approx([look.spent for look in looks], abs=0.002)


def test_a_later_look_does_not_change_an_earlier_one_and_unspent_alpha_stays():
    assert spend([0.3, 0.5, 1])[:2] == spend([0.3, 0.5])
    assert spend([0.3, 0.5])[-1].spent < 0.05


def test_looks_far_apart_and_close_together():
    looks = spend([0.01, 0.011, 0.5, 0.999, 1], 0.05 / 20)
    # spent 4 (1 - Phi(10 z_(alpha/4))), so the bound is its half's quantile
    assert looks[0].spent == pytest.approx(4 * norm.sf(10 * norm.isf(0.0025 / 4)))
    assert looks[0].z == pytest.approx(norm.isf(looks[0].spent / 2))
    assert all(0 <= look.nominal_p <= look.spent for look in looks)
    assert looks[-1].spent == pytest.approx(0.0025)


def test_a_comparison_of_four_gets_a_quarter_of_alpha():
    alone, shared = spend([0.5, 1], 0.05), spend([0.5, 1], 0.05 / 4)
    assert all(few.nominal_p < one.nominal_p for few, one in zip(shared, alone, strict=True))


def test_information_of_seeds_and_of_variances():
    assert seed_information([3, 5, 10]) == (0.3, 0.5, 1.0)
    # V = 6/S + 1 at S = 3, 6: 3 and 2; the constant is the problems' part
    assert variance_information([3.0, 2.0]) == pytest.approx((2 / 3, 1))


def test_repeated_interval_uses_the_level_of_the_look():
    rng = np.random.default_rng(0)
    scores = {m: {"b": rng.random((3, 9))} for m in "AB"}
    result, look = tw_contrast(scores, {"A": 1, "B": -1}), spend([0.3, 1])[0]
    interval = repeated_interval(result, look)
    half = student.isf(look.nominal_p / 2, result.df) * result.se
    assert (interval.lo, interval.hi) == pytest.approx((result.d - half, result.d + half))
    assert interval.lo < result.lo
    # it touches 0 exactly when p is the level of the look
    assert (interval.lo > 0) == (result.p <= look.nominal_p)
    one = tw_contrast({m: {"b": y["b"][:1]} for m, y in scores.items()}, {"A": 1, "B": -1})
    missing = repeated_interval(one, look)
    assert (missing.lo, missing.reason) == (None, "an interval over seeds needs at least 2, got 1")


@pytest.mark.parametrize(
    ("t", "options", "message"),
    [
        ([], {}, "give shares above 0"),
        ([0.0, 1], {}, "give shares above 0"),
        ([0.5, 1.1], {}, "at most 1"),
        ([0.005, 1], {}, "information 0.005: a look below 0.01 spends nothing"),
        ([0.5, 0.5], {}, "0.5 does not rise by at least 0.001"),
        ([0.5, 1], {"alpha": 1.5}, "alpha: 1.5"),
        ([0.5, 1], {"kind": "haybittle"}, "spending: 'haybittle': use 'obf' or 'pocock'"),
    ],
)
def test_looks_without_meaning_are_refused(t, options, message):
    with pytest.raises(StatsError, match=message):
        spend(t, **options)


def test_seeds_and_variances_must_move():
    with pytest.raises(StatsError, match=r"looks \[5, 3\]: give rising numbers"):
        seed_information([5, 3])
    with pytest.raises(StatsError, match=r"variances \[1.0, 1.0\]"):
        variance_information([1.0, 1.0])
