"""Simulated studies: logit-normal-binomial scores of training seeds on problems (statistics, section 4).

The accuracy of method m, seed s on problem p is ``expit(x_p + shift_m + a_mp + u_ms + v_msp)`` with
normal a, u, v; a score is a share of n draws.  Shifts are calibrated so that the mean accuracy over
problems and seeds, not the logit, differs by what was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, root_scalar
from scipy.special import expit, gammaln, log_expit, logit
from scipy.stats import beta

from seedwise.stats.components import Components
from seedwise.stats.results import StatsError
from seedwise.stats.variances import Array

FARTHEST_LOGIT = 16.0
LARGEST_SD = 4.0
MOST_SAMPLES = 4096
MIDDLES = (np.arange(64) + 0.5) / 64


def _normal_nodes(count: int) -> tuple[Array, Array]:
    """Nodes and weights of a mean over a standard normal."""
    z, w = np.polynomial.hermite_e.hermegauss(count)
    return z, w / w.sum()


FINE, COARSE = _normal_nodes(40), _normal_nodes(9)


@dataclass(frozen=True)
class Arm:
    """SDs on the logit scale.  su: between seeds.  sv: seed by problem.  smp: method by problem."""

    su: float
    sv: float
    smp: float

    @property
    def sd(self) -> float:
        """SD of a logit around its problem's difficulty."""
        return float(np.sqrt(self.su**2 + self.sv**2 + self.smp**2))


@dataclass(frozen=True)
class Scenario:
    """Two arms on problems whose accuracy is Beta(shape) distributed where the shift is 0."""

    first: Arm
    second: Arm
    shape: tuple[float, float] = (0.5, 0.8)


_BASE = Arm(0.15, 0.6, 0.5)
SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "sharp": Scenario(Arm(0.15, 0.6, 0.0), Arm(0.15, 0.6, 0.0)),
        "base": Scenario(_BASE, _BASE),
        "seedhi": Scenario(Arm(0.30, 0.6, 0.25), Arm(0.30, 0.6, 0.25)),
        "seedlo": Scenario(Arm(0.05, 0.4, 0.5), Arm(0.05, 0.4, 0.5)),
        "hetero": Scenario(_BASE, Arm(0.45, 0.9, 0.5)),
    }
)


@dataclass(frozen=True)
class Studies:
    """R studies of two arms: scores [R, S, P].

    difference: first minus second in mean accuracy, over new problems and seeds.  fixed_R: the same
    over new seeds on exactly the problems of each study.  samples: n of a score.
    """

    first: Array
    second: Array
    difference: float
    fixed_R: Array
    samples: int


def studies(
    scenario: Scenario,
    seeds: tuple[int, int],
    P: int,
    R: int,
    *,
    rng: np.random.Generator,
    effect: float = 0.0,
    samples: int = 16,
) -> Studies:
    """R simulated studies of a scenario on one benchmark.

    seeds: S of each arm.  effect: mean accuracy of the first arm minus the second, score units.
    Raises StatsError when no shift gives the effect.
    """
    arms = (scenario.first, scenario.second)
    nominal = logit(beta.ppf((np.arange(400) + 0.5) / 400, *scenario.shape))
    middle = mean_score(scenario.first, [nominal])
    shifts = (shift_for(arms[0], [nominal], middle + effect / 2), shift_for(arms[1], [nominal], middle - effect / 2))
    x_RP = logit(np.clip(rng.beta(*scenario.shape, (R, P)), 1e-6, 1 - 1e-6))
    scores, expected = [], []
    for arm, shift, S in zip(arms, shifts, seeds, strict=True):
        at_RP = x_RP + shift + arm.smp * rng.standard_normal((R, P))
        logit_RSP = at_RP[:, None] + arm.su * rng.standard_normal((R, S, 1)) + arm.sv * rng.standard_normal((R, S, P))
        scores.append(rng.binomial(samples, expit(logit_RSP)) / samples)
        expected.append(mean_accuracy(at_RP, replace(arm, smp=0.0).sd, nodes=COARSE).mean(axis=1))
    return Studies(scores[0], scores[1], effect, expected[0] - expected[1], samples)


