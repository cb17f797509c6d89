"""The files that the metrics of evaluations are written to."""

from __future__ import annotations

import pyarrow as pa

from seedwise.tables import Table

_STR, _INT, _FLOAT = pa.string(), pa.int64(), pa.float64()

MEASURES = Table(
    "measures",
    (
        ("step", _INT, "checkpoint", False),
        ("benchmark", _STR, "", False),
        ("problem", _STR, "null: over the problems of the benchmark", True),
        ("metric", _STR, "name with its unit", False),
        ("value", _FLOAT, "in the unit of the name; shares and rates in 0..1", True),
        ("problems", _INT, "problems the value rests on", False),
        ("samples", _INT, "samples of these problems and of those without a value", False),
        ("reason", _STR, "why value is null", True),
    ),
    ("step", "benchmark", "problem", "metric"),
)
