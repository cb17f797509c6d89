import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import beta, binom, chisquare, norm

from seedwise.stats.components import Components, components_from
from seedwise.stats.results import StatsError
from seedwise.stats.simulate import (
    SCENARIOS,
    Arm,
    CountTable,
    fitted_arm,
    latent,
    mean_accuracy,
    mean_score,
    shift_for,
    studies,
)

DIFFICULTY = logit(beta.ppf((np.arange(400) + 0.5) / 400, 0.5, 0.8))


def test_the_reference_scenarios():
    # (su, sv, smp) of both arms; "hetero" is base with three times the seed SD and half as much again of sv
    assert {name: (s.first, s.second) for name, s in SCENARIOS.items()} == {
        "sharp": (Arm(0.15, 0.6, 0.0),) * 2,
        "base": (Arm(0.15, 0.6, 0.5),) * 2,
        "seedhi": (Arm(0.30, 0.6, 0.25),) * 2,
        "seedlo": (Arm(0.05, 0.4, 0.5),) * 2,
        "hetero": (Arm(0.15, 0.6, 0.5), Arm(0.45, 0.9, 0.5)),
    }


def test_mean_accuracy_against_a_fine_sum():
    z = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    for x in (-3.0, 0.0, 1.5):
        for k in (1, 4):
            slow = np.mean(1 - (1 - expit(x + 0.8 * z)) ** k)
            assert mean_accuracy(np.array([x]), 0.8, k)[0] == pytest.approx(slow, abs=1e-6)
    assert mean_accuracy(np.array([0.7]), 0.0)[0] == expit(0.7)


@pytest.mark.parametrize("name", list(SCENARIOS))
@pytest.mark.parametrize("effect", [0.0, 0.08])
def test_population_accuracies_differ_by_the_effect(name, effect):
    drawn = studies(SCENARIOS[name], (3, 4), 40, 4000, rng=np.random.default_rng(1), effect=effect)
    assert (drawn.first.shape, drawn.second.shape) == ((4000, 3, 40), (4000, 4, 40))
    d_R = drawn.first.mean(axis=(1, 2)) - drawn.second.mean(axis=(1, 2))
    assert drawn.difference == effect
    assert d_R.mean() == pytest.approx(effect, abs=4 * d_R.std() / 4000**0.5)
    # Beta(.5, .8) has the mean .5/1.3 = .385; spread on the logit scale moves it to the middle a little
    middle = (drawn.first.mean() + drawn.second.mean()) / 2
    assert middle == pytest.approx(mean_score(SCENARIOS[name].first, [DIFFICULTY]), abs=0.01)


def test_one_seed_spread_is_that_of_the_reference():
    # section 4: SD of one seed's avg@16 in base is 3.0 points at 30 problems, 2.25 at 130, on fixed problems
    for P, points in ((30, 3.0), (130, 2.25)):
        drawn = studies(SCENARIOS["base"], (10, 10), P, 500, rng=np.random.default_rng(2))
        within = drawn.first.mean(axis=2).var(axis=1, ddof=1).mean() ** 0.5
        assert 100 * within == pytest.approx(points, abs=0.12)


def test_the_difference_on_fixed_problems_is_what_many_seeds_approach():
    drawn = studies(SCENARIOS["hetero"], (4000, 4000), 12, 3, rng=np.random.default_rng(3))
    seen_R = drawn.first.mean(axis=(1, 2)) - drawn.second.mean(axis=(1, 2))
    assert seen_R == pytest.approx(drawn.fixed_R, abs=0.008)  # s.e. of the seeds .0017
    assert np.abs(drawn.fixed_R).max() > 0.02  # it is not the population difference, which is 0


def test_the_same_generator_gives_the_same_studies():
    first, again, other = (
        studies(SCENARIOS["base"], (3, 3), 10, 5, rng=np.random.default_rng(seed)) for seed in (5, 5, 6)
    )
    assert (first.first == again.first).all() and (first.second == again.second).all()
    assert (first.first != other.first).any()


