"""Families of comparisons: adjusted p-values and verdicts.

A family is declared before the runs and small.  Inside it Holm controls the chance of any false
claim, for superiority and for equivalence alike (statistics, section 5).  An undefined p-value is
"not tested": it takes no share of alpha, and the others are a smaller family.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit
from statsmodels.stats.multitest import multipletests

from seedwise.stats.results import Contrast, StatsError, Target
from seedwise.stats.tost import tost

Verdict = Literal["superior", "inferior", "equivalent", "superior-but-small", "inferior-but-small", "inconclusive"]


@dataclass(frozen=True)
class Member:
    """One comparison inside its family.

    p, p_adjusted: of the difference.  tost_p, tost_p_adjusted: of equivalence within the smallest
    effect.  lo, hi: interval at 1 - alpha/m; it describes, the adjusted p decides (Holm can reject
    while this interval touches 0).  verdict is None where ``reason`` says why.
    """

    contrast: Contrast
    p: float | None
    p_adjusted: float | None
    tost_p: float | None
    tost_p_adjusted: float | None
    lo: float | None
    hi: float | None
    verdict: Verdict | None
    reason: str | None = None


@dataclass(frozen=True)
class Family:
    """members: name -> Member, in the order given.  m: how many were tested."""

    members: Mapping[str, Member]
    m: int
    alpha: float
    smallest_effect: float
    estimand: Target


def holm(p: Sequence[float | None]) -> tuple[float | None, ...]:
    """Holm's step-down adjusted p-values (family-wise error).

    None or NaN is not tested and stays None; the others are adjusted as the smaller family.
    Raises StatsError when a p-value is outside 0..1.
    """
    return _adjusted(p, "holm")


def bh(p: Sequence[float | None]) -> tuple[float | None, ...]:
    """Benjamini and Hochberg's adjusted p-values (false discovery rate), for exploratory grids only.

    None or NaN is not tested and stays None; the others are adjusted as the smaller family.
    Raises StatsError when a p-value is outside 0..1.
    """
    return _adjusted(p, "fdr_bh")


def family(
    contrasts: Mapping[str, Contrast],
    *,
    alpha: float = 0.05,
    smallest_effect: float,
    estimand: Target = "E2",
) -> Family:
    """Adjusted p-values, family intervals and verdicts of one declared family.

    contrasts: name -> method minus reference, d > 0 being better.  smallest_effect: margin of
    equivalence, in the units of d.  estimand: which target all members must have been tested for.

    Verdicts at level alpha, on adjusted p: superior / inferior (difference), equivalent (TOST), both:
    superior-but-small / inferior-but-small, neither: inconclusive.  Where p is None there is none.
    Raises StatsError when a contrast has another target or alpha is not in (0, 1).
    """
    if not 0 < alpha < 1:
        raise StatsError(f"alpha: {alpha}: use a number between 0 and 1")
    if mixed := [name for name, c in contrasts.items() if c.target != estimand]:
        raise StatsError(f"{mixed[0]!r} was tested for {contrasts[mixed[0]].target}, the family is about {estimand}")
    p = [c.p for c in contrasts.values()]
    tost_p = [None if c.p is None else tost(c, smallest_effect).p for c in contrasts.values()]
    m = sum(value is not None for value in p)
    members = {
        name: _member(c, adjusted, equivalence, equivalence_adjusted, alpha, m)
        for (name, c), adjusted, equivalence, equivalence_adjusted in zip(
            contrasts.items(), holm(p), tost_p, holm(tost_p), strict=True
        )
    }
    return Family(members, m, alpha, smallest_effect, estimand)


def _member(
    c: Contrast, p_adjusted: float | None, tost_p: float | None, tost_adjusted: float | None, alpha: float, m: int
) -> Member:
    if p_adjusted is None:
        return Member(c, None, None, None, None, None, None, None, f"not tested ({c.reason})")
    lo = hi = None
    if c.se and c.df is not None:
        half = float(stdtrit(c.df, 1 - alpha / (2 * m))) * c.se
        lo, hi = c.d - half, c.d + half
    verdict = _verdict(c.d, p_adjusted <= alpha, tost_adjusted is not None and tost_adjusted <= alpha)
    return Member(c, c.p, p_adjusted, tost_p, tost_adjusted, lo, hi, verdict, c.reason)


def _verdict(d: float, different: bool, equivalent: bool) -> Verdict:
    if different and equivalent:
        return "superior-but-small" if d > 0 else "inferior-but-small"
    if different:
        return "superior" if d > 0 else "inferior"
    return "equivalent" if equivalent else "inconclusive"


def _adjusted(p: Sequence[float | None], method: str) -> tuple[float | None, ...]:
    tested = [(i, float(value)) for i, value in enumerate(p) if value is not None and value == value]
    if outside := [value for _, value in tested if not 0 <= value <= 1]:
        raise StatsError(f"p-value {outside[0]} is outside 0..1")
    adjusted: list[float | None] = [None] * len(p)
    if tested:
        with _garbage_left_alone():
            corrected = np.asarray(multipletests([value for _, value in tested], method=method)[1], dtype=np.float64)
        for (i, _), value in zip(tested, corrected.tolist(), strict=True):
            adjusted[i] = value
    return tuple(adjusted)


@contextmanager
def _garbage_left_alone() -> Iterator[None]:
    """What exists now is not walked by a garbage collection inside the block."""
    # multipletests("holm") ends in gc.collect(): 0.2 s with torch and pandas loaded, 0.00003 s so
    by_others = gc.get_freeze_count() > 0
    gc.freeze()
    try:
        yield
    finally:
        if not by_others:  # else thawing would undo what they froze
            gc.unfreeze()
