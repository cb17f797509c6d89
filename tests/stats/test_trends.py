import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.stats.results import StatsError
from seedwise.stats.trends import interaction, kron_weights, trend, trend_weights


def test_linear_weights_by_hand(golden):
    # x - mean = (-.3, -.1, .1, .3), sum of squares .2
    np.testing.assert_allclose(trend_weights([0.2, 0.4, 0.6, 0.8], 1), golden["G8"]["weights"], atol=1e-14)
    # per step: (-3, -1, 1, 3)/10
    np.testing.assert_allclose(trend_weights([0, 1, 2, 3], 1), [-0.3, -0.1, 0.1, 0.3], atol=1e-15)


def test_quadratic_weights_do_not_depend_on_the_unit_of_x(golden):
    for x in ([0.2, 0.4, 0.6, 0.8], [2, 3, 4, 5], [-30, -10, 10, 30]):
        np.testing.assert_allclose(trend_weights(x, 2), golden["G8b"]["weights"], atol=1e-14)
    # three levels: y = step^2 gives (1, 0, 1) . w = 1
    np.testing.assert_allclose(trend_weights([1, 2, 3], 2), [0.5, -1, 0.5], atol=1e-15)


levels = st.lists(st.integers(-20, 20), min_size=3, max_size=6, unique=True)


@settings(max_examples=50, deadline=None)
@given(levels, st.floats(-2, 2), st.floats(-2, 2), st.floats(-2, 2))
def test_weights_recover_slope_and_curvature(x, a, b, c):
    x = np.array(x, dtype=float)
    step = (x - x.mean()) * (len(x) - 1) / np.ptp(x)
    linear, quadratic = trend_weights(x, 1), trend_weights(x, 2)
    assert linear @ (a + b * x) == pytest.approx(b, abs=1e-9)
    assert quadratic @ (a + b * x) == pytest.approx(0, abs=1e-8)
    assert quadratic @ (a + b * x + c * step**2) == pytest.approx(c, abs=1e-8)
    # least squares of the polynomial, another implementation
    y = np.cos(x)
    assert quadratic @ y == pytest.approx(np.polynomial.polynomial.polyfit(step, y, 2)[2], abs=1e-8)


def test_interaction_is_the_difference_of_differences_between_corners():
    w = kron_weights(trend_weights([0, 1, 2], 1), trend_weights([2, 3], 1))
    x, z = np.arange(3)[:, None], np.array([2, 3])
    assert w.shape == (3, 2)
    # y = 5 x z + 7 x - z: only the product is left, (range 2)(range 1) 5 = 10
    assert (w * (5 * x * z + 7 * x - z)).sum() * 2 * 1 == pytest.approx(10)


def test_two_levels_have_a_slope_and_no_curvature():
    rng = np.random.default_rng(0)
    scores = {K: {"b": rng.random((3, 5))} for K in (0.4, 0.8)}
    result = trend(scores, {0.4: 0.4, 0.8: 0.8})
    assert result.linear.d == pytest.approx((scores[0.8]["b"].mean() - scores[0.4]["b"].mean()) / 0.4)
    assert (result.quadratic, result.p_quadratic) == (None, None)
    assert result.reason == "curvature needs at least 3 levels, got 2"
    assert result.p_linear == pytest.approx(result.linear.p)


def test_an_inverted_u_is_negative_curvature():
    rng = np.random.default_rng(0)
    height = {0.2: 0.3, 0.4: 0.6, 0.6: 0.6, 0.8: 0.3}
    scores = {K: {"b": y + rng.normal(0, 0.02, (3, 20))} for K, y in height.items()}
    result = trend(scores, {K: K for K in scores}, samples=16)
    # (.3 - .6 - .6 + .3)/4
    assert result.quadratic.d == pytest.approx(-0.15, abs=0.01)
    assert result.p_quadratic < 0.001 < result.p_linear


@pytest.mark.parametrize(
    ("x", "degree", "message"),
    [
        ([1, 2], 2, "a trend of degree 2 needs at least 3 levels, got 2"),
        ([1], 1, "at least 2 levels, got 1"),
        ([1, 1, 2], 1, "different finite numbers"),
        ([1, float("inf")], 1, "different finite numbers"),
        ([1, 2, 3, 4], 3, "degree: 3: use 1"),
    ],
)
def test_levels_without_a_trend_are_refused(x, degree, message):
    with pytest.raises(StatsError, match=message):
        trend_weights(x, degree)


def test_trends_and_interactions_refuse_what_does_not_fit():
    with pytest.raises(StatsError, match="give one list per axis"):
        kron_weights([[1, -1]], [1, -1])
    with pytest.raises(StatsError, match=r"cell 'K0\.8' has a weight but no scores"):
        trend({"K0.4": {"b": np.ones((2, 2))}}, {"K0.4": 0.4, "K0.8": 0.8})


def grid(case):
    return {(i, j): {"all": np.array(y)[:, None]} for i, row in enumerate(case["y"]) for j, y in enumerate(row)}


def test_g11_interaction_golden(golden):
    case = golden["G11"]
    result = interaction(grid(case), {cell: cell for cell in grid(case)}, target="E1")
    got = (result.contrast.d, result.contrast.t, result.contrast.df, result.contrast.p)
    assert got == tuple(golden.printed(case[k]) for k in ("contrast", "t_welch", "df_welch", "p_welch"))
    assert (result.omnibus.F, result.omnibus.p) == (golden.printed(case["F_anova"]), golden.printed(case["p_pooled"]))
    assert result.omnibus.df == (1, 8)
    # one degree of freedom: F is the square of the pooled t
    assert pytest.approx(case["t_pooled"] ** 2, rel=1e-9) == result.omnibus.F


def test_interaction_corners_on_a_wide_grid():
    rng = np.random.default_rng(0)
    cells = {(K, G): {"b": 0.5 * K * G + K - G + rng.normal(0, 0.01, (3, 8))} for K in (0.2, 0.4, 0.8) for G in (2, 3)}
    result = interaction(cells, {cell: cell for cell in cells})
    assert result.contrast.d == pytest.approx(0.5, abs=0.02)
    # (range .6)(range 1)
    assert result.corners == pytest.approx(0.6 * result.contrast.d)
    assert (result.omnibus.df, result.omnibus.p < 0.001) == ((2, 12), True)


def test_an_omnibus_f_without_seeds_or_variance_says_why():
    one = {(i, j): {"b": np.array([[0.1 * i * j, 0.3]])} for i in (0, 1) for j in (0, 1)}
    assert (
        interaction(one, {cell: cell for cell in one}).omnibus.reason == "an F test needs at least 2 seeds in some cell"
    )
    flat = {cell: {"b": np.repeat(y["b"], 3, axis=0)} for cell, y in one.items()}
    result = interaction(flat, {cell: cell for cell in flat}).omnibus
    assert (result.F, result.reason) == (None, "no variance over seeds")


def test_a_grid_with_holes_or_doubles_is_refused():
    cells = {cell: {"b": np.ones((2, 2))} for cell in "abcd"}
    with pytest.raises(StatsError, match=r"no cell at \(1.0, 1.0\)"):
        interaction(cells, {"a": (0, 0), "b": (0, 1), "c": (1, 0)})
    with pytest.raises(StatsError, match="same position"):
        interaction(cells, {"a": (0, 0), "b": (0, 1), "c": (1, 0), "d": (1, 0)})
