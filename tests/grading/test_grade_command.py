"""`seedwise grade`: a JSON verdict a line, and no verdict at all for a file with a fault."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seedwise.cli import app
from seedwise.grade import GradeError, grade, read, rule_of, summary
from seedwise.grading.policy import Box, Marker, Whole
from seedwise.grading.pool import Grader

HANGING = r"\boxed{5^{(5^{(5^{(5^5)})}-4)}-5}"


def written(tmp_path: Path, *lines: dict[str, Any] | str) -> Path:
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def verdicts(path: Path, grader: Grader, rule: Box | Marker | Whole | None = None) -> list[dict[str, Any]]:
    return [graded.plain() for graded in grade(path, rule or Whole(), grader)]


def test_every_verdict_with_its_line(tmp_path: Path, grader: Grader) -> None:
    path = written(
        tmp_path,
        {"gold": "1/2", "answer": r"so \boxed{3}. Wait, \boxed{0.5}", "model": "other keys are left alone"},
        "",
        {"gold": 5, "answer": 6},
        {"gold": "5", "answer": r"\boxed{"},
        {"gold": "5", "answer": HANGING},
        {"gold": r"\boxed{\sqrt{8}}", "answer": "$2\\sqrt2$\u2028"},
    )
    assert verdicts(path, grader) == [
        {"line": 1, "verdict": "correct", "correct": True, "answer": "0.5"},
        {"line": 3, "verdict": "wrong", "correct": False, "answer": "6"},
        {"line": 4, "verdict": "unparsed", "correct": False, "answer": None},
        {"line": 5, "verdict": "timeout", "correct": False, "answer": "5^{(5^{(5^{(5^5)})}-4)}-5"},
        {"line": 6, "verdict": "correct", "correct": True, "answer": r"2\sqrt2"},
    ]


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (rule_of("box", None), ["unparsed", "unparsed"]),
        (rule_of("marker", "#"), ["correct", "unparsed"]),
        (rule_of("whole", None), ["wrong", "correct"]),
    ],
)
def test_rules(rule: Box | Marker | Whole, found: list[str], tmp_path: Path, grader: Grader) -> None:
    path = written(tmp_path, {"gold": "12", "answer": "3 + 9 # 12"}, {"gold": "12", "answer": "12"})
    assert [line["verdict"] for line in verdicts(path, grader, rule)] == found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"gold": "5"}', r"answers.jsonl:2: answer: Field required: write {"),
        ('{"gold": "5", "answer": null}', r":2: answer: Input should be a valid string"),
        ('{"gold": "", "answer": "5"}', r":2: gold: String should have at least 1 character"),
        ('{"gold": true, "answer": "5"}', r":2: gold: Input should be a valid string"),
        ('["5", "5"]', r":2: .*Input should be an object"),
        ('{"gold": "5", "answer": ', r":2: .*Invalid JSON"),
        (
            '{"gold": "foo bar", "answer": "3"}',
            r":2: gold 'foo bar' cannot be read by math_verify.*correct it or leave",
        ),
        ('{"gold": " ", "answer": "3"}', r":2: gold ' ' is empty"),
        (json.dumps({"gold": HANGING, "answer": "3"}), r":2: gold .*takes math_verify longer than 1.0 s"),
    ],
)
def test_a_fault_names_its_line_and_nothing_is_graded(line: str, message: str, tmp_path: Path, grader: Grader) -> None:
    path = written(tmp_path, {"gold": "5", "answer": "5"}, line)
    with pytest.raises(GradeError, match=message):
        next(grade(path, Whole(), grader))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(GradeError, match="missing.jsonl: cannot be read .No such file"):
        read(tmp_path / "missing.jsonl")
    (tmp_path / "latin").write_bytes(b'{"gold": "\xe9"}')
    with pytest.raises(GradeError, match="latin: cannot be read .*UTF-8"):
        read(tmp_path / "latin")
    with pytest.raises(GradeError, match="no line to grade"):
        read(written(tmp_path, "", " "))


@pytest.mark.parametrize(("rule", "marker"), [("marker", None), ("whole", "#"), ("boxed", None)])
def test_rules_that_are_none(rule: str, marker: str | None) -> None:
    with pytest.raises(GradeError, match=f"--rule {rule}"):
        rule_of(rule, marker)


def test_more_lines_than_are_graded_at_once(tmp_path: Path, grader: Grader) -> None:
    path = written(tmp_path, *({"gold": str(number % 7), "answer": "3"} for number in range(2500)))
    found = list(grade(path, Whole(), grader))
    assert [graded.line for graded in found] == list(range(1, 2501))
    # 3, 10, 17, ..., 2495: 357 of 2500
    assert sum(graded.verdict.correct for graded in found) == 357


def test_the_command(tmp_path: Path) -> None:
    path = written(tmp_path, {"gold": "5", "answer": "5"}, {"gold": "5", "answer": ""})
    shown = CliRunner().invoke(app, ["grade", str(path)])
    assert shown.exit_code == 0
    assert [json.loads(line)["verdict"] for line in shown.stdout.splitlines()] == ["correct", "unparsed"]
    counted = "2 answers: 1 correct, 0 wrong, 1 unparsed, 0 timeout (math_verify 0.9.0 version 1 policy 2)"
    assert shown.stderr.strip() == counted == summary(Counter(correct=1, unparsed=1))
