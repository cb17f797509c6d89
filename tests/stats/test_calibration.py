"""Type-I error and coverage on simulated studies, and tests that an invalid method fails the same check.

Generator of the reference, section 4: difficulty ~ Beta(.5, .8) on the logit scale, method by problem
N(0, smp), seed N(0, su), seed by problem N(0, sv), then 16 draws.  "hetero": method B has three times
the seed spread.  Both methods have the same mean accuracy over all problems and seeds.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import beta, norm

from seedwise.stats.contrasts import tw_contrast

LIMIT, SAMPLES = 0.065, 16
REPETITIONS = 2000
FEW = 500  # enough where the error rate is far above the limit
QUANTILES = (np.arange(400) + 0.5) / 400
DIFFICULTY = logit(beta.ppf(QUANTILES, 0.5, 0.8))
NORMAL_NODES, NORMAL_WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


@dataclass(frozen=True)
class Arm:
    """Logit SD of seed (su), seed by problem (sv), method by problem (smp)."""

    su: float
    sv: float
    smp: float

    def accuracy(self, shift: float) -> float:
        """Mean accuracy over problems, seeds and their interactions, by quadrature."""
        sd = np.sqrt(self.su**2 + self.sv**2 + self.smp**2)
        return float(
            np.mean(expit(DIFFICULTY[:, None] + shift + sd * NORMAL_NODES) @ NORMAL_WEIGHTS) / NORMAL_WEIGHTS.sum()
        )

    def counts(self, rng, difficulty_P, shift, S):
        P = len(difficulty_P)
        logit_SP = difficulty_P + shift + rng.normal(0, self.smp, P) + rng.normal(0, self.su, (S, 1))
        return rng.binomial(SAMPLES, expit(logit_SP + rng.normal(0, self.sv, (S, P))))


CALM, WILD, BASE_MODEL = Arm(0.15, 0.6, 0.5), Arm(0.45, 0.9, 0.5), Arm(0.0, 0.0, 0.5)


def null_studies(first, second, P, seeds, seed, repetitions=REPETITIONS):
    """(counts of A, counts of B) of studies in which the methods have equal accuracy."""
    rng = np.random.default_rng(seed)
    target = first.accuracy(0.0)
    shift = brentq(lambda b: second.accuracy(b) - target, -2, 2)
    for _ in range(repetitions):
        difficulty_P = logit(np.clip(rng.beta(0.5, 0.8, P), 1e-6, 1 - 1e-6))
        yield first.counts(rng, difficulty_P, 0.0, seeds[0]), second.counts(rng, difficulty_P, shift, seeds[1])


def tw_p(a, b, **options):
    return tw_contrast({"A": {"b": a / SAMPLES}, "B": {"b": b / SAMPLES}}, {"A": 1, "B": -1}, **options).p


def pooled_binomial_p(a, b):
    """The z test that takes every sample of every seed for an independent trial."""
    trials = SAMPLES * a.size
    share = (a.sum() + b.sum()) / (2 * trials)
    z = (a.sum() - b.sum()) / np.sqrt(2 * trials * share * (1 - share))
    return 2 * norm.sf(abs(z))


def seeds_ignored_p(a, b):
    """Paired t over problems of the mean over seeds: seeds count as nothing."""
    D_P = (a.mean(axis=0) - b.mean(axis=0)) / SAMPLES
    return tw_contrast({"D": {"p": D_P[:, None]}}, {"D": 1}, target="E1").p


def error_rate(test, studies):
    return float(np.mean([test(a, b) <= 0.05 for a, b in studies]))


def too_many_errors(rate, repetitions=REPETITIONS):
    """Above the limit by more than two Monte-Carlo standard errors."""
    return rate > LIMIT + 2 * np.sqrt(LIMIT * (1 - LIMIT) / repetitions)


@pytest.mark.parametrize("P", [30, 130])
def test_type_one_error_with_three_seeds_and_unequal_arms(P):
    rate = error_rate(tw_p, null_studies(CALM, WILD, P, (3, 3), seed=P))
    assert not too_many_errors(rate), rate
    assert rate > 0.02, rate  # nor so careful that it finds nothing


@pytest.mark.parametrize("wrong", [pooled_binomial_p, seeds_ignored_p])
def test_invalid_tests_fail_the_same_check(wrong):
    rate = error_rate(wrong, null_studies(CALM, WILD, 30, (3, 3), 1, FEW))
    assert too_many_errors(rate, FEW), rate


def test_pooling_the_seed_variance_of_unequal_arms_fails_the_same_check():
    rng = np.random.default_rng(8)

    def pooled(a, b):
        calm = {str(i): {"b": CALM.counts(rng, DIFFICULTY[::4], 0.0, 3) / SAMPLES} for i in range(4)}
        scores = {"A": {"b": a / SAMPLES}, "B": {"b": b / SAMPLES}, **calm}
        return tw_contrast(scores, {"A": 1, "B": -1}, seed_variance="pooled").p

    rate = error_rate(pooled, null_studies(CALM, WILD, 100, (3, 3), 2, FEW))
    assert too_many_errors(rate, FEW), rate


def test_type_one_error_against_the_base_that_has_no_seeds():
    def against_base(a, b):
        return tw_p(a, b, fixed={"B"})

    rate = error_rate(against_base, null_studies(CALM, BASE_MODEL, 60, (3, 1), seed=3))
    assert not too_many_errors(rate), rate
    assert rate > 0.02, rate


def test_fixed_problems_cover_the_difference_on_these_problems():
    """E1 on one fixed set of problems: the interval covers the mean difference on exactly these."""
    rng = np.random.default_rng(9)
    P = 30
    fixed_P = {arm: logit(rng.beta(0.5, 0.8, P)) + rng.normal(0, arm.smp, P) for arm in (CALM, WILD)}

    def noisy(arm):
        return Arm(arm.su, arm.sv, 0.0)

    def expected(arm):
        sd = np.sqrt(arm.su**2 + arm.sv**2)
        return np.mean(expit(fixed_P[arm][:, None] + sd * NORMAL_NODES) @ NORMAL_WEIGHTS) / NORMAL_WEIGHTS.sum()

    truth = expected(CALM) - expected(WILD)
    covered = 0
    for _ in range(REPETITIONS):
        y = {arm: {"b": noisy(arm).counts(rng, fixed_P[arm], 0.0, 3) / SAMPLES} for arm in (CALM, WILD)}
        result = tw_contrast(y, {CALM: 1, WILD: -1}, target="E1")
        covered += result.lo <= truth <= result.hi
    assert not too_many_errors(1 - covered / REPETITIONS), covered
