"""A mirror of the record in MLflow.  Files are the record; nothing reads the mirror back.

Experiment = study; parent run = method point; child run = one training, found by its tag; a comparison run
carries the tables and figures of the study.  ``sync`` replays what the files hold and the mirror lacks, and a
second call changes nothing.  Whoever holds the lock of a store replays for all, so a SQLite store has one
writer at a time (never on a network file system: use a server there).

The only module that imports MLflow, and only inside functions: that import takes seconds.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from seedwise import tables
from seedwise.identity import digest, file_digest
from seedwise.trainer import progress
from seedwise.trainer.journal import (
    Artifact,
    Event,
    Metrics,
    Start,
    append,
    from_run_folder,
    lines,
    parse,
    safe_name,
    started,
)
from seedwise.trainer.passing import SQLITE, TrackingError, file_of, only_writer

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["Report", "TrackingError", "append", "from_run_folder", "started", "sync"]

POINT, RUN, KIND = "seedwise.point", "seedwise.run", "seedwise.kind"


@dataclass
class Report:
    """What a sync did, in runs and metric points."""

    study: str
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    points: int = 0
    killed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        done = f"{self.created} runs created, {self.updated} updated, {self.unchanged} unchanged, {self.points} points"
        killed = f", marked as killed: {' '.join(self.killed)}" if self.killed else ""
        return "\n".join([f"{self.study}: {done}{killed}", *self.notes])


def sync(store: str, study: str, root: Path, *, wait_s: float, runs: pd.DataFrame | None = None) -> Report:
    """Bring the mirror of a study up to date with its files.

    store: where MLflow keeps it, ``sqlite:///results/mlflow.db`` or the address of a server.
    root: the results folder.  wait_s: seconds to wait for another sync of the same store.
    runs: tables.RUNS of the study, read from ``<root>/<study>/runs.parquet`` when not given.
    Raises TrackingError when the lock is not had in time or the store refuses, tables.TableError on a bad file.
    """
    root = Path(root).absolute()
    runs = tables.read(tables.RUNS, root / study / "runs.parquet") if runs is None else runs
    with only_writer(store, root, wait_s):
        _settings()
        from mlflow.exceptions import MlflowException

        try:
            _create_store(store)
            return _Mirror(store, study, root).update(runs)
        except MlflowException as error:
            first = str(error).strip().splitlines()[0]
            raise TrackingError(f"{store}: {first}; the files are complete, seedwise sync tries again") from error


def _settings() -> None:
    # MLflow reads its settings from the environment only; its own defaults retry for minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")


def _create_store(store: str) -> None:
    """Create a SQLite store under another name and rename it: one that was half made stays unusable for ever."""
    if not store.startswith(SQLITE) or file_of(store).exists():
        return
    from mlflow import MlflowClient

    logging.getLogger("alembic").setLevel(logging.WARNING)
    new = file_of(store).with_name(f"{file_of(store).name}.new")
    new.unlink(missing_ok=True)
    MlflowClient(f"{SQLITE}{new}").search_experiments()
    new.replace(file_of(store))


class _Mirror:
    """One study in one store.  runs: the MLflow runs of the study by (kind, tag)."""

    def __init__(self, store: str, study: str, root: Path) -> None:
        from mlflow import MlflowClient

        self.client: MlflowClient = MlflowClient(store)
        self.study, self.root, self.report = study, root, Report(study)
        file = file_of(store).absolute() if store.startswith(SQLITE) else None
        # A store in the results folder stays the same store when the folder is moved.
        self.cursor_name = f".tracking-{study}-{digest(os.path.relpath(file, root) if file else store)[:8]}.json"
        self.experiment = self._experiment(file.parent if file else None)
        self.runs: dict[tuple[str, str], list[Run]] = {}
        for run in self._all_runs():
            tags = run.data.tags
            self.runs.setdefault((tags.get(KIND, ""), tags.get(RUN) or tags.get(POINT) or ""), []).append(run)

    def update(self, runs: pd.DataFrame) -> Report:
        """Replay every run of the study, then its comparison."""
        scores = progress.scores(self.root / self.study / "analysis" / "scores.parquet")
        rows = runs.to_dict("records")
        points = {_point(row): self._parent(row) for row in rows}  # all parents before any child
        statuses: dict[str, set[str]] = {point: set() for point in points}
        for row in rows:
            statuses[_point(row)].add(self._child(row, points[_point(row)].info.run_id, scores.get(row["run"], [])))
        for point, parent in points.items():
            self._set_status(parent, progress.joint_status(statuses[point]))
        self._comparison()
        return self.report

    def _experiment(self, beside: Path | None) -> str:
        found = self.client.get_experiment_by_name(self.study)
        if found is None:
            artifacts = None if beside is None else (beside / "mlflow-artifacts" / self.study).as_uri()
            return self.client.create_experiment(self.study, artifact_location=artifacts)
        if found.lifecycle_stage == "deleted":
            self.client.restore_experiment(found.experiment_id)
        return found.experiment_id

    def _all_runs(self) -> Iterator[Run]:
        token = None
        while True:
            page = self.client.search_runs([self.experiment], max_results=1000, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _parent(self, row: Mapping[str, Any]) -> Run:
        known = self.runs.setdefault(("point", _point(row)), [])
        if not known:
            tags = {f"seedwise.{name}": str(row[name]) for name in ("model", "method", "setting")}
            tags |= {KIND: "point", POINT: _point(row)}
            known.append(self.client.create_run(self.experiment, tags=tags, run_name=_point(row)))
        return known[0]

    def _child(self, row: Mapping[str, Any], parent: str, scores: list[Event]) -> str:
        """Replay one run: what is new, or all of it into a fresh MLflow run when its record was rewritten.

        Returns the run's status in MLflow.
        """
        folder = self.root / "runs" / row["run"]
        sources = {"journal": progress.journal(folder), "scores": lines(scores)}
        if not any(sources.values()):
            return "SCHEDULED"
        known, cursor = self.runs.get(("run", row["run"]), []), progress.load(folder / self.cursor_name)
        child = next((run for run in known if cursor and run.info.run_id == cursor.run_id), None)
        events = progress.unread(cursor, sources) if child and cursor else None
        if child is None or events is None:
            cursor, events = None, [event for data in sources.values() for event in parse(data)[0]]
            child = self._begin(row, parent, events)
            self.report.created += 1
        elif events:
            self.report.updated += 1
        else:
            self.report.unchanged += 1
        if events:
            self._replay(child, folder, events)
        status = self._end(child, row["run"], sources)
        progress.save(progress.advanced(child.info.run_id, cursor, sources, events), folder / self.cursor_name)
        self._supersede(known, child)
        return status

    def _begin(self, row: Mapping[str, Any], parent: str, events: Iterable[Event]) -> Run:
        tags = {KIND: "run", RUN: row["run"], "mlflow.parentRunId": parent, "seedwise.id": row["id"]}
        begun = min((event.time for event in events if event.time), default=None)
        start = None if begun is None else int(begun * 1000)
        child = self.client.create_run(self.experiment, start_time=start, tags=tags, run_name=row["run"])
        params = {name: row[name] for name in ("model", "method", "setting", "group_size", "seed")}
        self._log(child, params=params | {f"axes.{key}": value for key, value in json.loads(row["axes"]).items()})
        return child

    def _replay(self, child: Run, folder: Path, events: Sequence[Event]) -> None:
        logged = set(self.client.get_run(child.info.run_id).data.params)
        for event in events:
            match event:
                case Start():
                    # A process that continues the run states its params again, and MLflow refuses them twice.
                    params = {name: value for name, value in event.params.items() if safe_name(name) not in logged}
                    logged |= {safe_name(name) for name in params}
                    self._log(child, params=params, tags=event.tags)
                case Artifact():
                    self._show(child, folder / event.path, event.folder)
        latest = max((event.time for event in events), default=0.0)
        otherwise = int(latest * 1000) or child.info.end_time or child.info.start_time
        self._log_points(child, [event for event in events if isinstance(event, Metrics)], otherwise)

    def _log_points(self, child: Run, events: Iterable[Metrics], otherwise: int) -> None:
        """Send the numbers.  What is no number is a tag: MLflow would keep infinity as 1.8e308."""
        from mlflow.entities import Metric

        points: dict[tuple[str, int], Metric] = {}  # the last value of a step counts
        undefined: dict[str, str] = {}
        for event in events:
            for name, value in event.values.items():
                if value is not None and isfinite(value):
                    milliseconds = int(event.time * 1000) or otherwise
                    points[name, event.step] = Metric(safe_name(name), value, milliseconds, event.step)
                else:
                    points.pop((name, event.step), None)
                    reason = event.reasons.get(name) or ("null" if value is None else str(value))
                    undefined[f"seedwise.undefined.{name}"] = f"step {event.step}: {reason}"
        sent = list(points.values())
        for first in range(0, len(sent), 1000):
            self.client.log_batch(child.info.run_id, metrics=sent[first : first + 1000])
        self._log(child, tags=undefined)
        self.report.points += len(sent)

    def _log(self, run: Run, params: Mapping[str, object] | None = None, tags: Mapping[str, str] | None = None) -> None:
        from mlflow.entities import Param, RunTag

        given = [Param(safe_name(name), _cut(value, 6000)) for name, value in (params or {}).items()]
        named = [RunTag(safe_name(name), _cut(value, 8000)) for name, value in (tags or {}).items()]
        for first in range(0, max(len(given), len(named)), 100):
            end = first + 100
            self.client.log_batch(run.info.run_id, params=given[first:end], tags=named[first:end])

    def _show(self, run: Run, path: Path, folder: str) -> None:
        if path.is_dir():
            self.client.log_artifacts(run.info.run_id, str(path), folder or None)
        elif path.exists():
            self.client.log_artifact(run.info.run_id, str(path), folder or None)
        else:
            self.report.notes.append(f"{path}: named in the journal but not there, so not shown in MLflow")

    def _end(self, child: Run, name: str, sources: Mapping[str, bytes]) -> str:
        status, at = progress.status([event for data in sources.values() for event in parse(data)[0]])
        if status == "KILLED" and child.info.status != "KILLED":
            self.report.killed.append(name)
        self._set_status(child, status, at)
        return status

    def _set_status(self, run: Run, status: str, at: float = 0.0) -> None:
        if run.info.status == status:
            return
        if status in ("RUNNING", "SCHEDULED"):
            self.client.update_run(run.info.run_id, status=status)
        else:
            self.client.set_terminated(run.info.run_id, status, int(at * 1000) or None)

    def _supersede(self, known: Iterable[Run], current: Run) -> None:
        for run in known:
            if run.info.run_id != current.info.run_id:
                self.client.set_tag(run.info.run_id, "seedwise.superseded_by", current.info.run_id)
                self.client.delete_run(run.info.run_id)

    def _comparison(self) -> None:
        """Tables, figures and report in one run, made anew when one of them changed."""
        folder = self.root / self.study
        files = [file for part in ("tables/*", "figures/*", "report.html") for file in sorted(folder.glob(part))]
        if not files:
            return
        content = digest({str(file.relative_to(folder)): file_digest(file) for file in files})
        known = self.runs.get(("comparison", ""), [])
        current = next((run for run in known if run.data.tags.get("seedwise.content") == content), None)
        if current is None:
            current = self.client.create_run(self.experiment, tags={KIND: "comparison"}, run_name="comparison")
            for file in files:
                inside = file.parent.relative_to(folder)
                self._show(current, file, "" if inside == Path() else str(inside))
            self.client.set_tag(current.info.run_id, "seedwise.content", content)  # last: only a whole one has it
            self.client.set_terminated(current.info.run_id)
            self.report.created += 1
        self._supersede(known, current)


def _point(row: Mapping[str, Any]) -> str:
    return "/".join(str(row[name]) for name in ("model", "method", "setting") if row[name])


def _cut(value: object, limit: int) -> str:
    """At most ``limit`` characters; MLflow cuts without a word, this says so and names what was cut."""
    text = str(value)
    if len(text) <= limit:
        return text
    mark = f" ... cut, {len(text)} characters, sha256 {digest(text)[:16]}"
    return text[: limit - len(mark)] + mark