def mean_accuracy(x: Array, sd: float, k: int = 1, nodes: tuple[Array, Array] = FINE) -> Array:
    """Mean of ``1 - (1 - expit(x + sd z))^k`` over a standard normal z, elementwise; k = 1 is the accuracy."""
    total = np.zeros_like(x)
    for node, weight in zip(*nodes, strict=True) if sd else ((0.0, 1.0),):
        theta = expit(x + sd * node)
        total += weight * (theta if k == 1 else 1 - (1 - theta) ** k)
    return total


def mean_score(arm: Arm, difficulty: Sequence[Array], shift: float = 0.0, k: int = 1) -> float:
    """Macro mean of pass@k over new seeds and problems like these.  difficulty: logits [P] per benchmark."""
    return float(np.mean([mean_accuracy(x_P + shift, arm.sd, k).mean() for x_P in difficulty]))


def shift_for(arm: Arm, difficulty: Sequence[Array], target: float, k: int = 1) -> float:
    """Shift on the logit scale that gives an arm the macro mean ``target``.

    Raises StatsError when no shift within 16 does.
    """
    ends = [mean_score(arm, difficulty, end, k) for end in (-FARTHEST_LOGIT, FARTHEST_LOGIT)]
    if not ends[0] < target < ends[1]:
        raise StatsError(f"mean score {target:.6g}: simulated arms reach {ends[0]:.3g} to {ends[1]:.6g} only")
    found = root_scalar(
        lambda shift: mean_score(arm, difficulty, shift, k) - target,
        bracket=(-FARTHEST_LOGIT, FARTHEST_LOGIT), method="brentq",
    )  # fmt: skip
    return float(found.root)


def latent(accuracy_P: Array, sd: float) -> Array:
    """Logits [P] at which problems have these mean accuracies, once spread by ``sd``; within 16."""
    grid = np.linspace(-FARTHEST_LOGIT, FARTHEST_LOGIT, 1025)
    return np.interp(accuracy_P, mean_accuracy(grid, sd), grid)


def fitted_arm(components: Components, accuracy: Sequence[Array]) -> Arm:
    """Logit SDs whose studies have these variance components on the score scale.

    accuracy: [P] per benchmark, mean share correct of each problem.  Benchmarks count as in
    ``components_from``.  Components beyond what accuracies between 0 and 1 can have are met as
    closely as SDs up to 4 allow.
    """
    targets = np.sqrt([components.var_seed, components.var_seed_problem, components.var_mp])
    if not (free := targets > 0).any():
        return Arm(0.0, 0.0, 0.0)
    # more problems than this add nothing to an average over difficulty
    thinned: list[Array] = [np.quantile(a_P, MIDDLES).astype(np.float64) if len(a_P) > 64 else a_P for a_P in accuracy]
    sizes = [len(acc_P) for acc_P in accuracy]

    def arm(sds: Array) -> Arm:
        every = np.zeros(3)
        every[free] = sds
        return Arm(*every.tolist())

    def misfit(sds: Array) -> Array:
        given = arm(sds)
        return (np.sqrt(_components(given, [latent(acc_P, given.sd) for acc_P in thinned], sizes)) - targets)[free]

    # a unit of logit moves an accuracy by a quarter at most
    start = np.clip(8 * targets[free], 0.05, LARGEST_SD / 2)
    fit = least_squares(misfit, start, bounds=(0.0, LARGEST_SD), x_scale=0.1, diff_step=1e-3)
    return arm(fit.x)


