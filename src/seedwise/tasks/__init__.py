"""Sources of problems: one file each, a frozen model that is read from the study and builds PROBLEMS rows.

Importing this takes milliseconds: generators and verifiers are imported when problems are built.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from seedwise.tasks.benchmark import Benchmark
from seedwise.tasks.jsonl import Jsonl
from seedwise.tasks.problem import check_overlap, contents
from seedwise.tasks.reasoning_gym import ReasoningGym
from seedwise.tasks.template import TaskError

Task = Annotated[ReasoningGym | Jsonl | Benchmark, Field(discriminator="task")]

__all__ = [
    "Benchmark",
    "Jsonl",
    "ReasoningGym",
    "Task",
    "TaskError",
    "check_overlap",
    "contents",
    "fingerprint",
    "problems",
]


def fingerprint(task: ReasoningGym | Jsonl | Benchmark) -> dict[str, Any]:
    """What the task's problems depend on, in plain values: settings, package version or digest of the file."""
    return task.fingerprint()


def problems(
    task: ReasoningGym | Jsonl | Benchmark, template: str | None = None, exclude: frozenset[str] = frozenset()
) -> list[dict[str, Any]]:
    """Rows of tables.PROBLEMS, deterministic.

    template: prompt with fields in braces, unless the task has its own; default ``{question}``.
    exclude: prompts (as rendered) or content keys that must not appear; see ``contents``.
    Raises TaskError when there are too few problems or when a gold answer is one that its verifier cannot work with.
    """
    from seedwise.grading.pool import Grader

    rows = task.problems(template, exclude)
    with Grader() as grader:
        for row, fault in zip(rows, grader.gold_faults(rows), strict=True):
            if fault is not None:
                raise TaskError(
                    f"{row['source']}: problem {row['problem']}: answer {row['answer']!r} {fault}; "
                    "correct the answer or choose another verifier"
                )
    return rows
