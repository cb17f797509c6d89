"""Prompt templates: ``{question}`` and the problem's other text fields in braces, nothing else.

``{{`` and ``}}`` are literal braces.  A field is a plain name: attribute access, indexing, conversions and format
specifications are refused, so a template cannot reach into an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter

DEFAULT = "{question}"


class TaskError(ValueError):
    """A source of problems that cannot be used; one line: where, what, remedy."""


def fields(template: str) -> tuple[str, ...]:
    """Names of the fields of a template, in order.  Raises TaskError on anything but plain fields."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise TaskError(f"template {template!r}: {error}; write a literal brace as {{{{ or }}}}") from None
    names = []
    for _, name, specification, conversion in parts:
        if name is None:
            continue
        if not name.isidentifier() or specification or conversion:
            raise TaskError(f"template {template!r}: {{{name}}} is not a plain field: use a name, as in {{question}}")
        names.append(name)
    return tuple(names)


def render(template: str, values: Mapping[str, str]) -> str:
    """The template with its fields filled in.  Raises TaskError naming an unknown field and the fields there are."""
    for name in fields(template):
        if name not in values:
            raise TaskError(f"template {template!r}: no field {{{name}}}; there are {', '.join(sorted(values))}")
    return "".join(
        literal + (values[name] if name is not None else "") for literal, name, _, _ in Formatter().parse(template)
    )
