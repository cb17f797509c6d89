"""Problems of a benchmark that is described by a small file, from the hub, a local file or a generator."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from seedwise.grading.policy import AnswerRule, Box
from seedwise.grading.verify import MATH_VERIFY
from seedwise.identity import file_digest
from seedwise.tasks.problem import content_key, row
from seedwise.tasks.reasoning_gym import ReasoningGym
from seedwise.tasks.records import from_file, from_hub
from seedwise.tasks.sources import GymSource, HubSource, source
from seedwise.tasks.template import DEFAULT, TaskError, fields, render

_LOG = logging.getLogger(__name__)
_MISSING = object()


class Benchmark(BaseModel):
    """The problems of a benchmark by its name, in the data set's order.

    ``size`` guards against the wrong file: a data set with another number of problems is refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    task: Literal["benchmark"]
    name: str = Field(min_length=1, description="of tasks/benchmarks, e.g. aime24; or a .yaml file like those")
    path: str | None = Field(default=None, description="local .parquet or .jsonl file with the data set's own columns")
    size: int | None = Field(default=None, ge=1, description="problems it has; null: the benchmark's own number")
    limit: int | None = Field(default=None, ge=1, description="first so many problems; null: all")
    answer: AnswerRule = Field(default=Box(), description="where the answer stands in a completion")
    template: str | None = Field(default=None, description="prompt, instead of the model's template")

    @field_validator("template")
    @classmethod
    def _plain_fields(cls, template: str | None) -> str | None:
        if template is not None:
            fields(template)
        return template

    @model_validator(mode="after")
    def _usable(self) -> Benchmark:
        found = source(self.name)
        if isinstance(found, GymSource):
            if self.path is not None:
                raise ValueError(f"path {self.path!r}: {self.name} is generated and takes no file: remove it")
            self._generated(found)
        return self

    @property
    def label(self) -> str:
        """The name without folder and ending; problems are named after it."""
        return Path(self.name).name.removesuffix(".yaml")

    @property
    def verified_by(self) -> str:
        """The verifier of its problems."""
        found = source(self.name)
        return self._generated(found).verified_by if isinstance(found, GymSource) else MATH_VERIFY

    def fingerprint(self) -> dict[str, Any]:
        """What the problems depend on: the settings, the benchmark's file with its version, and a local file's content.

        Raises TaskError for a local file that cannot be read.
        """
        found = source(self.name)
        settings = {**self.model_dump(mode="json", exclude={"path", "name"}), "name": self.label}
        settings["source"] = found.model_dump(mode="json")
        if isinstance(found, GymSource):
            settings["package"] = self._generated(found).fingerprint()["package"]
        elif self.path is not None:
            try:
                settings["sha256"] = file_digest(self.path)
            except OSError as error:
                raise TaskError(f"{self.path}: cannot be read ({error.strerror}); correct the task's path") from None
        return settings

    def problems(self, template: str | None, exclude: frozenset[str]) -> list[dict[str, Any]]:
        """PROBLEMS rows, without those whose prompt or content is in ``exclude``.

        Raises TaskError with the data set, the row and what is wrong with it: a column that is missing, a question or
        an answer that is empty, an id or a question given twice, another number of problems than ``size``; and naming
        the file to bring where the data set cannot be loaded.
        """
        found = source(self.name)
        template = self.template or template or DEFAULT
        if isinstance(found, GymSource):
            return self._generated(found).problems(template, exclude)[: self.limit]
        records = from_file(self.path) if self.path is not None else from_hub(found)
        entries = [(number, entry) for number, entry in enumerate(records) if _wanted(entry, found, self._at(number))]
        size = self.size or found.size
        if len(entries) != size:
            raise TaskError(
                f"{self._where}: {len(entries)} problems{f' with {found.where}' if found.where else ''}, {size} wanted:"
                " bring the whole file, or set size to what it should have"
            )
        rows = [self._row(entry, found, number, template) for number, entry in entries]
        kept = [
            item for key, item in self._distinct(rows, found) if key not in exclude and item["prompt"] not in exclude
        ]
        if not kept or (self.limit or 0) > len(kept):
            raise TaskError(
                f"{self._where}: {len(kept)} problems that are not excluded, {self.limit or 'at least 1'} wanted: "
                "lower limit"
            )
        return kept[: self.limit]

    @property
    def _where(self) -> str:
        return self.path or self.label

    def _at(self, number: int) -> str:
        return f"{self._where}: row {number}"

    def _generated(self, found: GymSource) -> ReasoningGym:
        return ReasoningGym(
            task="reasoning_gym",
            name=found.generator,
            size=self.size or found.size,
            seed=found.seed,
            params=found.params,
            answer=self.answer,
            template=self.template,
        )

    def _row(
        self, entry: Mapping[str, Any], found: HubSource, number: int, template: str
    ) -> tuple[str, dict[str, Any]]:
        """The content key and the PROBLEMS row of one entry."""
        where, columns = self._at(number), found.columns
        question = _text(entry, columns.question, where).strip()
        question = question.removeprefix(found.before.strip()).removesuffix(found.after.strip()).strip()
        own = number if columns.id is None else _text(entry, columns.id, where)
        difficulty = _value(entry, columns.difficulty, where) if columns.difficulty else None
        if difficulty is not None and (type(difficulty) not in (int, float) or not math.isfinite(difficulty)):
            raise TaskError(f"{where}: {columns.difficulty} {difficulty!r} is not a number; correct the file")
        origin = f"file {Path(self.path).name}" if self.path else f"hub {found.hub}@{found.revision[:7]}"
        return content_key(question), row(
            problem=f"{self.label}-{own}",
            prompt=render(template, {"question": question, "prompt": question}),
            answer=_text(entry, columns.answer, where).strip(),
            question=question,
            source=f"{origin} row {number}",
            verifier=MATH_VERIFY,
            answer_rule=self.answer,
            entry={},
            difficulty=None if difficulty is None else float(difficulty),
        )

    def _distinct(self, rows: list[tuple[str, dict[str, Any]]], found: HubSource) -> list[tuple[str, dict[str, Any]]]:
        """Rows with ids and questions of their own; a repeated question once, and not at all with two answers."""
        answers: dict[str, set[str]] = {}
        first: dict[str, tuple[str, dict[str, Any]]] = {}
        ids: set[str] = set()
        for key, item in rows:
            if item["problem"] in ids or (found.repeats == "refuse" and key in first):
                what = "id" if item["problem"] in ids else "question of"
                raise TaskError(
                    f"{self._where}: {what} {item['problem']!r} is given twice ({item['source']}): keep one"
                )
            ids.add(item["problem"])
            first.setdefault(key, (key, item))
            answers.setdefault(key, set()).add(item["answer"])
        kept = [pair for key, pair in first.items() if len(answers[key]) == 1]
        if len(kept) < len(rows):
            _LOG.warning(
                "%s: %d of %d problems kept: %d repeat a question, %d questions have two answers",
                *(self._where, len(kept), len(rows), len(rows) - len(first), len(first) - len(kept)),
            )
        return kept


def _wanted(entry: Mapping[str, Any], found: HubSource, where: str) -> bool:
    return all(_value(entry, column, where) == value for column, value in found.where.items())


def _value(entry: Mapping[str, Any], column: str, where: str) -> Any:
    """What stands in a column, or in a field of a nested column."""
    value: Any = entry
    for name in column.split("."):
        value = value.get(name, _MISSING) if isinstance(value, Mapping) else _MISSING
        if value is _MISSING:
            raise TaskError(
                f"{where}: no column {column!r}; there are {', '.join(sorted(entry))}: bring the right file"
            )
    return value


def _text(entry: Mapping[str, Any], column: str, where: str) -> str:
    """A text, or a number as text: 27.0 of a float column is 27."""
    value = _value(entry, column, where)
    if type(value) is float and math.isfinite(value) and value.is_integer():
        value = int(value)
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise TaskError(f"{where}: {column} {value!r} is not a text or a number; correct the file")
    return value
