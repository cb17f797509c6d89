"""What a study will cost, from what published runs took: device time of training, and disk."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from seedwise.identity import digest
from seedwise.layout import WORK, Layout
from seedwise.reruns.published import Archive
from seedwise.reruns.running import saved_step
from seedwise.study import Run, Train

READ = 8
"""Runs whose times are read for one estimate: their median moves little with more, and each is a file."""
COST = ("completions", "updates_per_rollout", "iterations", "micro_batch", "max_tokens", "skip_zero_advantage", "bf16")
"""Train settings that decide how long a step takes."""
STATE = 3
"""A state holds the trained weights and two moments of AdamW for each."""


@dataclass(frozen=True)
class Estimate:
    """A cost.  value: s or bytes, None with the reason why there is none.  runs: how many it rests on."""

    value: float | None
    runs: int
    reason: str | None = None


@dataclass(frozen=True)
class Costs:
    """Estimates for the runs of a study from those that are published."""

    layout: Layout
    archive: Archive
    work: Path = WORK

    @cached_property
    def _alike(self) -> dict[str, list[str]]:
        """What a run's cost depends on -> published runs of that kind."""
        found: dict[str, list[str]] = {}
        for name in self.archive.names:
            found.setdefault(_kind(self.archive.spec(name)["run"]), []).append(name)
        return found

    def _nearest(self, run: Run) -> list[str]:
        """Published runs of the same model and train settings; only those of the same method where there are any."""
        alike = self._alike.get(_kind(run.model_dump(mode="json")), [])
        stem = run.name.partition(".s")[0]
        return [name for name in alike if name.startswith(f"{stem}.s")] or alike

    def seconds(self, run: Run) -> Estimate:
        """Device time of the steps that a training still has to do: median time of a step x steps x devices."""
        names = self._nearest(run)[-READ:]
        found = [value for name in names if (value := self._step_seconds(name)) is not None]
        if not found:
            return Estimate(None, 0, "no published run has this model and train settings that cost the same")
        return Estimate(statistics.median(found) * (run.train.steps - saved_step(self.work / run.name)), len(found))

    @cached_property
    def _read(self) -> dict[str, float | None]:
        return {}

    def _step_seconds(self, name: str) -> float | None:
        """Mean device time of a step of a published run, s; None where its times are gone or damaged."""
        from seedwise import tables  # pandas, only where there are times to read

        if name not in self._read:
            path = self.archive.folder / name / "timing.parquet"
            self._read[name] = None
            if path.exists():
                rows = tables.read(tables.METRICS, path)
                steps = rows.loc[rows["name"] == "step_seconds", "value"]
                devices = self.archive.spec(name).get("stack", {}).get("world_size", 1)
                self._read[name] = float(steps.mean()) * devices if len(steps) else None
        return self._read[name]

    def disk(self, run: Run) -> Estimate:
        """Bytes that a run will keep once it is evaluated: checkpoints as train.keep says, and its state if kept.

        Until then all of its checkpoints are there.
        """
        for name in self._nearest(run):
            kept = [size for path in (self.archive.folder / name / "checkpoints").glob("*") if (size := size_of(path))]
            if kept:
                one, runs = statistics.mean(kept), 1
                break
        else:
            weights = list(self.layout.model(run.base).glob("*.safetensors"))
            if run.model.lora is not None or not weights:
                what = "adapter" if run.model.lora else "model"
                return Estimate(None, 0, f"no published run has this {what}, so its size is not known yet")
            one, runs = float(sum(path.stat().st_size for path in weights)), 0
        checkpoints = {"all": len(run.train.checkpoints), "last": 1, "none": 0}[run.train.keep]
        return Estimate((checkpoints + (STATE if run.train.keep_state else 0)) * one, runs)


def _kind(run: Mapping[str, Any]) -> str:
    """What a step costs by: settings older than one of these count as having its default."""
    train = Train.model_construct().model_dump(mode="json") | run["train"]
    spoken = ("template", "chat_template", "thinking", "stop")
    model = {key: value for key, value in run["model"].items() if key not in spoken}
    return digest([model, {key: train[key] for key in COST}])


def total(estimates: Iterable[Estimate]) -> Estimate:
    """The sum; undefined where one of them is, with its reason.  runs: the fewest that one of them rests on."""
    every = list(estimates)
    values = [estimate.value for estimate in every if estimate.value is not None]
    if len(values) < len(every):
        unknown = [estimate for estimate in every if estimate.value is None]
        return Estimate(None, 0, f"{unknown[0].reason} ({len(unknown)} of {len(every)} runs)")
    return Estimate(sum(values), min((estimate.runs for estimate in every), default=0))


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; links are not followed and count nothing."""
    if path.is_symlink():
        return 0
    if not path.is_dir():
        return path.stat().st_size if path.exists() else 0
    return sum(
        os.lstat(os.path.join(folder, name)).st_size
        for folder, _, names in os.walk(path)
        for name in names
        if not os.path.islink(os.path.join(folder, name))
    )


def of_bytes(size: float) -> str:
    """Bytes in the unit that leaves one to three digits before the point."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
