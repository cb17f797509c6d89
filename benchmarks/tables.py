"""Markdown tables of benchmarks/results.json, for documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from benchmarks.record import RESULTS

PHASES = {
    "update phase, qae": ("update_phase.qae_ratio", "update_phase.floor_ratio"),
    "update phase, qae, rows in the order drawn": ("update_phase.unordered_qae_ratio", "update_phase.floor_ratio"),
    "whole step, clip_higher": ("whole_step.clip_higher_ratio", "whole_step.clip_higher_floor_seconds"),
    "whole step, clip_higher, no entropies": ("whole_step.clip_higher_without_entropy_ratio", None),
    "whole step, qae": ("whole_step.qae_ratio", "whole_step.qae_floor_seconds"),
    "whole step, qae, no entropies": ("whole_step.qae_without_entropy_ratio", None),
}
"""What was measured -> the ratio to stock TRL, and the least it could be: a ratio, or seconds of a step."""

AXES = {"tokens": "longest response, tokens", "micro_batch": "rows of a micro-batch", "vocabulary": "vocabulary"}


def tables(path: Path = RESULTS) -> str:
    """The measured ratios and their floors, then how an update grows."""
    found = json.loads(path.read_text(encoding="utf-8"))
    active = f"Of the responses of the update phase {found['update_phase.active_share']:.3g} are active."
    return f"{active}\n\n{phases(found)}\n\n{growth(found)}"


def phases(found: Mapping[str, float]) -> str:
    """Ratios to stock TRL."""
    lines = ["| | stock TRL = 1 | in CPU seconds | floor | distance |", "|---|---|---|---|---|"]
    for what, (name, least) in PHASES.items():
        ratio, floor = found[name], None
        if least is not None:
            floor = found[least] / (found["whole_step.stock_seconds"] if least.endswith("_seconds") else 1)
        cpu = found.get(name.replace("_ratio", "_cpu_ratio"))
        cells = ["" if cpu is None else f"{cpu:.3f}"]
        cells += ["", ""] if floor is None else [f"{floor:.3f}", f"{ratio / floor:.2f} x"]
        lines.append(f"| {what} | {ratio:.3f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def growth(found: Mapping[str, float]) -> str:
    """Seconds and peak memory of an update, ours beside stock TRL."""
    lines = [
        "| | | stock TRL, s | qae, s | ratio | stock TRL, peak MB | qae, peak MB | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for axis, what in AXES.items():
        points = {name.split(".")[1] for name in found if name.startswith(f"growth.{axis}_")}
        for value in sorted(int(point.rpartition("_")[2]) for point in points):
            point = f"growth.{axis}_{value}"
            cells = [f"{what}", f"{value:,}"]
            for unit in ("seconds", "peak_mb"):
                stock, ours = found[f"{point}.stock_{unit}"], found[f"{point}.qae_{unit}"]
                cells += [f"{stock:g}", f"{ours:g}", f"{ours / stock:.2f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
