"""Problems from a JSONL file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from seedwise.grading.pool import Grader, Item
from seedwise.tasks import Task, TaskError, check_overlap, fingerprint, problems

GOOD = [
    {"id": "a", "prompt": "What is 1/2 + 1/2?", "answer": "1"},
    {"id": "b", "prompt": "What is 1/2 of 1/2?", "answer": "\\frac{1}{4}", "difficulty": 2},
    {"id": 3, "prompt": "What is 2 + 2?", "answer": 4},
]


def written(folder: Path, lines: list[Any], **settings: Any) -> Any:
    """A task over a file with these lines; text is written as it is."""
    path = folder / "problems.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return TypeAdapter(Task).validate_python({"task": "jsonl", "path": str(path), **settings})


def test_rows_are_in_the_order_of_the_file_and_graded(tmp_path: Path) -> None:
    rows = problems(written(tmp_path, [GOOD[0], "", *GOOD[1:]]), "{question} Answer in \\boxed{{}}.")
    assert [(row["problem"], row["answer"], row["difficulty"]) for row in rows] == [
        ("a", "1", None),
        ("b", "\\frac{1}{4}", 2),
        ("3", "4", None),
    ]
    assert rows[0]["prompt"] == "What is 1/2 + 1/2? Answer in \\boxed{}."
    assert rows[2]["source"] == "jsonl problems.jsonl:4"
    with Grader() as grader:
        verdicts = grader.grade([Item.of(row, "It is \\boxed{0.25}") for row in rows])
    assert [verdict.verdict for verdict in verdicts] == ["wrong", "correct", "wrong"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ":2: not a JSON object .*; write one object a line"),
        ("[1]", r":2: '\[1\]' is not a JSON object"),
        ({"id": "x", "prompt": "p"}, ":2: key 'answer' is missing; the keys are id, prompt, answer, difficulty"),
        ({"id": "x", "prompt": "p", "answer": "1", "gold": "1"}, ":2: unknown key 'gold'; the keys are"),
        ({"id": "x", "prompt": " ", "answer": "1"}, ":2: prompt ' ' is not a text; give a non-empty string"),
        ({"id": "x", "prompt": 5, "answer": "1"}, ":2: prompt 5 is not a text"),
        ({"id": "x", "prompt": "p", "answer": None}, ":2: answer None is not a text"),
        ({"id": True, "prompt": "p", "answer": "1"}, ":2: id True is not a text"),
        ('{"id": "x", "prompt": "p", "answer": NaN}', ":2: answer nan is not a text"),
        ('{"id": "x", "id": "y", "prompt": "p", "answer": "1"}', ":2: not a JSON object .a key is given twice"),
        ({"id": "x", "prompt": "p", "answer": "1", "difficulty": "hard"}, ":2: difficulty 'hard' is not a number"),
        ({"id": "a", "prompt": "p", "answer": "1"}, ":2: id 'a' was given in line 1: keep one"),
        ({"id": "x", "prompt": "what is 1/2  + 1/2?", "answer": "1"}, ":2: prompt .* was given in line 1: keep one"),
    ],
)
def test_a_bad_line_is_refused_by_its_number(tmp_path: Path, line: Any, words: str) -> None:
    with pytest.raises(TaskError, match=words) as refused:
        problems(written(tmp_path, [GOOD[0], line]))
    assert "problems.jsonl" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_gold_answer_that_cannot_be_parsed_is_refused(tmp_path: Path) -> None:
    bad = {"id": "x", "prompt": "p", "answer": "foo bar"}
    with pytest.raises(TaskError, match=r"problems.jsonl:2: problem x: answer 'foo bar' cannot be read by math_verify"):
        problems(written(tmp_path, [GOOD[0], bad]))


def test_a_gold_answer_that_never_ends_is_refused(tmp_path: Path) -> None:
    bad = {"id": "x", "prompt": "p", "answer": "5^{(5^{(5^{(5^5)})}-4)}-5 + 0"}
    with pytest.raises(TaskError, match=r"problem x: answer .* takes math_verify longer than 2.0 s"):
        problems(written(tmp_path, [bad]))


def test_limit_and_exclusion(tmp_path: Path) -> None:
    whole = [record | {"answer": "1"} for record in GOOD]  # plain integers need no worker
    limited = written(tmp_path, whole, limit=2)
    assert [row["problem"] for row in problems(limited)] == ["a", "b"]
    without = problems(limited, exclude=frozenset({"What is 1/2 + 1/2?"}))
    assert [row["problem"] for row in without] == ["b", "3"]
    check_overlap(problems(limited)[:1], {"rest": without})
    with pytest.raises(TaskError, match="2 problems that are not excluded, 3 wanted: lower limit"):
        problems(written(tmp_path, whole, limit=3), exclude=frozenset({"What is 2 + 2?"}))
    with pytest.raises(TaskError, match="0 problems"):
        problems(written(tmp_path, [""]))


def test_identity_is_the_content(tmp_path: Path) -> None:
    before = fingerprint(written(tmp_path, GOOD))
    (tmp_path / "elsewhere").mkdir()
    assert fingerprint(written(tmp_path / "elsewhere", GOOD)) == before  # another place, the same problems
    assert fingerprint(written(tmp_path, GOOD[:2])) != before
    assert fingerprint(written(tmp_path, GOOD, limit=2)) != before


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    missing = TypeAdapter(Task).validate_python({"task": "jsonl", "path": str(tmp_path / "none.jsonl")})
    for use in (problems, fingerprint):
        with pytest.raises(TaskError, match=r"none.jsonl: cannot be read .*; correct the task's path"):
            use(missing)
    (tmp_path / "latin.jsonl").write_bytes(b'{"id": "\xe9"}')
    latin = TypeAdapter(Task).validate_python({"task": "jsonl", "path": str(tmp_path / "latin.jsonl")})
    with pytest.raises(TaskError, match=r"latin.jsonl: byte 8 is not UTF-8"):
        problems(latin)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"limit": 0}, "limit"), ({"verifier": "task"}, "verifier"), ({"bogus": 1}, "bogus"), ({"path": ""}, "path")],
)
def test_refused_when_the_study_is_read(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        written(tmp_path, GOOD, **settings)
