"""What a study needs of the place it is started in: room, a tracking store, models and data."""

from __future__ import annotations

import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil

from seedwise import tracked
from seedwise.doctor.finding import Finding
from seedwise.layout import Layout

NETWORK = frozenset({"nfs", "nfs4", "lustre", "beegfs", "gpfs", "cifs", "smb3", "ceph", "fuse.sshfs", "glusterfs"})
SPARE = 1.25
"""Room is scarce below this multiple of what is needed: samples, logs and states in between come on top."""
ANSWER_S = 10.0


def room(folder: Path, needed: float | None, why: str | None) -> Finding:
    """Whether results fit.  needed: bytes that a study will still write, None with the reason why nobody knows."""
    free = shutil.disk_usage(_existing(folder)).free
    shown = f"{_gigabytes(free)} free at {_existing(folder)}"
    if needed is None:
        return Finding("disk", "warn", f"{shown}; what the study needs is not known: {why}", "look again after one run")
    text = f"{shown}, runs to be trained keep {_gigabytes(needed)}"
    if needed > free:
        return Finding("disk", "fail", text, "free some, or set train.keep: last and train.keep_state: false")
    if needed * SPARE > free:
        return Finding("disk", "warn", text, "checkpoints that are not evaluated yet need more for a while")
    return Finding("disk", "ok", text)


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB"


def _existing(path: Path) -> Path:
    """The nearest folder that is there."""
    path = path.absolute()
    return path if path.exists() else _existing(path.parent)


def writable(folders: list[Path]) -> Finding:
    """Whether results and states can be written."""
    for folder in map(_existing, folders):
        if not os.access(folder, os.W_OK | os.X_OK):
            return Finding("folders", "fail", f"{folder}: may not be written", "start in a folder of your own")
    return Finding("folders", "ok", ", ".join(str(folder.absolute()) for folder in folders))


def file_system(path: Path) -> str:
    """The kind of file system that holds a path."""
    mounts = {Path(each.mountpoint): each.fstype for each in psutil.disk_partitions(all=True)}
    place = _existing(path).resolve()
    return next((mounts[each] for each in (place, *place.parents) if each in mounts), "unknown")


def store(address: str | None, kind: str) -> Finding:
    """Whether the tracking store can be reached.  kind: file system that a SQLite store lies on."""
    if address is None:
        return Finding("tracking", "ok", "off: nothing is mirrored")
    if not address.startswith(("http://", "https://")):
        if kind in NETWORK:
            remedy = "set MLFLOW_TRACKING_URI to a server (docs/tracking.md)"
            return Finding("tracking", "warn", f"{address}: SQLite on a network file system ({kind})", remedy)
        return Finding("tracking", "ok", address)
    try:
        with urllib.request.urlopen(f"{address.rstrip('/')}/health", timeout=ANSWER_S) as answer:
            answer.read()
    except (urllib.error.URLError, OSError) as error:
        remedy = "start the server or the tunnel; until then runs go on, and seedwise sync completes the mirror"
        return Finding("tracking", "warn", f"{address}: no answer ({error})", remedy)
    return Finding("tracking", "ok", f"{address} answers")


def tracking(layout: Layout) -> Finding:
    """The same for the store of a study."""
    return store(tracked.store(layout), file_system(layout.root))


def sources(layout: Layout) -> Iterator[Finding]:
    """Whether models and data sets of the hub are at hand; local ones are read whenever the study is."""
    models = {name: spec for name, spec in layout.grid.models.items() if not layout.backbone(name).exists()}
    hub = {spec.id: spec.revision for spec in models.values() if spec.id is not None}
    yield from _of_hub("models", "model", {name: (revision, "config.json") for name, revision in hub.items()})
    yield from _of_hub("data", "dataset", dict(_data_sets(layout)))


def _data_sets(layout: Layout) -> Iterator[tuple[str, tuple[str, str]]]:
    from seedwise.tasks import sources as benchmarks
    from seedwise.tasks.benchmark import Benchmark

    for name, item in layout.grid.problems.items():
        if isinstance(item.task, Benchmark) and not layout.problems(name).exists():
            source = benchmarks.source(item.task.name)
            if source.kind == "hub":
                yield source.hub, (source.revision, source.file)


def _of_hub(check: str, kind: str, wanted: dict[str, tuple[str | None, str]]) -> Iterator[Finding]:
    """wanted: repository -> revision, and a file that is in the cache where the repository is."""
    if not wanted:
        yield Finding(check, "ok", "all at hand")
        return
    from huggingface_hub import try_to_load_from_cache

    for name, (revision, file) in wanted.items():
        cached = try_to_load_from_cache(name, file, revision=revision, repo_type=kind)
        if isinstance(cached, str):
            yield Finding(check, "ok", f"{name}@{revision} is in the cache")
            continue
        fetch = f"hf download {name} --revision {revision}" + (" --repo-type dataset" if kind == "dataset" else "")
        text = f"{name}@{revision}: not in the cache, so the job needs a network"
        yield Finding(check, "warn", text, f"{fetch}, where there is one")
