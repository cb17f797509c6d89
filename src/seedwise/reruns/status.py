"""``seedwise status``: where every run of a study stands, read off its files.

A finished stage is a file that is there.  Of the others, a live process or lease is work going on, and a log
without its file is a failure, unless Snakemake is at work and the log tells of no error: the job may be on another
host.  No table is opened for a finished run.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from seedwise.layout import WORK, Layout
from seedwise.reruns.jobs import evaluated, inputs
from seedwise.reruns.running import SAMPLES, Told, jobs_here, journalled, leased, logged_step, saved_step

State = Literal["missing", "running", "done", "failed"]
WHOLE = {"analyse": "analysis", "report": "report", "track": "tracking"}
"""Stages that look at all of a study -> their markers."""
AFTER = {"sample": "train", "score": "sample", "resample": "score", "measure": "score"}
"""Stages of a subject -> the one that each waits for."""
LINES = 3
"""Last lines of a log that are shown of a failure."""
ERROR = re.compile(r"^(seedwise: |Traceback |[\w.]+Error\b)", re.MULTILINE)
WIDE = 140
MOST = 100
"""Rows up to which finished ones are shown as well."""
TAIL = 8192
"""Bytes of a log that are read."""
NO_REWARD = "no rollout has been told of yet"
FINISHED = "finished: its metrics.parquet has every step"


@dataclass(frozen=True)
class Progress:
    """A training.  step: reached, of ``steps``.  reward: mean of the last rollout told of, None with ``why_none``.
    eta_s: until its last step, None unless it runs and has told how long a step takes.  stopped: why it diverged."""

    step: int
    steps: int
    reward: float | None
    why_none: str | None
    eta_s: float | None = None
    stopped: str | None = None


@dataclass(frozen=True)
class Row:
    """One subject.  stages: stage -> state.  progress: None for a base.  failures: stage -> last lines of its log."""

    subject: str
    stages: dict[str, State]
    progress: Progress | None
    failures: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Status:
    """A study: its subjects; its problems, models and the stages that look at all of it, by ``stage name``."""

    study: str
    rows: tuple[Row, ...]
    stages: dict[str, State]
    failures: dict[str, tuple[str, ...]]

    def json(self) -> str:
        """One object of the same fields."""
        return json.dumps(asdict(self), allow_nan=False)


@dataclass(frozen=True)
class Look:
    """One look at a study."""

    layout: Layout
    work: Path = WORK

    def status(self) -> Status:
        """Where everything stands now."""
        made, root = self._shared(), self.layout.root / "logs"
        logs = {name: root / log for name, (_, log) in made.items()}
        states: dict[str, State] = {}
        for name, (path, _) in made.items():
            stage, _, subject = name.partition(" ")
            begun = all(source.exists() for source in inputs(self.layout, stage, subject))
            states[name] = self._state(stage, subject, path, logs[name], begun)
        rows = tuple(self._row(subject) for subject in self.layout.subjects)
        return Status(self.layout.grid.study.study, rows, states, _failures(states, logs))

    def _shared(self) -> dict[str, tuple[Path, str]]:
        """``stage subject`` -> file and log, for what belongs to no subject alone."""
        layout, study = self.layout, self.layout.grid.study.study
        found = {f"data {name}": (layout.problems(name), f"data/{name}.log") for name in layout.grid.problems}
        for name in layout.grid.models:
            found[f"base {name}"] = layout.model(name) / "files.json", f"base/{name}.log"
        for stage, marker in WHOLE.items():
            found[f"{stage} {study}"] = layout.marker(marker), f"{study}.{stage}.log"
        return found

    def _row(self, subject: str) -> Row:
        files = evaluated(self.layout, subject)
        if trained := subject in self.layout.grid.runs:
            files = {"train": self.layout.weights(subject)} | files
        states: dict[str, State] = {}
        failures: dict[str, tuple[str, ...]] = {}
        for stage, path in files.items():
            if path.exists():
                states[stage] = "done"
                continue
            log = self._log(stage, subject, path)
            # a log of a stage whose input is missing tells of an earlier attempt
            free = states.get(AFTER.get(stage, ""), "done") == "done"
            states[stage] = self._state(stage, subject, path, log, free)
            if states[stage] == "failed":
                failures[stage] = last_lines(log)
        progress = self._progress(subject, states["train"]) if trained else None
        return Row(subject, states, progress, failures)

    def _log(self, stage: str, subject: str, path: Path) -> Path:
        name = {"train": subject, "score": f"{subject}.{path.parent.name}"}.get(stage, f"{subject}.{path.stem}")
        return self.layout.root / "logs" / stage / f"{name}.log"

    def _state(self, stage: str, subject: str, path: Path, log: Path, free: bool) -> State:
        if path.exists():
            return "done"
        held = {"train": self.work / subject, "sample": self.work / subject / SAMPLES}.get(stage)
        if (held and leased(held)) or (stage, subject) in self._here:
            return "running"
        if not free or not log.exists():
            return "missing"
        if ERROR.search(_tail(log)):
            return "failed"
        if stage in WHOLE:  # its log has no id, so it may be of an earlier time, when all went well
            return "missing"
        return "running" if self._driven else "failed"

    @cached_property
    def _driven(self) -> bool:
        """Whether a Snakemake holds this folder."""
        locks = self.layout.root.parent / ".snakemake" / "locks"
        return locks.is_dir() and any(locks.iterdir())

    @cached_property
    def _here(self) -> set[tuple[str, str]]:
        return set(jobs_here())

    def _progress(self, name: str, state: State) -> Progress:
        steps = self.layout.grid.runs[name].train.steps
        if state == "done":
            record = json.loads(self.layout.weights(name).read_bytes())
            stopped = record["stopped"] and str(record["stopped"]["reason"])
            return Progress(record["steps"], steps, None, FINISHED, stopped=stopped)
        saved, told = saved_step(self.work / name), journalled(self.layout.file(name, "tracking.jsonl"))
        if told is None:  # without a journal the log tells every tenth step
            logged = logged_step(_tail(self.layout.root / "logs" / "train" / f"{name}.log"))
            told = Told(logged[0], None, logged[1]) if logged else Told(0, None, None)
        step, reward = max(saved, told.step), told.reward
        if reward is None and saved:
            reward = _reward(self.work / name / f"state-{saved}" / "metrics.parquet")
        eta = (steps - step) * told.step_s if told.step_s is not None and state == "running" else None
        return Progress(step, steps, reward, NO_REWARD if reward is None else None, eta)


def _reward(path: Path) -> float | None:
    """Mean reward of the last rollout in the metrics of a saved state; None where the state was just replaced."""
    from seedwise import tables  # pandas, only where a training runs

    if not path.exists():
        return None
    rows = tables.read(tables.METRICS, path)
    found = rows.loc[(rows["name"] == "reward") & rows["value"].notna(), ["step", "value"]].to_numpy()
    return float(found[found[:, 0].argmax(), 1]) if len(found) else None


def _failures(states: Mapping[str, State], logs: Mapping[str, Path]) -> dict[str, tuple[str, ...]]:
    return {stage: last_lines(logs[stage]) for stage, state in states.items() if state == "failed"}


def last_lines(log: Path) -> tuple[str, ...]:
    """The last lines of a log that say something; of a progress bar its last state."""
    lines = [re.split(r"\r", line)[-1].rstrip() for line in _tail(log).split("\n")]
    said = tuple(line for line in lines if line.strip())[-LINES:]
    return said or ("it ended without a word: killed, or out of memory",)


def _tail(log: Path) -> str:
    """The end of a log; empty without one."""
    try:
        with open(log, "rb") as handle:
            handle.seek(max(0, log.stat().st_size - TAIL))
            return handle.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def table(status: Status) -> Any:
    """The status as a table of rich: failures below it, with the last lines of their logs."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    stages = ("train", "sample", "score", "resample", "measure")
    colours = {"done": "green", "running": "cyan", "failed": "red", "missing": "dim"}
    grid = Table(title=_title(status), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name in ("run", *stages, "step", "reward", "left"):
        grid.add_column(name, no_wrap=name == "run", overflow="fold")
    for row in _shown(status):
        cells = [Text(row.stages.get(stage, "-"), colours.get(row.stages.get(stage, ""), "")) for stage in stages]
        grid.add_row(Text(row.subject), *cells, *(Text(text) for text in _told(row.progress)))
    failed = [(f"{row.subject} {stage}", lines) for row in status.rows for stage, lines in row.failures.items()]
    failed += list(status.failures.items())
    told = [Text(f"{what} failed:\n" + "\n".join(f"  {line}" for line in lines)) for what, lines in failed]
    if hidden := len(status.rows) - len(_shown(status)):
        told.insert(0, Text(f"{hidden} more, of which every stage is done: seedwise status --json lists them"))
    return Group(grid, *told)


def _shown(status: Status) -> list[Row]:
    """All rows; of a large study those that are not done."""
    whole = len(status.rows) <= MOST
    return [row for row in status.rows if whole or set(row.stages.values()) != {"done"}]


def _title(status: Status) -> str:
    ends = [name for name in status.stages if name.endswith(f" {status.study}")]
    early = [name for name, state in status.stages.items() if name not in ends and state != "done"]
    whole = ", ".join(f"{name.removesuffix(f' {status.study}')} {status.stages[name]}" for name in [*early, *ends])
    runs = [row for row in status.rows if row.progress]
    return f"{status.study}: {sum(row.stages['train'] == 'done' for row in runs)} of {len(runs)} runs trained; {whole}"


def _told(progress: Progress | None) -> tuple[str, str, str]:
    """step of steps, reward and time left, as text."""
    if progress is None:
        return "", "", ""
    reward = "" if progress.reward is None else f"{progress.reward:.3f}"
    left = "" if progress.eta_s is None else f"{progress.eta_s / 60:.0f} min"
    stopped = f" stopped: {progress.stopped}" if progress.stopped else ""
    return f"{progress.step}/{progress.steps}{stopped}", reward, left


def show(layout: Layout) -> None:
    """Print the table; as wide as its names where it does not go to a terminal."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else WIDE).print(table(Look(layout).status()))


def watch(layout: Layout, seconds: float) -> None:
    """Show the table until interrupted, looked at anew every so many seconds."""
    import time

    from rich.live import Live

    with Live(table(Look(layout).status()), auto_refresh=False) as live:
        while True:
            time.sleep(seconds)
            live.update(table(Look(layout).status()), refresh=True)
