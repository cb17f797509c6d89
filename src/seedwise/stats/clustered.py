"""Mean of values that come in clusters, like several windows of one problem."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from seedwise.stats.results import Interval, StatsError


def clustered_mean(values: ArrayLike, clusters: Sequence[Hashable], alpha: float = 0.05) -> Interval:
    """Mean of values [N] with its interval, values of one cluster not being independent.

    clusters: N labels.  Variance ``G/(G-1) sum_g (sum_{i in g} (v_i - vbar))^2 / N^2``, the cluster
    sandwich about the grand mean; t with G - 1 df.  No value, one cluster, or equal cluster sums leave
    the undefined numbers None, with the reason.  Raises StatsError on different lengths or a value
    that is not finite.
    """
    v = np.asarray(values, dtype=np.float64)
    if v.ndim != 1 or len(v) != len(clusters):
        raise StatsError(f"values of shape {v.shape} with {len(clusters)} cluster labels: give one label a value")
    if (broken := ~np.isfinite(v)).any():
        raise StatsError(f"value {v[broken][0]} at position {int(np.argmax(broken))}: leave it out")
    if not 0 < alpha < 1:
        raise StatsError(f"alpha: {alpha}: use a number between 0 and 1")
    if len(v) == 0:
        return Interval(None, None, None, None, None, "no values")
    mean = float(v.mean())
    numbers = {label: g for g, label in enumerate(dict.fromkeys(clusters))}
    G = len(numbers)
    if G < 2:
        return Interval(mean, None, None, None, None, "an interval over problems needs at least 2, got 1")
    sums = np.bincount([numbers[label] for label in clusters], weights=v - mean)
    se = float(np.sqrt(G / (G - 1) * (sums @ sums))) / len(v)
    if se <= 64 * np.finfo(float).eps * float(np.abs(v).max()):
        return Interval(mean, 0.0, None, None, None, "no variance over problems")
    half = float(stdtrit(G - 1, 1 - alpha / 2)) * se
    return Interval(mean, se, float(G - 1), mean - half, mean + half)
