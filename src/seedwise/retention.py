"""Which published weights stay: ``train.keep``, applied once everything in the study that needs them is done.

``retention.json`` beside ``trained.json`` says what was removed, with the digests it had.  It is written first, so
a removal that was interrupted is completed by the next one.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from seedwise.layout import Layout

RECORD = "trained.json"
RETENTION = "retention.json"
CAREFUL = ("none", "last", "all")


def needed(layout: Layout, name: str) -> set[int]:
    """The steps whose weights stay: those that are kept, and those that a job of the study still reads.

    Where the study that trained the run keeps more than this one, that holds.
    """
    run, folder = layout.grid.runs[name], layout.run(name)
    every, last = set(run.train.checkpoints), {max(run.train.checkpoints)}
    if not (folder / RECORD).exists() or not layout.sampled(name).exists():
        return every
    trained = json.loads((folder / "spec.json").read_text())["run"]["train"].get("keep", "all")
    keep = max(run.train.keep, trained, key=CAREFUL.index)
    if keep == "all":
        return every
    continued = layout.continuations(name)
    children = [other for other, start in layout.grid.runs.items() if start.init_from == name]
    awaited = (continued is not None and not continued.exists()) or any(
        not (layout.run(child) / RECORD).exists() for child in children
    )
    return last if keep == "last" or awaited else set()


def settle(layout: Layout, name: str) -> None:
    """Remove the weights of a run that are not needed any more, and say so in its retention.json."""
    folder, stays = layout.run(name), needed(layout, name)
    there = {int(path.name): path for path in (folder / "checkpoints").glob("[0-9]*")}
    if not (going := sorted(there.keys() - stays)):
        return
    record = json.loads((folder / RECORD).read_text())
    removed = removed_files(folder) | {
        file: digest for file, digest in record["sha256"].items() if _step(file) in going
    }
    _write(folder / RETENTION, {"keep": layout.grid.runs[name].train.keep, "removed": removed})
    for step in going:
        hidden = there[step].with_name(f".{step}.removed{os.getpid()}")
        try:
            there[step].rename(hidden)  # whoever opens it afterwards finds it gone, never half of it
        except FileNotFoundError:  # another job of the study was faster
            continue
        shutil.rmtree(hidden)


def removed_files(folder: Path) -> dict[str, str]:
    """Files of a published run that were removed on purpose, relative to its folder -> the digest they had."""
    path = folder / RETENTION
    return json.loads(path.read_text())["removed"] if path.exists() else {}


def _step(file: str) -> int | None:
    parts = Path(file).parts
    return int(parts[1]) if parts[0] == "checkpoints" else None


def _write(path: Path, record: dict) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    new.replace(path)
