"""All checks, in the order in which one rests on another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from seedwise.doctor import machine, probe, slurm
from seedwise.doctor import profile as profiles
from seedwise.doctor.finding import Finding
from seedwise.layout import WORK, Layout


def examine(
    layout: Layout, profile: Path | None, needed: tuple[float | None, str | None], wait_s: int
) -> Iterator[Finding]:
    """The findings as they come.

    profile: of Snakemake, None for this machine alone.  needed: bytes of the runs to be trained, or None with a reason.
    wait_s: how long a job may wait for a node.  Raises DoctorError where the profile cannot be read.
    """
    where = profiles.read(profile) if profile else None
    yield machine.writable([layout.root, WORK])
    yield machine.room(layout.root, *needed)
    yield from machine.sources(layout)
    yield machine.tracking(layout)
    if where is None:
        return
    if not where.slurm:
        yield Finding("slurm", "ok", f"{where.file} has no executor: slurm, so nothing is asked of one")
        return
    findings, able = slurm.reachable(where)
    yield from findings
    if able:
        folder = layout.root.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        for place in where.places:
            yield from probe.at(place, where, folder, wait_s)