def test_a_shift_gives_the_mean_asked_for():
    arm, difficulty = Arm(0.3, 0.6, 0.5), [DIFFICULTY, DIFFICULTY[::7] + 1]
    for k in (1, 8):
        shift = shift_for(arm, difficulty, 0.6, k)
        assert mean_score(arm, difficulty, shift, k) == pytest.approx(0.6, abs=1e-9)
    with pytest.raises(StatsError, match="mean score 1: simulated arms reach"):
        shift_for(arm, difficulty, 1.0)


def test_latent_difficulties_give_the_accuracies_back():
    accuracy_P = np.array([0.01, 0.3, 0.5, 0.97])
    assert mean_accuracy(latent(accuracy_P, 0.9), 0.9) == pytest.approx(accuracy_P, abs=2e-4)


def test_fitted_arms_rebuild_the_arm_that_made_the_scores():
    rng, true = np.random.default_rng(9), Arm(0.2, 0.6, 0.5)
    sizes = {"x": 150, "y": 60}
    x = {bench: rng.normal(-0.5, 1.5, P) for bench, P in sizes.items()}
    seeds = [rng.normal(0, true.su, (30, 1)) for _ in range(8)]
    scores = {
        m: {
            b: rng.binomial(16, expit(x[b] + rng.normal(0, 0.5, P) + u + rng.normal(0, 0.6, (30, P)))) / 16
            for b, P in sizes.items()
        }
        for m, u in enumerate(seeds)
    }
    components = components_from(scores, 16)
    accuracy = [np.mean([y[b].mean(axis=0) for y in scores.values()], axis=0) for b in sizes]
    arm = fitted_arm(components, accuracy)
    assert (arm.su, arm.sv, arm.smp) == pytest.approx((0.2, 0.6, 0.5), rel=0.1)


def test_components_of_zero_are_an_arm_that_does_not_vary():
    accuracy = [np.array([0.2, 0.5, 0.9])]
    assert fitted_arm(Components(0, 0, 0, 0.1), accuracy) == Arm(0, 0, 0)
    only_seeds = fitted_arm(Components(0.02**2, 0, 0, 0.1), accuracy)
    assert (only_seeds.sv, only_seeds.smp) == (0, 0)
    # a small shift of the logit moves the mean by the mean of theta (1 - theta) = (.16 + .25 + .09)/3 = .1667
    assert only_seeds.su == pytest.approx(0.02 / 0.1667, rel=0.02)


@pytest.mark.parametrize(("n", "sv"), [(1, 0.0), (16, 0.6), (300, 1.0)])
def test_tables_draw_the_logit_normal_binomial(n, sv):
    draws, at = 40_000, -0.4
    counts = CountTable.of(n, sv).draw(np.full((draws, 1, 1), at), np.random.default_rng(7)).ravel()
    z = norm.ppf((np.arange(2000) + 0.5) / 2000)
    pmf = binom.pmf(np.arange(n + 1)[:, None], n, expit(at + sv * z)).mean(axis=1)
    bins = np.array_split(np.arange(n + 1), min(n + 1, 12))
    seen = np.array([np.isin(counts, cells).sum() for cells in bins])
    expected = np.array([pmf[cells].sum() for cells in bins])
    assert chisquare(seen, draws * expected / expected.sum()).pvalue > 0.001


def test_tables_reach_from_never_to_always():
    table = CountTable.of(8, 0.0)
    far = np.array([-50.0, 50.0])[:, None, None] * np.ones((2, 3, 4))
    assert (table.draw(far, np.random.default_rng(0)) == np.array([0, 8])[:, None, None]).all()
    for n in (0, 5000):
        with pytest.raises(StatsError, match=f"samples: {n}: a simulated problem has 1 to 4096 of them"):
            CountTable.of(n, 0.5)
