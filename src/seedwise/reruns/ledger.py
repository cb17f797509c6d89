"""Edits of code that their author holds to be neutral: the digests they changed count as the ones before.

``neutral.yaml`` lies with the code it speaks of.  An entry says that for its stage code with the new digests computes
what code with the old ones did; it was written after the checks named there had passed.  It applies to a result as a
whole or not at all: where one of its digests is another, none of them is equated.  What is neutral to one stage need
not be to another that runs the same module, so it applies to no other.

Entries apply in order, each to what the ones before have left, so a later edit of an accepted one is stated from
the first digests on.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from seedwise import behaviour
from seedwise.reruns import RerunError

if TYPE_CHECKING:
    from seedwise.algos.algorithm import Algorithm
    from seedwise.study import Run

Stage = Literal["training", "rewards", "sampling", "scoring", "resampling"]
EVALUATION: dict[Stage, tuple[str, ...]] = {
    "sampling": behaviour.SAMPLING,
    "scoring": behaviour.SCORING,
    "resampling": behaviour.RESAMPLING,
}
"""Stage -> where its code begins, in the order in which one rests on the other."""
STAGES: tuple[Stage, ...] = ("training", "rewards", *EVALUATION)
PLACE = Path(__file__).with_name("neutral.yaml")
HEADER = """\
# Edits held to be neutral, written by `seedwise accept` and never by hand: old and new digests of the code they
# changed (a module, or a definition that a part reaches; null: it was not there).  See docs/reproducibility.md.
# checks: arguments of `python -m` in the repository, which must pass before an edit is accepted: those of `every` for
# whatever stage, and those of `evaluation` as well for rewards, samples, scores and continuations.
"""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Digests(_Strict):
    """One module or definition.  old, new: 64 hex digits; None: it does not exist on that side."""

    old: str | None
    new: str | None


class Entry(_Strict):
    """One accepted edit.  id: how results name it.  stage: whose results it speaks of; of ``rewards``: the code of the
    grader that gave them.  commit, date: of the commit that was checked out, None outside a git repository; what was
    not committed then is told by the digests alone."""

    id: str
    stage: Stage = "training"
    reason: str
    commit: str | None
    date: str | None
    changes: dict[str, Digests]


class Checks(_Strict):
    """Arguments of ``python -m``.  every: before any edit is accepted.  evaluation: also, but for training."""

    every: tuple[str, ...]
    evaluation: tuple[str, ...]


class Ledger(_Strict):
    """checks: what must pass.  accepted: entries, oldest first."""

    checks: Checks
    accepted: tuple[Entry, ...] = ()


def read(path: Path = PLACE) -> Ledger:
    """The ledger.  Raises RerunError on a file that is none, also on one that is gone."""
    try:
        return Ledger.model_validate(yaml.safe_load(path.read_text()))
    except OSError as error:
        raise RerunError(f"{path}: {error.strerror}: restore it from git") from None
    except yaml.YAMLError as error:
        raise RerunError(f"{path}: not YAML ({' '.join(str(error).split())}): restore it from git") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise RerunError(f"{path}: {where}: {first['input']!r}: {first['msg']}: restore it from git") from None


@functools.cache
def _known(path: Path) -> Ledger:
    """Read once per process, as the code is."""
    return read(path)


def training(algorithm: Algorithm) -> dict[str, str]:
    """Digests of the code a training rests on as it is: the training modules, and the parts with what they reach."""
    return behaviour.of_training() | behaviour.of_parts(algorithm.parts)


def evaluation(stage: Stage) -> dict[str, str]:
    """Digests of the code that a stage of evaluation rests on as it is."""
    return behaviour.of_modules(EVALUATION[stage])


def rewards(verifiers: Iterable[str]) -> dict[str, str]:
    """Digests of the grader's code that gives a training its rewards as it is, and versions of the packages it asks."""
    from seedwise.grading.verify import package_version

    found: dict[str, str] = {}
    for verifier in verifiers:
        found |= behaviour.of_rewards(verifier) | dict([package_version(verifier)])
    return found


def equated(
    found: Mapping[str, str], path: Path = PLACE, stage: Stage = "training", more: Iterable[Entry] = ()
) -> dict[str, str]:
    """Digests of code with those of accepted edits put back to what they were: what a name is made from.

    more: entries that count as if they stood at the end of the ledger.
    """
    return _applied(found, path, stage, more)[0]


def resting(found: Mapping[str, str], path: Path = PLACE, stage: Stage = "training") -> list[str]:
    """Ids of the entries that a result of this code rests on, oldest first."""
    return _applied(found, path, stage)[1]


def accepted(runs: Iterable[Run], path: Path = PLACE) -> dict[str, str]:
    """Entry -> its reason, oldest first, for the entries that these runs, and evaluations as they are made now, rest
    on."""
    used = {name for stage in EVALUATION for name in resting(evaluation(stage), path, stage)}
    for run in runs:
        used.update(resting(training(run.algorithm), path))
        used.update(resting(rewards(run.rewards), path, "rewards"))
    return {entry.id: entry.reason for entry in _known(path).accepted if entry.id in used}


def _applied(
    found: Mapping[str, str], path: Path, stage: Stage, more: Iterable[Entry] = ()
) -> tuple[dict[str, str], list[str]]:
    digests, used = dict(found), []
    for entry in (*_known(path).accepted, *more):
        if entry.stage == stage and _fits(entry, digests):
            olds = {key: change.old for key, change in entry.changes.items()}
            digests = {key: value for key, value in (digests | olds).items() if value is not None}
            used.append(entry.id)
    return digests, used


def _fits(entry: Entry, digests: Mapping[str, str]) -> bool:
    """Whether all that the entry speaks of is as it left it, and some of it is there."""
    as_left = all(digests.get(key) == change.new for key, change in entry.changes.items())
    return as_left and any(change.new is not None for change in entry.changes.values())


def append(entry: Entry, path: Path = PLACE) -> None:
    """Add an entry, atomically."""
    before = read(path)
    content = before.model_copy(update={"accepted": (*before.accepted, entry)}).model_dump(mode="json")
    new = path.with_name(f".{path.name}.new")
    new.write_text(HEADER + yaml.safe_dump(content, sort_keys=False, width=120, allow_unicode=True))
    new.replace(path)
    _known.cache_clear()
