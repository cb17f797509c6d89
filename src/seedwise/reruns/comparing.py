"""``seedwise diff``: the runs that two studies share, and the settings by which they differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from seedwise.layout import Layout
from seedwise.reruns import ledger
from seedwise.reruns.published import Change, changes, differences
from seedwise.study import Run


@dataclass(frozen=True)
class Pair:
    """Runs of the same model, method point, setting and seed that are not one run."""

    a: str
    b: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Difference:
    """Two studies, by file.  both, only_a, only_b: run names.  pairs: of those only in one, what makes them differ.
    settings: keys of the study files that differ."""

    a: str
    b: str
    both: tuple[str, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    pairs: tuple[Pair, ...]
    settings: tuple[Change, ...]

    def json(self) -> str:
        """One object of the same fields."""
        return json.dumps(asdict(self), allow_nan=False)


def compare(a: Layout, b: Layout, files: tuple[str, str]) -> Difference:
    """How study ``b`` differs from study ``a``.  files: how they are called."""
    ours, theirs = a.grid.runs, b.grid.runs
    only_a = [run for name, run in ours.items() if name not in theirs]
    only_b = {_place(run): run for name, run in theirs.items() if name not in ours}
    pairs = [_pair(run, only_b[_place(run)]) for run in only_a if _place(run) in only_b]
    dumped = [layout.grid.study.model_dump(mode="json", exclude={"study"}) for layout in (a, b)]
    return Difference(
        *files,
        tuple(name for name in ours if name in theirs),
        tuple(run.name for run in only_a),
        tuple(run.name for run in only_b.values()),
        tuple(pairs),
        tuple(differences(*dumped)),
    )


def _place(run: Run) -> tuple[str, str, str, int]:
    return run.model_name, run.method, run.setting, run.seed


def _pair(a: Run, b: Run) -> Pair:
    specs = [
        {"run": run.model_dump(mode="json"), "behaviour": ledger.equated(ledger.training(run.algorithm))}
        for run in (a, b)
    ]
    return Pair(a.name, b.name, tuple(changes(specs[0], b, specs[1]["behaviour"])))


def lines(found: Difference) -> Iterator[str]:
    """The difference for people."""
    yield f"in both: {len(found.both)} runs"
    for study, names in ((found.a, found.only_a), (found.b, found.only_b)):
        yield f"only in {study}: {len(names)} runs"
        yield from (f"  {name}" for name in names)
    alike: dict[tuple[str, ...], list[Pair]] = {}
    for pair in found.pairs:
        alike.setdefault(tuple(map(str, pair.changes)), []).append(pair)
    for why, pairs in alike.items():
        yield f"{len(pairs)} runs stand in both with other settings, e.g. {pairs[0].a} and {pairs[0].b}:"
        yield from (f"  {change}" for change in why)
    if found.settings:
        yield "settings of the studies that differ:"
        yield from (f"  {change}" for change in found.settings)
