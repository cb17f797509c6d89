"""Tables are checked on write and on read, and are whole or absent."""

from __future__ import annotations

import pandas as pd
import pytest

from seedwise import tables

ROWS = [
    {"step": 1, "name": "reward", "value": 0.5, "reason": None},
    {"step": 1, "name": "entropy_nats", "value": None, "reason": "no token"},
]


def test_what_is_written_is_read(tmp_path) -> None:
    tables.write(tables.METRICS, ROWS, tmp_path / "m.parquet")
    frame = tables.read(tables.METRICS, tmp_path / "m.parquet")
    assert frame["value"].iloc[0] == 0.5
    assert pd.isna(frame["value"].iloc[1])
    assert frame["reason"].iloc[1] == "no token"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROWS[0], ROWS[0]], r"has the key \{'step': 1, 'name': 'reward'\} twice"),
        ([{**ROWS[0], "step": None}], "column step of metrics has an empty value"),
        ([{**ROWS[0], "value": "high"}], "metrics table"),
    ],
)
def test_rows_that_are_no_table_are_refused_and_nothing_is_left(rows, message, tmp_path) -> None:
    with pytest.raises(tables.TableError, match=message):
        tables.write(tables.METRICS, rows, tmp_path / "m.parquet")
    assert list(tmp_path.iterdir()) == []


def test_unknown_and_missing_columns_are_named(tmp_path) -> None:
    frame = pd.DataFrame(ROWS).rename(columns={"reason": "unit"})
    with pytest.raises(tables.TableError, match=r"lacks columns \['reason'\] and has unknown columns \['unit'\]"):
        tables.write(tables.METRICS, frame, tmp_path / "m.parquet")


def test_a_file_that_is_no_table_says_so(tmp_path) -> None:
    with pytest.raises(tables.TableError, match="no such metrics file"):
        tables.read(tables.METRICS, tmp_path / "m.parquet")
    (tmp_path / "m.parquet").write_bytes(b"PAR1 half a file")
    with pytest.raises(tables.TableError, match="not a readable metrics table"):
        tables.read(tables.METRICS, tmp_path / "m.parquet")
    tables.write(tables.METRICS, ROWS, tmp_path / "m.parquet")
    with pytest.raises(tables.TableError, match="instead of"):
        tables.read(tables.SAMPLES, tmp_path / "m.parquet")
