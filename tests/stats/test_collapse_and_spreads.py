import numpy as np
import pytest
from scipy.stats import barnard_exact, f_oneway, fisher_exact

from seedwise.stats.collapse import collapse_test, collapsed
from seedwise.stats.results import StatsError
from seedwise.stats.spreads import brown_forsythe


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        ([0.9, 0.2, 0.9], {"floor": 0.3}, True),
        ([0.9, 0.2, 0.9], {"floor": 0.3, "evaluations": 2}, False),
        ([0.9, 0.2, 0.9, 0.1, 0.2], {"floor": 0.3, "evaluations": 2}, True),
        ([0.9, 0.3], {"floor": 0.3}, False),  # at the floor is not below it
        ([0.1, 0.6, 0.35], {"drop": 0.2}, True),  # .25 below the highest so far
        ([0.6, 0.1, 0.7], {"drop": 0.2, "evaluations": 2}, False),
        ([0.1, 0.2, 0.3], {"drop": 0.05}, False),
    ],
)
def test_collapse_by_hand(values, options, expected):
    assert collapsed(values, **options) is expected


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([1], {}, "give exactly one of them"),
        ([1], {"floor": 1, "drop": 1}, "give exactly one of them"),
        ([1], {"drop": 0}, "drop: 0"),
        ([1], {"floor": 1, "evaluations": 0}, "evaluations: 0"),
        ([], {"floor": 1}, r"values \[\]"),
        ([float("nan")], {"floor": 1}, "finite number"),
    ],
)
def test_collapse_refuses(values, options, message):
    with pytest.raises(StatsError, match=message):
        collapsed(values, **options)


def test_fisher_by_hand():
    # 3 of 4 against 0 of 4: C(4,3) C(4,0)/C(8,3) = 4/56 on each side, two-sided 8/56
    result = collapse_test([True, True, True, False], [False] * 4)
    assert (result.collapsed, result.runs, result.difference) == ((3, 0), (4, 4), 0.75)
    assert result.p == pytest.approx(8 / 56)
    # all of one and none of the other: 2/C(8,4)
    assert result.smallest_p == pytest.approx(2 / 70)
    assert result.significant is False


def test_barnard_equals_scipy():
    result = collapse_test([True] * 4 + [False], [False] * 5, test="barnard")
    assert result.p == pytest.approx(barnard_exact([[4, 0], [1, 5]]).pvalue)
    assert result.p < fisher_exact([[4, 0], [1, 5]]).pvalue


def test_three_runs_cannot_earn_a_star():  # case 31
    result = collapse_test([True] * 3, [False] * 3)
    assert (result.p, result.smallest_p, result.significant) == (pytest.approx(0.1), pytest.approx(0.1), None)
    assert result.reason == "3 against 3 runs cannot reach p <= 0.05: 0.1 is the smallest"


@pytest.mark.parametrize("test", ["fisher", "barnard"])
@pytest.mark.parametrize("value", [True, False])
def test_all_runs_alike_have_p_1(test, value):  # case 30
    assert collapse_test([value] * 5, [value] * 6, test=test).p == 1


def test_collapse_test_refuses():
    with pytest.raises(StatsError, match="arms of 0 and 1 runs"):
        collapse_test([], [True])
    with pytest.raises(StatsError, match="test: 'chi2'"):
        collapse_test([True], [True], test="chi2")


def test_brown_forsythe_is_an_anova_of_distances_from_the_median():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 3, 6), rng.normal(0, 1, 5)
    result = brown_forsythe(a, b)
    F, p = f_oneway(np.abs(a - np.median(a)), np.abs(b - np.median(b)))
    assert (result.F, result.p, result.seeds) == (pytest.approx(F), pytest.approx(p), (6, 5))
    assert result.ratio == pytest.approx(a.std(ddof=1) / b.std(ddof=1))


def test_a_claim_about_variance_needs_five_seeds():
    result = brown_forsythe([1, 2, 3, 4], [1, 2, 3, 4, 5])
    assert (result.p, result.reason) == (None, "a test of spread needs at least 5 seeds in each arm, got 4")
    flat = brown_forsythe([0.3] * 5, [0.1] * 5)
    assert (flat.p, flat.ratio, flat.reason) == (None, None, "the distances from the median do not vary")
    with pytest.raises(StatsError, match="arm a:"):
        brown_forsythe([], [1])