def _components(arm: Arm, difficulty: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Variances (seed, seed by problem, method by problem) on the score scale, by quadrature."""
    (z, w), parts = COARSE, []
    for x_P in difficulty:
        noise_U = [sd * z for sd in (arm.smp, arm.su, arm.sv)]
        theta = expit(x_P[:, None, None, None] + noise_U[0][:, None, None] + noise_U[1][:, None] + noise_U[2])
        mean_PAU, square_PAU = theta @ w, theta**2 @ w
        mean_PA = mean_PAU @ w
        mp = float(np.mean(mean_PA**2 @ w - (mean_PA @ w) ** 2))
        seed_U = w @ mean_PAU.mean(axis=0)
        within = float(np.mean((square_PAU @ w - mean_PA**2) @ w)) - float(seed_U**2 @ w - (seed_U @ w) ** 2)
        parts.append((seed_U, within, mp))
    shares = np.array([1 / P for P in sizes])
    shares /= shares.sum()
    macro_U = np.mean([seed_U for seed_U, _, _ in parts], axis=0)
    seed = float(macro_U**2 @ w - (macro_U @ w) ** 2)
    within, mp = (float(shares @ [part[i] for part in parts]) for i in (1, 2))
    return np.maximum([seed, within, mp], 0.0)


@dataclass(frozen=True)
class CountTable:
    """Fast draws of counts: seed-by-problem noise and the n samples in one look-up.

    quantiles_LU: count at the l-th logit and the u-th quantile of the logit-normal-binomial.  A logit
    is off by at most 1/64 and a probability by at most 1/4096, which no simulation here can see.
    """

    quantiles_LU: NDArray[np.unsignedinteger]

    LEVELS = 1024
    QUANTILES = 4096

    @classmethod
    def of(cls, n: int, sv: float) -> CountTable:
        """Table of n samples with the logit SD sv.  Raises StatsError unless n is 1 to 4,096."""
        if not 1 <= n <= MOST_SAMPLES:
            raise StatsError(f"samples: {n}: a simulated problem has 1 to {MOST_SAMPLES} of them")
        level_L = FARTHEST_LOGIT * ((2 * np.arange(cls.LEVELS) + 1) / cls.LEVELS - 1)
        # the likelihood of c, seen as a function of the noise, is about 2 / (sv sqrt n) wide at its narrowest
        step = min(0.25, 2 / (sv * n**0.5)) if sv else 1.0
        z_Z = step * np.arange(-np.floor(6 / step), 6 / step) if sv else np.zeros(1)
        w_Z = np.exp(-(z_Z**2) / 2) / np.exp(-(z_Z**2) / 2).sum()
        c = np.arange(n + 1)
        ways_C = gammaln(n + 1) - gammaln(c + 1) - gammaln(n - c + 1)
        pmf_LC = np.zeros((cls.LEVELS, n + 1))
        for z, w in zip(z_Z, w_Z, strict=True):
            at_L1 = (level_L + sv * z)[:, None]
            pmf_LC += w * np.exp(ways_C + c * log_expit(at_L1) + (n - c) * log_expit(-at_L1))
        cdf_LC = pmf_LC[:, :-1].cumsum(axis=1)
        u = (np.arange(cls.QUANTILES) + 0.5) / cls.QUANTILES
        counts = np.array([np.searchsorted(cdf_C, u) for cdf_C in cdf_LC])
        return cls(counts.astype(np.min_scalar_type(n)))

    def draw(self, logit_RSP: Array, rng: np.random.Generator) -> NDArray[np.unsignedinteger]:
        """Counts [R, S, P] at these logits (without the seed-by-problem noise)."""
        level_RSP = logit_RSP * (self.LEVELS / 2 / FARTHEST_LOGIT)
        level_RSP += self.LEVELS / 2
        at = np.clip(level_RSP, 0, self.LEVELS - 1, out=level_RSP).astype(np.intp)
        at *= self.QUANTILES
        at += rng.integers(0, self.QUANTILES, logit_RSP.shape, dtype=np.uint16)
        return self.quantiles_LU.ravel().take(at)
