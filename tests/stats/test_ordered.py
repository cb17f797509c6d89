from itertools import permutations
from math import factorial, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.stats.ordered import arrangements_of, jt_exact
from seedwise.stats.results import StatsError


def test_g9_golden(golden):
    case = golden["G9"]
    result = jt_exact(case["data"])
    assert (result.J, result.mean, result.var) == (case["J"], case["mean"], case["var"])
    assert result.arrangements == case["total_arrangements"]
    assert result.p_greater == golden.printed(case["p_greater"])
    assert result.p == golden.printed(case["p_two_sided"])
    assert result.significant is True


def test_two_groups_by_hand():
    # (1, 3) then (2, 4): pairs in order 1<2, 1<4, 3<4: J = 3 of 4
    # the 6 arrangements give J = 0, 1, 2, 2, 3, 4: P(J >= 3) = 2/6, two-sided 2/3
    result = jt_exact([[1, 3], [2, 4]])
    assert (result.J, result.p_greater, result.p) == pytest.approx((3, 1 / 3, 2 / 3))
    assert arrangements_of([2, 2]) == [1, 1, 2, 1, 1]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=2, max_size=3).filter(lambda sizes: sum(sizes) < 8))
def test_counts_equal_the_enumeration(sizes):
    N, ends = sum(sizes), np.cumsum(sizes)
    group = np.searchsorted(ends, np.arange(N), side="right")
    pairs = [(i, j) for i in range(N) for j in range(N) if group[i] < group[j]]
    found = np.bincount([sum(p[i] < p[j] for i, j in pairs) for p in permutations(range(N))])
    within = prod(factorial(n) for n in sizes)
    assert [int(count) // within for count in found] == arrangements_of(sizes)


def test_big_grids_are_counted_exactly():
    counts = arrangements_of([10, 10, 10, 10])
    assert sum(counts) == factorial(40) // factorial(10) ** 4
    assert counts == counts[::-1]
    assert len(counts) == 6 * 100 + 1


def test_the_reverse_order_has_the_same_two_sided_p(golden):
    data = golden["G9"]["data"]
    back = jt_exact(data[::-1])
    assert back.p == pytest.approx(jt_exact(data).p)
    assert back.p_greater > 0.999


def test_ties_are_broken_least_in_favour():
    data = [[1, 2], [2, 3], [3, 4]]
    # ties 2 = 2 and 3 = 3: J from 10 (none in order) to 12, reported 11
    tied = jt_exact(data)
    assert tied.J == 11
    assert tied.p == jt_exact([[1, 2.5], [2, 3.5], [3, 4]]).p
    assert tied.p > jt_exact([[1, 2], [2.5, 3], [3.5, 4]]).p
    # all equal: J may be anything, so p is 1
    assert jt_exact([[0.5] * 3] * 3).p == 1


def test_three_seeds_at_two_levels_cannot_earn_a_star():  # case 31
    result = jt_exact([[0.1, 0.2, 0.3], [0.7, 0.8, 0.9]])
    assert (result.p, result.smallest_p) == pytest.approx((0.1, 0.1))
    assert (result.significant, result.reason) == (
        None,
        "3 against 3 seeds cannot reach p <= 0.05: 0.1 is the smallest",
    )
    assert jt_exact([[1], [2], [3]]).smallest_p == pytest.approx(2 / 6)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[1, 2]], "at least 2 levels, got 1"),
        ([[1], []], r"level 1: \[\]"),
        ([[1], [float("nan")]], "level 1:"),
    ],
)
def test_groups_without_an_order_are_refused(groups, message):
    with pytest.raises(StatsError, match=message):
        jt_exact(groups)
    with pytest.raises(StatsError, match="alpha: 0"):
        jt_exact([[1], [2]], alpha=0)
