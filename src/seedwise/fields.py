"""How the type and the bounds of a field are called on the pages made from the models and the parts."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from typing import Any

from seedwise.algos.part import Part

BOUNDS = {"gt": "> {}", "ge": ">= {}", "lt": "< {}", "le": "<= {}"}
SIZES = {"min_length": "at least {} long", "max_length": "at most {} long"}
WORDS = {int: "whole number", float: "number", str: "text", bool: "`true` or `false`", type(None): "`null`"}


def type_name(annotation: object) -> str:
    """A type as a reader of YAML would call it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return type_name(arguments[0])
    if origin is typing.Literal:
        return " or ".join(f"`{json.dumps(value)}`" for value in arguments).replace('"', "")
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(type_name(item) for item in arguments))
    if origin in (list, tuple):
        return f"list of {type_name(arguments[0])}"
    if origin is dict:
        return f"mapping of {type_name(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, Part) and "kind" in annotation.model_fields:
        return f"`{annotation.model_fields['kind'].default}`"
    if isinstance(annotation, type):
        return WORDS.get(annotation, annotation.__name__)
    return "anything"


def bounds(field: Any) -> str:
    """What the numbers and lists of a field must satisfy."""
    found = [text for limit in _limits(field) for text in _bound(limit)]
    return ", ".join(dict.fromkeys(found))


def _bound(limit: object) -> Iterator[str]:
    for names in (BOUNDS, SIZES):
        for name, text in names.items():
            if (value := getattr(limit, name, None)) is not None:
                yield text.format(value)


def _limits(node: Any) -> Iterator[object]:
    """Annotations of a type and of all it is made of."""
    for limit in getattr(node, "metadata", None) or getattr(node, "__metadata__", ()):
        yield limit
        yield from _limits(limit)
    for inner in typing.get_args(getattr(node, "annotation", node)):
        yield from _limits(inner)
