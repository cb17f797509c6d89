"""A method of a study -> its method points: an algorithm and a name for each value of every listed parameter."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from seedwise.algos import presets as algos
from seedwise.algos.algorithm import Algorithm
from seedwise.identity import canonical
from seedwise.study import StudyError, number

AXES = algos.AXES
# a preset's parameter that stands under another name in its expression
WRITTEN_AS = {"length": "max_length"}


@dataclass(frozen=True)
class Point:
    """A method point: its name, its algorithm and the values of its parameters."""

    name: str
    slug: str
    algorithm: Algorithm
    values: dict[str, Any]


def points(name: str, entry: dict[str, Any], path: str) -> Iterator[Point]:
    """The points of one method.  Raises StudyError naming ``path``, key, value and remedy."""
    where = f"{path}: methods.{name}"
    if "preset" not in entry and (unknown := set(entry) - set(AXES)):
        raise StudyError(f"{where}: {sorted(unknown)[0]}: unknown key; a method is a preset or has {', '.join(AXES)}")
    lists = dict(_lists(entry))
    for key, values in lists.items():
        if not values:
            raise StudyError(f"{where}.{'.'.join(map(str, key))}: []: a grid needs at least one value")
    if len({key[-1] for key in lists}) < len(lists):
        raise StudyError(f"{where}: two listed parameters have the same name: split the method in two")
    for values in itertools.product(*lists.values()):
        chosen = dict(zip(lists, values, strict=True))
        filled = _filled(entry, chosen)
        try:
            algorithm = _algorithm(filled)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise StudyError(
                f"{where}: {place}: {first['input']!r}: {first['msg'].removeprefix('Value error, ')}"
            ) from None
        except ValueError as error:
            raise StudyError(f"{where}: {error}") from None
        labels = [label(str(key[-1]), value) for key, value in chosen.items()]
        yield Point(".".join([name, *labels]), slug(algorithm), algorithm, dict(_scalars(filled)))


def _lists(node: Any, place: tuple = ()) -> Iterator[tuple[tuple, list]]:
    """Where a list of scalars stands: that is a grid.  A list of mappings is a chain of parts."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _lists(value, (*place, key))
    elif isinstance(node, list):
        if any(isinstance(item, dict) for item in node):
            for position, item in enumerate(node):
                yield from _lists(item, (*place, position))
        else:
            yield place, [number(item) for item in node]


def _filled(node: Any, chosen: dict[tuple, Any], place: tuple = ()) -> Any:
    if place in chosen:
        return chosen[place]
    if isinstance(node, dict):
        return {key: _filled(value, chosen, (*place, key)) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(item, chosen, (*place, position)) for position, item in enumerate(node)]
    return number(node)


def _scalars(node: Any, key: str | None = None) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        for name, value in node.items():
            yield from _scalars(value, name)
    elif isinstance(node, list):
        for item in node:
            yield from _scalars(item)
    elif key is not None and key not in ("kind", "preset") and isinstance(node, (int, float, str, bool)):
        yield key, node


def _algorithm(entry: dict[str, Any]) -> Algorithm:
    if "preset" in entry:
        return algos.preset(entry["preset"], **{key: value for key, value in entry.items() if key != "preset"})
    return Algorithm.model_validate(entry)


def label(key: str, value: Any) -> str:
    """How one axis value appears in a name: ``K0.4``, ``log4`` (kappa = log 4), ``lr1e-05``, ``full``, ``lora8``."""
    if key == "lora":
        return "full" if value is None else f"lora{value['rank'] if isinstance(value, dict) else value}"
    if (
        key == "kappa"
        and isinstance(value, float)
        and value > 0
        and abs(math.exp(value) - round(math.exp(value))) < 1e-9
    ):
        return f"log{round(math.exp(value))}"
    text = canonical(value).strip('"')
    if not re.fullmatch(r"[A-Za-z0-9_.+-]*", text):
        raise StudyError(f"{key}: {value!r} cannot be part of a name: use a number or a plain word")
    return f"{key}{text}"


def slug(algorithm: Algorithm) -> str:
    """A readable name rendered from the expression: a preset and its parameters where one gives this algorithm.

    K and kappa always show; other parameters where they differ from the preset's default. A sampler and a penalty
    that no preset has are added to the name of the preset that gives the rest.
    """
    usual = {name: Algorithm.model_fields[name].default for name in ("sampler", "penalty")}
    bare = algorithm.model_copy(update=usual)
    extra = [getattr(algorithm, name).kind for name, part in usual.items() if getattr(algorithm, name) != part]
    if name := _preset_of(algorithm):
        return name
    if extra and (name := _preset_of(bare)):
        return "+".join([name, *extra])
    parts = (*algorithm.baseline, algorithm.credit)
    kinds = [part.kind + _figures(part) for part in parts if part.kind != "uniform"]
    return "+".join([*kinds, algorithm.objective.surrogate.kind, *extra])


def _preset_of(algorithm: Algorithm) -> str | None:
    written: dict[str, list[Any]] = {}
    for key, value in _scalars(algorithm.model_dump(mode="json")):
        written.setdefault(key, []).append(value)
    for name in algos.PRESETS:
        found = {key: written.get(key, written.get(WRITTEN_AS.get(key, key))) for key in algos.parameters(name)}
        choices = [[(key, value) for value in dict.fromkeys(values)] for key, values in found.items() if values]
        for values in itertools.product(*choices):
            if _gives(name, dict(values), algorithm):
                shown = [(key, value) for key, value in values if _shows(name, key, dict(values), algorithm)]
                return ".".join([name, *(label(key, value) for key, value in shown)])
    return None


def _shows(name: str, key: str, values: dict[str, Any], algorithm: Algorithm) -> bool:
    """Whether a parameter is worth a place in a name: K and kappa, and what the preset would have otherwise."""
    others = {other: value for other, value in values.items() if other != key}
    return key in ("K", "kappa") or not _gives(name, others, algorithm)


def _gives(name: str, values: dict[str, Any], algorithm: Algorithm) -> bool:
    try:
        return algos.preset(name, **values) == algorithm
    except ValueError:
        return False


def _figures(part: Any) -> str:
    values = part.model_dump(mode="json", exclude_defaults=True)
    return "".join(
        f".{label(key, value)}" for key, value in values.items() if key != "kind" and isinstance(value, (int, float))
    )
