"""What we ask of MLflow: a store of experiments and runs, written by one process at a time.

The only module that imports MLflow, and only inside functions: that import takes seconds.  Names are sent in the
characters MLflow allows (journal.safe_name).
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from seedwise.identity import digest
from seedwise.trainer.journal import Metrics, safe_name
from seedwise.trainer.passing import SQLITE, TrackingError, file_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

# MLflow reads its settings from the environment only; its own defaults retry for minutes.
SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # s
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
UNDEFINED = "seedwise.undefined"
BUSY_S = 5.0
"""How long a SQLite store may be written by a foreign program before a sync gives up."""


@contextmanager
def opened(address: str) -> Iterator[Store]:
    """The store at ``sqlite:///file``, created where it is missing, or at the address of a server.

    Raises TrackingError, one line, when it refuses, now or while it is used.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    for noisy in ("alembic", "mlflow", "urllib3"):  # what they have to say is in our one line
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    try:
        _create(address)
        yield Store(MlflowClient(address), address)
    except (MlflowException, SQLAlchemyError, sqlite3.OperationalError) as error:
        first = str(error).strip().splitlines()[0]
        raise TrackingError(f"{address}: {first}; the files are complete, seedwise sync tries again") from error


def _create(address: str) -> None:
    """Create a SQLite store under another name and rename it: one that was half made stays unusable for ever.

    One that is there must not be in a foreign program's hands: MLflow would try for minutes.
    """
    if not address.startswith(SQLITE):
        return
    file = file_of(address)
    if file.exists():
        with closing(sqlite3.connect(file, timeout=BUSY_S)) as connection:
            connection.execute("begin immediate")
        return
    from mlflow import MlflowClient

    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    MlflowClient(f"{SQLITE}{new}").search_experiments()
    new.replace(file)


class Store:
    """An MLflow store.  Every method raises what MLflow raises; ``opened`` turns that into one line."""

    def __init__(self, client: MlflowClient, address: str) -> None:
        self.client, self.address = client, address
        self.file = file_of(address).absolute() if address.startswith(SQLITE) else None

    def experiment(self, name: str, tags: Mapping[str, str]) -> str:
        """Id of the experiment of this name with these tags, created or restored where needed."""
        found = self.client.get_experiment_by_name(name)
        if found is None:
            place = None if self.file is None else (self.file.parent / "mlflow-artifacts" / name).as_uri()
            return self.client.create_experiment(name, artifact_location=place, tags=dict(tags))
        if found.lifecycle_stage == "deleted":
            self.client.restore_experiment(found.experiment_id)
        for key, value in tags.items():
            if found.tags.get(key) != value:
                self.client.set_experiment_tag(found.experiment_id, key, value)
        return found.experiment_id

    def runs(self, experiment: str) -> Iterator[Run]:
        """All runs that are not deleted; MLflow gives at most 1000 at once."""
        token = None
        while True:
            page = self.client.search_runs([experiment], max_results=1000, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def begin(self, experiment: str, name: str, tags: Mapping[str, str], start: float | None = None) -> Run:
        """A new run.  start: seconds since 1970; None: now."""
        milliseconds = None if start is None else int(start * 1000)
        return self.client.create_run(experiment, start_time=milliseconds, tags=dict(tags), run_name=name)

    def params(self, run: Run) -> set[str]:
        """Names, as sent, of the params a run has: MLflow takes each only once."""
        return set(self.client.get_run(run.info.run_id).data.params)

    def describe(
        self, run: Run, params: Mapping[str, object] | None = None, tags: Mapping[str, str] | None = None
    ) -> None:
        """Send params and tags; long values are cut, with a mark."""
        from mlflow.entities import Param, RunTag

        given = [Param(safe_name(name), _cut(value, 6000)) for name, value in (params or {}).items()]
        named = [RunTag(safe_name(name), _cut(value, 8000)) for name, value in (tags or {}).items()]
        for first in range(0, max(len(given), len(named)), 100):
            end = first + 100
            self.client.log_batch(run.info.run_id, params=given[first:end], tags=named[first:end])

    def log(self, run: Run, events: Iterable[Metrics]) -> int:
        """Send the numbers; returns how many.  What is no number is a tag: MLflow would keep infinity as 1.8e308.

        NaN and infinity have a tag each; what a step left undefined, with its reason, is a line of one tag.
        An event without a time (0) has that of the run's start, so that sent again it is the same point.
        """
        from mlflow.entities import Metric

        points: dict[tuple[str, int], Metric] = {}  # the last value of a step counts
        tags: dict[str, str] = {}
        undefined = dict(line.split(": ", 1) for line in run.data.tags.get(UNDEFINED, "").splitlines() if ": " in line)
        for event in events:
            milliseconds = int(event.time * 1000) or run.info.start_time
            for name, value in event.values.items():
                points.pop((name, event.step), None)
                if value is None:
                    undefined[name] = f"step {event.step}: {event.reasons.get(name, 'null')}"
                elif isfinite(value):
                    points[name, event.step] = Metric(safe_name(name), value, milliseconds, event.step)
                else:
                    tags[f"{UNDEFINED}.{name}"] = f"step {event.step}: {value}"
        if undefined:
            tags[UNDEFINED] = "\n".join(f"{name}: {reason}" for name, reason in undefined.items())
        sent = list(points.values())
        for first in range(0, len(sent), 1000):
            self.client.log_batch(run.info.run_id, metrics=sent[first : first + 1000])
        self.describe(run, tags={key: tag for key, tag in tags.items() if run.data.tags.get(key) != tag})
        return len(sent)

    def show(self, run: Run, path: Path, folder: str) -> bool:
        """Send a file, or the files of a folder; False when it is not there."""
        if path.is_dir():
            self.client.log_artifacts(run.info.run_id, str(path), folder or None)
        elif path.exists():
            self.client.log_artifact(run.info.run_id, str(path), folder or None)
        return path.exists()

    def status(self, run: Run, status: str, at: float = 0.0) -> None:
        """Set an MLflow status where it is another.  at: when it was reached, seconds since 1970; 0: now."""
        if run.info.status == status:
            return
        if status in ("RUNNING", "SCHEDULED"):
            self.client.update_run(run.info.run_id, status=status)
        else:
            self.client.set_terminated(run.info.run_id, status, int(at * 1000) or None)

    def supersede(self, known: Iterable[Run], current: Run) -> None:
        """Delete runs that ``current`` stands for now, each with a tag that says so."""
        for run in known:
            if run.info.run_id != current.info.run_id:
                self.client.set_tag(run.info.run_id, "seedwise.superseded_by", current.info.run_id)
                self.client.delete_run(run.info.run_id)


def _cut(value: object, limit: int) -> str:
    """At most ``limit`` characters; MLflow cuts without a word, this says so and names what was cut."""
    text = str(value)
    if len(text) <= limit:
        return text
    mark = f" ... cut, {len(text)} characters, sha256 {digest(text)[:16]}"
    return text[: limit - len(mark)] + mark
