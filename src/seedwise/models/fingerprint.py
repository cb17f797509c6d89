"""What a backbone is, without loading it: the part of a run's identity that stands for its weights."""

from __future__ import annotations

import errno
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from seedwise.identity import digest, file_digest

if TYPE_CHECKING:
    from seedwise.study import ModelSpec

EMBEDDED = Path(__file__).parent / "embedded"
PACKAGE = "package:"


def located(path: str) -> Path:
    """The folder that a study's ``path`` names: itself, or with ``package:NAME`` that of an installed Python package.

    The package is found and not imported: its own dependencies need not be there.  Raises FileNotFoundError.
    """
    if not path.startswith(PACKAGE):
        return Path(path)
    found = find_spec(path.removeprefix(PACKAGE))
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError(errno.ENOENT, "no such package in this environment, install it", path)
    return Path(found.submodule_search_locations[0])


def backbone(spec: ModelSpec) -> dict[str, str]:
    """Text that changes when the weights do.

    A hub model is its id and revision.  A local file is its digest; of a large one only size, first and last
    megabyte are read, so that planning a study does not read gigabytes.  Raises FileNotFoundError for a missing folder.
    """
    if spec.kind == "embedded":
        return {file.name: file_digest(file) for file in sorted(EMBEDDED.glob("*.safetensors"))}
    if spec.kind == "hub":
        return {"id": str(spec.id), "revision": str(spec.revision)}
    folder = located(str(spec.path))
    files = [folder / spec.file] if spec.file else sorted(p for p in folder.iterdir() if p.is_file())
    return {file.name: _digest(file) for file in files}


def _digest(file: Path) -> str:
    size, margin = file.stat().st_size, 2**20
    if size <= 64 * margin:
        return file_digest(file)
    with open(file, "rb") as handle:
        first = handle.read(margin)
        handle.seek(-margin, 2)
        return digest([size, first.hex(), handle.read().hex()])


def slug(spec: ModelSpec) -> str:
    """A short readable name of the backbone: ``embedded``, ``Qwen3-8B-Base``."""
    name = {"embedded": "embedded", "hub": spec.id, "folder": spec.path, "gguf": spec.file}[spec.kind]
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(str(name)).name).strip("-.")
