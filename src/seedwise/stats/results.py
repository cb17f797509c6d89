"""What the statistics functions return, and the one error they raise.

An undefined number is None and ``reason`` says why; it is never 0 and never NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Target = Literal["E2", "E1"]
"""E2: new seeds and new problems.  E1: new seeds on exactly these problems."""


class StatsError(ValueError):
    """Input that has no meaning here; one line with the value and the remedy."""


@dataclass(frozen=True)
class Interval:
    """A mean with its two-sided interval.  se, df, lo, hi are None where ``reason`` says why."""

    mean: float | None
    se: float | None
    df: float | None
    lo: float | None
    hi: float | None
    reason: str | None = None


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of cell means with its test (reference: statistics, section 3).

    d: the contrast, in score units (0..1), or per unit of x for a slope.  se, df, t, p (two-sided),
    lo, hi (1 - alpha): None where ``reason`` says why.
    V_seed, V_prob, V_res: variance over seeds, over problems, and their shared residual, with the
    Satterthwaite df of each; a variance is None where the design cannot give it, a df is None where
    its variance is 0 or None.  V: the variance used.  branch: which one the guard chose.
    flags: cautions to print.  dropped: problems left out because a seed has no score on them.
    """

    d: float
    se: float | None
    df: float | None
    t: float | None
    p: float | None
    lo: float | None
    hi: float | None
    V_seed: float | None
    df_seed: float | None
    V_prob: float | None
    df_prob: float | None
    V_res: float | None
    df_res: float | None
    V: float | None
    branch: Literal["sum", "seed", "problem"] | None
    flags: tuple[str, ...] = ()
    reason: str | None = None
    dropped: int = 0
    target: Target = "E2"
    alpha: float = 0.05
