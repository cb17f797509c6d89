"""The Reasoning Gym tasks of EAPO's table 3: their settings, their problems, their own verifiers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from seedwise.grading.pool import Grader, Item
from seedwise.grading.verify import judge
from seedwise.tasks import Task, fingerprint
from seedwise.tasks.sources import GymSource, shipped, source

# papers.md: "easy" otherwise, 50 problems each
TABLE_3: dict[str, dict[str, Any]] = {
    "graph_color": {"min_num_vertices": 12, "max_num_vertices": 14, "edge_probability": 0.15},
    "color_cube_rotation": {},
    "mini_sudoku": {"min_empty": 4, "max_empty": 6},
    "family_relationships": {},
    "knights_knaves": {},
    "group_anagrams": {},
    "zebra_puzzles": {"num_people": 3, "num_characteristics": 3},
    "palindrome_generation": {},
}


def task(name: str, **settings: Any) -> Any:
    return TypeAdapter(Task).validate_python({"task": "benchmark", "name": f"gym_{name}", **settings})


def rows_of(name: str, **settings: Any) -> list[dict[str, Any]]:
    """The rows before their gold answers are checked, which takes a worker process for each task."""
    return task(name, **settings).problems(None, frozenset())


def test_the_settings_of_table_3() -> None:
    found = {name: source(name) for name in shipped() if name.startswith("gym_")}
    assert {name.removeprefix("gym_") for name in found} == set(TABLE_3)
    for name, params in TABLE_3.items():
        gym = found[f"gym_{name}"]
        assert isinstance(gym, GymSource)
        assert (gym.generator, gym.size, gym.params) == (name, 50, params)


def test_problems_are_distinct_and_judged_by_their_own_verifier() -> None:
    rows = {name: rows_of(name, size=3) for name in TABLE_3}
    for name, some in rows.items():
        assert len({row["prompt"] for row in some}) == 3
        assert {row["verifier"] for row in some} == {f"reasoning_gym:{name}"}
    every = [row for some in rows.values() for row in some]
    with Grader() as grader:
        right = grader.grade([Item.of(row, f"So \\boxed{{{row['answer']}}}.") for row in every])
        wrong = grader.grade([Item.of(row, "So \\boxed{nothing}.") for row in every])
    assert {verdict.verdict for verdict in right} == {"correct"}
    assert {verdict.verdict for verdict in wrong} == {"wrong"}


@pytest.mark.parametrize(
    ("answer", "verdict"), [("abcba", "correct"), ("bacab", "correct"), ("abba", "wrong"), ("abcab", "wrong")]
)
def test_any_palindrome_of_all_the_letters_is_right_and_nothing_else(answer: str, verdict: str) -> None:
    # a, a, b, b, c: abcba and bacab; a palindrome without c, or all letters in another order, earns partial credit only
    metadata = {"entry": {"metadata": {"letters": list("cabab")}}}
    item = Item("reasoning_gym:palindrome_generation", "bacab", f"\\boxed{{{answer}}}", json.dumps(metadata["entry"]))
    assert judge(item.verifier, item.gold, item.text, item.answer_rule, json.loads(item.metadata)).verdict == verdict


def test_vertices_and_empty_cells_are_as_wide_as_asked() -> None:
    for row in rows_of("graph_color", size=5):
        puzzle = json.loads(row["metadata"])["entry"]["metadata"]["puzzle"]
        assert 12 <= len(puzzle["vertices"]) <= 14
    for row in rows_of("mini_sudoku", size=5):
        assert 4 <= row["prompt"].count("_") <= 6


def test_limit_and_size_and_identity() -> None:
    few = rows_of("knights_knaves", size=4)
    assert rows_of("knights_knaves", size=4, limit=2) == few[:2]
    whole = fingerprint(task("knights_knaves"))
    assert whole["package"] == "reasoning-gym 0.1.25"
    assert fingerprint(task("knights_knaves", size=4)) != whole
