"""The store of a subject's samples: parts that are added and never rewritten.

A folder holds what was drawn under one label: a benchmark, or a benchmark with forced continuations.  Its name ends in
an id of the problems, the sampling settings and the sampling code; the number of samples is not in it.  A part,
``40.0-16.parquet``, holds samples 0 to 15 of every problem at step 40.  Sample k of a problem has a random stream of
its own, so what was drawn for 16 samples are the first 16 of any larger number, and 32 draw 16 to 31 only.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedwise.identity import file_digest

if TYPE_CHECKING:
    import pandas as pd

NAME = re.compile(r"(\d+)\.(\d+)-(\d+)\.parquet")


class StoreError(RuntimeError):
    """Samples that a record rests on are not there as it says; one line naming the file."""


@dataclass(frozen=True, order=True)
class Part:
    """Samples ``first`` to ``stop`` - 1 of every problem at one step."""

    step: int
    first: int
    stop: int

    @property
    def file(self) -> str:
        """Its name within the folder of its label."""
        return f"{self.step}.{self.first}-{self.stop}.parquet"

    @staticmethod
    def named(file: str) -> Part | None:
        """The part of this name; None for any other file, such as one that is being written."""
        found = NAME.fullmatch(file)
        return Part(*map(int, found.groups())) if found and int(found[2]) < int(found[3]) else None


@dataclass(frozen=True)
class Wanted:
    """What a study rests on under one label: samples 0 to n - 1 of every problem at some steps.

    forced: how many times a response was made to go on; None where that is not asked.
    """

    label: str
    folder: Path
    benchmark: str
    steps: tuple[int, ...]
    n: int
    forced: int | None = None

    def asks(self, part: Part) -> bool:
        """Whether some sample of a part is wanted."""
        return part.step in self.steps and part.first < self.n


def listed(folder: Path) -> list[Part]:
    """The parts in a folder, by their names."""
    found = (Part.named(path.name) for path in folder.iterdir()) if folder.is_dir() else ()
    return sorted(part for part in found if part is not None)


def cover(parts: Iterable[Part], step: int, n: int) -> tuple[list[tuple[Part, range]], list[range]]:
    """Which parts hold samples 0 to n - 1 at a step, each with those to be read from it, and what no part holds."""
    taken: list[tuple[Part, range]] = []
    gaps: list[range] = []
    at = 0
    for part in sorted((part for part in parts if part.step == step), key=lambda part: (part.first, -part.stop)):
        first, stop = max(at, part.first), min(part.stop, n)
        if first >= stop:
            continue
        if first > at:
            gaps.append(range(at, first))
        taken.append((part, range(first, stop)))
        at = stop
    return taken, gaps + ([range(at, n)] if at < n else [])


def gaps(wanted: Wanted, step: int) -> list[range]:
    """Samples that no whole part holds.  A part that is damaged counts as none, and it is said."""
    return cover(_whole_parts(wanted.folder, step), step, wanted.n)[1]


def _whole_parts(folder: Path, step: int) -> list[Part]:
    return [part for part in listed(folder) if part.step == step and _is_whole(folder / part.file)]


def _is_whole(path: Path) -> bool:
    status = path.stat()
    return _is_whole_at(path, (status.st_mtime_ns, status.st_size))


@functools.cache
def _is_whole_at(path: Path, stamp: tuple[int, int]) -> bool:
    """Whether a part holds what its name says; read once per process and state of the file."""
    from seedwise.tables import TableError

    try:
        part_of(path)
    except TableError as error:
        print(f"{error}: drawn again", flush=True)
        return False
    return True


def part_of(path: Path) -> pd.DataFrame:
    """The rows of a part.  Raises TableError where it cannot be read or holds other samples than its name says."""
    from seedwise import tables

    part, rows = Part.named(path.name), tables.read(tables.SAMPLES, path)
    assert part is not None
    label, numbers = path.parent.name.rpartition("-")[0], range(part.first, part.stop)
    told = set(rows["benchmark"]) <= {label} and set(rows["step"]) <= {part.step} and set(rows["sample"]) <= {*numbers}
    # no key stands twice, so this many rows are every sample of every problem
    if not told or len(rows) != rows["problem"].nunique() * len(numbers):
        what = f"samples {part.first} to {part.stop - 1} of {label} at step {part.step}"
        raise tables.TableError(f"{path}: not {what}, as its name says; delete it")
    return rows


def write(folder: Path, part: Part, rows: pd.DataFrame) -> None:
    """Add a part, atomically.  It replaces a file of its name only where that was damaged."""
    from seedwise import tables

    tables.write(tables.SAMPLES, rows, folder / part.file)


def record(wanted: Iterable[Wanted]) -> dict[str, str]:
    """folder/part -> digest, of every part that these samples are read from.

    Raises StoreError where a sample is missing.
    """
    return {
        f"{each.folder.name}/{part.file}": file_digest(each.folder / part.file)
        for each in wanted
        for part, _ in _parts(each, {step: _whole_parts(each.folder, step) for step in each.steps})
    }


def recorded(content: Mapping[str, Any]) -> Mapping[str, str]:
    """The digests in a record of files; once they were all that a record of samples held."""
    return content.get("sha256", content)


def recorded_parts(wanted: Wanted, recorded: Mapping[str, str]) -> list[tuple[Part, range]]:
    """The parts that a record names for a label, each with the samples to be read from it.

    Raises StoreError where it names too little.
    """
    named = [part for name in recorded if (part := Part.named(name.removeprefix(f"{wanted.folder.name}/")))]
    return list(_parts(wanted, dict.fromkeys(wanted.steps, named)))


def _parts(wanted: Wanted, parts: Mapping[int, Iterable[Part]]) -> Iterator[tuple[Part, range]]:
    for step in wanted.steps:
        taken, lacking = cover(parts[step], step, wanted.n)
        if lacking:
            numbers = f"{lacking[0].start} to {lacking[0].stop - 1}"
            raise StoreError(f"{wanted.folder}: no samples {numbers} of step {step}")
        yield from taken


def read(wanted: Wanted, recorded: Mapping[str, str]) -> pd.DataFrame:
    """SAMPLES of one label, by step, problem and sample: those that are wanted, whatever else was drawn.

    recorded: what ``record`` found.  Raises StoreError where it names too little or a part is not the bytes it names,
    and TableError where a part is gone or cannot be read.
    """
    import pandas as pd

    frames = []
    for part, numbers in recorded_parts(wanted, recorded):
        path = wanted.folder / part.file
        rows = part_of(path)
        if file_digest(path) != recorded[f"{wanted.folder.name}/{part.file}"]:
            raise StoreError(f"{path}: not the bytes that were recorded")
        frames.append(rows[rows["sample"].between(numbers.start, numbers.stop - 1)])
    rows = pd.concat(frames, ignore_index=True)
    place = {problem: number for number, problem in enumerate(dict.fromkeys(rows["problem"]))}
    order = rows.assign(place=rows["problem"].map(place)).sort_values(["step", "place", "sample"]).index
    return rows.loc[order].reset_index(drop=True)
