"""``seedwise gc``: results that no study refers to, listed with their sizes, and deleted only when told to.

Only what lies directly in results/{runs,data,models} and work/ can be named, and inside the folder of a run that is
kept only evaluations under ids that no study has, and samples beyond those that any study asks for.  A link is never
followed, nor is what a live writer holds.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from seedwise.evals.store import Wanted, listed
from seedwise.grid import RUN_NAME
from seedwise.layout import WORK, Layout, record_of
from seedwise.reruns import RerunError
from seedwise.reruns.estimates import of_bytes, size_of
from seedwise.reruns.published import Archive
from seedwise.reruns.running import SAMPLES, holder
from seedwise.trainer import lease

RECORDS = ("trained.json", "files.json")
"""They say that a folder is whole, so they go first."""


@dataclass(frozen=True)
class Leftover:
    """A file or folder that no study refers to.  bytes: its size.  kept: why it stays all the same, None: it may go."""

    path: Path
    bytes: int
    kept: str | None = None


def leftovers(layouts: Iterable[Layout], results: Path, work: Path = WORK) -> list[Leftover]:
    """What no given study refers to, by path.  Raises RerunError without a study: then everything would be left."""
    studies = list(layouts)
    if not studies:
        raise RerunError("gc: no study file: name those whose results are to be kept, e.g. config/config.yaml")
    runs = _runs(studies, results)
    paths = [path for path in _entries(results / "runs") if path.name not in runs]
    paths += [path for path in _entries(work) if path.name not in runs]
    held = {path.name: found for path in _entries(work) if (found := holder(path))}
    kept = {layout.problems(name) for layout in studies for name in layout.grid.problems}
    kept |= {layout.model(name) for layout in studies for name in layout.grid.models}
    shared = [path for folder in ("data", "models") for path in _entries(results / folder) if path not in kept]
    foreign = sorted(set(held) - runs)
    found = [Leftover(path, size_of(path), _stays(path, held.get(path.name))) for path in paths]
    found += [Leftover(path, size_of(path), f"{foreign[0]} may use it" if foreign else _stays(path)) for path in shared]
    found += [
        Leftover(path, size_of(path), _stays(path, held.get(path.relative_to(results / "runs").parts[0])))
        for path in _evaluations(studies, results)
    ]
    return sorted(found, key=lambda item: item.path)


def _stays(path: Path, held: object = None) -> str | None:
    if path.is_symlink():
        return "a link: remove it by hand"
    return f"held by {getattr(held, 'owner', held)}" if held else None


def _runs(studies: list[Layout], results: Path) -> set[str]:
    """Subjects of all studies, and the runs that those start from."""
    archive = Archive(results / "runs")
    names = [name for layout in studies for name in layout.subjects]
    names += [run.init_from for layout in studies for run in layout.grid.runs.values() if run.init_from]
    for name in names:
        origin = archive.spec(name)["run"].get("init_from") if name in archive and RUN_NAME.fullmatch(name) else None
        if origin and origin not in names:
            names.append(origin)
    return set(names)


def _entries(folder: Path) -> Iterator[Path]:
    """What lies directly in a folder, but for what is being written; nothing of a folder that is a link."""
    if folder.is_dir() and not folder.is_symlink():
        yield from (path for path in sorted(folder.iterdir()) if not path.name.startswith("."))


def _evaluations(studies: list[Layout], results: Path) -> Iterator[Path]:
    """Samples, scores, continuations, measures of kept subjects under ids that no study has; samples none asks for."""
    used: set[Path] = set()
    wanted: dict[Path, list[Wanted]] = {}
    for layout in studies:
        for subject in layout.subjects:
            used |= {layout.sampled(subject), layout.scores(subject).parent}
            resampled = layout.resampling(subject)
            used |= {layout.measures(subject), *resampled.values()}
            used |= {record_of(resampled["continuations"])} if resampled else set()
            for each in layout.samples(subject).values():
                wanted.setdefault(each.folder, []).append(each)
    used |= wanted.keys()
    for folder, asking in wanted.items():
        parts = [] if folder.is_symlink() or folder.parent.is_symlink() else listed(folder)
        yield from (folder / part.file for part in parts if not any(each.asks(part) for each in asking))
    for subject in {name for layout in studies for name in layout.subjects}:
        folder = results / "runs" / subject
        if not folder.is_symlink():
            for part in ("samples", "evals", "resample", "measures"):
                yield from (path for path in _entries(folder / part) if path not in used)


def collect(found: Iterable[Leftover], results: Path, work: Path = WORK) -> Iterator[str]:
    """Delete what may go, and say in one line each what was done.

    The folders of a run go together, and are held meanwhile, so that no training or sampling can begin in them.
    """
    runs, gone = results / "runs", set()
    for item in found:
        path, held = item.path, work / item.path.name
        if path in gone:
            continue
        if item.kept or not _inside(path, [results / name for name in ("runs", "data", "models")] + [work]):
            yield f"kept {path}: {item.kept or 'not inside the results'}"
        elif path.parent not in (runs, work):
            _remove(path)
            yield f"deleted {path}"
        elif link := next((folder for folder in (held, held / SAMPLES) if folder.is_symlink()), None):
            yield f"kept {path}: {link} is a link: remove it by hand"
        else:
            also = f" and {held}" if path != held and held.exists() else ""
            try:
                with lease.hold(held), lease.hold(held / SAMPLES):
                    for folder in dict.fromkeys((path, held)):
                        _remove(folder)
            except lease.LeaseError as error:
                yield f"kept {path}: {error}"
                continue
            gone.add(held)
            yield f"deleted {path}{also}"


def _inside(path: Path, roots: list[Path]) -> bool:
    """Whether a path lies in one of the folders, links resolved, and is none itself."""
    place = path.parent.resolve()
    return not path.is_symlink() and any(place.is_relative_to(root.resolve()) for root in roots)


def _remove(path: Path) -> None:
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for record in RECORDS:
        (path / record).unlink(missing_ok=True)
    shutil.rmtree(path)


def lines(found: list[Leftover]) -> Iterator[str]:
    """The list for people, and what deleting it would free."""
    for item in found:
        yield f"{of_bytes(item.bytes):>9}  {item.path}" + (f"  (stays: {item.kept})" if item.kept else "")
    going = [item for item in found if not item.kept]
    yield f"{len(going)} leftovers, {of_bytes(sum(item.bytes for item in going))}" + (
        ": delete them with seedwise gc --yes" if going else ""
    )
