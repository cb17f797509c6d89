"""`seedwise grade`: verdicts on anyone's own answers, a JSON object a line in and out.

The whole file is read, and every gold answer tried, before the first verdict: a file with a fault gives none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from seedwise.grading.policy import Box, Marker, Whole, extract
from seedwise.grading.pool import Grader, Item
from seedwise.grading.verify import MATH_VERIFY, Verdict, verifier_version

RULES = {"box": Box, "marker": Marker, "whole": Whole}
VERDICTS = ("correct", "wrong", "unparsed", "timeout")
_EXAMPLE = '{"gold": "1/2", "answer": "so it is \\\\boxed{0.5}"}'
_AT_ONCE = 1000  # lines, so that verdicts appear while others are still graded


class GradeError(ValueError):
    """A file that cannot be graded; one line with the remedy."""


class Line(BaseModel):
    """One line of the file; its other keys are left alone.  Numbers count as the texts they are written as."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    gold: str = Field(min_length=1)
    answer: str


@dataclass(frozen=True)
class Graded:
    """The verdict on a line of the file, counted from 1."""

    line: int
    verdict: Verdict

    def plain(self) -> dict[str, Any]:
        """line, verdict, correct, and the answer that was extracted (null when there is none)."""
        found = self.verdict
        return {"line": self.line, "verdict": found.verdict, "correct": bool(found.correct), "answer": found.answer}


def rule_of(rule: str, marker: str | None) -> Box | Marker | Whole:
    """What counts as an answer where there is no closed box: nothing, the rest of a line after a marker, everything.

    Raises GradeError for another rule, and unless a marker comes with its rule.
    """
    if rule not in RULES:
        raise GradeError(f"--rule {rule}: unknown: give one of {', '.join(RULES)}")
    if (rule == "marker") != bool(marker):
        raise GradeError(f"--rule {rule} with --marker {marker}: give --rule marker and --marker TEXT together")
    return Marker(marker=marker) if marker else RULES[rule]()


def read(path: Path) -> dict[int, Line]:
    """The lines of a JSONL file by their number; blank ones are skipped.

    Raises GradeError with file and line for a line that is not an object with ``gold`` and ``answer``.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None)
        raise GradeError(f"{path}: cannot be read ({reason}): give a JSONL file in UTF-8") from None
    # Not splitlines: U+2028 and friends may stand inside a JSON string.
    numbered = enumerate(text.split("\n"), start=1)
    lines = {number: _line(line, f"{path}:{number}") for number, line in numbered if line.strip()}
    if not lines:
        raise GradeError(f"{path}: no line to grade: write one object a line, {_EXAMPLE}")
    return lines


def _line(line: str, where: str) -> Line:
    try:
        return Line.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or line.strip()[:40]
        raise GradeError(f"{where}: {key}: {first['msg']}: write {_EXAMPLE}") from None


def grade(path: Path, rule: Box | Marker | Whole, grader: Grader) -> Iterator[Graded]:
    """Verdicts on the lines of a file, in their order, by math-verify as corrected.

    A gold answer may itself stand in a box.  Raises GradeError, before the first verdict, for what ``read`` refuses and
    for a gold answer that cannot be read.
    """
    lines = read(path)
    golds = {number: extract(line.gold, Whole()) or line.gold for number, line in lines.items()}
    asked = [{"verifier": MATH_VERIFY, "answer": gold, "metadata": "{}"} for gold in golds.values()]
    for number, fault in zip(lines, grader.gold_faults(asked), strict=True):
        if fault is not None:
            raise GradeError(f"{path}:{number}: gold {lines[number].gold!r} {fault}: correct it or leave the line out")
    for start in range(0, len(lines), _AT_ONCE):
        numbers = list(lines)[start : start + _AT_ONCE]
        items = [Item(MATH_VERIFY, golds[number], lines[number].answer, answer_rule=rule) for number in numbers]
        yield from map(Graded, numbers, grader.grade(items))


def summary(verdicts: Counter[str]) -> str:
    """How many of each verdict, and by which verifier."""
    counted = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS)
    return f"{verdicts.total()} answers: {counted} ({verifier_version(MATH_VERIFY)})"
