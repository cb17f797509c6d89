"""``seedwise verify``: are the stored files of a study still what their records say, and do the records still hold?

*missing*: a record names a file that is not there.  *edited*: a file is not what its record, its name or its columns
say.  *stale*: it is whole, and rests on something that is not so any more.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from seedwise import tables
from seedwise.evals.store import StoreError, recorded, recorded_parts
from seedwise.grid import RUN_NAME
from seedwise.identity import file_digest
from seedwise.layout import Layout, record_of
from seedwise.reruns import RerunError, graders, ledger
from seedwise.reruns.published import Archive, changes
from seedwise.reruns.reasons import of_training
from seedwise.retention import RETENTION

Kind = Literal["missing", "edited", "stale"]
RECORDED = ("spec.json", "timing.parquet")
"""Files of a run whose digest its record did not always have."""


@dataclass(frozen=True)
class Fault:
    """One file that is not what it should be."""

    kind: Kind
    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.path}: {self.why}"


def verify(layout: Layout) -> list[Fault]:
    """All faults of the files of a study that are there; what is not made yet is none."""
    found: list[Fault] = []
    for name in layout.grid.models:
        found += _folder(layout.model(name), "files.json")
    for name in layout.grid.problems:
        if layout.problems(name).exists():
            found += _readable(tables.PROBLEMS, layout.problems(name))
    archive = Archive(layout.root / "runs")
    for name in layout.grid.runs:
        if name in archive:
            found += _run(layout, archive, name)
    for subject in layout.subjects:
        found += _evaluated(layout, subject)
    return [*found, *_study(layout, archive)]


def notes(layout: Layout) -> Iterator[str]:
    """What is no fault and must be said all the same: files without a digest, and rewards of an earlier grader."""
    archive, without = Archive(layout.root / "runs"), Counter[str]()
    for name in layout.grid.runs:
        if name in archive:
            record, _ = _record(layout.run(name) / "trained.json")
            without.update(file for file in RECORDED if file not in record.get("sha256", {}))
    for subject in layout.subjects:
        made = {"scores": layout.scores(subject), "continuations": layout.continuations(subject)}
        without.update(kind for kind, path in made.items() if path and path.exists() and not record_of(path).exists())
    for kind, count in without.items():
        yield f"{kind}: no digest recorded for {count}: checked by columns and keys alone"
    with suppress(RerunError):  # a spec.json that cannot be read is among the faults
        yield from graders.told(layout, archive)


def as_json(found: list[Fault], notes: list[str]) -> str:
    """One object: faults, a list of kind, path, why; notes, a list of lines."""
    return json.dumps({"faults": [asdict(fault) for fault in found], "notes": notes})


def _run(layout: Layout, archive: Archive, name: str) -> Iterator[Fault]:
    """A published run: its files against trained.json, its spec.json against the study, the code and the data."""
    folder, run = layout.run(name), layout.grid.runs[name]
    digests = _record(folder / "trained.json")[0].get("sha256", {})
    for file in ("metrics.parquet", "timing.parquet"):
        if file not in digests:
            yield from _readable(tables.METRICS, folder / file)
    spec = folder / "spec.json"
    record, fault = _record(spec)
    if not fault:
        # the name is a digest of these, so under the same name they can differ by an edit alone
        differing = changes(record, run, ledger.equated(ledger.training(run.algorithm)))
        fault = Fault("edited", str(spec), f"not the spec of its name: {differing[0]}") if differing else None
    yield from (other for other in _folder(folder, "trained.json") if not (fault and other.path == str(spec)))
    if fault:
        yield fault
    if not record:
        return
    data = layout.problems(run.data)
    if data.exists() and file_digest(data) != record["data_sha256"]:
        yield Fault("stale", str(folder), f"trained on other problems than those that {data} holds now")


def _folder(folder: Path, name: str) -> Iterator[Fault]:
    """The files that a record in a folder names with their digests, but for those removed on purpose."""
    if not (folder / name).exists():
        return
    record, fault = _record(folder / name)
    removed: dict[str, Any] = {}
    if (folder / RETENTION).exists():
        removed, lost = _record(folder / RETENTION)
        yield from [lost] if lost else []
    kept = {file: digest for file, digest in record.get("sha256", {}).items() if file not in removed.get("removed", {})}
    yield from [fault] if fault else _digests(folder, kept, name)


def _digests(folder: Path, digests: Mapping[str, str], record: str) -> Iterator[Fault]:
    for file, digest in digests.items():
        path = folder / file
        if not path.exists():
            yield Fault("missing", str(path), f"named in {record}")
        elif file_digest(path) != digest:
            yield Fault("edited", str(path), f"not the bytes that {record} names")


def _record(path: Path) -> tuple[dict[str, Any], Fault | None]:
    """The content of a record; empty with a fault where it has none."""
    try:
        return json.loads(path.read_text()), None
    except FileNotFoundError:
        return {}, Fault("missing", str(path), "the record of a published result")
    except ValueError as error:
        return {}, Fault("edited", str(path), f"not JSON ({error})")


def _readable(table: tables.Table, path: Path) -> Iterator[Fault]:
    if not path.exists():
        yield Fault("missing", str(path), "part of a published result")
        return
    try:
        tables.read(table, path)
    except tables.TableError as error:
        yield Fault("edited", str(path), str(error).removeprefix(f"{path}: "))


def _evaluated(layout: Layout, subject: str) -> Iterator[Fault]:
    """Samples, scores and continuations against their records; measures, and those without one, by their columns."""
    record = layout.sampled(subject)
    if record.exists():
        content, fault = _record(record)
        digests = recorded(content)
        yield from [fault] if fault else _digests(record.parent, digests, record.name)
        for wanted in () if fault else layout.samples(subject).values():
            try:
                recorded_parts(wanted, digests)
            except StoreError as error:
                yield Fault("edited", str(record), f"does not name what its name stands for: {error}")
    resampled = layout.resampling(subject)
    made = {layout.scores(subject): {layout.scores(subject): tables.SCORES}}
    if resampled and resampled["continuations"].exists():
        made[resampled["continuations"]] = {path: tables.RESAMPLED[name] for name, path in resampled.items()}
    for last, files in made.items():
        if record_of(last).exists():
            content, fault = _record(record_of(last))
            yield from [fault] if fault else _digests(last.parent, recorded(content), record_of(last).name)
        elif last.exists():
            for path, table in files.items():
                yield from _readable(table, path)
    if layout.measures(subject).exists():
        yield from _readable(tables.MEASURES, layout.measures(subject))


def _study(layout: Layout, archive: Archive) -> Iterator[Fault]:
    """The study's own tables and page: their digests, and whether they are those of the study as it is now."""
    for stage in ("analysis", "report"):
        now = layout.marker(stage)
        for marker in sorted(now.parent.glob("*.json")):
            record, fault = _record(marker)
            if fault:
                yield fault
                continue
            yield from _digests(layout.folder, record.get("sha256", {}), f"{stage}/{marker.name}")
            if marker.name != now.name:
                yield Fault("stale", str(marker), f"the study and the code as they are now make {now.stem}")
                if stage == "analysis":
                    yield from _superseded(layout, archive, record)
    if layout.marker("report").exists() and not layout.report.exists():
        yield Fault("missing", str(layout.report), f"named by report/{layout.marker('report').name}")


def _superseded(layout: Layout, archive: Archive, record: Mapping[str, Any]) -> Iterator[Fault]:
    """Runs that the tables rest on and that the study now has under another name: what changed since."""
    stems = {name.rpartition("-")[0]: name for name in layout.grid.runs}
    for name in record["subjects"]:
        now = stems.get(name.rpartition("-")[0])
        if name in archive and RUN_NAME.fullmatch(name) and now is not None and now != name and now not in archive:
            kinds = ", ".join(reason.kind for reason in of_training(layout, archive, now))
            yield Fault("stale", str(archive.folder / name), f"{kinds} changed since: seedwise why {now}")
