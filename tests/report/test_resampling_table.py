from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import synthetic

from seedwise import tables
from seedwise.report.resampling import resampling


def window(problem, outcome, high, low, overlap=(2.0, 3.0)):
    return {
        "run": "r", "model": "m", "method": "a", "setting": "G8", "seed": 0, "problem": problem, "response": 0,
        "outcome": outcome, "reward_high": high, "reward_low": low, "overlap_high": overlap[0],
        "overlap_low": overlap[1], "position_high": 0.4, "position_low": 0.5, "entropy_high": 1.0, "entropy_low": 0.1,
    }  # fmt: skip


def test_difference_is_clustered_by_problem():
    rows = [window("p", "correct", 0.2, 0.4), window("p", "correct", 0.4, 0.6), window("q", "correct", 0.5, 0.6)]
    found = resampling(pd.DataFrame(rows)).set_index(["outcome", "quantity"]).loc[("correct", "reward")]
    # differences -0.2, -0.2 (p), -0.1 (q): mean -1/6; cluster sums -1/15, 1/15
    assert found["difference"] == pytest.approx(-1 / 6)
    se = math.sqrt(2 / 1 * 2 * (1 / 15) ** 2) / 3
    assert found["difference_high"] - found["difference"] == pytest.approx(12.7062047362 * se)
    assert (found["problems"], found["responses"]) == (2, 3)
    assert found["position_low"] == 0.5


def test_absent_outcome_and_undefined_overlap_have_a_reason():
    found = resampling(pd.DataFrame([window("p", "correct", 0.2, 0.4, (None, None))])).set_index(
        ["outcome", "quantity"]
    )
    assert found.loc[("incorrect", "reward"), "reason"] == "no incorrect response was resampled"
    assert pd.isna(found.loc[("incorrect", "reward"), "high"])
    assert found.loc[("correct", "overlap_tokens"), "responses"] == 0
    assert "at least 2" in found.loc[("correct", "reward"), "reason"]


@pytest.mark.parametrize("windows", [None, pd.DataFrame(columns=[c[0] for c in tables.WINDOWS.columns])])
def test_no_windows_give_an_empty_table(windows, tmp_path):
    found = resampling(windows)
    assert len(found) == 0
    tables.write(tables.RESAMPLING, found, tmp_path / "resampling.parquet")


def test_known_effect_is_found():
    found = resampling(synthetic.windows(synthetic.runs(), np.random.default_rng(1)))
    reward = found[(found["quantity"] == "reward") & (found["method"] == "eapo.log4")].set_index("outcome")
    assert reward.loc["correct", "difference_low"] < -0.1 < reward.loc["correct", "difference_high"] < 0
    assert reward.loc["incorrect", "difference_low"] > 0
