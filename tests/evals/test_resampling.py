"""One row per response, by hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from seedwise import tables
from seedwise.evals.resampling import prefixes_table, windows_table


def continued(window: str, correct: list[int], overlap: list[float | None], start: int, entropy: float) -> list[dict]:
    return [
        {
            "problem": "p",
            "response": 4,
            "outcome": "correct",
            "window": window,
            "continuation": m,
            "entropy_nats": entropy,
            "start_tokens": start,
            "position": start / 20,
            "overlap_tokens": overlap[m],
            "correct": correct[m],
            "verdict": "correct" if correct[m] else "wrong",
        }
        for m in range(len(correct))
    ]


HIGH = continued("high", [1, 0, 0, 1], [1.0, 2.0, 0.0, 1.0], 8, 0.9)
LOW = continued("low", [1, 1, 0, 1], [3.0, 3.0, 2.0, 4.0], 5, 0.1)


def test_by_hand(run, tmp_path: Path) -> None:
    windows = windows_table(pd.DataFrame(HIGH + LOW), run)
    tables.write(tables.WINDOWS, windows, tmp_path / "windows.parquet")
    (row,) = windows.to_dict("records")
    assert row == {
        **run,
        **{"problem": "p", "response": 4, "outcome": "correct"},
        **{"reward_high": 0.5, "reward_low": 0.75, "overlap_high": 1.0, "overlap_low": 3.0},
        **{"position_high": 0.4, "position_low": 0.25, "entropy_high": 0.9, "entropy_low": 0.1},
    }


def test_one_continuation_has_no_overlap(run, tmp_path: Path) -> None:
    rows = continued("high", [1], [None], 8, 0.9) + continued("low", [0], [None], 5, 0.1)
    tables.write(tables.CONTINUATIONS, rows, tmp_path / "c.parquet")
    windows = windows_table(tables.read(tables.CONTINUATIONS, tmp_path / "c.parquet"), run)
    tables.write(tables.WINDOWS, windows, tmp_path / "w.parquet")
    assert windows[["overlap_high", "overlap_low"]].isna().all(axis=None)


def test_a_lost_window_is_an_error(run) -> None:
    with pytest.raises(tables.TableError, match="problem 'p', response 4 lacks a window"):
        windows_table(pd.DataFrame(HIGH), run)


def test_success_from_a_position_by_hand(run, tmp_path: Path) -> None:
    about = {"problem": "p", "response": 4, "outcome": "correct", "length_tokens": 20}
    rows = [
        about | {"position": at, "start_tokens": int(20 * at), "continuation": m, "correct": right, "verdict": "wrong"}
        for at, rights in ((0.0, (0, 1, 0, 0)), (0.5, (1, 1, 0, 1)))
        for m, right in enumerate(rights)
    ]
    found = prefixes_table(pd.DataFrame(rows), run)
    tables.write(tables.PREFIXES, found, tmp_path / "prefixes.parquet")
    # 1 of 4 from the start, 3 of 4 from the middle
    assert found[["position", "reward"]].values.tolist() == [[0.0, 0.25], [0.5, 0.75]]
    none = prefixes_table(pd.DataFrame(columns=[name for name, *_ in tables.ALONG.columns]), run)
    tables.write(tables.PREFIXES, none, tmp_path / "none.parquet")
