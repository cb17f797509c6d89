from itertools import combinations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, wilcoxon

from seedwise.stats.permutation import permutation_test, sign_flip_test
from seedwise.stats.results import StatsError


def test_g13_golden(golden):
    case = golden["G13"]
    result = permutation_test(case["A"], case["B"])
    assert result.difference == golden.printed(case["stat"])
    assert result.p == golden.printed(case["p"])
    assert result.arrangements == case["n_perm"]
    assert result.significant is True
    ranks = permutation_test(case["A"], case["B"], statistic="rank")
    assert ranks.p == golden.printed(case["mannwhitney_exact_p"])


@pytest.mark.parametrize("S", [3, 4, 5])
@pytest.mark.parametrize("statistic", ["mean", "rank"])
def test_smallest_p_of_apart_seeds(golden, S, statistic):
    a, b = [10 + i for i in range(S)], list(range(S))
    result = permutation_test(a, b, statistic=statistic)
    assert result.smallest_p == golden.printed(golden["G13"]["min_p_two_sided"][f"S{S}"])
    assert result.p == result.smallest_p


def test_counting_equals_the_enumeration_of_all_arrangements():
    rng = np.random.default_rng(0)
    for S_a, S_b in ((3, 3), (1, 6), (5, 4), (6, 7)):
        values = rng.integers(0, 9, S_a + S_b) / 8  # with ties
        chosen = np.array(list(combinations(range(S_a + S_b), S_a)))
        gaps = np.array([values[c].mean() - np.delete(values, c).mean() for c in chosen])
        result = permutation_test(values[:S_a], values[S_a:])
        assert result.p == pytest.approx(np.mean(np.abs(gaps) >= abs(gaps[0]) - 1e-12))
        assert result.smallest_p == pytest.approx(np.mean(np.abs(gaps) >= np.abs(gaps).max() - 1e-12))
        assert result.arrangements == len(chosen)


def test_sixteen_against_sixteen_seeds_are_counted():
    result = permutation_test(range(16, 32), range(16))
    # two of C(32, 16) arrangements are this far apart
    assert result.p == pytest.approx(2 / 601_080_390)


@pytest.mark.parametrize("statistic", ["mean", "rank"])
def test_three_seeds_cannot_earn_a_star(statistic):  # case 31
    result = permutation_test([0.9, 0.8, 0.85], [0.1, 0.2, 0.3], statistic=statistic)
    assert (result.p, result.smallest_p) == (0.1, 0.1)
    assert result.significant is None
    assert result.reason == "3 against 3 seeds cannot reach p <= 0.05: 0.1 is the smallest"
    # the same scores could earn it at a level that is within reach
    assert permutation_test([0.9, 0.8, 0.85], [0.1, 0.2, 0.3], statistic=statistic, alpha=0.1).significant is True


def test_ranks_equal_mann_whitney_without_ties():
    a, b = [0.31, 0.55, 0.42, 0.9], [0.2, 0.44, 0.1, 0.35, 0.6]
    assert permutation_test(a, b, statistic="rank").p == pytest.approx(mannwhitneyu(a, b, method="exact").pvalue)


def test_identical_seeds_have_p_1_and_no_star():  # case 30
    result = permutation_test([0.5] * 5, [0.5] * 5)
    assert (result.p, result.smallest_p, result.significant) == (1, 1, None)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([], [1.0], r"arm a: \[\]"),
        ([1.0], [float("nan")], "arm b:"),
        (range(17), range(16), "17 and 16 seeds: above 32 together use Welch"),
    ],
)
def test_permutation_refuses(a, b, message):
    with pytest.raises(StatsError, match=message):
        permutation_test(list(a), list(b))
    with pytest.raises(StatsError, match="statistic: 'median'"):
        permutation_test([1.0], [2.0], statistic="median")


@pytest.mark.parametrize("S", [3, 5, 6, 8])
def test_g13_smallest_p_of_sign_flips(golden, S):
    result = sign_flip_test(range(1, S + 1))
    assert result.smallest_p == golden.printed(golden["G13"]["min_p_signflip"][f"S{S}"])
    assert result.p == result.smallest_p
    assert (result.significant, result.arrangements) == (True if S > 5 else None, 2**S)


def test_sign_flips_by_hand():
    # sums of +-1 +-2 +-4: |sum| 7, 5, 3, 1, twice each; seen 1 - 2 + 4 = 3: 6 of 8 are as far
    assert sign_flip_test([1, -2, 4]).p == pytest.approx(6 / 8)
    three = sign_flip_test([1, 2, 3])
    assert three.reason == "3 pairs cannot reach p <= 0.05: 0.25 is the smallest"
    assert sign_flip_test([0, 0, 0, 0, 0, 0]).p == 1


def test_sign_flips_of_ranks_are_wilcoxons():
    differences = np.array([0.3, -0.1, 0.5, 0.7, -0.2, 0.9, 1.1])
    ranks = np.sign(differences) * (np.argsort(np.argsort(np.abs(differences))) + 1)
    assert sign_flip_test(ranks).p == pytest.approx(wilcoxon(differences, method="exact").pvalue)


@pytest.mark.parametrize(
    ("differences", "message"),
    [([], r"differences \[\]"), ([float("nan")], "finite"), (range(17), "17 pairs: above 16 use Welch")],
)
def test_sign_flips_refuse(differences, message):
    with pytest.raises(StatsError, match=message):
        sign_flip_test(list(differences))
