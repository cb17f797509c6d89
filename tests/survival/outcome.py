"""What a run left behind, in a form that can be compared."""

from __future__ import annotations

import json
from pathlib import Path

from seedwise.identity import file_digest
from seedwise.layout import Layout

WEIGHTS = "model.safetensors"


def outcome(layout: Layout, run: str) -> dict[str, str]:
    """file -> digest, of everything that must not depend on what happened in between: weights of all checkpoints,
    memory of the parts, the kept state's weights, metrics, and samples where they are there."""
    folder = layout.run(run)
    files = [
        *folder.glob(f"checkpoints/*/{WEIGHTS}"),
        *folder.glob("checkpoints/*/memory/*"),
        folder / "state" / WEIGHTS,
        folder / "state" / "optimizer.pt",
        folder / "metrics.parquet",
        *folder.glob("samples/*/*.parquet"),
    ]
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}


def skipped(folder: Path) -> dict[str, int]:
    """How many steps a state says were skipped."""
    pairs = json.loads((folder / "memory" / "memory.json").read_text())["pairs"]
    return dict(dict(pairs)["skipped_steps"]["pairs"])
