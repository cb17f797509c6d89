"""Axes over an algorithm: name one scalar setting by a dotted path, get the algorithm with another value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from pydantic import ValidationError

from seedwise.algos.part import AlgorithmError, Part, one_line

AnyPart = TypeVar("AnyPart", bound=Part)


def with_value(algorithm: AnyPart, path: str, value: object) -> AnyPart:
    """The same algorithm with one setting changed, checked as if it had been written so.

    path: ``axis`` and a setting, ``objective.surrogate.high`` or ``baseline.0.K``; what lies between may be
    left out where the last name occurs once within the axis, ``objective.high``, ``baseline.K``.
    Raises AlgorithmError, one line, on an unknown or ambiguous path, or a value the setting cannot have.
    """
    steps = _resolve(algorithm, path)
    written = algorithm.model_dump(mode="json")
    place: Any = written
    for step in steps[:-1]:
        place = place[int(step)] if isinstance(place, list) else place[step]
    place[steps[-1]] = value
    try:
        return type(algorithm).model_validate(written)
    except ValidationError as error:
        raise AlgorithmError(f"{path}: {one_line(error)}") from None


def settings(algorithm: Part) -> list[str]:
    """Full paths of all scalar settings of an algorithm, in the order they are written."""
    return [".".join(steps) for steps in _leaves(algorithm.model_dump(mode="json"))]


def nearest(word: str, known: Iterable[str]) -> str:
    """``: did you mean 'K'?`` or nothing, for the end of a message about an unknown word."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return f": did you mean {by_lower[close[0]]!r}?" if close else ""


def _resolve(algorithm: Part, path: str) -> list[str]:
    known = settings(algorithm)
    if path in known:
        return path.split(".")
    axis, last = path.split(".")[0], path.split(".")[-1]
    within = [name for name in known if name.split(".")[0] == axis]
    found = [name for name in within if name.split(".")[-1] == last and _abbreviates(path, name)]
    if len(found) == 1:
        return found[0].split(".")
    if found:
        raise AlgorithmError(f"{path} could be {' or '.join(found)}: write the one you mean")
    listed = within or known
    full = {name.split(".")[-1]: name for name in listed}
    close = difflib.get_close_matches(last, full, n=1)
    hint = f": did you mean {full[close[0]]!r}?" if close else ""
    raise AlgorithmError(f"no setting {path}{hint}; there are {', '.join(listed)}")


def _abbreviates(path: str, name: str) -> bool:
    """Whether the steps of ``path`` occur in ``name`` in the same order."""
    steps = iter(name.split("."))
    return all(step in steps for step in path.split("."))


def _leaves(written: object) -> Iterator[list[str]]:
    if isinstance(written, dict):
        children = [(key, child) for key, child in written.items() if key != "kind"]
    else:
        assert isinstance(written, list)
        children = [(str(index), child) for index, child in enumerate(written)]
    for key, child in children:
        if isinstance(child, dict | list):
            yield from ([key, *steps] for steps in _leaves(child))
        elif key != "penalty":
            yield [key]
