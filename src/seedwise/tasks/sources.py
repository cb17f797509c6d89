"""A benchmark as a small YAML file: where its problems come from, which columns hold them, and a version.

The files that come with seedwise lie in ``tasks/benchmarks``; a study may name one of its own by its path.  The whole
content of the file, its version included, is part of the identity of the problems.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from seedwise.tasks.template import TaskError

SHIPPED = Path(__file__).parent / "benchmarks"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Columns(_Part):
    """Columns of a data set; a dot goes into a nested one.  id: None numbers the rows of the data set from 0."""

    id: str | None = None
    question: str
    answer: str
    difficulty: str | None = None


class HubSource(_Part):
    """A data set of the Hugging Face hub at one commit.

    config, split: None means the default configuration and the only split.  file: the one that holds the problems, to
    be brought where there is no network.  where: rows whose column has this value are kept, others are not.
    before, after: instructions around a question that are removed where they stand.  size: problems after ``where``.
    repeats: whether a question given twice is refused, or kept once (not at all where its answers differ).
    """

    kind: Literal["hub"]
    version: int = Field(ge=1)
    hub: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    revision: str = Field(pattern=r"^[0-9a-f]{40}$")
    config: str | None = None
    split: str | None
    file: str
    columns: Columns
    where: dict[str, str | int] = Field(default_factory=dict)
    before: str = ""
    after: str = ""
    size: int = Field(ge=1)
    repeats: Literal["refuse", "once"] = "refuse"


class GymSource(_Part):
    """Problems of one generator of reasoning-gym; see ``ReasoningGym``."""

    kind: Literal["reasoning_gym"]
    version: int = Field(ge=1)
    generator: str
    size: int = Field(ge=1)
    seed: int = Field(ge=0)
    params: dict[str, JsonValue] = Field(default_factory=dict)


@functools.cache
def _adapter() -> TypeAdapter[HubSource | GymSource]:
    return TypeAdapter(Annotated[HubSource | GymSource, Field(discriminator="kind")])


def shipped() -> list[str]:
    """Names of the benchmarks that come with seedwise, sorted."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def source(name: str) -> HubSource | GymSource:
    """The benchmark of this name, or of this YAML file.  Raises TaskError: file, key, value, remedy in one line."""
    path = Path(name) if name.endswith(".yaml") else SHIPPED / f"{name}.yaml"
    if not name.endswith(".yaml") and name not in shipped():
        raise TaskError(f"name {name!r}: no such benchmark; there are {', '.join(shipped())}, or name a .yaml file")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TaskError(f"{name}: cannot be read ({error.strerror}); correct the name of the file") from None
    except yaml.YAMLError as error:
        raise TaskError(f"{name}: {' '.join(str(error).split())}: mend the YAML") from None
    try:
        return _adapter().validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"] if part not in ("hub", "reasoning_gym")) or "kind"
        raise TaskError(f"{name}: {key}: {first['input']!r}: {first['msg']}; correct the file") from None
