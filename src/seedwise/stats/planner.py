"""What a design can detect: power, smallest detectable effect, seeds needed, the ceiling.

A comparison of two trained methods, S seeds each, P problems, n samples (statistics, section 8):
``M_seed = 2 (var_seed + r/P)/S``, ``M_prob = 2 (var_mp + r/S)/P``, ``M_res = 2 r/(S P)`` with
``r = var_seed_problem + theta_var/n``, and ``V = M_seed + M_prob - M_res``.  Seeds and samples shrink
everything but ``2 var_mp / P``: problems cap the power.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root_scalar
from scipy.special import ndtr, stdtrit
from scipy.stats import nct

from seedwise.stats.components import Components
from seedwise.stats.results import StatsError, Target
from seedwise.stats.sequential import Kind
from seedwise.stats.staged import Staged, power_staged

DRAWS = 4000
MOST_SEEDS = 1000


@dataclass(frozen=True)
class Plan:
    """Analytic plan: V, se and df of the design, ncp = delta / se, and the power at delta."""

    V: float
    se: float
    df: float
    ncp: float
    power: float


@dataclass(frozen=True)
class Seeds:
    """seeds: smallest S per method with the power asked for; None where ``reason`` says why.
    ceiling: power with endless seeds and samples."""

    seeds: int | None
    ceiling: float
    reason: str | None = None


@dataclass(frozen=True)
class Reach:
    """What a design reaches.  power_mc, power_analytic: at delta with all seeds.  mde: smallest difference
    found with the power asked for.  ceiling: power at delta with endless seeds and samples.  staged: None
    without looks."""

    power_mc: float
    power_analytic: float
    mde: float
    ceiling: float
    staged: Staged | None = None


def plan(
    components: Components,
    S: int,
    P: float,
    n: int,
    delta: float,
    looks: Sequence[int] | None = None,
    *,
    rng: np.random.Generator,
    alpha: float = 0.05,
    power: float = 0.8,
    kind: Kind = "obf",
    draws: int = DRAWS,
) -> Reach:
    """Everything a design of S seeds, P problems and n samples can be said to detect (E2).

    looks: rising numbers of seeds, the last being S; ``staged`` is then the power with a look at each.
    Raises StatsError as ``power_mc``, ``mde`` and ``power_staged``, or when the last look is not at S.
    """
    if looks and looks[-1] != S:
        raise StatsError(f"looks {list(looks)}: the last must be at all {S} seeds")
    return Reach(
        power_mc(components, S, P, n, delta, rng=rng, alpha=alpha, draws=draws),
        power_analytic(components, S, P, n, delta, alpha=alpha).power,
        mde(components, S, P, n, alpha, power, rng=rng, draws=draws),
        ceiling(components, P, delta, alpha),
        power_staged(components, looks, P, n, delta, rng=rng, alpha=alpha, kind=kind) if looks else None,
    )


def power_analytic(
    components: Components, S: float, P: float, n: int, delta: float, *, alpha: float = 0.05, target: Target = "E2"
) -> Plan:
    """Power at a true difference delta from the noncentral t with Satterthwaite df.

    At three seeds it overstates by up to 0.07: plan with ``power_mc``.  With no residual and no
    method-by-problem variance it is the power of the two-sample t test.
    Raises StatsError for fewer than 2 seeds or problems, or components that are all 0.
    """
    M_seed, M_prob, M_res = components.mean_squares(S, P, n)
    if target == "E1":
        V, df = M_seed, 2.0 * (S - 1)
        if V == 0:
            raise StatsError("var_seed and the residual are 0: nothing varies over seeds, so there is nothing to plan")
    else:
        V = M_seed + M_prob - M_res
        terms = ((M_seed, 2 * (S - 1)), (M_prob, P - 1), (M_res, 2 * (S - 1) * (P - 1)))
        df = V**2 / sum(M**2 / d for M, d in terms)
    se = V**0.5
    return Plan(V, se, df, delta / se, _noncentral(delta / se, df, alpha))


def power_mc(
    components: Components,
    S: int,
    P: float,
    n: int,
    delta: float,
    *,
    rng: np.random.Generator,
    alpha: float = 0.05,
    draws: int = DRAWS,
) -> float:
    """Power of the TW-Welch test at delta: mean squares are drawn, its rule applied (E2).

    Given the mean squares, d is normal and independent of them, so its part is exact, not drawn.
    Raises StatsError as ``power_analytic``.
    """
    sd, critical_R = _critical(components, S, P, n, alpha, rng, draws)
    return _power(delta, sd, critical_R)


def mde(
    components: Components,
    S: int,
    P: float,
    n: int,
    alpha: float = 0.05,
    power: float = 0.8,
    *,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> float:
    """Smallest true difference (score units) that the design detects with the power asked for.

    Raises StatsError as ``power_analytic``, and when power is not between alpha and 1.
    """
    _check_power(alpha, power)
    sd, critical_R = _critical(components, S, P, n, alpha, rng, draws)
    high = sd
    while _power(high, sd, critical_R) < power:
        high *= 2
    excess = root_scalar(
        lambda delta: _power(delta, sd, critical_R) - power, bracket=(0.0, high), method="brentq", xtol=1e-9
    )
    return float(excess.root)


def ceiling(components: Components, P: float, delta: float, alpha: float = 0.05) -> float:
    """Power at delta with endless seeds and samples: only ``2 var_mp / P`` is left."""
    if P < 2:
        raise StatsError(f"problems: {P:g}: a plan needs at least 2")
    V = 2 * components.var_mp / P
    return _noncentral(delta / V**0.5, P - 1, alpha) if V > 0 else 1.0


def seeds_needed(
    components: Components,
    P: float,
    n: int,
    delta: float,
    *,
    rng: np.random.Generator,
    alpha: float = 0.05,
    power: float = 0.8,
    draws: int = DRAWS,
) -> Seeds:
    """Smallest number of seeds per method (2 to 1,000) that detects delta with the power asked for.

    Raises StatsError as ``power_analytic``, and when delta is not above 0.
    """
    _check_power(alpha, power)
    if not delta > 0:
        raise StatsError(f"delta: {delta}: a plan needs a difference above 0")
    top = ceiling(components, P, delta, alpha)
    if top < power:
        return Seeds(None, top, f"no number of seeds will: {_problems(P)} cap the power at {top:.2f}")

    def enough(S: int) -> bool:
        return power_mc(components, S, P, n, delta, rng=rng, alpha=alpha, draws=draws) >= power

    low, high = 1, 2
    while not enough(high):
        if high == MOST_SEEDS:
            return Seeds(None, top, f"not even {MOST_SEEDS} seeds will")
        low, high = high, min(2 * high, MOST_SEEDS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return Seeds(high, top)


def best_samples(components: Components, P: float, *, cost_seed: float, cost_sample: float) -> int:
    """Samples per problem that give the smallest variance over seeds for the money.

    ``n* = sqrt(theta_var c_seed / (c_sample (var_seed + var_seed_problem / P))) / P``, the better of its
    two whole neighbours.  cost_seed: of training one seed; cost_sample: of one sample of one problem, in
    the same unit.  Raises StatsError when a cost is not above 0, or when nothing but sampling varies over
    seeds, so that any number of samples pays.
    """
    for name, cost in (("cost_seed", cost_seed), ("cost_sample", cost_sample)):
        if not 0 < cost < float("inf"):
            raise StatsError(f"{name}: {cost:g}: give a cost above 0")
    if P < 2:
        raise StatsError(f"problems: {P:g}: a plan needs at least 2")
    other = components.var_seed + components.var_seed_problem / P
    if other == 0:
        raise StatsError("var_seed and var_seed_problem are 0: nothing but sampling varies, so more samples always pay")

    def price(n: int) -> float:
        return (cost_seed + P * n * cost_sample) * (other + components.theta_var / (n * P))

    best = int(np.sqrt(components.theta_var * cost_seed / (cost_sample * other)) / P)
    return min((max(best, 1), best + 1), key=price)


def inconclusive(
    components: Components,
    *,
    S: int,
    P: float,
    n: int,
    delta: float,
    rng: np.random.Generator,
    alpha: float = 0.05,
    power: float = 0.8,
    draws: int = DRAWS,
) -> str:
    """What an inconclusive verdict says: how many more seeds than S per method would detect delta.

    The range runs from the estimated seed variance to its upper 75 % limit.  Score units; delta is
    printed in points.  Raises StatsError as ``seeds_needed``.
    """
    hopeful, cautious = (
        seeds_needed(c, P, n, delta, rng=rng, alpha=alpha, power=power, draws=draws)
        for c in (components, components.cautious())
    )
    what = f"detect {100 * delta:g} points with {100 * power:g} % power"
    if hopeful.seeds is None:
        return f"inconclusive: {hopeful.reason}"
    few = max(hopeful.seeds - S, 0)
    if cautious.seeds is None:
        return f"inconclusive: {_more('at least ', max(few, 1))} would {what}"
    many = max(cautious.seeds - S, 0)
    if many == 0:
        return f"inconclusive: {S} seeds already {what}"
    start = "" if few == many else "up to " if few == 0 else f"{few} to "
    return f"inconclusive: {_more(start, many)} would {what}"


def _more(start: str, count: int) -> str:
    return f"{start}{count} more {'seed' if count == 1 else 'seeds'}"


def _problems(P: float) -> str:
    return f"{P:g} problems" if float(P).is_integer() else f"benchmarks worth {P:.0f} problems"


def _check_power(alpha: float, power: float) -> None:
    if not 0 < alpha < power < 1:
        raise StatsError(f"alpha {alpha}, power {power}: need 0 < alpha < power < 1")


def _critical(
    components: Components, S: int, P: float, n: int, alpha: float, rng: np.random.Generator, draws: int
) -> tuple[float, NDArray[np.float64]]:
    """SD of the difference, and [R] the smallest |d| that each drawn set of mean squares rejects at."""
    M_seed, M_prob, M_res = components.mean_squares(S, P, n)
    arms_2R = M_seed / 2 * rng.chisquare(S - 1, (2, draws)) / (S - 1)
    V_seed = arms_2R.sum(axis=0)
    # the floor avoids 0/0 without any variance over seeds; the problem branch is then taken
    df_seed = V_seed**2 / np.maximum((arms_2R**2).sum(axis=0) / (S - 1), 1e-300)
    V_prob = M_prob * rng.chisquare(P - 1, draws) / (P - 1)
    df_res = (S - 1) * (P - 1)
    rest_2R = M_res / 2 * rng.chisquare(df_res, (2, draws)) / df_res
    V_res = rest_2R.sum(axis=0)
    V_sum = V_seed + V_prob - V_res
    spread = (arms_2R**2).sum(axis=0) / (S - 1) + V_prob**2 / (P - 1) + (rest_2R**2).sum(axis=0) / df_res
    one_way = np.where(V_seed >= V_prob, df_seed, P - 1.0)
    V = np.maximum(V_sum, np.maximum(V_seed, V_prob))
    df = np.maximum(np.where(V_sum >= V, V_sum**2 / spread, one_way), 1.0)
    return (M_seed + M_prob - M_res) ** 0.5, stdtrit(df, 1 - alpha / 2) * np.sqrt(V)


def _power(delta: float, sd: float, critical_R: NDArray[np.float64]) -> float:
    return float(np.mean(ndtr((delta - critical_R) / sd) + ndtr((-delta - critical_R) / sd)))


def _noncentral(ncp: float, df: float, alpha: float) -> float:
    critical = float(stdtrit(df, 1 - alpha / 2))
    # the lower tail by symmetry: nct.cdf is NaN far out
    return float(nct.sf(critical, df, ncp) + nct.sf(critical, df, -ncp))
