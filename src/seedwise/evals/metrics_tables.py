"""The table of words in the tails of token entropy; that of all other metrics is ``tables.MEASURES``."""

from __future__ import annotations

import pyarrow as pa

from seedwise.tables import Table

_STR, _INT, _FLOAT = pa.string(), pa.int64(), pa.float64()

ENRICHED = Table(
    "enriched",
    (
        ("outcome", _STR, "correct | incorrect", False),
        ("tail", _STR, "high | low token entropy", False),
        ("word", _STR, "lower case", False),
        ("count", _INT, "occurrences in the tail", False),
        ("of", _INT, "occurrences in the outcome's responses", False),
        ("enrichment", _FLOAT, "share of the tail's words over share of the outcome's words", False),
    ),
    ("outcome", "tail", "word"),
)
