"""Golden cases that pin what scipy and statsmodels mean by a quantity the tables or the docs name."""

from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import bootstrap, false_discovery_control, friedmanchisquare, page_trend_test, studentized_range
from scipy.stats import t as student
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint


def test_every_golden_case_has_a_test(golden):
    sources = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in golden.cases if f'"{name.split()[0]}"' not in sources] == []


def test_g10_page_of_seeds_as_blocks(golden):
    case = golden["G10"]
    by_seed = np.array(golden["G9"]["data"]).T
    exact = page_trend_test(by_seed, method="exact")
    assert exact.statistic == case["L"]
    assert exact.pvalue == golden.printed(case["p_exact"])
    assert page_trend_test(by_seed, method="asymptotic").pvalue == golden.printed(case["p_asym"])


@pytest.mark.parametrize(
    ("name", "method"),
    [("hochberg", "simes-hochberg"), ("hommel", "hommel"), ("by", "fdr_by"), ("holm", "holm"), ("bh", "fdr_bh")],
)
def test_g12_adjustments(golden, name, method):
    case = golden["G12"]
    assert multipletests(case["p"], method=method)[1].tolist() == [golden.printed(p) for p in case[name]]


@pytest.mark.parametrize("method", ["bh", "by"])
def test_g12_scipy_adjustments(golden, method):
    case = golden["G12"]
    assert false_discovery_control(case["p"], method=method).tolist() == [
        golden.printed(p) for p in case[f"scipy_{method}"]
    ]


def test_g20_friedman_and_nemenyi(golden):
    case = golden["G20"]
    k, N = 5, 6
    # rank sums 6, 13, 24, 24, 23: squares 1886, 12/(6 5 6) 1886 - 3 6 6 = 17.73; the golden has no data
    ranks = [[1, 2, 3, 4, 5], [1, 2, 5, 3, 4], [1, 2, 4, 5, 3], [1, 2, 3, 5, 4], [1, 2, 4, 5, 3], [1, 3, 5, 2, 4]]
    friedman = friedmanchisquare(*np.transpose(ranks))
    assert (friedman.statistic, friedman.pvalue) == (golden.printed(case["chi2"]), golden.printed(case["p"]))
    q = studentized_range.ppf(0.95, k, np.inf) / sqrt(2)
    assert q == golden.printed(case["q05"])
    assert q * sqrt(k * (k + 1) / (6 * N)) == golden.printed(case["CD"])


def test_g22_quantiles_and_intervals_of_a_proportion(golden):
    case = golden["G22"]
    for df, quantile in case["t975"].items():
        assert student.ppf(0.975, int(df)) == golden.printed(quantile)
    for method, name in (("wilson", "wilson_7of30"), ("beta", "cp_7of30")):
        assert proportion_confint(7, 30, method=method) == tuple(golden.printed(end) for end in case[name])


def test_g23_bca_of_seed_differences(golden):
    differences = np.subtract(golden["G13"]["A"], golden["G13"]["B"])
    interval = bootstrap((differences,), np.mean, method="BCa", rng=np.random.default_rng(0)).confidence_interval
    assert (interval.low, interval.high) == pytest.approx((golden["G23"]["lo"], golden["G23"]["hi"]), abs=1e-3)
