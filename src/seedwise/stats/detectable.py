"""The smallest true effect that a t test with a given standard error and df finds with a given power.

It says what a design could have found.  It is a fact about the error, not about the effect that was seen, so it is
no "observed power" (reference: statistics, section 9).
"""

from __future__ import annotations

from scipy.optimize import root_scalar
from scipy.special import stdtrit
from scipy.stats import nct

from seedwise.stats.results import StatsError


def detectable(se: float, df: float, alpha: float = 0.05, power: float = 0.8) -> float:
    """Effect, in the unit of ``se``, that ``|T_df(effect / se)| > t_{df, 1 - alpha/2}`` holds for with that power.

    Two-sided, by the noncentral t.  Raises StatsError on an SE or df that is not above 0, or unless
    ``0 < alpha < power < 1``.
    """
    if not (se > 0 and df > 0):
        raise StatsError(f"se {se}, df {df}: a smallest effect needs both above 0")
    if not 0 < alpha < power < 1:
        raise StatsError(f"alpha {alpha}, power {power}: need 0 < alpha < power < 1")
    critical = float(stdtrit(df, 1 - alpha / 2))

    def short(ncp: float) -> float:
        # the lower tail by symmetry: nct.cdf is NaN far out
        return float(nct.sf(critical, df, ncp) + nct.sf(critical, df, -ncp)) - power

    # statsmodels' solve_power leaves its bracket at 1 df and a small alpha
    far = critical
    while short(far) < 0:
        far *= 2
    return float(root_scalar(short, bracket=(0.0, far), method="brentq").root) * se
