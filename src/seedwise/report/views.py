"""What the tables beside the main one share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from seedwise.report.layout import Cell, TableView

Columns = tuple[tuple[str, str], ...]


def view(
    name: str,
    title: str,
    columns: Columns,
    rows: Iterable[tuple[Cell, ...]],
    notes: tuple[str, ...],
    data: pd.DataFrame,
    empty: str,
) -> TableView:
    """A table; without rows the sentence ``empty`` stands in place of its notes."""
    body = tuple(rows)
    return TableView(name, title, columns, body, notes if body else (empty,), data)


def place_of(row: Mapping[str, Any]) -> str:
    """``embedded, G8``; the untrained model has no setting."""
    return ", ".join(filter(None, [row["model"], row["setting"]]))


def text_of(value: object) -> str:
    """A text, or nothing where it is undefined."""
    return value if isinstance(value, str) else ""
