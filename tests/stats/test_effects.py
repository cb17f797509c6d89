from math import inf, sqrt

import numpy as np
import pytest
from scipy.stats import mannwhitneyu
from statsmodels.stats.meta_analysis import effectsize_smd

from seedwise.stats.aggregates import aggregates, performance_profile, probability_of_improvement
from seedwise.stats.effects import effects, superiority
from seedwise.stats.moderated import moderated
from seedwise.stats.results import StatsError


def test_effects_by_hand():
    # means 4 and 2; pooled variance (2 + 2)/4 = 1; f = 4: J = Gamma(2)/(sqrt 2 Gamma(3/2)) = sqrt(2/pi)
    # pairs won: 3 beats 1, 2 and ties 3; 4 and 5 beat all: 8.5 of 9
    result = effects([3, 4, 5], [1, 2, 3])
    assert result.relative == pytest.approx(1)
    assert result.hedges_g == pytest.approx(2 * sqrt(2 / np.pi))
    assert result.superiority == pytest.approx(8.5 / 9)
    assert (result.worst, result.worst_reference, result.seeds, result.reasons) == (3, 1, (3, 3), {})


def test_hedges_g_is_near_statsmodels_and_superiority_is_mann_whitney():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 1, 8), rng.normal(0, 1, 12)
    other, _ = effectsize_smd(a.mean(), a.std(ddof=1), 8, b.mean(), b.std(ddof=1), 12)
    assert effects(a, b).hedges_g == pytest.approx(other, rel=1e-3)  # theirs is 1 - 3/(4 f - 1)
    assert superiority(a, b) == pytest.approx(mannwhitneyu(a, b).statistic / 96)


def test_effects_that_are_undefined_say_why():
    one = effects([0.5], [0.0, 0.0])
    assert (one.relative, one.hedges_g, one.superiority) == (None, None, 1)
    assert one.reasons == {
        "relative": "the reference scores 0: a relative change is undefined",
        "hedges_g": "a spread over seeds needs at least 2, got 1",
    }
    flat = effects([0.3] * 3, [0.1] * 3)
    assert (flat.hedges_g, flat.reasons["hedges_g"]) == (None, "the seeds do not vary")
    with pytest.raises(StatsError, match=r"arm b: \[\]"):
        effects([1], [])


def test_g19_rliable_definitions(golden):
    case = golden["G19"]
    X, Y = aggregates(case["X"]), aggregates(case["Y"])
    assert (X.iqm, X.mean, X.median, X.optimality_gap) == tuple(
        golden.printed(case[k]) for k in ("iqm_X", "mean_X", "median_X", "optgap_X")
    )
    assert golden.printed(case["iqm_Y"]) == Y.iqm
    assert probability_of_improvement(case["X"], case["Y"]) == golden.printed(case["poi"])
    # of a benchmark above the target nothing is missing
    assert aggregates([[0.5, 2.0]]).optimality_gap == pytest.approx((0.5 + 0) / 2)


def test_profile_by_hand():
    # of .1, .3, .3, .9: above .3 only .9
    assert performance_profile([[0.1, 0.3], [0.3, 0.9]], [0, 0.3, 1]).tolist() == [1, 0.25, 0]


def test_aggregates_refuse():
    with pytest.raises(StatsError, match="2 and 1 benchmarks"):
        probability_of_improvement([[1, 2]], [[1]])
    with pytest.raises(StatsError, match=r"scores of shape \(2,\)"):
        aggregates([1, 2])


@pytest.mark.parametrize("number", ["G18", "G18b"])
def test_g18_moderated_variances_golden(golden, number):
    case = golden[number]
    result = moderated(case["s2"], 2)
    assert result.d0 == (inf if case["d0"] == inf else golden.printed(case["d0"]))
    assert result.s0sq == golden.printed(case["s0sq"])
    assert result.s2.tolist() == [golden.printed(value) for value in case["post"]]


@pytest.mark.parametrize(
    ("s2", "df", "message"),
    [([1], 2, "at least 2"), ([1, 0], 2, "variance 0.0: must be above 0"), ([1, 2], 0, "df: 0")],
)
def test_moderation_refuses(s2, df, message):
    with pytest.raises(StatsError, match=message):
        moderated(s2, df)
