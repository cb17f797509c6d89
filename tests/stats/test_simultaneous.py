from math import sqrt

import numpy as np
import pytest
from scipy.stats import dunnett
from scipy.stats import t as student

from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.families import holm
from seedwise.stats.matrices import aligned
from seedwise.stats.results import StatsError
from seedwise.stats.simultaneous import best_set, correlations, max_t, step_down


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def cells(rng, means, S=5, P=12, spread=0.03):
    problem = rng.random(P) * 0.4
    return {
        m: {"b": mean + problem + rng.normal(0, spread, (S, 1)) + rng.normal(0, 0.05, (S, P))}
        for m, mean in means.items()
    }


def test_g21_single_step_is_dunnetts(golden, rng):
    case = golden["G21"]
    # two methods and a control of 5 seeds each: correlation 1/2, 3 (5 - 1) df; the golden is good to 1e-3
    for t, p in zip(case["stat"], case["p"], strict=True):
        single, *_ = step_down(np.array([t, 0.0]), np.array([[1, 0.5], [0.5, 1]]), 12, rng)
        assert single == pytest.approx(p, abs=1e-3)


def test_first_step_equals_scipys_dunnett(rng):
    a, b, control = rng.normal(0.7, 1, 6), rng.normal(1.4, 1, 6), rng.normal(0, 1, 6)
    other = dunnett(a, b, control=control, rng=rng)
    p = step_down(other.statistic, np.array([[1, 0.5], [0.5, 1]]), 15, rng)
    largest = int(np.argmax(np.abs(other.statistic)))
    assert p[largest] == pytest.approx(other.pvalue[largest], abs=2e-3)
    # the last step has one member left: its own p
    assert p[1 - largest] == pytest.approx(2 * student.sf(abs(other.statistic[1 - largest]), 15), abs=1e-4)


def test_uncorrelated_and_identical_members(rng):
    t = np.array([2.5, 2.5])
    alone = 2 * student.sf(2.5, 1e6)
    # independent: 1 - (1 - p)^2; one and the same: p
    assert step_down(t, np.eye(2), 1e6, rng)[0] == pytest.approx(1 - (1 - alone) ** 2, abs=1e-4)
    assert step_down(t, np.ones((2, 2)), 1e6, rng)[0] == pytest.approx(alone, abs=1e-4)


def test_correlations_by_hand():
    # one problem's worth of seed variance only (E1), equal variances v: Cov(A - R, B - R) = v/S, V = 2 v/S
    rows = {m: {"b": np.array([[0.1], [0.3], [0.5]]) + shift} for m, shift in (("A", 0.2), ("B", 0.1), ("R", 0.0))}
    ws = [{"A": 1, "R": -1}, {"B": 1, "R": -1}, {"A": 1, "B": -1}]
    found = correlations(aligned(rows, dict.fromkeys(rows, 1.0)), ws, "E1")
    np.testing.assert_allclose(found, [[1, 0.5, 0.5], [0.5, 1, -0.5], [0.5, -0.5, 1]], atol=1e-12)


def test_max_t_lies_between_the_single_test_and_holm(rng):
    scores = cells(rng, {"R": 0.3, "A": 0.36, "B": 0.34, "C": 0.31})
    ws = {m: {m: 1, "R": -1} for m in "ABC"}
    raw = [tw_contrast(scores, w).p for w in ws.values()]
    result = max_t(scores, ws, rng=rng)
    for value, own, adjusted in zip(result.p_adjusted.values(), raw, holm(raw), strict=True):
        assert own - 1e-4 <= value <= adjusted + 1e-4
    assert result.df == min(tw_contrast(scores, w).df for w in ws.values())


def test_max_t_is_the_same_for_the_same_generator(rng):
    scores = cells(rng, {"R": 0.3, "A": 0.36, "B": 0.34})
    ws = {m: {m: 1, "R": -1} for m in "AB"}
    first, second = (max_t(scores, ws, rng=np.random.default_rng(1)) for _ in range(2))
    assert first == second


def test_max_t_needs_five_seeds(rng):
    scores = cells(rng, {"R": 0.3, "A": 0.36}) | {"B": {"b": rng.random((4, 12))}}
    result = max_t(scores, {m: {m: 1, "R": -1} for m in "AB"}, rng=rng)
    assert result.p_adjusted == {"A": None, "B": None}
    assert result.reason == "max-T needs at least 5 seeds in every cell, got 4 in 'B': use Holm"
    # the base has no seeds to count
    fixed = cells(rng, {"A": 0.4}) | {"base": {"b": rng.random((1, 12))}}
    assert max_t(fixed, {"A": {"A": 1, "base": -1}}, rng=rng, fixed={"base"}).reason is None


def test_identical_members_of_max_t_have_p_1(rng):  # case 30
    scores = {m: {"b": np.ones((5, 4))} for m in "AR"}
    result = max_t(scores, {"A": {"A": 1, "R": -1}}, rng=rng)
    assert (result.p_adjusted, result.reason) == ({"A": 1.0}, "no contrast has a standard error")


def test_the_best_and_those_the_data_cannot_tell_from_it(rng):
    scores = cells(rng, {0.2: 0.2, 0.4: 0.5, 0.6: 0.5, 0.8: 0.25}, spread=0.01)
    result = best_set(scores)
    assert set(result.members) == {0.4, 0.6}
    assert result.best in (0.4, 0.6)
    others = [m for m in scores if m != result.best]
    raw = [tw_contrast(scores, {result.best: 1, m: -1}).p for m in others]
    assert tuple(result.p_adjusted[m] for m in others) == pytest.approx(holm(raw))


def test_a_cell_that_was_not_tested_stays_in_the_set(rng):
    scores = cells(rng, {"A": 0.6, "B": 0.1}) | {"one": {"b": rng.random((1, 12))}}
    result = best_set(scores)
    assert "one" in result.members
    assert result.contrasts["one"].reason == "an interval over seeds needs at least 2, got 1"
    with pytest.raises(StatsError, match="at least 2 cells, got 1"):
        best_set({"A": scores["A"]})


def test_equal_cells_are_all_best():
    scores = {m: {"b": np.full((3, 4), 0.5)} for m in "AB"}
    assert best_set(scores).members == ("A", "B")


def test_correlation_of_shared_problems(rng):
    # no seed variance: the correlation is that of the differences over problems
    y = {m: rng.random(30) for m in "ABR"}
    scores = {m: {"b": np.tile(values, (5, 1))} for m, values in y.items()}
    found = correlations(aligned(scores, dict.fromkeys(scores, 1.0)), [{"A": 1, "R": -1}, {"B": 1, "R": -1}])
    assert found[0, 1] == pytest.approx(np.corrcoef(y["A"] - y["R"], y["B"] - y["R"])[0, 1])
    assert sqrt(found[0, 0]) == 1
