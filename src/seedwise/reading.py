"""A study file's text -> Study, or one line per mistake: file, key, value, remedy."""

from __future__ import annotations

import difflib
import re
import typing
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from seedwise.study import Settings, Study, StudyError


class _Loader(yaml.SafeLoader):
    """YAML whose numbers are numbers (1e-4), whose words are words (no, on), and whose keys are unique."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict:
        seen: set = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":float", ":int", ":bool", ":timestamp"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)


def load(path: str | Path) -> Study:
    """Read and check a study file.

    Raises StudyError: one line per mistake with file, key, value and remedy.
    """
    return parse(content(path), path)


def content(path: str | Path, what: str = "study", example: str = "config/config.yaml") -> dict:
    """The mapping that a YAML file holds.

    what: what the file is called, as on the command line (``--config study=``).  example: of such a file.
    Raises StudyError in one line.
    """
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}: name an existing file, e.g. --config {what}={example}") from None
    try:
        found = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader with stricter scalars
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else "file"
        raise StudyError(f"{path}: {where}: {getattr(error, 'problem', error)}: mend the YAML") from None
    if not isinstance(found, dict):
        raise StudyError(f"{path}: a {what} is a mapping of keys, this file holds {type(found).__name__}")
    return found


def parse(content: dict, path: str | Path = "study") -> Study:
    """A study from a mapping.  Raises StudyError naming ``path``."""
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        lines = dict.fromkeys(f"{path}: {line}" for line in map(_line, error.errors(), [content] * error.error_count()))
        raise StudyError("\n".join(lines)) from None


def _line(error: Any, content: dict) -> str:
    # pydantic puts the tags and types of union branches (reasoning_gym, tuple[int, ...]) into the location
    where = [str(part) for part, chosen in _followed(error["loc"])[0] if not chosen and _written(part, content)]
    key, value = ".".join(where) or "study", error["input"]
    if error["type"] == "extra_forbidden":
        return f"{key}: unknown key{_nearest(error['loc'])}"
    if error["type"] == "missing":
        return f"{key}: missing: add it (config/README.md lists every key)"
    shown = "" if isinstance(value, (dict, Settings)) else f" {value!r}:"
    return f"{key}:{shown} {error['msg'].removeprefix('Value error, ')}"


def _written(part: str | int, content: object) -> bool:
    """Whether a part of an error's location is a key or an index of the file, and not pydantic's own word."""
    if isinstance(part, int):
        return True
    waiting = [content]
    for node in waiting:
        if isinstance(node, dict):
            if part in node:
                return True
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return any(part in model.model_fields for model in _sections())


def _sections() -> list[type[BaseModel]]:
    """Every model of a study file."""
    found: list[type[BaseModel]] = [Study]
    for model in found:
        for field in model.model_fields.values():
            found += [inner for inner in _models(field.annotation) if inner not in found]
    return found


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in typing.get_args(annotation) for model in _models(inner)]


def _followed(location: tuple[str | int, ...]) -> tuple[list[tuple[str | int, bool]], list[type[BaseModel]]]:
    """Every part of a location, with whether it only chooses among models (reasoning_gym), and where it leads."""
    models: list[type[BaseModel]] = [Study]
    parts: list[tuple[str | int, bool]] = []
    for part in location:
        inner = [_models(model.model_fields[part].annotation) for model in models if part in model.model_fields]
        chosen = [] if inner else [model for model in models if part in _tags(model)]
        parts.append((part, bool(chosen)))
        models = [model for group in inner for model in group] or chosen or models
    return parts, models


def _tags(model: type[BaseModel]) -> set[object]:
    """The words that choose a model among others: the values of its fields that can have only one."""
    kinds = [typing.get_args(field.annotation) for field in model.model_fields.values()]
    return {values[0] for values in kinds if len(values) == 1}


def _nearest(location: tuple[str | int, ...]) -> str:
    """What the unknown key at the end of a location may have meant: the keys of the section it stands in."""
    _, models = _followed(location[:-1])
    names = list(dict.fromkeys(name for model in models for name in model.model_fields))
    close = difflib.get_close_matches(str(location[-1]), names, 1)
    return f"; did you mean {close[0]!r}?" if close else f"; the keys here are {', '.join(names)}"
