import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower

from seedwise.stats.components import Components, components_from, sampling_variance
from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.planner import (
    best_samples,
    ceiling,
    inconclusive,
    mde,
    plan,
    power_analytic,
    power_mc,
    seeds_needed,
)
from seedwise.stats.results import StatsError
from seedwise.stats.scores import avg
from seedwise.stats.staged import power_staged

# the base scenario of the reference, section 8
BASE = Components(var_seed=0.0193**2, var_mp=0.0729**2, var_seed_problem=0.0086, theta_var=0.13)
SEEDS_ONLY = Components(var_seed=1.0, var_mp=0.0, var_seed_problem=0.0, theta_var=0.0)


@pytest.fixture
def rng():
    return np.random.default_rng(20)


def test_g16_analytic_golden(golden):
    case = golden["G16"]
    given = case["inputs"]
    components = Components(given["var_seed"], given["var_mp"], given["var_seed_problem"], given["theta_var"])
    plan = power_analytic(components, given["S"], given["P"], given["n"], given["d"])
    for name in ("V", "se", "df", "ncp", "power"):
        assert getattr(plan, name) == golden.printed(case[name]), name


def test_g15_two_sample_t_golden(golden):
    def power(d, S):
        return power_analytic(SEEDS_ONLY, S, 10, 1, d, target="E1").power

    for name, value in golden["G15"].items():
        if name.startswith("power"):
            d, S = (float(part.split("=")[1]) for part in name.split()[1:])
            assert power(d, S) == golden.printed(value), name
        elif name.startswith("d_for_80_S"):
            # the printed roots are statsmodels' solver's, whose power is .8 to about 1e-6
            assert power(value, int(name.removeprefix("d_for_80_S"))) == pytest.approx(0.8, abs=1e-6), name
    assert power(1.0, golden["G15"]["n_for_80_d1"]) == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize("S", [2, 3, 10])
def test_seeds_only_equals_statsmodels(S):
    other = TTestIndPower().power(effect_size=1.3, nobs1=S, alpha=0.05)
    assert power_analytic(SEEDS_ONLY, S, 10, 1, 1.3, target="E1").power == pytest.approx(other, abs=1e-9)


@pytest.mark.parametrize(
    ("S", "P", "delta", "full_simulation"),
    [
        (3, 30, 0.03, 0.106),
        (3, 30, 0.05, 0.243),
        (3, 30, 0.08, 0.547),
        (3, 130, 0.03, 0.217),
        (3, 130, 0.05, 0.491),
        (3, 130, 0.08, 0.846),
        (5, 130, 0.05, 0.771),
        (10, 130, 0.03, 0.566),
    ],
)
def test_power_agrees_with_full_simulation(S, P, delta, full_simulation, rng):
    assert power_mc(BASE, S, P, 16, delta, rng=rng) == pytest.approx(full_simulation, abs=0.03)


@pytest.mark.parametrize(
    ("P", "points"),
    [
        (30, {3: 9.9, 5: 7.7, 8: 6.8, 10: 6.5, 16: 6.1}),
        (130, {3: 7.2, 5: 5.0, 8: 4.1, 10: 3.8, 16: 3.4}),
        (297, {3: 6.9, 5: 4.4, 8: 3.5, 10: 3.2, 16: 2.6}),
    ],
)
def test_smallest_detectable_effects_of_the_reference(P, points, rng):
    for S, value in points.items():
        assert 100 * mde(BASE, S, P, 32, rng=rng) == pytest.approx(value, abs=0.12), S


def test_seeds_and_ceilings_of_the_reference(rng):
    never = seeds_needed(BASE, 30, 32, 0.05, rng=rng)
    assert (never.seeds, never.reason) == (None, "no number of seeds will: 30 problems cap the power at 0.73")
    assert [seeds_needed(BASE, 130, 32, d, rng=rng).seeds for d in (0.05, 0.08)] == [5, 3]
    assert seeds_needed(BASE, 130, 32, 0.03, rng=rng).seeds == pytest.approx(30, abs=2)
    assert seeds_needed(BASE, 30, 32, 0.08, rng=rng).seeds == 5
    assert [ceiling(BASE, 30, d) for d in (0.02, 0.03, 0.05)] == pytest.approx([0.18, 0.34, 0.73], abs=0.006)
    assert ceiling(BASE, 130, 0.5) == pytest.approx(1)  # far out, where nct.cdf is NaN


