"""A training that tells its journal what happens while it happens.

Every optimizer step is a line of ``tracking.jsonl``: the metrics and times of the step, and what the machine did
(names as MLflow's own system metrics have them, so that its UI shows them apart).  The mirror is brought up to
date in passing.  Neither changes what is computed, and a store that is down, slow or locked changes nothing but
one warning.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import psutil
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from seedwise.trainer.journal import Artifact, End, Metrics, append, parse, started
from seedwise.trainer.lease import LeaseError
from seedwise.trainer.passing import Passing

if TYPE_CHECKING:
    from seedwise.trainer.records import Records

MEGABYTE = 1e6


class Live(TrainerCallback):
    """Follows one training: ``with Live(...) as live``, and ``live.of(records)`` among the trainer's callbacks.

    journal: the run's tracking.jsonl.  params, tags: of the run.  passing: how the mirror follows, None: it does not.
    Leaving the block ends the journal: finished, killed (told to stop, it goes on later) or failed.
    """

    def __init__(
        self, journal: Path, params: Mapping[str, object], tags: Mapping[str, str], passing: Passing | None
    ) -> None:
        self.journal, self.params, self.tags, self.passing = journal, params, tags, passing
        self.records: Records | None = None
        self._told = {"metrics": 0, "timing": 0}
        self._begun = False
        self._machine = Machine()

    def of(self, records: Records) -> Live:
        """This, following these records."""
        self.records = records
        return self

    def __enter__(self) -> Live:
        return self

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Note that this process begins, after which step, and the steps before that the journal lacks."""
        known = parse(self.journal.read_bytes())[0] if self.journal.exists() else []
        steps = {event.step for event in known if isinstance(event, Metrics)}
        append(self.journal, started(self.params, self.tags, state.global_step))
        self._begun = True
        self._tell(but=steps)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Tell the step that has just been recorded (transformers ends a step by logging it)."""
        if self._tell():
            append(self.journal, Metrics(step=state.global_step, values=self._machine.sample()))
            if self.passing is not None:
                self.passing.look()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A lost lease means that another process writes this run, and its journal, now.
        if not self._begun or isinstance(error, LeaseError):
            return
        with nullcontext() if error is None else suppress(OSError):  # a full disk is told by the error itself
            self._tell()
            if kind is None:
                append(self.journal, Artifact(path="spec.json"))
            append(self.journal, End(status=_status(kind)))
        if self.passing is not None:
            self.passing.close()

    def _tell(self, but: set[int] = frozenset()) -> bool:  # pyright: ignore[reportArgumentType]
        """Append what the records have gained, a line per step; whether they had."""
        found: dict[int, list[dict]] = {}
        for row in self._gained():
            found.setdefault(row["step"], []).append(row)
        for step, rows in found.items():
            if step not in but:
                values = {row["name"]: row["value"] for row in rows}
                reasons = {row["name"]: row["reason"] for row in rows if row["reason"] is not None}
                append(self.journal, Metrics(step=step, values=values, reasons=reasons))
        return bool(found)

    def _gained(self) -> Iterator[dict]:
        for name, already in self._told.items():
            rows = getattr(self.records, name)
            yield from rows[already:]
            self._told[name] = len(rows)


def _status(kind: type[BaseException] | None) -> Literal["FINISHED", "FAILED", "KILLED"]:
    if kind is None:
        return "FINISHED"
    stopped = issubclass(kind, (KeyboardInterrupt, SystemExit)) or kind.__name__ == "Interrupted"
    return "KILLED" if stopped else "FAILED"


class Machine:
    """What the machine did since the last sample: CPU and memory, of all and of this process, and the GPU in use."""

    def __init__(self) -> None:
        self.process = psutil.Process()
        self._busy, self._at = self._cpu_seconds(), time.monotonic()
        psutil.cpu_percent()  # the first call has nothing to compare with

    def sample(self) -> dict[str, float | None]:
        """name -> value; shares in % (of one core for the process), memory in MB of 10^6 bytes."""
        busy, at = self._cpu_seconds(), time.monotonic()
        used = 100 * (busy - self._busy) / (at - self._at)
        self._busy, self._at = busy, at
        memory = psutil.virtual_memory()
        return {
            "system/cpu_utilization_percentage": psutil.cpu_percent(),
            "system/system_memory_usage_megabytes": memory.used / MEGABYTE,
            "system/system_memory_usage_percentage": memory.percent,
            "system/process_cpu_percentage": used,
            "system/process_memory_megabytes": self.process.memory_info().rss / MEGABYTE,
            **self._gpu(),
        }

    def _cpu_seconds(self) -> float:
        times = self.process.cpu_times()
        return times.user + times.system

    @staticmethod
    def _gpu() -> dict[str, float | None]:
        if not torch.cuda.is_initialized():
            return {}
        free, whole = torch.cuda.mem_get_info()
        return {
            "system/gpu_0_memory_usage_megabytes": (whole - free) / MEGABYTE,
            "system/gpu_0_memory_usage_percentage": 100 * (whole - free) / whole,
            "system/gpu_0_peak_allocated_megabytes": torch.cuda.max_memory_allocated() / MEGABYTE,
        }
