"""WINDOWS -> RESAMPLING: continuations from high- and low-entropy windows (EAPO, arXiv 2609.33781, table 1)."""

from __future__ import annotations

import pandas as pd

from seedwise import tables
from seedwise.stats.clustered import clustered_mean

QUANTITIES = {"reward": ("reward_high", "reward_low"), "overlap_tokens": ("overlap_high", "overlap_low")}
OUTCOMES = ("correct", "incorrect")


def resampling(windows: pd.DataFrame | None, alpha: float = 0.05) -> pd.DataFrame:
    """Mean by window and outcome, and the difference high - low with an interval clustered by problem.

    Responses to one problem, from whatever seed, are one cluster; the trained models are taken as
    given.  No windows give an empty table.
    """
    rows: list[dict] = []
    if windows is not None:
        for (model, setting, method), part in windows.groupby(["model", "setting", "method"], sort=False):
            keys = {"model": model, "setting": setting, "method": method}
            rows += (
                keys | _row(part[part["outcome"] == outcome], outcome, quantity, alpha)
                for outcome in OUTCOMES
                for quantity in QUANTITIES
            )
    return pd.DataFrame(rows, columns=[column[0] for column in tables.RESAMPLING.columns])


def _row(part: pd.DataFrame, outcome: str, quantity: str, alpha: float) -> dict:
    high, low = QUANTITIES[quantity]
    part = part.dropna(subset=[high, low])
    found = clustered_mean((part[high] - part[low]).to_numpy(dtype=float), part["problem"].tolist(), alpha)
    return {
        "outcome": outcome,
        "quantity": quantity,
        "high": _mean(part[high]),
        "low": _mean(part[low]),
        "difference": found.mean,
        "difference_low": found.lo,
        "difference_high": found.hi,
        "problems": part["problem"].nunique(),
        "responses": len(part),
        "position_high": _mean(part["position_high"]),
        "position_low": _mean(part["position_low"]),
        "reason": found.reason if len(part) else f"no {outcome} response was resampled",
    }


def _mean(values: pd.Series) -> float | None:
    return float(values.mean()) if len(values) else None
