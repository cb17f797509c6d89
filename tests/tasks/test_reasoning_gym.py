"""Problems from reasoning-gym."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from seedwise import tables
from seedwise.grading.pool import Grader, Item
from seedwise.tasks import Task, TaskError, check_overlap, contents, fingerprint, problems
from seedwise.tasks.expression import value
from seedwise.tasks.problem import content_of

ONE_DIGIT = {"min_terms": 3, "max_terms": 4, "min_digits": 1, "max_digits": 1}


def task(**settings: Any) -> Any:
    """A chain_sum task as a study file would give it."""
    given = {"task": "reasoning_gym", "name": "chain_sum", "size": 20, "seed": 0, "params": ONE_DIGIT}
    return TypeAdapter(Task).validate_python({**given, **settings})


def test_rows_fit_the_table_and_are_graded(tmp_path: Any) -> None:
    rows = problems(task(answer={"rule": "marker", "marker": "#"}), "{compact}=")
    tables.write(tables.PROBLEMS, rows, tmp_path / "problems.parquet")
    again = tables.read(tables.PROBLEMS, tmp_path / "problems.parquet").to_dict("records")
    assert len(rows) == 20
    assert all(value(row["prompt"].rstrip("=")) == Fraction(row["answer"]) for row in rows)
    with Grader() as grader:
        right = grader.grade([Item.of(row, f"work {row['answer']}#{row['answer']}") for row in again])
        wrong = grader.grade([Item.of(row, f"#{int(row['answer']) + 1}") for row in again])
    assert {verdict.verdict for verdict in right} == {"correct"}
    assert {verdict.verdict for verdict in wrong} == {"wrong"}


def test_the_same_task_gives_the_same_problems() -> None:
    assert problems(task()) == problems(task())
    assert problems(task(size=10)) == problems(task())[:10]
    assert [row["prompt"] for row in problems(task(seed=7))] != [row["prompt"] for row in problems(task())]


def test_problems_are_distinct_however_small_the_space() -> None:
    # one-digit sums of two terms: 10 * 10 * 2 = 200 problems and no more
    small = {**ONE_DIGIT, "min_terms": 2, "max_terms": 2}
    rows = problems(task(size=200, params=small))
    assert len({row["prompt"] for row in rows}) == len({row["problem"] for row in rows}) == 200
    with pytest.raises(
        TaskError, match=r"chain_sum: 200 distinct problems.*size 201 wanted: lower size or widen params"
    ):
        problems(task(size=201, params=small))


def test_training_and_benchmark_never_overlap() -> None:
    # reasoning-gym draws problem i of seed s from s + i: seeds 0 and 1 share all but one of their problems
    train = problems(task(size=50))
    overlapping = problems(task(size=50, seed=1))
    with pytest.raises(TaskError, match=r"benchmark same: \d+ of 50 problems are in the training data"):
        check_overlap(train, {"same": overlapping})
    for exclude in (frozenset(row["prompt"] for row in train), contents(train)):
        same = problems(task(size=50, seed=1), exclude=exclude)
        check_overlap(train, {"same": same})
        assert len(same) == 50


def test_overlap_is_seen_through_template_and_generator() -> None:
    train = problems(task(size=50))
    with pytest.raises(TaskError, match="benchmark x"):
        check_overlap(train, {"x": problems(task(size=5), "{compact}=")})
    # the same expressions, asked as "Calculate ...": 1-digit terms of basic_arithmetic reach 10, so only some coincide
    other = task(
        name="basic_arithmetic",
        size=2000,
        params={**ONE_DIGIT, "operators": ["+", "-"], "allow_parentheses": False},
    )
    known = {content_of(row) for row in problems(task(size=2000))}
    assert known & {content_of(row) for row in problems(other)}


def test_gold_answers_that_are_not_the_value_are_left_out() -> None:
    # without parentheses basic_arithmetic works from left to right: 1 + 2 * 3 would be 9
    params = {**ONE_DIGIT, "operators": ["+", "*"], "allow_parentheses": False}
    for row in problems(task(name="basic_arithmetic", size=50, params=params), "{expression}"):
        assert value(row["prompt"]) == Fraction(row["answer"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"name": "n_queens"}, "n_queens: its own verifier evaluates the answer as code; set verifier: math_verify"),
        ({"name": "gsm_symbolic"}, "drops its sign; set verifier: math_verify"),
        ({"name": "rush_hour"}, "not one of the verifiers that were read"),
        ({"name": "word_ladder", "verifier": "math_verify"}, "depend on Python's hash seed"),
        ({"params": {"seed": 3}}, r"params \['seed'\] are keys of the task itself"),
        ({"template": "{question.__class__}"}, "is not a plain field"),
        ({"template": "{question[0]}"}, "is not a plain field"),
        ({"template": "{question!r}"}, "is not a plain field"),
        ({"template": "{question:>10}"}, "is not a plain field"),
        ({"template": "{}"}, "is not a plain field"),
        ({"template": "{question"}, "write a literal brace as"),
        ({"size": 0}, "greater than or equal to 1"),
        ({"answer": {"rule": "marker"}}, "marker"),
        ({"answer": {"rule": "guess"}}, "guess"),
        ({"bogus": 1}, "bogus"),
    ],
)
def test_refused_when_the_study_is_read(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        task(**settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"template": "{nope}"}, r"template '\{nope\}': no field \{nope\}; there are compact, expression,"),
        ({"params": {"min_trems": 3}}, r"params \['min_trems'\] are unknown; there are \['allow_negation'"),
        ({"params": {"min_terms": 0}}, "are refused: min_terms must be positive"),
        ({"name": "chain_summ", "verifier": "math_verify"}, "name 'chain_summ' is unknown; there are ab, "),
    ],
)
def test_refused_when_the_data_is_built(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskError, match=words) as refused:
        problems(task(**settings))
    assert "\n" not in str(refused.value)


def test_a_gold_answer_the_verifier_cannot_read_is_an_error() -> None:
    with pytest.raises(TaskError, match=r"sentence_reordering-[0-9a-f]{16}: answer .* cannot be read by math_verify"):
        problems(task(name="sentence_reordering", size=2, params={}, verifier="math_verify"))


def test_literal_braces_and_own_template_win() -> None:
    [row] = problems(task(size=1, template="{{x}} {question}"), "{expression}")
    assert row["prompt"].startswith("{x} State the final answer")


def test_identity_depends_on_settings_and_package() -> None:
    plain = fingerprint(task())
    assert plain["package"] == "reasoning-gym 0.1.25"
    assert plain != fingerprint(task(seed=1))
    assert plain != fingerprint(task(params={**ONE_DIGIT, "max_terms": 5}))
    assert json.loads(json.dumps(plain)) == plain


def test_importing_the_tasks_imports_no_generator() -> None:
    heavy = {"reasoning_gym", "sympy", "numpy", "torch"}
    script = f"import sys, seedwise.tasks; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1 + 2 * 3", Fraction(7)),
        ("-(3 - 5) / 4", Fraction(1, 2)),
        ("0.1 + 0.2", Fraction(3, 10)),  # decimals as written
        ("1 / 0", None),
        ("2 ** 9", None),
        ("__import__('os').getcwd()", None),
        ("p and q", None),
        ("", None),
    ],
)
def test_value(expression: str, result: Fraction | None) -> None:
    assert value(expression) == result


def test_partial_credit_is_a_verifier_of_its_own_and_refused_where_it_misleads():
    made = {
        verifier: problems(task(name="mini_sudoku", size=2, params={}, verifier=verifier), "{question}")
        for verifier in ("graded", "task")
    }
    assert {row["verifier"] for row in made["graded"]} == {"reasoning_gym_graded:mini_sudoku"}
    assert [row["prompt"] for row in made["graded"]] == [row["prompt"] for row in made["task"]]
    with pytest.raises(ValidationError, match="spell_backward: its own verifier .*set verifier: math_verify"):
        task(name="spell_backward", params={}, verifier="graded")


@pytest.mark.parametrize("verifier", ["task", "graded", "math_verify"])
def test_a_task_says_by_which_verifier_its_problems_are_judged(verifier: str) -> None:
    found = task(size=3, verifier=verifier)
    assert {row["verifier"] for row in found.problems(None, frozenset())} == {found.verified_by}


def test_a_benchmark_says_by_which_verifier_its_problems_are_judged() -> None:
    names = {"gym_mini_sudoku": "reasoning_gym:mini_sudoku", "aime24": "math_verify"}
    for name, verifier in names.items():
        assert TypeAdapter(Task).validate_python({"task": "benchmark", "name": name}).verified_by == verifier
