"""The completion of a run: its tables, its spec and, last, the record that says that all is there.

Snakemake deletes the declared outputs of a job before it starts it again, also where the job had finished after
Snakemake itself was killed.  So they are written together into a folder that nobody declares, which appears by
rename, and are copied from there: a finished run is never trained a second time because its record was deleted.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from seedwise import tables
from seedwise.identity import file_digest
from seedwise.trainer.states import flush, replace

if TYPE_CHECKING:
    import pandas as pd

RECORD = "trained.json"
RETENTION = "retention.json"  # beside the record: which of its checkpoints were removed again
TABLES = ("metrics", "timing")
SPEC = "spec.json"
COPY = ".published"
COPIED = (*(f"{name}.parquet" for name in TABLES), SPEC)  # last comes the record


def complete(out: Path, frames: tuple[pd.DataFrame, pd.DataFrame], spec: dict, record: dict) -> None:
    """Publish what is not weights.  frames: METRICS, and times in its columns.  record: with the weights' digests."""
    new = out / f"{COPY}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    for name, frame in zip(TABLES, frames, strict=True):
        tables.write(tables.METRICS, frame, new / f"{name}.parquet")
    _write(new / SPEC, spec)
    digests = record["sha256"] | {name: file_digest(new / name) for name in COPIED}
    _write(new / RECORD, record | {"sha256": digests})
    flush(new)
    replace(new, out / COPY)
    (out / RETENTION).unlink(missing_ok=True)  # of weights that were removed before it was trained again
    _copied(out)


def _write(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def restored(out: Path) -> bool:
    """Whether a run whose record was deleted is whole all the same; then its files are back in their places.

    It is where every file of weights has the digest of the record.
    """
    try:
        digests = json.loads((out / COPY / RECORD).read_text())["sha256"]
    except FileNotFoundError:
        return False
    files = [(out / file, digest) for file, digest in digests.items() if file not in COPIED]
    if not all(path.exists() and file_digest(path) == digest for path, digest in files):
        return False
    _copied(out)
    return True


def _copied(out: Path) -> None:
    for name in (*COPIED, RECORD):
        new = out / f".{name}.{os.getpid()}"
        shutil.copyfile(out / COPY / name, new)
        os.replace(new, out / name)