def test_seeds_needed_is_the_smallest_and_mde_has_the_power(rng):
    needed = seeds_needed(BASE, 297, 16, 0.04, rng=rng, draws=20_000).seeds
    assert power_mc(BASE, needed, 297, 16, 0.04, rng=rng, draws=20_000) >= 0.795
    assert power_mc(BASE, needed - 1, 297, 16, 0.04, rng=rng, draws=20_000) < 0.8
    smallest = mde(BASE, 5, 130, 16, 0.01, 0.6, rng=np.random.default_rng(3))
    assert power_mc(BASE, 5, 130, 16, smallest, alpha=0.01, rng=np.random.default_rng(3)) == pytest.approx(0.6)


def test_size_at_no_difference(rng):
    # of the reference's table: .035 to .051 with equal variances
    assert 0.03 < power_mc(BASE, 3, 130, 16, 0.0, rng=rng, draws=20_000) < 0.055


@pytest.mark.parametrize("sizes", [{"x": 12}, {"x": 6, "y": 6}, {"x": 5, "y": 9}])
def test_components_rebuild_the_variances_of_the_contrast(sizes):
    rng = np.random.default_rng(3)
    S = 4
    problem = {bench: rng.normal(0.5, 0.2, P) for bench, P in sizes.items()}
    arms = {m: rng.normal(0, 0.1, (S, 1)) for m in "AB"}
    scores = {
        m: {b: problem[b] + u + rng.normal(0, 0.1, P) + rng.normal(0, 0.05, (S, P)) for b, P in sizes.items()}
        for m, u in arms.items()
    }
    c, result = components_from(scores), tw_contrast(scores, {"A": 1, "B": -1})
    assert c.problems == pytest.approx(1 / sum(1 / (P * len(sizes) ** 2) for P in sizes.values()))
    r = c.residual(16)
    assert 2 * (c.var_seed + r / c.problems) / S == pytest.approx(result.V_seed)
    assert 2 * (c.var_mp + r / S) / c.problems == pytest.approx(result.V_prob)
    assert 2 * r / (S * c.problems) == pytest.approx(result.V_res)
    assert pytest.approx(result.V) == power_analytic(c, S, c.problems, 16, 0.1).V


def test_components_are_recovered_from_a_large_pilot():
    rng = np.random.default_rng(5)
    M, S, P, n = 6, 40, 200, 16
    theta_P = rng.uniform(0.3, 0.7, P)
    theta = theta_P + rng.normal(0, 0.05, (M, 1, P)) + rng.normal(0, 0.02, (M, S, 1)) + rng.normal(0, 0.04, (M, S, P))
    y = rng.binomial(n, np.clip(theta, 0, 1)) / n
    c = components_from({m: {"b": y[m]} for m in range(M)}, samples=n)
    assert c.var_seed == pytest.approx(0.02**2, rel=0.3)  # 234 df: 9 % standard error
    assert c.var_mp == pytest.approx(0.05**2, rel=0.1)
    assert c.var_seed_problem == pytest.approx(0.04**2, rel=0.1)
    assert c.theta_var == pytest.approx((theta * (1 - theta)).mean(), rel=0.02)
    assert c.var_seed_upper > c.var_seed


