import numpy as np
import pytest

from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.cost import at_cost, equal_cost, last_common
from seedwise.stats.curves import welch
from seedwise.stats.results import StatsError


def runs(*slopes, tokens):
    """One run a slope: the score grows by the slope per token, measured at these tokens."""
    return [(tokens, [slope * t for t in tokens]) for slope in slopes]


def test_equal_cost_by_hand():
    # A reaches 400 tokens, B 300: the common budget is 300; A's line at 300 lies between 200 and 400
    arms = {"A": runs(0.001, 0.002, tokens=[100, 200, 400]), "B": runs(0.001, 0.0015, tokens=[50, 300])}
    result = equal_cost(arms, "B")
    assert result.budget == 300
    assert result.scores["A"] == pytest.approx([0.3, 0.6])
    assert result.scores["B"] == pytest.approx([0.3, 0.45])
    assert result.contrasts["A"].p == pytest.approx(welch([0.3, 0.6], [0.3, 0.45]).p)


def test_a_cheaper_method_wins_at_equal_cost():
    # equal at equal steps; A needs half the tokens for them
    steps = np.linspace(0, 0.5, 6)
    arms = {
        "A": [(np.arange(6) * 50 + s, steps) for s in (0, 1)],
        "B": [(np.arange(6) * 100 + s, steps) for s in (0, 1)],
    }
    assert equal_cost(arms, "B", budget=250).contrasts["A"].d == pytest.approx(0.5 - 0.25, abs=0.01)


def test_nothing_is_extrapolated():
    arms = {"A": runs(0.1, tokens=[10, 20]), "B": runs(0.1, 0.2, tokens=[5, 15])}
    result = equal_cost(arms, "B", budget=18)
    assert (result.scores, result.contrasts) == ({}, {})
    assert result.reason == "budget 18 is outside run 0 of 'B', measured from 5 to 15"
    # A starts where B has already ended
    apart = equal_cost({"A": runs(0.1, tokens=[10, 20]), "B": runs(0.1, tokens=[1, 5])}, "B")
    assert apart.reason == "budget 5 is outside run 0 of 'A', measured from 10 to 20"
    assert last_common(arms) == 15


def test_one_run_has_no_p():
    result = equal_cost({"A": runs(0.1, tokens=[1, 2]), "B": runs(0.1, 0.2, tokens=[1, 2])}, "B")
    assert result.contrasts["A"].reason == "an interval over seeds needs at least 2, got 1"


def test_problem_scores_at_a_cost_go_into_the_contrast():
    rng = np.random.default_rng(0)
    y_TP = rng.random((3, 8))
    half = at_cost([0, 10, 20], y_TP, 15)
    np.testing.assert_allclose(half, (y_TP[1] + y_TP[2]) / 2)
    np.testing.assert_array_equal(at_cost([0, 10, 20], y_TP, 20), y_TP[2])
    scores = {m: {"b": np.array([at_cost([0, 9], rng.random((2, 8)), 4) for _ in range(3)])} for m in "AB"}
    assert tw_contrast(scores, {"A": 1, "B": -1}).p is not None


@pytest.mark.parametrize(
    ("cost", "values", "budget", "message"),
    [
        ([1, 1], [1, 2], 1, "cost must rise"),
        ([1, 2], [1], 1, r"values of shape \(1,\)"),
        ([1, 2], [1, float("nan")], 1, "value nan: leave the checkpoint out"),
        ([1, 2], [1, 2], 3, "budget 3 is outside 1 to 2: curves are not extrapolated"),
    ],
)
def test_costs_without_meaning_are_refused(cost, values, budget, message):
    with pytest.raises(StatsError, match=message):
        at_cost(cost, values, budget)


def test_arms_without_runs_or_reference_are_refused():
    with pytest.raises(StatsError, match=r"reference 'C' is not among the arms \['A'\]"):
        equal_cost({"A": runs(0.1, tokens=[1, 2])}, "C")
    with pytest.raises(StatsError, match="arm 'A' has no run"):
        equal_cost({"A": []}, "A")
