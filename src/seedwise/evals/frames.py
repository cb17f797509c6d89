"""Rows to data frames with a table's columns in the table's types, also when there are no rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from seedwise.tables import Table


def frame(table: Table, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A data frame with exactly the columns of ``table``; None stays a missing value."""
    columns = {name: [row[name] for row in rows] for name, *_ in table.columns}
    return pa.table(columns, schema=table.schema).to_pandas()
