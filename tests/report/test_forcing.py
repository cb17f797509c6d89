"""Budget forcing in the report: means over seeds with their intervals, and no part in any comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic

from seedwise import tables
from seedwise.report.forcing import forcing_rows
from seedwise.report.forcing_shown import forcing_figure


def count(seed: int, problem: str, correct: int, tokens: float, **changed: Any) -> dict[str, Any]:
    return {
        "run": f"r{seed}", "model": "m", "method": "a", "setting": "G8", "seed": seed, "step": 60, "benchmark": "b",
        "problem": problem, "samples": 4, "correct": correct, "unparsed": 0, "timeout": 0, "truncated": 0,
        "tokens": tokens, "continuations": 1, **changed,
    }  # fmt: skip


def test_means_and_intervals_over_seeds(tmp_path) -> None:
    rows = [count(0, "p", 4, 10.0), count(0, "q", 2, 20.0), count(1, "p", 2, 10.0), count(1, "q", 2, 10.0)]
    earlier = count(0, "p", 0, 99.0, step=20)
    (found,) = forcing_rows(pd.DataFrame([earlier, *rows])).to_dict("records")
    # seeds 0 and 1: (4 + 2)/8 = 0.75 and 4/8 = 0.5; 15 and 10 tokens
    assert (found["accuracy"], found["tokens"]) == (0.625, 12.5)
    # t(1) at 97.5 % is 12.706; the standard errors are |0.75 - 0.5|/2 and |15 - 10|/2
    assert found["high"] - found["accuracy"] == pytest.approx(12.7062047 * 0.125)
    assert found["tokens"] - found["tokens_low"] == pytest.approx(12.7062047 * 2.5)
    assert (found["seeds"], found["problems"], found["samples"], found["reason"]) == (2, 2, 4, None)
    tables.write(tables.FORCING, [found], tmp_path / "forcing.parquet")


def test_one_seed_has_no_interval_and_says_so() -> None:
    (found,) = forcing_rows(pd.DataFrame([count(0, "p", 3, 10.0)])).to_dict("records")
    assert (found["accuracy"], found["low"], found["high"]) == (0.75, None, None)
    assert found["reason"] == "an interval over seeds needs at least 2, got 1"


def test_the_untrained_model_stands_in_every_setting() -> None:
    base = count(0, "p", 3, 10.0, run="base", method="base", setting="")
    found = forcing_rows(pd.DataFrame([count(0, "p", 3, 10.0), count(1, "p", 3, 10.0, setting="G4"), base]))
    assert sorted(found["setting"] + " " + found["method"]) == ["G4 a", "G4 base", "G8 a", "G8 base"]
    assert forcing_rows(pd.DataFrame([base]))["setting"].tolist() == [""]


def test_none_are_none(tmp_path) -> None:
    for forced in (None, pd.DataFrame([count(0, "p", 3, 10.0)])[:0]):
        assert len(forcing_rows(forced)) == 0
        tables.write(tables.FORCING, forcing_rows(forced), tmp_path / "forcing.parquet")
    assert forcing_figure(forcing_rows(None), "a").texts[0].get_text() == "the study asks for no forced continuations"


def forced_counts(counts: pd.DataFrame) -> pd.DataFrame:
    """One more token and, where there was a wrong answer, one right answer more for every continuation."""
    last = counts[(counts["step"].isin([0, 60])) & (counts["benchmark"] == "same")]
    frames = [
        last.assign(
            continuations=j, tokens=last["tokens"] + j, correct=np.minimum(last["correct"] + j, last["samples"])
        )
        for j in range(3)
    ]
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def reports(small_study, tmp_path_factory):
    """The same study without and with forced continuations."""
    folders = [tmp_path_factory.mktemp(name) for name in ("without", "with")]
    for folder, more in zip(folders, ({}, {"forced": forced_counts(small_study["counts"])}), strict=True):
        synthetic.build(small_study | more, folder)
    return folders


def test_the_report_shows_them_and_nothing_else_changes(reports) -> None:
    without, forced = reports
    shown = pd.read_csv(forced / "tables" / "forcing.csv")
    assert shown.groupby("method")["continuations"].apply(list).to_dict() == {
        method: [0, 1, 2] for method in ("base", "clip_higher", "qae.K0.4")
    }
    assert shown["tokens"].tolist() == [24.0 + j for j in shown["continuations"]]
    assert (shown.groupby("method")["accuracy"].diff().dropna() > 0).all()
    assert "| same | clip_higher | embedded, G8 | 2 |" in (forced / "tables" / "forcing.md").read_text()
    assert "no forced continuations" in (without / "tables" / "forcing.md").read_text()
    assert "Budget forcing" in (forced / "report.html").read_text()
    assert "Budget forcing" not in (without / "report.html").read_text()
    for path in sorted((without / "tables").glob("*.csv")):
        if path.stem != "forcing":
            assert path.read_text() == (forced / "tables" / path.name).read_text(), path.name


def test_the_figure_has_a_point_for_every_number(reports) -> None:
    rows = tables.read(tables.FORCING, reports[1] / "analysis" / "forcing.parquet")
    (panel,) = forcing_figure(rows, "clip_higher").axes
    lines = {line.get_label(): line.get_xydata() for line in panel.get_lines()}
    assert set(lines) == {"base", "clip_higher", "qae.K0.4"}
    part = rows[rows["method"] == "qae.K0.4"].sort_values("continuations")
    assert np.array_equal(lines["qae.K0.4"], part[["tokens", "accuracy"]].to_numpy())
    assert [text.get_text() for text in panel.texts] == ["0", "1", "2"] * 3


def test_an_interval_beyond_what_an_accuracy_can_be_is_cut() -> None:
    rows = forcing_rows(pd.DataFrame([count(0, "p", 4, 10.0), count(1, "p", 0, 12.0)]))
    assert rows["high"].iloc[0] > 1  # 0.5 + 12.7 x 0.5
    (panel,) = forcing_figure(rows, "a").axes
    assert panel.get_ylim() == (-0.03, 1.03)
