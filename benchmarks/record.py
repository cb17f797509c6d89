"""benchmarks/results.json: one flat object, ``program.quantity_unit`` -> number, that every program adds to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

RESULTS = Path(__file__).parent / "results.json"


def record(measured: Mapping[str, float], path: Path = RESULTS) -> None:
    """Put these numbers (three significant digits or whole) beside those of other programs, and print them."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rounded = {name: float(f"{value:.3g}") if value < 1000 else round(value) for name, value in measured.items()}
    path.write_text(json.dumps(dict(sorted({**known, **rounded}.items())), indent=1) + "\n", encoding="utf-8")
    width = max(map(len, rounded))
    print("\n".join(f"{name:<{width}}  {value:g}" for name, value in rounded.items()))
