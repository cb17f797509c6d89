"""Benchmarks described by a small file: each data set's own columns, from a local file and from the hub."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter, ValidationError

from seedwise import tables
from seedwise.grading.pool import Grader, Item
from seedwise.grid import data_name
from seedwise.reading import parse
from seedwise.tasks import Task, TaskError, contents, fingerprint, problems
from seedwise.tasks.sources import HubSource, shipped, source

DAPO = source("dapo_math_17k")
assert isinstance(DAPO, HubSource)


def wrapped(question: str) -> list[dict[str, str]]:
    """A prompt as DAPO's own data set gives it."""
    return [{"role": "user", "content": f"{DAPO.before}\n\n{question}\n\n{DAPO.after}"}]


def dapo(question: str, answer: str, index: str) -> dict[str, Any]:
    return {
        "prompt": question,
        "solution": answer,
        "data_source": "math_dapo",
        "source_prompt": wrapped(question),
        "ability": "MATH",
        "reward_model": {"ground_truth": answer, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": index},
    }


# Questions of our own in the columns of the data sets' cards: three problems each, the first two of level 5.
LAYOUTS: dict[str, list[dict[str, Any]]] = {
    "aime24": [
        {
            "id": 60 + i,
            "problem": f"Find ${i}+24$.",
            "solution": "Add.",
            "answer": f"{24 + i:03d}",
            "url": "u",
            "year": "2024",
        }
        for i in range(3)
    ],
    "aime25": [{"problem": f"Find ${i}+25$.", "answer": str(25 + i), "id": str(i)} for i in range(3)],
    "aime26": [{"id": 1 + i, "problem": f"Find ${i}+26$.", "answer": 26 + i} for i in range(3)],
    "hmmt26": [
        {"problem_idx": 1 + i, "answer": answer, "problem_type": ["Algebra"], "problem": f"Find $x_{i}$."}
        for i, answer in enumerate(("-\\frac{1}{21}", "2+\\sqrt{3}", "420261"))
    ],
    "amc23": [{"id": i, "question": f"Find ${i}+23$.", "answer": 23.0 + i, "url": "u"} for i in range(3)],
    "math500_level5": [
        {
            "problem": f"Find $y_{i}$.",
            "solution": "s",
            "answer": answer,
            "subject": "Algebra",
            "level": level,
            "unique_id": f"test/algebra/{i}.json",
        }
        for i, (answer, level) in enumerate((("(3, \\frac{\\pi}{2})", 5), ("\\text{east}", 5), ("p - q", 5), ("4", 2)))
    ],
    "dapo_math_17k": [dapo(f"Find ${i}+17$.", str(17 + i), f"index-{i}") for i in range(3)],
    "dapo_math_17k_en": [dapo(f"Find ${i}+18$.", str(18 + i), f"index-{i}") for i in range(3)],
}
WANTED = {
    "aime24": (["aime24-60", "aime24-61", "aime24-62"], ["024", "025", "026"], "Find $0+24$."),
    "aime25": (["aime25-0", "aime25-1", "aime25-2"], ["25", "26", "27"], "Find $0+25$."),
    "aime26": (["aime26-1", "aime26-2", "aime26-3"], ["26", "27", "28"], "Find $0+26$."),
    "hmmt26": (["hmmt26-1", "hmmt26-2", "hmmt26-3"], ["-\\frac{1}{21}", "2+\\sqrt{3}", "420261"], "Find $x_0$."),
    "amc23": (["amc23-0", "amc23-1", "amc23-2"], ["23", "24", "25"], "Find $0+23$."),  # 23.0 in a column of floats
    "math500_level5": (
        [f"math500_level5-test/algebra/{i}.json" for i in range(3)],
        ["(3, \\frac{\\pi}{2})", "\\text{east}", "p - q"],
        "Find $y_0$.",
    ),
    "dapo_math_17k": ([f"dapo_math_17k-index-{i}" for i in range(3)], ["17", "18", "19"], "Find $0+17$."),
    "dapo_math_17k_en": ([f"dapo_math_17k_en-index-{i}" for i in range(3)], ["18", "19", "20"], "Find $0+18$."),
}
HUB = sorted(WANTED)
AIME = LAYOUTS["aime25"]


def written(folder: Path, records: list[dict[str, Any]], kind: str) -> str:
    path = folder / f"problems{kind}"
    if kind == ".parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    else:
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def task(name: str, **settings: Any) -> Any:
    return TypeAdapter(Task).validate_python({"task": "benchmark", "name": name, **settings})


def rows_of(found: Any, template: str | None = None, exclude: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """The rows before their gold answers are checked, which takes a worker process."""
    return found.problems(template, exclude)


def test_every_shipped_file_is_tested_here() -> None:
    assert sorted(name for name in shipped() if isinstance(source(name), HubSource)) == HUB


@pytest.mark.parametrize("kind", [".parquet", ".jsonl"])
@pytest.mark.parametrize("name", HUB)
def test_a_local_file_in_the_data_sets_columns(tmp_path: Path, name: str, kind: str) -> None:
    rows = rows_of(task(name, path=written(tmp_path, LAYOUTS[name], kind), size=3), "{question} Box it.")
    ids, answers, question = WANTED[name]
    assert [row["problem"] for row in rows] == ids
    assert [row["answer"] for row in rows] == answers
    assert rows[0]["prompt"] == f"{question} Box it."
    assert rows[1]["source"] == f"file problems{kind} row 1"
    assert {row["difficulty"] for row in rows} == ({5.0} if name == "math500_level5" else {None})
    assert {row["verifier"] for row in rows} == {"math_verify"}


def test_answers_are_graded(tmp_path: Path) -> None:
    rows = problems(task("hmmt26", path=written(tmp_path, LAYOUTS["hmmt26"], ".jsonl"), size=3))
    tables.write(tables.PROBLEMS, rows, tmp_path / "problems.parquet")
    rows = tables.read(tables.PROBLEMS, tmp_path / "problems.parquet").to_dict("records")
    with Grader() as grader:
        found = grader.grade([Item.of(row, f"\\boxed{{{x}}}") for row in rows for x in ("-1/21", "\\sqrt 3 + 2")])
    # -1/21, 2 + sqrt 3, 420261
    assert [verdict.verdict for verdict in found] == ["correct", "wrong", "wrong", "correct", "wrong", "wrong"]


def test_a_gold_answer_that_cannot_be_parsed_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, [AIME[0] | {"answer": "foo bar"}], ".jsonl")
    with pytest.raises(TaskError, match="problem aime25-0: answer 'foo bar' cannot be read by math_verify"):
        problems(task("aime25", path=path, size=1))


@pytest.mark.parametrize("name", HUB)
def test_the_hub_is_asked_for_one_commit_and_gives_the_same_problems(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def load_dataset(path: str, config: str | None, **options: Any) -> Any:
        asked.update(options, path=path, config=config)
        found = datasets.Dataset.from_list(LAYOUTS[name])
        return found if options["split"] else datasets.DatasetDict({"test": found})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    rows = rows_of(task(name, size=3))
    local = rows_of(task(name, path=written(tmp_path, LAYOUTS[name], ".parquet"), size=3))
    assert [row | {"source": ""} for row in rows] == [row | {"source": ""} for row in local]
    found = source(name)
    assert isinstance(found, HubSource)
    assert rows[0]["source"] == f"hub {found.hub}@{found.revision[:7]} row 0"
    # nothing else is passed: above all not trust_remote_code
    options = {"split": found.split, "revision": found.revision, "keep_in_memory": True}
    assert asked == {"path": found.hub, "config": found.config} | options


def test_several_splits_are_refused_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    one = datasets.Dataset.from_list(LAYOUTS["aime26"])
    both = datasets.DatasetDict({"train": one, "test": one})
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: both)
    with pytest.raises(TaskError, match=r"math-ai/aime26 at 79037ae has the splits \['test', 'train'\]: name one"):
        problems(task("aime26"))


OWN = """
kind: hub
version: {version}
hub: nobody/nothing
revision: "{revision}"
split: test
file: some/file.parquet
columns: {{question: q, answer: a}}
size: 1
"""


def own(folder: Path, version: int = 1, revision: str = 40 * "0") -> str:
    path = folder / "mine.yaml"
    path.write_text(OWN.format(version=version, revision=revision))
    return str(path)


def test_without_network_and_data_the_file_to_bring_is_named(tmp_path: Path) -> None:
    url = f"https://huggingface.co/datasets/nobody/nothing/resolve/{40 * '0'}/some/file.parquet"
    with pytest.raises(TaskError) as refused:
        problems(task(own(tmp_path)))
    assert str(refused.value).startswith("nobody/nothing at 0000000 cannot be loaded (")
    assert str(refused.value).endswith(f"): bring its file some/file.parquet from {url} and set path to it")
    assert "\n" not in str(refused.value)


def test_a_file_of_ones_own_works_like_the_shipped_ones(tmp_path: Path) -> None:
    path = written(tmp_path, [{"q": "What is 1 + 1?", "a": "2"}], ".jsonl")
    [row] = problems(task(own(tmp_path), path=path))
    assert (row["problem"], row["answer"]) == ("mine-0", "2")


def test_identity_is_the_benchmarks_file_with_its_version_and_the_local_content(tmp_path: Path) -> None:
    before = fingerprint(task(own(tmp_path)))
    (tmp_path / "elsewhere").mkdir()
    assert fingerprint(task(own(tmp_path / "elsewhere"))) == before
    assert fingerprint(task(own(tmp_path, version=2))) != before
    assert fingerprint(task(own(tmp_path, revision=40 * "1"))) != before
    assert fingerprint(task("aime24")) != fingerprint(task("aime25"))
    assert fingerprint(task("aime24", limit=5)) != fingerprint(task("aime24"))
    few, more = (fingerprint(task("aime24", path=written(tmp_path, LAYOUTS["aime24"][:n], ".jsonl"))) for n in (2, 3))
    assert few != more
    assert json.loads(json.dumps(more)) == more


def test_another_version_is_another_evaluation(tmp_path: Path) -> None:
    def evaluated(version: int) -> str:
        chain = {"task": "reasoning_gym", "name": "chain_sum", "size": 20, "seed": 1}
        study = parse(
            {
                "study": "tiny",
                "models": {"embedded": {"kind": "embedded"}},
                "train_data": chain,
                "seeds": [0],
                "methods": {"clip_higher": {"preset": "clip_higher"}},
                "evaluate": {"benchmarks": {"mine": {"task": "benchmark", "name": own(tmp_path, version)}}},
                "compare": {"reference": "clip_higher", "primary": {"metric": "avg@n", "family": ["base"]}},
            }
        )
        return data_name(study, study.models["embedded"], "mine")

    assert evaluated(1) == evaluated(1)
    assert evaluated(1) != evaluated(2)


def test_dapo_prompts_lose_their_instructions(tmp_path: Path) -> None:
    question = "Find $1+1$. Remember it."
    records = [dapo(wrapped(question)[0]["content"], "2", "a"), dapo("Find $2+2$.", "4", "b")]
    rows = problems(task("dapo_math_17k", path=written(tmp_path, records, ".parquet"), size=2))
    assert [row["prompt"] for row in rows] == [question, "Find $2+2$."]


def test_repeats_are_kept_once_and_not_at_all_with_two_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = [("Find $1+1$.", "2"), ("find $1 + 1$.", "2"), ("Find $x$.", "5"), ("Find $x$.", "6"), ("Find $y$.", "7")]
    records = [dapo(question, answer, f"i{at}") for at, (question, answer) in enumerate(given)]
    path = written(tmp_path, records, ".jsonl")
    with caplog.at_level(logging.WARNING):
        rows = problems(task("dapo_math_17k", path=path, size=5))
    assert [row["problem"] for row in rows] == ["dapo_math_17k-i0", "dapo_math_17k-i4"]
    assert "2 of 5 problems kept: 2 repeat a question, 1 questions have two answers" in caplog.text
    assert [
        row["answer"] for row in problems(task("dapo_math_17k", path=path, size=5), exclude=contents(rows[:1]))
    ] == ["7"]


@pytest.mark.parametrize(
    ("records", "settings", "words"),
    [
        (AIME[:2], {}, "2 problems, 30 wanted: bring the whole file, or set size to what it should have"),
        (
            [{"question": "q", "answer": "1"}],
            {"size": 1},
            "row 0: no column 'problem'; there are answer, question: bring",
        ),
        ([AIME[0] | {"answer": None}], {"size": 1}, "row 0: answer None is not a text or a number; correct the file"),
        ([AIME[0] | {"problem": " "}], {"size": 1}, "row 0: problem ' ' is not a text"),
        ([AIME[0] | {"answer": True}], {"size": 1}, "row 0: answer True is not a text"),
        ([AIME[0], AIME[0] | {"problem": "Other?"}], {"size": 2}, "id 'aime25-0' is given twice .* row 1.: keep one"),
        ([AIME[0], AIME[0] | {"id": "9"}], {"size": 2}, "question of 'aime25-9' is given twice"),
        (AIME, {"size": 3, "limit": 4}, "3 problems that are not excluded, 4 wanted: lower limit"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, records: list[Any], settings: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskError, match=words) as refused:
        rows_of(task("aime25", path=written(tmp_path, records, ".jsonl"), **settings))
    assert "\n" not in str(refused.value)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    missing = task("aime24", path=str(tmp_path / "none.jsonl"))
    for use in (problems, fingerprint):
        with pytest.raises(TaskError, match=r"none.jsonl: cannot be read .*; correct the task's path"):
            use(missing)
    for name, content, words in (
        ("broken.parquet", b"no parquet", "broken.parquet: cannot be read"),
        ("latin.jsonl", b'{"q": "\xe9"}', "latin.jsonl: cannot be read"),
        ("list.jsonl", b"[1]", r"list.jsonl:1: '\[1\]' is not a JSON object; write one object a line"),
        ("half.jsonl", b"\n{", "half.jsonl:2: not a JSON object"),
        ("table.csv", b"", "table.csv: neither .parquet nor .jsonl"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TaskError, match=words) as refused:
            problems(task("aime24", path=str(tmp_path / name)))
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"name": "aime27"}, "name 'aime27': no such benchmark; there are aime24, aime25"),
        ({"name": "../aime24"}, "no such benchmark"),
        ({"name": "none.yaml"}, "none.yaml: cannot be read"),
        ({"name": "gym_zebra_puzzles", "path": "x.jsonl"}, "gym_zebra_puzzles is generated and takes no file"),
        ({"name": "aime24", "size": 0}, "size"),
        ({"name": "aime24", "template": "{question.x}"}, "is not a plain field"),
        ({"name": "aime24", "revision": "main"}, "revision"),  # the commit belongs to the benchmark's file
    ],
)
def test_refused_when_the_study_is_read(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        task(**settings)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("kind: hub\nversion: 0", "mine.yaml: version: 0: Input should be greater than or equal to 1"),
        ("kind: web", "mine.yaml: kind: .*'web'"),
        ("kind: [", "mine.yaml: .*: mend the YAML"),
        (OWN.format(version=1, revision="main"), "mine.yaml: revision: 'main': String should match"),
        (OWN.format(version=1, revision=40 * "0") + "bogus: 1", "mine.yaml: bogus: 1: Extra inputs"),
    ],
)
def test_a_wrong_benchmark_file_is_refused(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "mine.yaml").write_text(content)
    with pytest.raises(TaskError, match=words) as refused:
        source(str(tmp_path / "mine.yaml"))
    assert "\n" not in str(refused.value)
