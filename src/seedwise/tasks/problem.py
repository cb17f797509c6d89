"""A problem as a row of the PROBLEMS table, its content key, and the check that two sets do not overlap."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seedwise.grading.policy import Box, Marker, Whole
from seedwise.tasks.template import TaskError


def content_key(question: str) -> str:
    """16 hex digits of the question as asked, without template, case and spacing: what makes two problems the same."""
    return hashlib.sha256("".join(question.casefold().split()).encode()).hexdigest()[:16]


def row(
    *,
    problem: str,
    prompt: str,
    answer: str,
    question: str,
    source: str,
    verifier: str,
    answer_rule: Box | Marker | Whole,
    entry: Mapping[str, Any],
    difficulty: float | None,
) -> dict[str, Any]:
    """One row of tables.PROBLEMS; ``metadata`` holds the answer rule, what the verifier needs, and the content key."""
    metadata = {"answer_rule": answer_rule.model_dump(), "content": content_key(question), "entry": entry}
    return {
        "problem": problem,
        "prompt": prompt,
        "answer": answer,
        "source": source,
        "verifier": verifier,
        "difficulty": difficulty,
        "metadata": json.dumps(metadata, sort_keys=True, ensure_ascii=False),
    }


def content_of(problem: Mapping[str, Any]) -> str:
    """The content key of a PROBLEMS row."""
    return str(json.loads(problem["metadata"])["content"])


def contents(problems: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Prompts and content keys of PROBLEMS rows, for ``problems(..., exclude=...)``: either keeps a problem out."""
    rows = list(problems)
    return frozenset(row["prompt"] for row in rows) | frozenset(content_of(row) for row in rows)


def check_overlap(train: Sequence[Mapping[str, Any]], benchmarks: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Raise TaskError if a training problem is also in a benchmark, by prompt or by the question behind it."""
    known = contents(train)
    for name, problems in benchmarks.items():
        shared = [problem for problem in problems if problem["prompt"] in known or content_of(problem) in known]
        if shared:
            raise TaskError(
                f"benchmark {name}: {len(shared)} of {len(problems)} problems are in the training data, the first "
                f"{shared[0]['prompt'][:80]!r}: exclude one's prompts when building the other"
            )
