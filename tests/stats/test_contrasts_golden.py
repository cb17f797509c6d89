"""TW-Welch against the printed golden values and against scipy and statsmodels."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import mixedlm

from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.trends import kron_weights, trend, trend_weights

PRINTED = (
    "d",
    "V_seed",
    "df_seed",
    "V_prob",
    "df_prob",
    "V_res",
    "df_res",
    "V",
    "se",
    "df",
    "t",
    "p",
    "lo",
    "hi",
)
PAIR = {"A": 1, "B": -1}


def check(result, golden, number, names=PRINTED):
    case = golden[number]
    assert result.branch == case["branch"]
    for name in names:
        assert getattr(result, name) == golden.printed(case[name]), name


def pair(case):
    return {m: {"bench": np.array(case[f"counts_{m}"]) / case["n"]} for m in "AB"}


def test_g3_fixed_problems_is_welch_on_seed_means(golden):
    result, case = tw_contrast(pair(golden["G4"]), PAIR, target="E1"), golden["G3"]
    for name in ("t", "df", "p", "lo", "hi"):
        assert getattr(result, name) == golden.printed(case[name]), name


@pytest.mark.parametrize("number", ["G4", "G5"])
def test_g4_g5_one_benchmark(golden, number):
    check(tw_contrast(pair(golden[number]), PAIR, samples=16), golden, number)


def test_g6_macro_of_two_benchmarks_with_3_and_4_seeds(golden):
    case = golden["G6"]
    scores = {m: {str(b): np.array(counts) / case["n"] for b, counts in enumerate(case[m])} for m in "AB"}
    check(tw_contrast(scores, PAIR), golden, "G6")


def test_g7_paired_seeds(golden):
    case = golden["G7"]
    result = tw_contrast(pair(golden["G4"]), PAIR, pairing="seed")
    check(result, golden, "G7", ("d", "V_seed", "V_prob", "V_res", "V", "df", "t", "p"))
    fixed_problems = tw_contrast(pair(golden["G4"]), PAIR, pairing="seed", target="E1")
    t, p = case["scipy_paired_t_on_seed_means"]
    assert (fixed_problems.t, fixed_problems.p) == (golden.printed(t), golden.printed(p))


def test_g8_trend_over_four_levels(golden):
    cells = {K: {"bench": np.array(c) / 16} for K, c in zip((0.2, 0.4, 0.6, 0.8), golden["G8"]["cells"], strict=True)}
    result = trend(cells, {K: K for K in cells})
    check(result.linear, golden, "G8")
    check(result.quadratic, golden, "G8b")
    # Holm over the two: the smaller p doubles, the larger stays
    assert result.p_linear == pytest.approx(2 * result.linear.p, rel=1e-12)
    assert result.p_quadratic == pytest.approx(result.quadratic.p, rel=1e-12)


def test_g8c_pooled_seed_variance_equals_ols(golden):
    case = golden["G8c"]
    cells = {i: {"bench": np.array(c) / 16} for i, c in enumerate(golden["G8"]["cells"])}
    w = dict(enumerate(trend_weights([0.2, 0.4, 0.6, 0.8], 1)))
    result = tw_contrast(cells, w, target="E1", seed_variance="pooled")
    got = (result.d, result.se, result.t, result.df, result.p)
    assert got == tuple(golden.printed(case[k]) for k in ("effect", "sd", "t", "df", "p"))
    assert any(flag.startswith("assumes equal seed variance (max/min SD ") for flag in result.flags)


def test_g11_interaction_is_the_kronecker_contrast(golden):
    case = golden["G11"]
    cells = {(i, j): {"all": np.array(y)[:, None]} for i, row in enumerate(case["y"]) for j, y in enumerate(row)}
    w_XZ = kron_weights(trend_weights([0, 1], 1), trend_weights([0, 1], 1))
    result = tw_contrast(cells, {cell: w_XZ[cell] for cell in cells}, target="E1")
    got = (result.d, result.t, result.df, result.p)
    assert got == tuple(golden.printed(case[k]) for k in ("contrast", "t_welch", "df_welch", "p_welch"))


def test_fixed_problems_equals_scipy_on_macro_scores():
    rng = np.random.default_rng(4)
    scores = {m: {b: rng.random((S, P)) for b, P in (("x", 7), ("y", 4))} for m, S in (("A", 5), ("B", 3))}
    result = tw_contrast(scores, PAIR, target="E1", alpha=0.1)
    macros = [np.mean([y.mean(axis=1) for y in scores[m].values()], axis=0) for m in "AB"]
    scipy = stats.ttest_ind(*macros, equal_var=False)
    interval = scipy.confidence_interval(0.9)
    got = (result.t, result.p, result.df, result.lo, result.hi)
    assert got == pytest.approx((scipy.statistic, scipy.pvalue, scipy.df, interval.low, interval.high), rel=1e-12)


# statsmodels says so of every model without a random intercept
@pytest.mark.filterwarnings("ignore:The MLE may be on the boundary")
def test_variance_equals_reml_of_the_crossed_model():
    # balanced, all components well above 0, so that REML is in the interior
    rng = np.random.default_rng(13)
    S, P = 4, 10
    problem = rng.normal(0, 0.2, P)
    scores = {
        m: {"bench": problem + rng.normal(0, 0.1, P) + rng.normal(0, 0.12, (S, 1)) + rng.normal(0, 0.05, (S, P))}
        for m in "AB"
    }
    result = tw_contrast(scores, PAIR)
    rows = [
        {"y": scores[m]["bench"][s, p], "arm": float(m == "A"), "problem": p, "mp": f"{m}{p}", "ms": f"{m}{s}"}
        for m in "AB"
        for s in range(S)
        for p in range(P)
    ]
    frame = pd.DataFrame(rows).assign(one=1)
    effects = {name: f"0 + C({name})" for name in ("problem", "mp", "ms")}
    model = mixedlm("y ~ arm", frame, groups="one", re_formula="0", vc_formula=effects)
    fit = model.fit(reml=True, method="lbfgs")
    assert result.branch == "sum"
    assert fit.bse["arm"] ** 2 == pytest.approx(result.V, rel=1e-4)
    assert fit.params["arm"] == pytest.approx(result.d, rel=1e-6)
