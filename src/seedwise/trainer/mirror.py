"""A mirror of the record in MLflow.  Files are the record; nothing reads the mirror back.

Experiment = study; parent run = method point; child run = one training, found by its tag; a comparison run
carries the tables and figures of the study.  ``sync`` replays what the files hold and the mirror lacks, and a
second call changes nothing.  Whoever holds the lock of a store replays for all, so a SQLite store has one
writer at a time (never on a network file system: use a server there).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pandas as pd

from seedwise import tables
from seedwise.identity import digest, file_digest
from seedwise.trainer import progress, tracking
from seedwise.trainer.journal import Artifact, Event, Metrics, Start, lines, parse, safe_name
from seedwise.trainer.passing import only_writer

if TYPE_CHECKING:
    from mlflow.entities import Run

POINT, RUN, KIND = "seedwise.point", "seedwise.run", "seedwise.kind"
NOTE = "mlflow.note.content"
READING = """\
Parent runs are method points, their children the seeds; `comparison` holds the report, its tables and figures.
Filter `tags."seedwise.kind" = 'run'` and group by `method` for mean curves; `point` shows the parents alone.
A parent's metrics are means over its seeds, at the last checkpoint; their step is the number of seeds.
The files are the record and this is a copy: verdicts stand in the report, not here.
"""
EXPERIMENT = {NOTE: READING, "mlflow.experimentKind": "custom_model_development"}  # not a page for chat traces


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


def sync(
    store: str,
    study: str,
    root: Path,
    *,
    wait_s: float,
    runs: pd.DataFrame | None = None,
    scores: Mapping[str, Sequence[Metrics]] | None = None,
) -> Report:
    """Bring the mirror of a study up to date with its files.

    store: where MLflow keeps it, ``sqlite:///results/mlflow.db`` or the address of a server.
    root: the results folder.  wait_s: seconds to wait for another sync of the same store.
    runs: tables.RUNS of the study, read from ``<root>/<study>/runs.parquet`` when not given.
    scores: run -> its scores at each checkpoint, of the runs that have some; None leaves them as they are.
    Raises TrackingError when the lock is not had in time or the store refuses, tables.TableError on a bad file.
    """
    root = Path(root).absolute()
    runs = tables.read(tables.RUNS, root / study / "runs.parquet") if runs is None else runs
    with only_writer(store, root, wait_s), tracking.opened(store) as opened:
        return _Mirror(opened, study, root, scores).update(runs)


class _Mirror:
    """One study in one store.  runs: the MLflow runs of the study by (kind, tag)."""

    def __init__(
        self, store: tracking.Store, study: str, root: Path, scores: Mapping[str, Sequence[Metrics]] | None
    ) -> None:
        self.store, self.study, self.root, self.scores = store, study, root, scores
        self.report = Report(study)
        # A store in the results folder stays the same store when the folder is moved.
        place = store.address if store.file is None else os.path.relpath(store.file, root)
        self.cursor_name = f".tracking-{study}-{digest(place)[:8]}.json"
        self.experiment = store.experiment(study, EXPERIMENT)
        self.runs: dict[tuple[str, str], list[Run]] = {}
        for run in store.runs(self.experiment):
            tags = run.data.tags
            self.runs.setdefault((tags.get(KIND, ""), tags.get(RUN) or tags.get(POINT) or ""), []).append(run)

    def update(self, runs: pd.DataFrame) -> Report:
        """Replay every run of the study, then its comparison."""
        points: dict[str, list[dict[str, Any]]] = {}
        for row in runs.to_dict("records"):
            points.setdefault(_point(row), []).append({str(key): value for key, value in row.items()})
        # before any child; the last first, since MLflow lists what is newest at the top
        parents = {point: self._parent(point, points[point][0]) for point in reversed(points)}
        for point, rows in points.items():
            statuses = {self._child(row, parents[point].info.run_id) for row in rows}
            self._means(parents[point], [row["run"] for row in rows])
            self.store.status(parents[point], progress.joint_status(statuses))
        self._comparison()
        return self.report

    def _parent(self, point: str, row: Mapping[str, Any]) -> Run:
        known = self.runs.setdefault(("point", point), [])
        if not known:
            # the method first: MLflow shows the beginning of a long name
            name = "/".join(str(row[part]) for part in ("method", "setting", "model") if row[part])
            known.append(self.store.begin(self.experiment, name, _tags("point", {POINT: point})))
            self.store.describe(known[0], params=_params(row))
        return known[0]

    def _means(self, parent: Run, names: Sequence[str]) -> None:
        """The last scores of a method point, averaged over the seeds that have them."""
        last: dict[str, list[float]] = {}
        for name in names:
            final = {key: value for event in (self.scores or {}).get(name, ()) for key, value in event.values.items()}
            for key, value in final.items():
                if value is not None:
                    last.setdefault(key, []).append(value)
        shown = parent.data.metrics
        for key, values in last.items():
            if shown.get(safe_name(key)) != fmean(values):
                self.store.log(parent, [Metrics(step=len(values), values={key: fmean(values)})])

    def _child(self, row: Mapping[str, Any], parent: str) -> str:
        """Replay one run: what is new, or all of it into a fresh MLflow run when its record was rewritten.

        Returns the run's status in MLflow.
        """
        folder = self.root / "runs" / row["run"]
        sources = {"journal": progress.journal(folder)}
        if self.scores is not None:
            sources["scores"] = lines(self.scores.get(row["run"], ()))
        if not any(sources.values()):
            return "SCHEDULED"
        known, cursor = self.runs.get(("run", row["run"]), []), progress.load(folder / self.cursor_name)
        child = next((run for run in known if cursor and run.info.run_id == cursor.run_id), None)
        events = progress.unread(cursor, sources) if child and cursor else None
        if child is None or events is None:
            cursor, events = None, progress.standing(event for data in sources.values() for event in parse(data)[0])
            child = self._begin(row, parent, events)
            self.report.created += 1
        elif events:
            self.report.updated += 1
        else:
            self.report.unchanged += 1
        if events:
            self._replay(child, folder, events)
        status = self._end(child, row["run"], sources["journal"])
        progress.save(progress.advanced(child.info.run_id, cursor, sources, events), folder / self.cursor_name)
        self.store.supersede(known, child)
        return status

    def _begin(self, row: Mapping[str, Any], parent: str, events: Iterable[Event]) -> Run:
        tags = _tags("run", {RUN: row["run"], "mlflow.parentRunId": parent, "seedwise.id": row["id"]})
        begun = min((event.time for event in events if event.time), default=None)
        child = self.store.begin(self.experiment, row["run"], tags, begun)
        self.store.describe(child, params=_params(row) | {"seed": row["seed"]})
        return child

    def _replay(self, child: Run, folder: Path, events: Sequence[Event]) -> None:
        logged = self.store.params(child)
        for event in events:
            match event:
                case Start():
                    # A process that continues the run states its params again, and MLflow refuses them twice.
                    params = {name: value for name, value in event.params.items() if safe_name(name) not in logged}
                    logged |= {safe_name(name) for name in params}
                    self.store.describe(child, params, event.tags)
                case Artifact():
                    self._show(child, folder / event.path, event.folder)
        self.report.points += self.store.log(child, [event for event in events if isinstance(event, Metrics)])

    def _show(self, run: Run, path: Path, folder: str) -> None:
        if not self.store.show(run, path, folder):
            self.report.notes.append(f"{path}: named in the journal but not there, so not shown in MLflow")

    def _end(self, child: Run, name: str, journal: bytes) -> str:
        tags = progress.published(self.root / "runs" / name)
        self.store.describe(child, tags={key: tag for key, tag in tags.items() if child.data.tags.get(key) != tag})
        status, at = progress.status(parse(journal)[0], bool(tags))
        if status == "KILLED" and child.info.status != "KILLED":
            self.report.killed.append(name)
        self.store.status(child, status, at)
        return status

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
            main = folder / "tables" / "main.md"
            note = {NOTE: main.read_text(encoding="utf-8")} if main.exists() else {}
            current = self.store.begin(self.experiment, "comparison", _tags("comparison", {}))
            for file in files:
                inside = file.parent.relative_to(folder)
                self._show(current, file, "" if inside == Path() else str(inside))
            # last: only a whole one has it
            self.store.describe(current, tags=note | {"seedwise.content": content})
            self.store.status(current, "FINISHED")
            self.report.created += 1
        self.store.supersede(known, current)


def _point(row: Mapping[str, Any]) -> str:
    return "/".join(str(row[name]) for name in ("model", "method", "setting") if row[name])


def _tags(kind: str, more: Mapping[str, str]) -> dict[str, str]:
    command = {"run": "seedwise train", "point": "seedwise sync", "comparison": "seedwise report"}[kind]
    return {KIND: kind, "mlflow.source.name": command, "mlflow.source.type": "JOB", **more}


def _params(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a method point is, to group and filter by: every axis of the study by its own name."""
    named = {name: row[name] for name in ("model", "method", "setting", "group_size") if row[name]}
    return named | json.loads(row["axes"])
