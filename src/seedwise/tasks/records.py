"""The rows of a data set as plain dictionaries: from the hub at its commit, or from a file brought in its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seedwise.tasks.sources import HubSource
from seedwise.tasks.template import TaskError


def from_hub(source: HubSource) -> list[dict[str, Any]]:
    """All rows of the split.  No code of the data set is run: ``datasets`` reads data files only.

    Raises TaskError naming the file to bring where the data set is neither in the cache nor to be had, and where it
    has several splits and the source names none.
    """
    import datasets
    from datasets.exceptions import DatasetsError

    try:
        found = datasets.load_dataset(
            source.hub, source.config, split=source.split, revision=source.revision, keep_in_memory=True
        )
    except (OSError, ValueError, DatasetsError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TaskError(
            f"{source.hub} at {source.revision[:7]} cannot be loaded ({reason}): bring its file {source.file} from "
            f"https://huggingface.co/datasets/{source.hub}/resolve/{source.revision}/{source.file} and set path to it"
        ) from None
    if isinstance(found, Mapping):
        if len(found) != 1:
            raise TaskError(f"{source.hub} at {source.revision[:7]} has the splits {sorted(found)}: name one")
        (found,) = found.values()
    return [dict(row) for row in found]


def from_file(path: str) -> list[dict[str, Any]]:
    """All rows of a ``.parquet`` file, or of a ``.jsonl`` file with one object a line.  Raises TaskError naming it."""
    if Path(path).suffix not in (".parquet", ".jsonl"):
        raise TaskError(f"{path}: neither .parquet nor .jsonl: give a file of one of the two kinds")
    try:
        if Path(path).suffix == ".parquet":
            import pyarrow.parquet as pq

            return pq.read_table(path).to_pylist()
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # pyarrow's own errors and a wrong encoding are ValueErrors
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise TaskError(f"{path}: cannot be read ({reason}); correct the task's path") from None
    # Not splitlines: U+2028 and friends may stand inside a JSON string.
    lines = enumerate(text.split("\n"), start=1)
    return [_object(line, f"{path}:{number}") for number, line in lines if line.strip()]


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise TaskError(f"{where}: not a JSON object ({error}); write one object a line") from None
    if not isinstance(record, dict):
        raise TaskError(f"{where}: {line.strip()[:40]!r} is not a JSON object; write one object a line")
    return record
