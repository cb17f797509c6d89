"""What a study will cost, from what published runs took: device time of training, and disk."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from seedwise.identity import digest
from seedwise.layout import WORK, Layout
from seedwise.reruns.published import Archive
from seedwise.reruns.running import saved_step
from seedwise.study import ModelSpec, Run, Train

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
    def _kinds(self) -> dict[str, str]:
        return {}

    @cached_property
    def _found(self) -> dict[tuple[str, ModelSpec, Train], list[str]]:
        return {}

    def _nearest(self, run: Run) -> list[str]:
        """The last published runs of the same model and train settings, at most READ; only those of the same method
        where there are any."""
        stem = run.name.partition(".s")[0]
        place = stem, run.model, run.train
        if place not in self._found:
            kind = _kind(run.model_dump(mode="json"))
            own = [name for name in self.archive.names if name.startswith(f"{stem}.s")]
            self._found[place] = self._last(own, kind) or self._last(self.archive.names, kind)
        return self._found[place]

    def _last(self, names: list[str], kind: str) -> list[str]:
        """The last READ of these runs that are of a kind; no more of their specs are read than it takes."""
        return list(islice((name for name in reversed(names) if self._kind_of(name) == kind), READ))[::-1]

    def _kind_of(self, name: str) -> str:
        if name not in self._kinds:
            self._kinds[name] = _kind(self.archive.spec(name)["run"])
        return self._kinds[name]

    def seconds(self, run: Run) -> Estimate:
        """Device time of the steps that a training still has to do: median time of a step x steps x devices."""
        names = self._nearest(run)
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

    @cached_property
    def _sizes(self) -> dict[str, float | None]:
        return {}

    def _checkpoint(self, name: str) -> float | None:
        """Mean bytes of a checkpoint that a published run kept; None where it kept none."""
        if name not in self._sizes:
            folder = self.archive.folder / name / "checkpoints"
            kept = [size for path in folder.glob("*") if (size := size_of(path))]
            self._sizes[name] = statistics.mean(kept) if kept else None
        return self._sizes[name]

    def disk(self, run: Run) -> Estimate:
        """Bytes that a run will keep once it is evaluated: checkpoints as train.keep says, and its state if kept.

        Until then all of its checkpoints are there.
        """
        for name in self._nearest(run):
            if (one := self._checkpoint(name)) is not None:
                runs = 1
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
