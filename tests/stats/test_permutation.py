import pytest
from scipy.stats import mannwhitneyu

from seedwise.stats.permutation import permutation_test
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
        (range(12), range(12), "2704156 arrangements: use Welch"),
    ],
)
def test_permutation_refuses(a, b, message):
    with pytest.raises(StatsError, match=message):
        permutation_test(list(a), list(b))
    with pytest.raises(StatsError, match="statistic: 'median'"):
        permutation_test([1.0], [2.0], statistic="median")
