"""Problems from a JSONL file: one object ``{"id", "prompt", "answer"}`` a line, ``difficulty`` optional."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from seedwise.grading.policy import AnswerRule, Box
from seedwise.identity import file_digest
from seedwise.tasks.problem import content_key, row
from seedwise.tasks.template import DEFAULT, TaskError, fields, render

_KEYS = ("id", "prompt", "answer", "difficulty")


class Jsonl(BaseModel):
    """The problems of a file, in its order, judged by math-verify."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    task: Literal["jsonl"]
    path: str = Field(min_length=1, description="file, relative to the working directory")
    verifier: Literal["math_verify"] = "math_verify"
    limit: int | None = Field(default=None, ge=1, description="first so many problems; null: all")
    answer: AnswerRule = Field(default=Box(), description="where the answer stands in a completion")
    template: str | None = Field(default=None, description="prompt, instead of the model's template")

    @field_validator("template")
    @classmethod
    def _plain_fields(cls, template: str | None) -> str | None:
        if template is not None:
            fields(template)
        return template

    @property
    def verified_by(self) -> str:
        """The verifier of its problems."""
        return self.verifier

    def fingerprint(self) -> dict[str, Any]:
        """What the problems depend on: every setting, and the file's content instead of its name or time."""
        try:
            content = file_digest(self.path)
        except OSError as error:
            raise TaskError(f"{self.path}: cannot be read ({error.strerror}); correct the task's path") from None
        return {**self.model_dump(mode="json", exclude={"path"}), "sha256": content}

    def problems(self, template: str | None, exclude: frozenset[str]) -> list[dict[str, Any]]:
        """PROBLEMS rows of the file, without those whose prompt or content is in ``exclude``.

        Raises TaskError with file and line for a line that is not a problem, an id or a prompt given twice, and with
        the file when fewer than ``limit`` problems remain.
        """
        template = self.template or template or DEFAULT
        rows: list[dict[str, Any]] = []
        lines_of: dict[tuple[str, str], int] = {}
        for number, problem in self._lines():
            key = content_key(problem["prompt"])
            for what, identity in (("id", problem["id"]), ("prompt", key)):
                earlier = lines_of.setdefault((what, identity), number)
                if earlier != number:
                    raise TaskError(
                        f"{self.path}:{number}: {what} {problem[what][:80]!r} was given in line {earlier}: keep one"
                    )
            prompt = render(template, {"question": problem["prompt"], "prompt": problem["prompt"]})
            if key in exclude or prompt in exclude:
                continue
            rows.append(
                row(
                    problem=problem["id"],
                    prompt=prompt,
                    answer=problem["answer"],
                    question=problem["prompt"],
                    source=f"jsonl {Path(self.path).name}:{number}",
                    verifier=self.verifier,
                    answer_rule=self.answer,
                    entry={},
                    difficulty=problem["difficulty"],
                )
            )
        return self._limited(rows)

    def _limited(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if not rows or (self.limit or 0) > len(rows):
            raise TaskError(
                f"{self.path}: {len(rows)} problems that are not excluded, {self.limit or 'at least 1'} wanted: "
                "lower limit or give more problems"
            )
        return rows[: self.limit]

    def _lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        try:
            text = Path(self.path).read_text(encoding="utf-8")
        except OSError as error:
            raise TaskError(f"{self.path}: cannot be read ({error.strerror}); correct the task's path") from None
        except UnicodeDecodeError as error:
            raise TaskError(f"{self.path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
        # Not splitlines: U+2028 and friends may stand inside a JSON string.
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield number, self._problem(line, f"{self.path}:{number}")

    def _problem(self, line: str, where: str) -> dict[str, Any]:
        try:
            record = json.loads(line, object_pairs_hook=_unique)
        except ValueError as error:
            raise TaskError(f"{where}: not a JSON object ({error}); write one object a line") from None
        if not isinstance(record, dict):
            raise TaskError(f"{where}: {line.strip()[:40]!r} is not a JSON object; write {{'id', 'prompt', 'answer'}}")
        if unknown := sorted(set(record) - set(_KEYS)):
            raise TaskError(f"{where}: unknown key {unknown[0]!r}; the keys are {', '.join(_KEYS)}")
        for key in ("id", "prompt", "answer"):
            if key not in record:
                raise TaskError(f"{where}: key {key!r} is missing; the keys are {', '.join(_KEYS)}")
            if type(record[key]) in (int, float) and key != "prompt" and math.isfinite(record[key]):
                record[key] = str(record[key])
            if not isinstance(record[key], str) or not record[key].strip():
                raise TaskError(f"{where}: {key} {record[key]!r} is not a text; give a non-empty string")
        difficulty = record.setdefault("difficulty", None)
        if difficulty is not None and (type(difficulty) not in (int, float) or not math.isfinite(difficulty)):
            raise TaskError(f"{where}: difficulty {difficulty!r} is not a number; give a number or leave it out")
        return record


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a key is given twice")
    return record
