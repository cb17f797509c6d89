"""What a run takes over from other runs: weights to start from, or the beginning it shares with a shorter one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from seedwise.trainer.published import RECORD
from seedwise.trainer.states import damage, replace

if TYPE_CHECKING:
    from seedwise.study import Run

STATE = "state"


class OriginError(ValueError):
    """The run that another starts from cannot be had: one line with the remedy."""


def origin(run: Run, runs: Path) -> Path | None:
    """The last checkpoint of ``run.init_from``, None where it starts from the untrained model.

    runs: the folder of all runs.  Raises OriginError when that run is not published, keeps its weights no more, or
    trained other weights than this one (an adapter of another shape, or the whole model).
    """
    if run.init_from is None:
        return None
    folder = runs / run.init_from
    if not (folder / RECORD).exists():
        raise OriginError(f"{run.name}: init_from: {run.init_from}: not trained yet: train it first")
    theirs = json.loads((folder / "spec.json").read_text())["run"]["model"]["lora"]
    ours = run.model.model_dump(mode="json")["lora"]
    if theirs != ours:
        raise OriginError(
            f"{run.name}: init_from: {run.init_from}: it trained with lora {theirs} and this run has {ours}: "
            "give both the same"
        )
    last = max(json.loads((folder / RECORD).read_text())["checkpoints"])
    weights = folder / "checkpoints" / str(last)
    if not weights.is_dir():
        raise OriginError(
            f"{run.name}: init_from: {run.init_from}: its weights of step {last} were removed (train.keep): "
            f"remove {folder / RECORD} and train it again"
        )
    return weights


def shorter(run: Run, runs: Path) -> Path | None:
    """The longest published run that differs in its number of steps alone and can be gone on from, or None.

    It has fewer steps, kept its state, did not stop early, and has every checkpoint that this run wants up to there.
    """
    if run.lineage is None:
        return None
    found: list[tuple[int, str]] = []
    for path in sorted(runs.glob(f"*/{RECORD}")):
        record = json.loads(path.read_text())
        steps = record["steps"]
        fits = record.get("lineage") == run.lineage and record["stopped"] is None and steps < run.train.steps
        early = [path.parent / "checkpoints" / str(step) for step in run.train.checkpoints if step <= steps]
        if fits and all(folder.is_dir() for folder in early) and damage(path.parent / STATE) is None:
            found.append((steps, path.parent.name))
    return runs / max(found)[1] if found else None


def adopt(run: Run, other: Path, out: Path) -> None:
    """Copy the checkpoints that both runs have from ``other`` to ``out``, each whole or not at all."""
    for step in run.train.checkpoints:
        source, target = (folder / "checkpoints" / str(step) for folder in (other, out))
        if source.is_dir():
            new = target.with_name(f".{step}.new")
            shutil.rmtree(new, ignore_errors=True)
            shutil.copytree(source, new)
            replace(new, target)


def keep(state: Path, out: Path) -> None:
    """Put a resumable state into a published run; it stays in its place too, until the run is whole.

    Files are linked, or copied where the two lie on different file systems.
    """
    new = out / f".{STATE}.new"
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(state, new, copy_function=_linked)
    replace(new, out / STATE)


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