def test_upper_limit_of_the_seed_variance_by_hand():
    rng = np.random.default_rng(6)
    # two arms of three seeds: 4 df; no residual, so s2 is the seed variance itself
    scores = {m: {"b": np.add.outer(rng.normal(0, 1, 3), [0.0, 1.0])} for m in "AB"}
    c = components_from(scores)
    s2 = np.mean([y["b"].mean(axis=1).var(ddof=1) for y in scores.values()])
    assert (c.var_seed, c.var_seed_upper) == pytest.approx((s2, 4 * s2 / stats.chi2.ppf(0.25, 4)))
    assert c.cautious().var_seed == c.var_seed_upper
    assert BASE.cautious() is BASE
    # 4 df: the 95 % interval of the SD reaches to sqrt(4 / .4844) = 2.87 times the estimate
    assert c.var_seed_high == pytest.approx(s2 * 2.8736**2, rel=1e-4)
    assert c.var_seed_low == pytest.approx(4 * s2 / stats.chi2.ppf(0.975, 4))


def test_best_samples_by_hand():
    # other = .0004 + .009/100 = .00049; sqrt(.13 * 49 / (.0013 * .00049)) / 100 = sqrt(1e7) / 100 = 31.6
    components = Components(0.0004, 0.005, 0.009, 0.13)
    assert best_samples(components, 100, cost_seed=49, cost_sample=0.0013) in (31, 32)

    def price(n):
        return (49 + 100 * n * 0.0013) * (0.00049 + 0.13 / (100 * n))

    found = best_samples(components, 100, cost_seed=49, cost_sample=0.0013)
    assert price(found) == min(price(n) for n in range(1, 200))
    assert best_samples(components, 100, cost_seed=1e-9, cost_sample=1.0) == 1
    assert best_samples(Components(0.0004, 0.0, 0.0, 0.0), 100, cost_seed=1.0, cost_sample=1.0) == 1


@pytest.mark.parametrize(
    ("delta", "power", "seeds"),
    [(0.05, 0.938, None), (0.08, 1.0, 4.5), (0.0, 0.05, None)],
)
def test_looks_agree_with_full_simulation(delta, power, seeds, rng):
    # of the reference: Lan-DeMets of the O'Brien-Fleming type at 3, 5, 7, 10 seeds, 130 problems
    staged = power_staged(BASE, [3, 5, 7, 10], 130, 16, delta, rng=rng, studies=1500)
    assert staged.power == pytest.approx(power, abs=0.02)  # Monte-Carlo s.e. .006
    if seeds is not None:
        assert staged.seeds == pytest.approx(seeds, abs=0.3)
    assert list(staged.found) == sorted(staged.found)
    # information at 3 of 10 seeds in the base scenario: .44
    assert staged.looks[0].t == pytest.approx(0.44, abs=0.02)


def test_looks_at_every_level_would_find_too_much(rng):
    """Teeth: the same paths tested at .05 each time reject an equal pair in 11 %, as in the reference."""
    naive = power_staged(BASE, [3, 5, 7, 10], 130, 16, 0.0, rng=np.random.default_rng(4), kind="pocock", studies=1500)
    greedy = power_staged(
        BASE, [3, 5, 7, 10], 130, 16, 0.0, rng=np.random.default_rng(4), alpha=0.15, kind="pocock", studies=1500
    )
    assert naive.power < 0.07 < greedy.power


def test_a_plan_gathers_what_a_design_reaches():
    def rng():
        return np.random.default_rng(7)

    reach = plan(BASE, 5, 130, 16, 0.05, rng=rng())
    assert reach.power_mc == power_mc(BASE, 5, 130, 16, 0.05, rng=rng())
    assert reach.power_analytic == power_analytic(BASE, 5, 130, 16, 0.05).power
    assert reach.mde == pytest.approx(mde(BASE, 5, 130, 16, rng=np.random.default_rng(8)), rel=0.02)
    assert (reach.ceiling, reach.staged) == (ceiling(BASE, 130, 0.05), None)
    with_looks = plan(BASE, 5, 130, 16, 0.05, [3, 5], rng=rng())
    assert with_looks.staged is not None
    # a look in between costs a little of the power and saves seeds
    assert with_looks.staged.power == pytest.approx(reach.power_mc, abs=0.04)
    assert 3 < with_looks.staged.seeds < 5
    assert with_looks == plan(BASE, 5, 130, 16, 0.05, [3, 5], rng=rng())


