"""Problems from reasoning-gym's generators, with its own verifiers or math-verify.  Importing this imports neither."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields as dataclass_fields
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from seedwise.grading.allowed import DECIMAL, EXACT, UNREPEATABLE, graded_refusal, refusal
from seedwise.grading.policy import AnswerRule, Box
from seedwise.grading.verify import GRADED, MATH_VERIFY, REASONING_GYM
from seedwise.tasks.expression import value
from seedwise.tasks.problem import content_key, row
from seedwise.tasks.template import DEFAULT, TaskError, fields, render

_TRIES_PER_PROBLEM = 50


class ReasoningGym(BaseModel):
    """``size`` distinct problems of one generator, the same for the same seed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    task: Literal["reasoning_gym"]
    name: str = Field(description="dataset of reasoning-gym, e.g. chain_sum")
    size: int = Field(ge=1, description="problems")
    seed: int = Field(ge=0, description="seed of the generator; its problem i is drawn from seed + i")
    params: dict[str, JsonValue] = Field(default_factory=dict, description="settings of the generator")
    verifier: Literal["task", "graded", "math_verify"] = Field(
        default="task",
        description="task: the dataset's own verifier, if allow-listed, full correctness only; graded: its partial "
        "credit too, for rewards that are not binary; else math_verify",
    )
    answer: AnswerRule = Field(default=Box(), description="where the answer stands in a completion")
    template: str | None = Field(default=None, description="prompt, instead of the model's template")

    @field_validator("params")
    @classmethod
    def _own_keys(cls, params: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if taken := sorted({"size", "seed"} & set(params)):
            raise ValueError(f"params {taken} are keys of the task itself: set them beside params")
        return params

    @field_validator("template")
    @classmethod
    def _plain_fields(cls, template: str | None) -> str | None:
        if template is not None:
            fields(template)
        return template

    @model_validator(mode="after")
    def _usable(self) -> ReasoningGym:
        if self.name in UNREPEATABLE:
            raise ValueError(f"name {self.name}: its problems depend on Python's hash seed; use another dataset")
        refused = {"task": refusal, "graded": graded_refusal}.get(self.verifier)
        if refused is not None and (why := refused(self.name)):
            remedy = "set verifier: math_verify if its answers are mathematics, or use another dataset"
            raise ValueError(f"name {self.name}: its own verifier {why}; {remedy}")
        return self

    @property
    def verified_by(self) -> str:
        """The verifier of its problems."""
        kind = {"task": REASONING_GYM, "graded": GRADED}.get(self.verifier)
        return MATH_VERIFY if kind is None else f"{kind}:{self.name}"

    def fingerprint(self) -> dict[str, Any]:
        """What the problems depend on: every setting, and the version of the generator."""
        from importlib.metadata import version

        return {**self.model_dump(mode="json"), "package": f"reasoning-gym {version('reasoning-gym')}"}

    def problems(self, template: str | None, exclude: frozenset[str]) -> list[dict[str, Any]]:
        """PROBLEMS rows: the first ``size`` distinct problems whose prompt and content are not in ``exclude``.

        Raises TaskError when the generator refuses its settings or has too few distinct problems.
        """
        template = self.template or template or DEFAULT
        found: dict[str, dict[str, Any]] = {}
        tries = _TRIES_PER_PROBLEM * self.size + 1000
        for entry in self._entries(tries):
            key, prompt = content_key(_subject(entry)), render(template, _values(entry))
            if key in found or key in exclude or prompt in exclude or not _consistent(entry):
                continue
            found[key] = row(
                problem=f"{self.name}-{key}",
                prompt=prompt,
                answer=_gold(entry),
                question=_subject(entry),
                source=f"reasoning_gym {self.name} seed {self.seed}",
                verifier=self.verified_by,
                answer_rule=self.answer,
                entry=self._entry(entry),
                difficulty=None,
            )
            if len(found) == self.size:
                return list(found.values())
        raise TaskError(
            f"reasoning_gym {self.name}: {len(found)} distinct problems in {tries} that are not excluded and whose "
            f"gold answer is right, size {self.size} wanted: lower size or widen params {self.params}"
        )

    def _entries(self, tries: int) -> Iterator[dict[str, Any]]:
        dataset = self._dataset(tries)
        for index in range(tries):
            try:
                yield dataset[index]
            except IndexError:  # a collection with an end
                return

    def _dataset(self, size: int) -> Any:
        from reasoning_gym import create_dataset
        from reasoning_gym.factory import DATASETS

        if self.name not in DATASETS:
            raise TaskError(f"reasoning_gym: name {self.name!r} is unknown; there are {', '.join(sorted(DATASETS))}")
        known = {field.name for field in dataclass_fields(DATASETS[self.name][1])} - {"seed", "size"}
        if unknown := sorted(set(self.params) - known):
            raise TaskError(f"reasoning_gym {self.name}: params {unknown} are unknown; there are {sorted(known)}")
        try:
            return create_dataset(self.name, seed=self.seed, size=size, **self.params)
        except (AssertionError, ValueError, TypeError) as error:
            raise TaskError(f"reasoning_gym {self.name}: params {self.params} are refused: {error}") from None

    def _entry(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """What the verifier needs beside the gold answer, as JSON gives it back."""
        if self.verifier == "math_verify" or self.name in EXACT | DECIMAL:
            return {}
        metadata = {key: item for key, item in entry["metadata"].items() if key not in ("source_index", "difficulty")}
        try:
            return {"metadata": json.loads(json.dumps(metadata))}
        except TypeError as error:
            raise TaskError(f"reasoning_gym {self.name}: what its verifier needs is not JSON: {error}") from None


def _subject(entry: Mapping[str, Any]) -> str:
    """What is asked, whatever the wording: the arithmetic expression where there is one, else the question."""
    expression = entry["metadata"].get("expression")
    return expression if isinstance(expression, str) and value(expression) is not None else entry["question"]


def _gold(entry: Mapping[str, Any]) -> str:
    # graph_color has many right answers and gives none; any one of them shows that the verifier works.
    if entry["answer"] is None:
        return json.dumps(entry["metadata"].get("possible_answer", ""))
    return str(entry["answer"])


def _values(entry: Mapping[str, Any]) -> dict[str, str]:
    """Fields of a template: the question, text and numbers of the metadata, and the expression without spaces."""
    values = {key: str(item) for key, item in entry["metadata"].items() if isinstance(item, (str, int, float))}
    values["question"] = entry["question"]
    if "expression" in values:
        values["compact"] = "".join(values["expression"].split())
    return values


def _consistent(entry: Mapping[str, Any]) -> bool:
    """False where the gold answer is not the value of the problem's own expression.

    basic_arithmetic divides with ``//`` and, without parentheses, works from left to right: 1 + 2 * 3 = 9.
    """
    expression = entry["metadata"].get("expression")
    result = value(expression) if isinstance(expression, str) else None
    if result is None:
        return True
    gold = value(str(entry["answer"]))
    return gold is None or gold == result
