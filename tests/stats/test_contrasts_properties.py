"""TW-Welch against its literal definition, its invariances, and the undefined cases."""

from math import sqrt
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from seedwise.stats.contrasts import mean_interval, one_run_contrast, tw_contrast
from seedwise.stats.results import StatsError

PAIR = {"A": 1.0, "B": -1.0}
NUMBERS = ("d", "se", "df", "t", "p", "lo", "hi", "V_seed", "df_seed", "V_prob", "df_prob", "V_res", "df_res", "V")


@st.composite
def studies(draw):
    """Cells of 2 to 4 seeds on 1 or 2 benchmarks of 2 to 6 problems, counts of 16."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(2, 6), min_size=1, max_size=2))
    seeds = {m: draw(st.integers(2, 4)) for m in ("A", "B", "C")}
    return {m: {f"b{b}": rng.integers(0, 17, (S, P)) / 16 for b, P in enumerate(sizes)} for m, S in seeds.items()}


def same(first, second, *, sign=1, names=NUMBERS):
    assert (first.branch, first.reason) == (second.branch, second.reason)
    for name in names:
        a, b = getattr(first, name), getattr(second, name)
        if name in ("d", "t"):
            b = None if b is None else sign * b
        assert a is None or b is None or a == pytest.approx(b, rel=1e-9, abs=1e-12), name
        assert (a is None) == (b is None), name


def literal(scores, w):
    """Section 3 as written there, sum by sum."""
    benches = list(scores["A"])
    B = len(benches)
    mean = lambda values: sum(values) / len(values)  # noqa: E731
    V_seed, n_seed, d = 0.0, 0.0, 0.0
    V_res, n_res = 0.0, 0.0
    D = {b: [0.0] * scores["A"][b].shape[1] for b in benches}
    for m, weight in w.items():
        S = scores[m][benches[0]].shape[0]
        M = [mean([mean(list(scores[m][b][s])) for b in benches]) for s in range(S)]
        s2 = sum((x - mean(M)) ** 2 for x in M) / (S - 1)
        d += weight * mean(M)
        V_seed += weight**2 * s2 / S
        n_seed += (weight**2 * s2 / S) ** 2 / (S - 1)
        for b in benches:
            y = scores[m][b]
            P = y.shape[1]
            for p in range(P):
                D[b][p] += weight * mean([y[s][p] for s in range(S)])
            e2 = 0.0
            for s in range(S):
                for p in range(P):
                    row, column = mean(list(y[s])), mean([y[r][p] for r in range(S)])
                    grand = mean([y[r][q] for r in range(S) for q in range(P)])
                    e2 += (y[s][p] - row - column + grand) ** 2 / ((S - 1) * (P - 1))
            V_res += weight**2 * e2 / (S * P * B**2)
            n_res += (weight**2 * e2 / (S * P * B**2)) ** 2 / ((S - 1) * (P - 1))
    terms = [
        (sum((x - mean(D_p)) ** 2 for x in D_p) / (len(D_p) - 1) / (len(D_p) * B**2), len(D_p) - 1)
        for D_p in D.values()
    ]
    V_prob, n_prob = sum(v for v, _ in terms), sum(v**2 / df for v, df in terms)
    V_sum = V_seed + V_prob - V_res
    V = max(V_sum, V_seed, V_prob)
    if V_sum == V:
        df = V_sum**2 / (n_seed + n_prob + n_res)
    else:
        df = V_seed**2 / n_seed if V_seed == V else V_prob**2 / n_prob
    return d, V_seed, V_prob, V_res, V, max(df, 1)


@settings(max_examples=40, deadline=None)
@given(studies())
def test_fast_code_equals_the_literal_definition(scores):
    result = tw_contrast(scores, PAIR)
    d, V_seed, V_prob, V_res, V, df = literal(scores, PAIR)
    assert (result.d, result.V_seed, result.V_prob, result.V_res) == pytest.approx(
        (d, V_seed, V_prob, V_res), abs=1e-14
    )
    if V > 1e-12:
        assert (result.V, result.df) == pytest.approx((V, df), rel=1e-9)
        assert result.p == pytest.approx(2 * stats.t.sf(abs(d) / sqrt(V), df), rel=1e-8, abs=1e-15)
        half = stats.t.ppf(0.975, df) * sqrt(V)
        assert (result.lo, result.hi) == pytest.approx((d - half, d + half), rel=1e-9, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(studies(), st.randoms(use_true_random=False), st.sampled_from([PAIR, {"A": 1, "B": -0.5, "C": -0.5}]))
def test_order_of_seeds_and_problems_does_not_matter(scores, random, w):
    shuffled = {m: dict(by_bench) for m, by_bench in scores.items()}
    for bench, y in scores["A"].items():
        order = random.sample(range(y.shape[1]), y.shape[1])
        for by_bench in shuffled.values():
            by_bench[bench] = by_bench[bench][:, order]
    for m, by_bench in shuffled.items():
        S = len(next(iter(by_bench.values())))
        order = random.sample(range(S), S)
        shuffled[m] = {bench: y[order] for bench, y in by_bench.items()}
    same(tw_contrast(scores, w, samples=16), tw_contrast(shuffled, w, samples=16))


@settings(max_examples=40, deadline=None)
@given(studies(), st.floats(-3, 3))
def test_a_constant_added_to_all_scores_changes_nothing(scores, constant):
    shifted = {m: {bench: y + constant for bench, y in by_bench.items()} for m, by_bench in scores.items()}
    same(tw_contrast(scores, PAIR), tw_contrast(shifted, PAIR))


@settings(max_examples=40, deadline=None)
@given(studies())
def test_opposite_weights_flip_the_sign_only(scores):
    forward, back = tw_contrast(scores, PAIR), tw_contrast(scores, {m: -weight for m, weight in PAIR.items()})
    same(forward, back, sign=-1, names=[n for n in NUMBERS if n not in ("lo", "hi")])
    if forward.lo is not None:
        assert (forward.lo, forward.hi) == pytest.approx((-back.hi, -back.lo), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(studies())
def test_copies_of_a_benchmark_leave_difference_and_seed_variance(scores):
    copied = {m: {f"{b}.{i}": y for b, y in by_bench.items() for i in range(3)} for m, by_bench in scores.items()}
    same(
        tw_contrast(scores, PAIR, target="E1"), tw_contrast(copied, PAIR, target="E1"), names=("d", "V_seed", "df_seed")
    )


@settings(max_examples=40, deadline=None)
@given(studies())
def test_variance_is_never_below_a_one_way_variance(scores):
    result = tw_contrast(scores, PAIR)
    assert max(result.V_seed, result.V_prob) <= result.V


def test_pooled_seed_variance_with_equal_spreads_keeps_the_variance_and_gains_df():
    rows = {"A": [0.2, 0.4, 0.6], "B": [0.3, 0.5, 0.7], "C": [0.1, 0.3, 0.5]}
    scores = {m: {"run": np.array(y)[:, None]} for m, y in rows.items()}
    welch, pooled = (tw_contrast(scores, PAIR, target="E1", seed_variance=v) for v in ("welch", "pooled"))
    assert pytest.approx(welch.V) == pooled.V
    assert (welch.df, pooled.df) == pytest.approx((4, 6))  # 2 (S - 1) and 3 (S - 1)
    assert pooled.flags == ("assumes equal seed variance (max/min SD 1.00)",)


def test_clusters_by_hand():
    # D = (.4, .2, -.1, -.1), mean .1; cluster sums of deviations .4 and -.4; 2/1 (.16 + .16)/16 = .04
    y = {"A": {"b": np.array([[0.4, 0.2, -0.1, -0.1]] * 2)}, "B": {"b": np.zeros((2, 4))}}
    result = tw_contrast(y, PAIR, clusters={"b": ["x", "x", "y", "y"]})
    assert (result.V_prob, result.df_prob) == pytest.approx((0.04, 1))
    same(tw_contrast(y, PAIR), tw_contrast(y, PAIR, clusters={"b": range(4)}))
    assert (
        tw_contrast(y, PAIR, clusters={"b": "aaaa"}).reason
        == "an interval over problems needs at least 2, got 1 in 'b'"
    )


def test_missing_scores_drop_the_problem_everywhere_and_are_counted():
    rng = np.random.default_rng(0)
    scores = {m: {"x": rng.random((3, 6)), "y": rng.random((3, 4))} for m in "AB"}
    holes = {m: {b: y.copy() for b, y in by_bench.items()} for m, by_bench in scores.items()}
    holes["A"]["x"][1, 2] = holes["B"]["x"][0, 5] = holes["B"]["x"][2, 5] = np.nan
    kept = {m: {"x": y["x"][:, [0, 1, 3, 4]], "y": y["y"]} for m, y in scores.items()}
    result = tw_contrast(holes, PAIR)
    assert result.dropped == 2
    same(result, tw_contrast(kept, PAIR))
    labels = {"x": [0, 0, 1, 1, 2, 2]}
    same(tw_contrast(holes, PAIR, clusters=labels), tw_contrast(kept, PAIR, clusters={"x": [0, 0, 1, 2]}))


def test_one_seed_gives_no_p_value():
    rng = np.random.default_rng(0)
    scores = {"A": {"b": rng.random((1, 5))}, "B": {"b": rng.random((3, 5))}}
    for result in (tw_contrast(scores, PAIR), tw_contrast(scores, PAIR, target="E1")):
        assert (result.p, result.lo, result.hi, result.V) == (None, None, None, None)
        assert result.reason == "an interval over seeds needs at least 2, got 1"
        assert result.d == pytest.approx(scores["A"]["b"].mean() - scores["B"]["b"].mean())
    alone = mean_interval(scores["A"])
    assert (alone.lo, alone.reason) == (None, "an interval over seeds needs at least 2, got 1")


def test_one_run_each_is_a_paired_t_over_problems_and_says_so():
    rng = np.random.default_rng(0)
    scores = {m: {"b": rng.random((1, 9))} for m in "AB"}
    result = one_run_contrast(scores, PAIR)
    reference = stats.ttest_rel(scores["A"]["b"][0], scores["B"]["b"][0])
    assert (result.t, result.p, result.df) == pytest.approx((reference.statistic, reference.pvalue, 8))
    assert result.flags == ("conditional on one training run",)
    with pytest.raises(StatsError, match="cell 'A' has 2 seeds: use tw_contrast"):
        one_run_contrast({"A": {"b": rng.random((2, 9))}, "B": scores["B"]}, PAIR)


def test_two_seeds_are_flagged_and_a_seed_counted_twice_shows():
    rng = np.random.default_rng(0)
    scores = {m: {"b": rng.integers(1, 16, (2, 9)) / 16} for m in "AB"}
    assert "df<=2" in tw_contrast(scores, PAIR).flags
    twice = {m: {"b": np.repeat(y["b"][:1], 3, axis=0)} for m, y in scores.items()}
    assert tw_contrast(twice, PAIR, samples=16).flags == ("underdispersed",)
    assert tw_contrast(twice, PAIR).flags == ()


def test_binomial_floor_by_hand():
    # y = (1/4, 1/2) in both rows, mean y(1-y) = 7/32; rows moved apart by a gap lose gap^2/4 of it.
    # floor: (7/32 - gap^2/4 + 7/32)/(n-1 = 3)/(S P = 4); V_seed: gap^2/2 / 2; equal at gap^2 = 7/52
    y = np.array([[0.25, 0.5], [0.25, 0.5]])
    for gap, flagged in ((sqrt(7 / 52) - 0.001, True), (sqrt(7 / 52) + 0.001, False)):
        apart = {"b": y + np.array([[-gap], [gap]]) / 2}
        result = tw_contrast({"A": apart, "B": {"b": y}}, PAIR, samples={"b": 4})
        assert ("underdispersed" in result.flags) is flagged


def test_a_fixed_cell_has_no_seed_variance():
    rng = np.random.default_rng(1)
    scores = {"A": {"b": rng.random((3, 8))}, "base": {"b": rng.random((1, 8))}}
    w = {"A": 1, "base": -1}
    result = tw_contrast(scores, w, fixed={"base"})
    one = tw_contrast({"A": {"b": scores["A"]["b"] - scores["base"]["b"]}}, {"A": 1})
    # a constant per problem: the one-sample two-way interval of the difference
    same(result, one)
    same(tw_contrast(scores, w, fixed={"base"}, pairing="seed"), one)
    assert tw_contrast(scores, w).reason == "an interval over seeds needs at least 2, got 1"
    given_base = tw_contrast(scores, w, fixed={"base"}, target="E1")
    reference = stats.ttest_1samp(scores["A"]["b"].mean(axis=1), scores["base"]["b"].mean())
    assert (given_base.t, given_base.p) == pytest.approx((reference.statistic, reference.pvalue), rel=1e-10)


def test_mean_of_the_base_is_an_interval_over_problems():
    y = np.random.default_rng(2).random((1, 9))
    result = mean_interval({"b": y}, fixed=True)
    low, high = stats.ttest_1samp(y[0], 0).confidence_interval(0.95)
    assert (result.d, result.lo, result.hi) == pytest.approx((y.mean(), low, high), rel=1e-10)
    assert (result.branch, result.df) == ("sum", 8)


# ---- case 30: nothing varies


def flat(value, S=3, P=4):
    return {"b": np.full((S, P), value)}


@pytest.mark.parametrize("target", ["E2", "E1"])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.3, 1 / 3])
def test_identical_constant_scores_have_p_1_and_no_interval(target, value):
    result = tw_contrast({"A": flat(value), "B": flat(value)}, PAIR, target=target, samples=16)
    assert (result.d, result.p, result.t, result.lo, result.hi) == (0, 1, None, None, None)
    assert result.reason.endswith("p is 1, no interval")


def test_identical_varying_scores_have_p_1():
    y = {"b": np.random.default_rng(0).random((3, 6))}
    result = tw_contrast({"A": y, "B": y}, PAIR)
    assert (result.d, result.p) == (0, 1)
    assert result.V > 0


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, 0.7])
def test_a_constant_difference_is_undefined_not_certain(value):
    for scores in (
        {"A": flat(value), "B": flat(value + 0.1)},
        {"A": {"b": np.tile([[0.1], [0.7], [0.4]], 6).T}, "B": {"b": np.tile([[0.1], [0.7], [0.4]], 6).T + value}},
    ):
        result = tw_contrast(scores, PAIR)
        assert (result.p, result.t, result.lo) == (None, None, None)
        assert result.reason == "no variance over seeds or problems: a test is undefined"


def test_a_benchmark_solved_by_everyone_or_no_one_does_not_make_certainty():
    rng = np.random.default_rng(5)
    scores = {m: {"all": np.ones((3, 5)), "none": np.zeros((3, 5)), "some": rng.random((3, 5))} for m in "AB"}
    result = tw_contrast(scores, PAIR)
    alone = tw_contrast({m: {"some": y["some"]} for m, y in scores.items()}, PAIR)
    assert (3 * result.d, result.p) == pytest.approx((alone.d, alone.p), rel=1e-9)


# ---- refusals


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w": {"A": 1, "D": -1}}, "cell 'D' has a weight but no scores"),
        ({"w": {"A": 0}}, "all weights are 0"),
        ({"w": {"A": float("nan")}}, "weight of cell 'A' is nan"),
        ({"target": "E3"}, "target: 'E3'"),
        ({"seed_variance": "limma"}, "seed_variance: 'limma'"),
        ({"pairing": "problem"}, "pairing: 'problem'"),
        ({"pairing": "seed", "seed_variance": "pooled"}, "exclude each other"),
        ({"pairing": "seed", "w": {"A": 1, "C": -1}}, "pairing by seed needs the same seeds"),
        ({"pairing": "seed", "fixed": {"A", "B"}}, "every cell with a weight is fixed"),
        ({"alpha": 5}, "alpha: 5"),
        ({"samples": 1}, "samples: 1 on 'b'"),
        ({"clusters": {"b": [1, 2]}}, "2 cluster labels for 4 problems"),
    ],
)
def test_options_without_meaning_are_refused_with_the_value(change, message):
    rng = np.random.default_rng(0)
    scores = {m: {"b": rng.random((S, 4))} for m, S in (("A", 3), ("B", 3), ("C", 2))}
    with pytest.raises(StatsError, match=message):
        tw_contrast(scores, **{"w": PAIR, **change})


@pytest.mark.parametrize(
    ("b", "message"),
    [
        ({"b": np.ones((3, 5))}, r"cells have \[4, 5\] problems"),
        ({"c": np.ones((3, 4))}, r"benchmarks \['c'\]"),
        ({"b": np.ones(4)}, r"shape \(4,\) instead of \(seeds, problems\)"),
        ({"b": np.ones((3, 0))}, r"shape \(3, 0\)"),
        ({"b": np.full((3, 4), np.inf)}, "a score is infinite"),
        ({"b": np.full((3, 4), np.nan)}, "no problem has a score in every seed"),
    ],
)
def test_scores_that_do_not_fit_are_refused(b, message):
    with pytest.raises(StatsError, match=message):
        tw_contrast({"A": {"b": np.ones((3, 4))}, "B": b}, PAIR)


def test_seeds_must_be_the_same_on_every_benchmark():
    with pytest.raises(StatsError, match="3 seeds on 'x' but 2 on 'y'"):
        mean_interval({"x": np.ones((3, 2)), "y": np.ones((2, 2))})
    with pytest.raises(StatsError, match="at least 1 benchmark"):
        mean_interval({})


def test_one_problem_has_no_interval_over_problems_but_one_over_seeds():
    scores = {"A": {"b": np.array([[0.1], [0.4]])}, "B": {"b": np.array([[0.3], [0.9]])}}
    assert tw_contrast(scores, PAIR).reason == "an interval over problems needs at least 2, got 1 in 'b'"
    assert tw_contrast(scores, PAIR, target="E1").p is not None


def test_closed_form_takes_a_small_share_of_the_literal_sums():
    rng = np.random.default_rng(0)
    scores = {m: {"b": rng.random((3, 40))} for m in "AB"}

    def fastest(call, times):
        taken = []
        for _ in range(times):
            start = process_time()
            call()
            taken.append(process_time() - start)
        return min(taken)

    assert fastest(lambda: tw_contrast(scores, PAIR, samples=16), 20) < fastest(lambda: literal(scores, PAIR), 2) / 4
