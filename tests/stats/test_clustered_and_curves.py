from math import log, sqrt

import numpy as np
import pytest
from scipy import stats

from seedwise.stats.clustered import clustered_mean
from seedwise.stats.curves import Crossover, crossover, crossover_test, curve, welch
from seedwise.stats.results import StatsError


def test_clustered_mean_by_hand():
    # mean 2; deviations summed by cluster: a (1 - 2) + (2 - 2) = -1, b (3 - 2) = 1
    # variance 2/1 (1 + 1) / 3^2 = 4/9
    result = clustered_mean([1, 2, 3], ["a", "a", "b"])
    half = stats.t.ppf(0.975, 1) * 2 / 3
    assert (result.mean, result.se, result.df) == pytest.approx((2, 2 / 3, 1))
    assert (result.lo, result.hi) == pytest.approx((2 - half, 2 + half))


def test_clusters_of_one_value_are_the_plain_t_interval():
    values = np.random.default_rng(0).random(9)
    result = clustered_mean(values, range(9), alpha=0.1)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (result.lo, result.hi) == pytest.approx((low, high), rel=1e-12)


def test_repeating_each_value_leaves_the_interval():
    values = np.random.default_rng(1).random(6)
    once, thrice = clustered_mean(values, range(6)), clustered_mean(np.repeat(values, 3), np.repeat(range(6), 3))
    assert (thrice.lo, thrice.hi) == pytest.approx((once.lo, once.hi), rel=1e-12)


def test_undefined_means_say_why():
    assert clustered_mean([], []).reason == "no values"
    one = clustered_mean([0.1, 0.4], ["p", "p"])
    assert (one.mean, one.lo, one.reason) == (0.25, None, "an interval over problems needs at least 2, got 1")
    same = clustered_mean([0.3, 0.3, 0.3], ["p", "q", "r"])
    assert (same.se, same.lo, same.reason) == (0.0, None, "no variance over problems")


@pytest.mark.parametrize(
    ("values", "clusters", "message"),
    [
        ([1, float("nan")], "pq", "value nan at position 1: leave it out"),
        ([1, 2], "p", r"shape \(2,\) with 1 cluster labels"),
    ],
)
def test_clustered_mean_refuses(values, clusters, message):
    with pytest.raises(StatsError, match=message):
        clustered_mean(values, clusters)


def test_curve_metrics_by_hand():
    steps = np.arange(1, 21)
    y = np.where(steps <= 10, 0.0, 2.0 * (steps - 10))
    result = curve(steps, y)
    assert result.final == pytest.approx((18 + 20) / 2)  # 10 % of 20 steps: the last two
    # triangle from step 10 to 20, height 20: area 100 over 19
    assert result.area == pytest.approx(100 / 19)
    assert result.late_slope == pytest.approx(2)
    # differences: 9 zeros and 10 twos: mean 20/19, variance (40 - 400/19)/18
    assert result.log_volatility == pytest.approx(log(sqrt((40 - 400 / 19) / 18)))
    assert result.reasons == {}


def test_curve_metrics_do_not_depend_on_the_spacing_of_steps():
    y = np.random.default_rng(0).random(30)
    dense, sparse = curve(np.arange(30), y), curve(10 * np.arange(30), y)
    assert (sparse.final, sparse.area) == pytest.approx((dense.final, dense.area))
    assert sparse.late_slope == pytest.approx(dense.late_slope / 10)


def test_short_and_flat_curves_say_why():
    one = curve([5], [0.4])
    assert (one.final, one.area, one.log_volatility, one.late_slope) == (0.4, None, None, None)
    assert set(one.reasons) == {"area", "log_volatility", "late_slope"}
    flat = curve([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4])
    assert flat.log_volatility is None
    assert flat.reasons == {"log_volatility": "the differences do not vary: the log of 0 is undefined"}


@pytest.mark.parametrize(
    ("steps", "values", "message"),
    [
        ([], [], r"shape \(0,\)"),
        ([1, 2], [1], "two lists of one length"),
        ([1, 1], [1, 2], "steps must increase"),
        ([1, 2], [1, float("nan")], "value nan at step 2: leave the step out"),
    ],
)
def test_curves_that_are_not_curves_are_refused(steps, values, message):
    with pytest.raises(StatsError, match=message):
        curve(steps, values)
    with pytest.raises(StatsError, match="final_share: 0"):
        curve([1, 2], [1, 2], final_share=0)


def test_welch_equals_scipy():
    a, b = np.random.default_rng(0).random(3), np.random.default_rng(1).random(5)
    result, scipy = welch(a, b), stats.ttest_ind(a, b, equal_var=False)
    assert (result.t, result.p, result.df) == pytest.approx((scipy.statistic, scipy.pvalue, scipy.df), rel=1e-12)


def test_welch_of_one_run_or_broken_numbers():
    assert welch([1], [2, 3]).reason == "an interval over seeds needs at least 2, got 1"
    assert welch([1, 1], [1, 1]).p == 1
    with pytest.raises(StatsError, match="arm b: nan is not a finite number"):
        welch([1, 2], [1, float("nan")])
    with pytest.raises(StatsError, match=r"arm a of shape \(0,\)"):
        welch([], [1])


def test_crossover_is_the_first_step_of_the_final_lead():
    steps = [10, 20, 30, 40]
    # above .5 at 20, back to it at 30, above for good from 40
    assert crossover(steps, [0.1, 0.6, 0.5, 0.7], 0.5) == Crossover(40.0)
    assert crossover(steps, [0.6, 0.6, 0.6, 0.6], 0.5) == Crossover(10.0)
    # two methods: the second leads until 20
    assert crossover(steps, [0.1, 0.3, 0.5, 0.6], [0.2, 0.3, 0.4, 0.4]) == Crossover(30.0)
    never = crossover(steps, [0.9, 0.9, 0.9, 0.5], 0.5)
    assert (never.step, never.reason) == (None, "not above its level at the last step, 40")
    with pytest.raises(StatsError, match="value nan"):
        crossover(steps, [1, 1, 1, 1], float("nan"))


def test_runs_that_never_crossed_rank_last():
    early, late = [Crossover(float(step)) for step in (10, 20, 30, 40)], [Crossover(50.0), *[Crossover(None, "")] * 3]
    result = crossover_test(early, late)
    # ranks 1 to 4 against 5 and three times 7: the most extreme of C(8, 4) = 70
    assert (result.p, result.difference) == (pytest.approx(2 / 70), pytest.approx(2.5 - 6.5))
    nobody = [Crossover(None, "")] * 4
    assert crossover_test(nobody, nobody).p == 1
