"""Equivalence: two one-sided tests with the se and df of a contrast (Schuirmann 1987)."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.special import stdtr

from seedwise.stats.results import Contrast, StatsError


@dataclass(frozen=True)
class Equivalence:
    """p: larger of the two one-sided p; at most alpha exactly when the 1 - 2 alpha interval lies inside
    (-delta, delta).  t_low, p_low test d > -delta; t_high, p_high test d < delta.  None: see reason."""

    delta: float
    p: float | None
    t_low: float | None
    p_low: float | None
    t_high: float | None
    p_high: float | None
    reason: str | None = None


def tost(result: Contrast, delta: float) -> Equivalence:
    """Test of ``|d| < delta``: ``p = max(P(T_df > (d + delta)/se), P(T_df < (d - delta)/se))``.

    delta: the smallest effect of interest, in the units of d.  Without a standard error above 0 every
    p is None, with the reason.  Raises StatsError when delta is not above 0.
    """
    if not 0 < delta < float("inf"):
        raise StatsError(f"delta: {delta}: equivalence needs a margin above 0")
    if not result.se or result.df is None:
        return Equivalence(delta, None, None, None, None, None, result.reason or "no standard error")
    t_low, t_high = (result.d + delta) / result.se, (result.d - delta) / result.se
    p_low, p_high = float(stdtr(result.df, -t_low)), float(stdtr(result.df, t_high))
    return Equivalence(delta, max(p_low, p_high), t_low, p_low, t_high, p_high)
