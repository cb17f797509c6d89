"""The scores that MLflow is shown, and where it is."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from seedwise import layout as layouts
from seedwise import tracked
from seedwise.layout import Layout

STUDY = Path(__file__).parents[2] / "config" / "smoke.yaml"


def counts(*rows: tuple[int, str, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=pd.Index(["step", "benchmark", "correct", "samples"]))


def test_average_and_pass_at_k_of_each_checkpoint_and_benchmark():
    first, last = tracked.shown(counts((2, "same", 4, 8), (2, "same", 0, 8), (4, "same", 8, 8), (4, "longer", 1, 4)))
    assert (first.step, last.step) == (2, 4)
    assert set(first.values) == {"same/avg@8", "same/pass@1", "same/pass@2", "same/pass@4", "same/pass@8"}
    assert first.values["same/avg@8"] == pytest.approx(0.25)  # (4/8 + 0) / 2
    assert first.values["same/pass@2"] == pytest.approx((1 - 6 / 28) / 2)  # 1 - C(4,2) / C(8,2), and 0
    assert first.values["same/pass@8"] == pytest.approx(0.5)
    assert last.values["longer/pass@4"] == 1.0
    assert last.values["longer/pass@2"] == pytest.approx(0.5)  # 1 - C(3,2) / C(4,2)
    assert "longer/pass@8" not in last.values


def test_problems_that_differ_in_samples_have_no_number_in_the_name():
    (only,) = tracked.shown(counts((2, "same", 1, 4), (2, "same", 1, 2)))
    assert only.values["same/avg@n"] == pytest.approx(0.375)  # (1/4 + 1/2) / 2


def test_where_mlflow_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    layout = Layout(layouts.read(STUDY).grid, tmp_path / "results")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracked.store(layout) == f"sqlite:///{tmp_path}/results/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    assert tracked.store(layout) == "http://127.0.0.1:5000"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "off")
    assert tracked.store(layout) is None
    tracked.begin(layout)
    assert not layout.root.exists()
