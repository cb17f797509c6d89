"""Canonical JSON, random streams, behaviour ids, run names.

Everything that a result depends on is turned into text in exactly one way, and the text is hashed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path


def canonical(value: object) -> str:
    """JSON with sorted keys, no spaces, and one spelling for every number.

    ``1`` and ``1.0`` are the same setting and give the same text.  Raises TypeError on a type that
    has no single spelling (a set, a Path, a NumPy scalar) and ValueError on NaN or infinity.
    """
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _plain(value: object) -> object:
    if value is None or isinstance(value, (bool, str)):
        return value
    if type(value) is int:
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise ValueError(f"{value} has no place in an identity")
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"keys of an identity are text, got {list(value)!r}")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} {value!r} has no single spelling; convert it first")


def digest(value: object) -> str:
    """64 hex digits of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def file_digest(path: str | Path) -> str:
    """sha256 of a file's bytes, 64 hex digits."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def stream(*parts: str | int) -> int:
    """The seed of a random stream, 63 bits, from what it is for: ``stream(seed, "rollout", step, problem, sample)``."""
    return int(digest(list(parts))[:16], 16) >> 1
