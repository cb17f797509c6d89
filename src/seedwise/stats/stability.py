"""What the policy's entropy did over one training: where it began, its peak, where it ended, and a label.

Dimension key:  R rollouts, in the order of training.  Entropy is in nats, a mean over the tokens of a rollout.

Two thresholds are relative and two absolute, because neither kind serves all models.  A tiny model begins at 0.3
nats, so that a bound in nats made for an 8B model calls its healthy 0.25 a collapse; an 8B model may begin at 3 nats
and settle at a healthy 0.5, so that a bound relative to its beginning does the same.  Hence a beginning outside
the usual range counts as the end of that range.  The defaults stand between the figures of the QAE paper
(arXiv:2509.22611, figures 9 and 10, Qwen3-8B-Base, beginning near 0.6): 0.2 to 0.3 nats at K = 0.2, 0.4 to
0.6 at K = 0.4 and 0.8 to 1.2 at K = 0.6 are stable, 2.5 to 3.0 at K = 0.8 is an explosion, near 0 a collapse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seedwise.stats.results import StatsError

# a policy that is sure of its token has an entropy of 0 up to this, on either side
DUST = 1e-6

Label = Literal["stable", "collapsing", "exploding"]


class Thresholds(Protocol):
    """The declared thresholds, read by attribute."""

    @property
    def edge(self) -> float:
        """Share of the rollouts that make the beginning, and of those that make the end."""
        ...

    @property
    def min_steps(self) -> int:
        """Rollouts with a measured entropy that a label needs."""
        ...

    @property
    def usual_nats(self) -> tuple[float, float]:
        """The usual range of a beginning; one outside counts as the end of the range."""
        ...

    @property
    def collapse_share(self) -> float:
        """An end below this share of the beginning is a collapse."""
        ...

    @property
    def collapse_nats(self) -> float:
        """An end below it is a collapse, whatever the beginning."""
        ...

    @property
    def explode_ratio(self) -> float:
        """An end above so many times the beginning is an explosion."""
        ...

    @property
    def explode_nats(self) -> float:
        """An end above it is an explosion, if the run began below it."""
        ...


@dataclass(frozen=True)
class Bounds:
    """The thresholds of one run, nats: collapsing below ``collapse``, exploding above ``explode``."""

    collapse: float
    explode: float


@dataclass(frozen=True)
class Course:
    """The course of one run's entropy.

    start, end: mean of the first and of the last rollouts, nats.  peak: the largest, nats.  measured: rollouts that
    have an entropy.  bounds, label: None where ``reason`` says why; so are start, peak and end where nothing
    was measured.
    """

    start: float | None
    peak: float | None
    end: float | None
    measured: int
    bounds: Bounds | None
    label: Label | None
    reason: str | None = None


def course(entropy_R: ArrayLike, thresholds: Thresholds) -> Course:
    """The course of entropy_R [R], nats, NaN where it was not measured.

    Raises StatsError on an array of another shape, or a value below 0 or infinite.
    """
    values_R = _checked(entropy_R)
    measured = int(np.isfinite(values_R).sum())
    edge = max(1, math.ceil(thresholds.edge * len(values_R) - 1e-9))
    start, end, peak = _mean(values_R[:edge]), _mean(values_R[-edge:]), _peak(values_R)
    if measured < thresholds.min_steps:
        few = f"a label needs at least {thresholds.min_steps} steps with an entropy, got {measured}"
        return Course(start, peak, end, measured, None, None, few)
    if start is None or end is None:
        place = "first" if start is None else "last"
        return Course(start, peak, end, measured, None, None, f"no entropy was measured at the {place} {edge} steps")
    bounds = bounds_of(start, thresholds)
    return Course(start, peak, end, measured, bounds, _label(end, bounds))


def bounds_of(start: float, thresholds: Thresholds) -> Bounds:
    """The bounds of a run that began at ``start`` nats."""
    low, high = thresholds.usual_nats
    collapse = max(thresholds.collapse_nats, thresholds.collapse_share * min(start, high))
    explode = thresholds.explode_ratio * max(start, low)
    return Bounds(collapse, min(explode, thresholds.explode_nats) if start < thresholds.explode_nats else explode)


def _label(end: float, bounds: Bounds) -> Label:
    if end < bounds.collapse:
        return "collapsing"
    return "exploding" if end > bounds.explode else "stable"


def _mean(values_R: NDArray[np.float64]) -> float | None:
    known = values_R[np.isfinite(values_R)]
    return float(known.mean()) if len(known) else None


def _peak(values_R: NDArray[np.float64]) -> float | None:
    known = values_R[np.isfinite(values_R)]
    return float(known.max()) if len(known) else None


def _checked(entropy_R: ArrayLike) -> NDArray[np.float64]:
    values_R = np.asarray(entropy_R, dtype=np.float64)
    if values_R.ndim != 1:
        raise StatsError(f"entropy has {values_R.ndim} dimensions: give one value for each rollout")
    if (wrong := np.isinf(values_R) | (values_R < -DUST)).any():
        raise StatsError(f"entropy {values_R[wrong][0]} nats cannot be: it is finite and at least 0")
    return np.maximum(values_R, 0.0)
