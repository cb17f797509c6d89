"""Resumable states: ``work/<run>/state-<step>``, each whole or not taken for a state.

A state is written in a scratch folder of its writer's own and renamed when everything is on the disk.  Its last
file lists the sizes of the others, so that one that was cut short afterwards (by a lost node or a failing disk) is
noticed and passed over.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

SIZES = "sizes.json"


def scratch(work: Path, fence: int) -> Path:
    """Where the holder with this fencing number writes; one that lost the run writes beside, not into it."""
    return work / f"scratch-{fence}"


def seal(folder: Path) -> None:
    """Write the list of sizes into a folder that is complete, and bring all of it to the disk."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
    (folder / SIZES).write_text(json.dumps(sizes, indent=1) + "\n")
    flush(folder)


def flush(folder: Path) -> None:
    """Bring every file of a folder to the disk: a rename may overtake what it renames when a machine goes down."""
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def damage(folder: Path) -> str | None:
    """What is wrong with a sealed folder, in a few words; None where it is whole."""
    try:
        sizes = json.loads((folder / SIZES).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return f"{SIZES} is missing or damaged"
    for name, size in sizes.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} of {size} bytes"
    return None


def newest(work: Path, checkpoints: Path, wanted: tuple[int, ...]) -> Path | None:
    """The whole state with the most steps whose published checkpoints are all there, None if there is none.

    checkpoints: folder of the published ones.  wanted: steps at which the run publishes.  States that are passed
    over are named, one line each.
    """
    for step, path in sorted(_states(work), reverse=True):
        gone = [str(early) for early in wanted if early <= step and not (checkpoints / str(early)).is_dir()]
        why = f"published checkpoint {gone[0]} is gone" if gone else damage(path)
        if why is None:
            return path
        print(f"{path}: not gone on from: {why}", flush=True)
    return None


def _states(work: Path) -> list[tuple[int, Path]]:
    found = [(path.name.removeprefix("state-"), path) for path in work.glob("state-*")]
    return [(int(step), path) for step, path in found if step.isdigit()]


def forget(work: Path, *, but: int) -> None:
    """Remove all states but that of one step."""
    for step, path in _states(work):
        if step != but:
            shutil.rmtree(path)


def replace(new: Path, target: Path) -> None:
    """Put a finished folder in place of whatever an interrupted attempt left there."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)
