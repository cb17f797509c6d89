"""The runs that are published under results/runs, and how a run differs from the nearest of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from seedwise.grid import NOT_IN_IDENTITY, RUN_NAME
from seedwise.identity import canonical
from seedwise.reruns import RerunError
from seedwise.study import Run

# What a run's name is made from: see grid.expand.
SPEC = ("model", "base", "algorithm", "group_size", "seed", "train", "grading", "data", "rewards", "init_from")


@dataclass(frozen=True)
class Change:
    """A setting, or the digest of some code, that is not what it was.  old, new: JSON text; None: it was not there."""

    key: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        return f"{self.key}: {_shown(self.old)} -> {_shown(self.new)}"


def _shown(value: str | None) -> str:
    """JSON text for people; the first 8 digits of a digest."""
    if value is None:
        return "absent"
    return value[1:9] if re.fullmatch('"[0-9a-f]{64}"', value) else value


@dataclass(frozen=True)
class Archive:
    """The published runs: those whose completion record and spec are there.  folder: results/runs."""

    folder: Path

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        """seed -> names."""
        found: dict[str, list[str]] = {}
        for path in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            match = RUN_NAME.fullmatch(path.name)
            if match and all((path / file).exists() for file in ("trained.json", "spec.json")):
                found.setdefault(match["seed"], []).append(path.name)
        return found

    @cached_property
    def _specs(self) -> dict[str, dict[str, Any]]:
        return {}

    @property
    def names(self) -> list[str]:
        """All published runs."""
        return [name for names in self._names.values() for name in names]

    def __contains__(self, name: str) -> bool:
        return (self.folder / name / "trained.json").exists()

    def spec(self, name: str) -> dict[str, Any]:
        """spec.json of a published run, read once.  Raises RerunError where it cannot be read."""
        if name not in self._specs:
            path = self.folder / name / "spec.json"
            try:
                self._specs[name] = json.loads(path.read_text())
            except (OSError, json.JSONDecodeError) as error:
                raise RerunError(f"{path}: not readable ({error}): run seedwise verify") from None
        return self._specs[name]

    def nearest(self, run: Run, behaviour: Mapping[str, str]) -> tuple[str, list[Change]] | None:
        """The published run of the same method point, setting, model and seed that differs least, and how it does.

        The same method point is one of the same rendered name, or else of the name that the study gives it.
        behaviour: digests of the code that ``run`` rests on now.  None where no such run is published.
        """
        match = RUN_NAME.fullmatch(run.name)
        if match is None:
            return None
        seeded = [name for name in self._names.get(match["seed"], []) if name != run.name]
        stem = run.name.rpartition("-")[0]
        found = [name for name in seeded if name.rpartition("-")[0] == stem]
        if not found:
            place = (run.model_name, run.method, run.setting)
            found = [name for name in seeded if _place(self.spec(name)["run"]) == place]
        differing = [(name, changes(self.spec(name), run, behaviour)) for name in found]
        return min(differing, key=lambda pair: len(pair[1]), default=None)


def _place(run: Mapping[str, Any]) -> tuple[str, str, str]:
    return run["model_name"], run["method"], run["setting"]


def changes(spec: Mapping[str, Any], run: Run, behaviour: Mapping[str, str]) -> list[Change]:
    """What stands between a spec.json and a run as the study has it now: settings, then ``behaviour.<module>``."""
    settings = differences(_identity(spec["run"]), _identity(run.model_dump(mode="json")))
    return [*settings, *differences({"behaviour": spec["behaviour"]}, {"behaviour": dict(behaviour)})]


def _identity(run: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run that its name is made from."""
    kept = {key: run[key] for key in SPEC if run.get(key) is not None}
    kept["model"] = {key: value for key, value in run["model"].items() if key != "template"}
    kept["train"] = {key: value for key, value in run["train"].items() if key not in NOT_IN_IDENTITY}
    return kept


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Leaves that differ between two nested mappings, by dotted key, in order."""
    before, after = dict(leaves(old)), dict(leaves(new))
    keys = sorted(before.keys() | after.keys())
    return [Change(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)]


def leaves(node: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Dotted key -> canonical JSON of every leaf; a list of plain values is one leaf."""
    if isinstance(node, Mapping) and node:
        for key, value in node.items():
            # digests of code are keyed by dotted names, which stay one key
            yield from leaves(value, f"{place}.{key}" if place else str(key))
    elif isinstance(node, (list, tuple)) and any(isinstance(item, Mapping) for item in node):
        for position, item in enumerate(node):
            yield from leaves(item, f"{place}.{position}")
    else:
        yield place, canonical(node)