def test_g2_sampling_variance_golden(golden):
    y = avg(16, np.array(golden["G4"]["counts_A"]))
    assert sampling_variance(y, 16) == golden.printed(golden["G2"]["sampling_var_component"])


def test_inconclusive_says_what_would_help(rng):
    def text(S=3, P=297, delta=0.03, upper=0.04**2, components=BASE):
        c = Components(components.var_seed, components.var_mp, components.var_seed_problem, components.theta_var, upper)
        return inconclusive(c, S=S, P=P, n=16, delta=delta, rng=rng)

    low, high = (
        seeds_needed(c, 297, 16, 0.03, rng=rng).seeds - 3 for c in (BASE, Components(0.04**2, 0.0729**2, 0.0086, 0.13))
    )
    start, end = text().removeprefix("inconclusive: ").split(" more seeds would ")
    assert [int(n) for n in start.split(" to ")] == pytest.approx([low, high], abs=2)
    assert end == "detect 3 points with 80 % power"
    assert text(P=30) == "inconclusive: no number of seeds will: 30 problems cap the power at 0.34"
    assert text(P=29.7).startswith("inconclusive: no number of seeds will: benchmarks worth 30 problems cap")
    assert text(S=50) == "inconclusive: 50 seeds already detect 3 points with 80 % power"
    assert text(S=20).startswith("inconclusive: up to ")
    assert text(upper=4.0).startswith("inconclusive: at least ")
    assert text(S=4, delta=0.05, upper=None) == "inconclusive: 1 more seed would detect 5 points with 80 % power"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rng: mde(BASE, 1, 30, 16, rng=rng), "seeds: 1: a plan needs at least 2"),
        (lambda rng: mde(BASE, 3, 1, 16, rng=rng), "problems: 1: a plan needs at least 2"),
        (lambda rng: mde(BASE, 3, 30, 0, rng=rng), "samples: 0"),
        (lambda rng: mde(BASE, 3, 30, 16, 0.05, 1.0, rng=rng), "power 1.0"),
        (lambda rng: seeds_needed(BASE, 30, 16, 0, rng=rng), "delta: 0"),
        (lambda rng: ceiling(BASE, 1, 0.1), "problems: 1"),
        (lambda rng: mde(Components(0, 0, 0, 0), 3, 30, 16, rng=rng), "nothing varies"),
        (lambda rng: power_analytic(Components(0, 1, 0, 0), 3, 30, 1, 0.1, target="E1"), "nothing varies over seeds"),
        (lambda rng: plan(BASE, 5, 30, 16, 0.05, [3, 4], rng=rng), r"looks \[3, 4\]: the last must be at all 5 seeds"),
        (lambda rng: best_samples(BASE, 30, cost_seed=0, cost_sample=1), "cost_seed: 0: give a cost above 0"),
        (lambda rng: best_samples(BASE, 1, cost_seed=1, cost_sample=1), "problems: 1"),
        (
            lambda rng: best_samples(Components(0, 1, 0, 1), 30, cost_seed=1, cost_sample=1),
            "nothing but sampling varies",
        ),
        (lambda rng: components_from({"A": {"b": np.ones((2, 2))}}), "at least 2 cells, got 1"),
        (lambda rng: components_from({m: {"b": np.ones((1, 2))} for m in "AB"}), "at least 2 seeds in every cell"),
        (lambda rng: components_from({m: {"b": np.ones((2, 1))} for m in "AB"}), "at least 2 problems"),
        (lambda rng: components_from({m: {"b": np.ones((2, 2))} for m in "AB"}, 1), "samples: 1"),
    ],
)
def test_plans_without_meaning_are_refused(call, message, rng):
    with pytest.raises(StatsError, match=message):
        call(rng)


def test_variance_only_over_problems_needs_no_seeds(rng):
    only_problems = Components(0.0, 0.05**2, 0.0, 0.0)
    assert seeds_needed(only_problems, 130, 16, 0.05, rng=rng).seeds == 2
    assert ceiling(Components(0.1, 0.0, 0.1, 0.1), 30, 0.01) == 1
