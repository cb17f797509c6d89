"""One number per run from a learning curve, and Welch's test on such numbers.

Declare the number before the runs.  There are no problems here, so the target is E1: new seeds.
"Method X stabilises entropy" is a Welch test on log-volatility (statistics, section 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.permutation import Permutation, permutation_test
from seedwise.stats.results import Contrast, StatsError


@dataclass(frozen=True)
class Curve:
    """Scalar metrics of one run's curve; None where ``reasons`` (metric -> reason) says why.

    final: mean over the last 10 % of steps.  area: mean height, the area under the curve divided by
    its width.  log_volatility: log SD of first differences.  late_slope: least-squares change per
    step over the last half.
    """

    final: float
    area: float | None
    log_volatility: float | None
    late_slope: float | None
    reasons: Mapping[str, str]


def curve(steps: ArrayLike, values: ArrayLike, *, final_share: float = 0.1, late_share: float = 0.5) -> Curve:
    """Metrics of values [T] measured at increasing steps [T].

    final_share, late_share: share of the range of steps, counted from its end; the last step is
    always in.  Raises StatsError on an empty curve, steps that do not increase, or values that are not finite.
    """
    x, y = _checked(steps, values)
    for name, share in (("final_share", final_share), ("late_share", late_share)):
        if not 0 < share <= 1:
            raise StatsError(f"{name}: {share}: use a share above 0 and at most 1")
    reasons = {}
    area = float(np.trapezoid(y, x) / (x[-1] - x[0])) if len(x) > 1 else None
    if area is None:
        reasons["area"] = "an area needs at least 2 steps, got 1"
    changes = np.diff(y)
    spread = float(changes.std(ddof=1)) if len(changes) > 1 else 0.0
    if len(changes) < 2:
        reasons["log_volatility"] = f"a spread of differences needs at least 3 steps, got {len(x)}"
    elif spread <= 64 * np.finfo(float).eps * float(np.abs(y).max()):
        reasons["log_volatility"] = "the differences do not vary: the log of 0 is undefined"
    late = _tail(x, late_share)
    if late.sum() < 2:
        reasons["late_slope"] = "a slope needs at least 2 late steps, got 1"
    return Curve(
        final=float(y[_tail(x, final_share)].mean()),
        area=area,
        log_volatility=None if "log_volatility" in reasons else float(np.log(spread)),
        late_slope=None if "late_slope" in reasons else _slope(x[late], y[late]),
        reasons=reasons,
    )


@dataclass(frozen=True)
class Crossover:
    """step: first step from which a curve stays above its level to the end; None where ``reason`` says why."""

    step: float | None
    reason: str | None = None


def crossover(steps: ArrayLike, values: ArrayLike, level: ArrayLike) -> Crossover:
    """When values [T] go above a level for good: a number, or another curve [T] at the same steps.

    Against a number it is the time to a threshold of one run; with the mean curves of two methods the step
    after which the first leads.  The step is one that was measured.  A curve that is not above its level at
    the last step never crossed: compare such runs with ``crossover_test``.  Raises StatsError as ``curve``.
    """
    x, y = _checked(steps, values)
    _, bar = _checked(x, np.broadcast_to(np.asarray(level, dtype=np.float64), x.shape))
    below = np.flatnonzero(y <= bar)
    if len(below) == 0:
        return Crossover(float(x[0]))
    if below[-1] == len(x) - 1:
        return Crossover(None, f"not above its level at the last step, {x[-1]:g}")
    return Crossover(float(x[below[-1] + 1]))


def crossover_test(a: Sequence[Crossover], b: Sequence[Crossover], alpha: float = 0.05) -> Permutation:
    """Exact rank test of two arms' crossovers, one per run; a run that never crossed ranks after all others.

    Welch's test cannot take a run without a step, and leaving it out would favour the arm that has it.
    Raises StatsError on an empty arm.
    """
    arms = [[np.inf if run.step is None else run.step for run in arm] for arm in (a, b)]
    ranks = rankdata([*arms[0], *arms[1]])
    return permutation_test(ranks[: len(a)], ranks[len(a) :], statistic="rank", alpha=alpha)


def welch(a: ArrayLike, b: ArrayLike, alpha: float = 0.05) -> Contrast:
    """Welch's t test of mean(a) - mean(b), one number per run: the E1 row of the one contrast engine.

    a [S_a], b [S_b].  One run in an arm, or no variance: None, with the reason.  Raises StatsError on
    an empty arm or a number that is not finite.
    """
    arms = {"a": np.asarray(a, dtype=np.float64), "b": np.asarray(b, dtype=np.float64)}
    for name, arm in arms.items():
        if arm.ndim != 1 or arm.size == 0:
            raise StatsError(f"arm {name} of shape {arm.shape}: give one number per run, at least one")
        if not np.isfinite(arm).all():
            raise StatsError(f"arm {name}: {arm[~np.isfinite(arm)][0]} is not a finite number: leave the metric out")
    scores = {name: {"run": arm[:, None]} for name, arm in arms.items()}
    return tw_contrast(scores, {"a": 1.0, "b": -1.0}, target="E1", alpha=alpha)


def _checked(steps: ArrayLike, values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y = np.asarray(steps, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or x.size == 0:
        raise StatsError(f"steps of shape {x.shape} and values of shape {y.shape}: give two lists of one length")
    if (np.diff(x) <= 0).any() or not np.isfinite(x).all():
        raise StatsError("steps must increase: sort the curve and give every step once")
    if (broken := ~np.isfinite(y)).any():
        raise StatsError(f"value {y[broken][0]} at step {x[broken][0]:g}: leave the step out")
    return x, y


def _tail(x: NDArray[np.float64], share: float) -> NDArray[np.bool_]:
    """[T] true in the last share of steps: those above ``max - share * (max - min + mean step)``."""
    step = (x[-1] - x[0]) / (len(x) - 1) if len(x) > 1 else 1.0
    # the small slack keeps 20 steps with a share of 0.1 at exactly two, whatever the rounding
    return (x > x[-1] - share * (x[-1] - x[0] + step) + 1e-9 * step) | (x == x[-1])


def _slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    centred = x - x.mean()
    return float(centred @ y / (centred @ centred))
