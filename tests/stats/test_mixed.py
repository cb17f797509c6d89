from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm

from seedwise.stats import mixed
from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.mixed import crossed_model, pooled

TIGHT = {"xatol": 1e-7, "fatol": 1e-10, "maxiter": 2000}


def study(seed, seeds=(3, 3), sizes=(7, 12), var_mp=0.1):
    rng = np.random.default_rng(seed)
    problem = {f"b{i}": rng.normal(0, 0.2, P) for i, P in enumerate(sizes)}
    return {
        m: {
            b: y + rng.normal(0, var_mp, len(y)) + own + rng.normal(0, 0.05, (S, len(y)))
            for own in [rng.normal(0, 0.1, (S, 1))]
            for b, y in problem.items()
        }
        for m, S in zip("AB", seeds, strict=True)
    }


def test_g4_golden(golden):
    case = golden["G4"]
    scores = {m: {"b": np.array(case[f"counts_{m}"]) / 16} for m in "AB"}
    result = crossed_model(scores, "A", "B")
    # interior: REML is TW-Welch's variance; the printed se and p are statsmodels' lbfgs, good to 1e-4
    assert result.se == golden.printed(case["se"])
    assert result.se == pytest.approx(case["MixedLM_REML_bse_crosscheck(6 digits)"], rel=1e-4)
    assert result.p == pytest.approx(case["MixedLM_Wald_p"], rel=2e-4)
    assert result.flags == ("anti-conservative at few seeds",)


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_balanced_interior_equals_tw_welch(seed):
    scores = study(seed, sizes=(15,))
    result, tw = crossed_model(scores, "A", "B"), tw_contrast(scores, {"A": 1, "B": -1})
    assert tw.branch == "sum"
    assert result.se**2 == pytest.approx(tw.V, rel=1e-9)
    assert result.d == tw.d
    half = norm.ppf(0.975) * result.se
    assert (result.lo, result.hi) == pytest.approx((tw.d - half, tw.d + half))
    # the same difference and error, a smaller p: that is what makes it anti-conservative
    assert result.p < tw.p


@pytest.mark.parametrize(("seed", "var_mp", "rel"), [(0, 0.05, 1e-5), (1, 0.1, 1e-5), (2, 0.0, 2e-3)])
def test_exact_reml_equals_statsmodels(seed, var_mp, rel):
    scores = study(seed, var_mp=var_mp)
    exact = crossed_model(scores, "A", "B")
    V, boundary = mixed._fitted([tuple(scores[m].values()) for m in "AB"], [7, 12])
    assert pytest.approx(exact.se**2, rel=rel) == V
    assert boundary == ("boundary" in exact.flags) == (var_mp == 0)


def dense_reml(y, labels, X, contrast):
    """Variance of contrast . beta by REML, with the covariance matrix written out."""
    same = [label[:, None] == label for label in labels]

    def covariance(logs):
        return sum(np.exp(v) * block for v, block in zip(logs, [*same, np.eye(len(y))], strict=True))

    def loss(logs):
        inverse = np.linalg.inv(covariance(logs))
        XVX = X.T @ inverse @ X
        rest = y - X @ np.linalg.solve(XVX, X.T @ inverse @ y)
        return np.linalg.slogdet(covariance(logs))[1] + np.linalg.slogdet(XVX)[1] + rest @ inverse @ rest

    best = minimize(loss, np.log([0.04, 0.01, 0.01, 0.0025]), method="Nelder-Mead", options=TIGHT)
    return contrast @ np.linalg.inv(X.T @ np.linalg.inv(covariance(best.x)) @ X) @ contrast


def test_unequal_seeds_are_fitted_by_statsmodels():
    scores = study(3, seeds=(2, 3), sizes=(9,))
    A, B = (scores[m]["b0"] for m in "AB")
    arm, seed, problem = np.repeat([1, 0], [18, 27]), np.repeat(np.arange(5), 9), np.tile(np.arange(9), 5)
    X = np.column_stack([np.ones(45), arm])
    V = dense_reml(np.concatenate([A.ravel(), B.ravel()]), [problem, problem + 9 * arm, seed], X, np.array([0, 1]))
    result = crossed_model(scores, "A", "B")
    assert result.se**2 == pytest.approx(V, rel=1e-4)
    assert result.d == pytest.approx(A.mean() - B.mean())
    big = study(3, seeds=(3, 4), sizes=(100,))
    assert crossed_model(big, "A", "B").reason == "unequal seeds and 700 scores: the crossed model is fitted up to 600"


squares = st.tuples(st.floats(0.5, 20), st.integers(1, 12))


@settings(max_examples=30, deadline=None)
@given(squares, squares, squares, squares)
def test_pooled_mean_squares_maximise_the_likelihood(residual, interaction, problem, seed):
    given_squares = {"residual": residual, "interaction": interaction, "problem": problem, "seed": seed}
    found = pooled(given_squares)
    assert found["residual"] <= found["interaction"] * (1 + 1e-12) <= found["problem"] * (1 + 1e-11)
    assert found["residual"] <= found["seed"] * (1 + 1e-12)

    def loss(value):
        return sum(df * log(value[name]) + ss / value[name] for name, (ss, df) in given_squares.items())

    def free(steps):
        e, a, b, c = np.exp(steps[0]), *steps[1:]
        return loss({"residual": e, "interaction": e + a, "problem": e + a + b, "seed": e + c})

    best = min(
        minimize(free, [log(start), *[start / 2] * 3], bounds=[(-8, 8), *[(0, None)] * 3]).fun for start in (0.2, 1, 4)
    )
    assert loss(found) <= best + 1e-6


def test_missing_numbers_say_why():
    rng = np.random.default_rng(0)
    one = crossed_model({"A": {"b": rng.random((1, 4))}, "B": {"b": rng.random((3, 4))}}, "A", "B")
    assert (one.p, one.reason) == (None, "an interval over seeds needs at least 2, got 1")
    flat = crossed_model({m: {"b": np.ones((3, 4))} for m in "AB"}, "A", "B")
    assert (flat.p, flat.se, flat.reason) == (1, None, "no variance over seeds or problems: p is 1, no interval")
    apart = crossed_model({"A": {"b": np.ones((3, 4))}, "B": {"b": np.zeros((4, 4))}}, "A", "B")
    assert (apart.d, apart.p) == (1, None)


def test_a_large_balanced_study_is_exact_and_a_problem_left_out_is_counted():
    rng = np.random.default_rng(0)
    scores = {m: {"x": rng.random((10, 134)), "y": rng.random((10, 30))} for m in "AB"}
    scores["A"]["x"][0, 0] = np.nan
    result = crossed_model(scores, "A", "B")
    assert (result.dropped, result.reason) == (1, None)
