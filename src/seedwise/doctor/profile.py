"""What a Snakemake profile asks of a cluster, read from its YAML without Snakemake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from seedwise.doctor.finding import DoctorError

FILES = ("config.yaml", "profile.yaml", "config.v9+.yaml", "profile.v9+.yaml")
STATUS_S = 40
"""The executor's own wait before it asks for the first time how jobs stand, s."""


@dataclass(frozen=True, order=True)
class Place:
    """Where jobs go.  partition: None is the cluster's own choice.  gpus: how many a job asks for at most."""

    partition: str | None
    gpus: int = 0

    def __str__(self) -> str:
        """``partition gpu``."""
        return f"partition {self.partition}" if self.partition else "the default partition"


@dataclass(frozen=True)
class Profile:
    """The part of a profile that a cluster must be able to meet.

    status: ``sacct``, ``squeue``, or None for the executor's choice.  wait_s: before the first question for states.
    """

    file: Path
    slurm: bool
    places: tuple[Place, ...]
    account: str | None
    status: str | None
    wait_s: int
    prefix: str


def read(path: Path) -> Profile:
    """The profile in a folder, or in a file.  Raises DoctorError."""
    file = next((path / name for name in FILES if (path / name).is_file()), path)
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DoctorError(f"{file}: cannot be read ({error.strerror}): name a profile's folder") from None
    except yaml.YAMLError as error:
        raise DoctorError(f"{file}: {' '.join(str(error).split())}: mend the YAML") from None
    if not isinstance(content, Mapping):
        raise DoctorError(f"{file}: holds no settings: name a profile's folder")
    common = _resources(file, "default-resources", content.get("default-resources"))
    rules = content.get("set-resources") or {}
    if not isinstance(rules, Mapping):
        raise DoctorError(f"{file}: set-resources: {rules!r}: give rule -> resources")
    asked = [common, *(common | _resources(file, f"set-resources.{rule}", each) for rule, each in rules.items())]
    wait = content.get("slurm-init-seconds-before-status-checks", STATUS_S)
    if not isinstance(wait, int) or wait < 1:
        raise DoctorError(f"{file}: slurm-init-seconds-before-status-checks: {wait!r}: give seconds, 1 or more")
    accounts = sorted({str(each["slurm_account"]) for each in asked if each.get("slurm_account")})
    return Profile(
        file=file,
        slurm=content.get("executor") == "slurm",
        places=tuple(_places(file, asked)),
        account=accounts[0] if accounts else None,
        status=content.get("slurm-status-command"),
        wait_s=wait,
        prefix=str(content.get("slurm-jobname-prefix") or ""),
    )


def _resources(file: Path, key: str, value: Any) -> dict[str, Any]:
    """Resources as a mapping; Snakemake takes a list of ``name=value`` too."""
    if isinstance(value, list) and all(isinstance(each, str) and "=" in each for each in value):
        return dict(each.split("=", 1) for each in value)
    if not isinstance(value, Mapping | None):
        raise DoctorError(f"{file}: {key}: {value!r}: give name -> value")
    return dict(value or {})


def _places(file: Path, asked: list[dict[str, Any]]) -> list[Place]:
    """Every partition once, with the most GPUs that a job asks of it."""
    most: dict[str | None, int] = {}
    for each in asked:
        name = each.get("slurm_partition")
        partition = None if name is None else str(name)
        gpus = str(each.get("gpu") or 0)
        if not gpus.isdigit():
            raise DoctorError(f"{file}: gpu: {gpus!r}: give a whole number")
        most[partition] = max(most.get(partition, 0), int(gpus))
    return sorted((Place(name, gpus) for name, gpus in most.items()), key=lambda place: (place.gpus, str(place)))
