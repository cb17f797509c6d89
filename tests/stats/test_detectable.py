from __future__ import annotations

import pytest
from scipy.stats import nct, t
from statsmodels.stats.power import TTestIndPower

from seedwise.stats.detectable import detectable
from seedwise.stats.results import StatsError


@pytest.mark.parametrize("df", [1.0, 3.7, 7.0, 14.0, 60.0])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 7])
def test_the_noncentral_t_has_the_power_asked_for(df, alpha):
    effect = detectable(0.25, df, alpha, 0.8)
    critical = t.ppf(1 - alpha / 2, df)
    power = nct.sf(critical, df, effect / 0.25) + nct.sf(critical, df, -effect / 0.25)
    assert power == pytest.approx(0.8, abs=1e-4)


def test_two_arms_of_eight_with_one_sd():
    # SE of a difference of means of 8 with SD 1: sqrt(2/8) = 0.5, df 14; the table of Cohen's d for two samples
    d = TTestIndPower().solve_power(nobs1=8, alpha=0.05, power=0.8)
    assert detectable(0.5, 14) == pytest.approx(d, rel=1e-4)


def test_it_grows_with_the_error_alone():
    assert detectable(2.0, 5) == pytest.approx(2 * detectable(1.0, 5), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0.0, 3), "se 0.0, df 3"), ((1.0, 0), "df 0"), ((1.0, 3, 0.9), "alpha 0.9"), ((1.0, 3, 0.05, 1.0), "power 1.0")],
)
def test_what_has_no_meaning_is_an_error(arguments, message):
    with pytest.raises(StatsError, match=message):
        detectable(*arguments)
