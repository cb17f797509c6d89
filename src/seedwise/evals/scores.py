"""From samples to verdicts, and from verdicts to counts per problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from seedwise.evals.frames import frame
from seedwise.tables import COUNTS, SCORES, TableError

if TYPE_CHECKING:
    from seedwise.grading.pool import Grader


def score(samples: pd.DataFrame, problems: pd.DataFrame, grader: Grader) -> pd.DataFrame:
    """Grade every sample by its problem's verifier, as rows of ``tables.SCORES`` in the samples' order.

    Raises TableError naming the problem where a sample's problem is not among ``problems``, and what
    ``Grader.grade`` raises.
    """
    from seedwise.grading.pool import Item
    from seedwise.grading.verify import verifier_version

    known = {row["problem"]: row for row in problems.to_dict("records")}
    drawn = samples.to_dict("records")
    for row in drawn:
        if row["problem"] not in known:
            raise TableError(f"samples: problem {row['problem']!r} is not among the problems; sample again")
    verdicts = grader.grade([Item.of(known[row["problem"]], row["text"]) for row in drawn])
    rows = [
        {
            **{key: row[key] for key in ("step", "benchmark", "problem", "sample", "tokens", "stop")},
            "correct": verdict.correct,
            "answer": verdict.answer,
            "verdict": verdict.verdict,
            "verifier": verifier_version(known[row["problem"]]["verifier"]),
        }
        for row, verdict in zip(drawn, verdicts, strict=True)
    ]
    return frame(SCORES, rows)


def counts(scores: pd.DataFrame, run: Mapping[str, Any]) -> pd.DataFrame:
    """Samples of each (step, benchmark, problem) counted, as rows of ``tables.COUNTS``.

    scores: ``tables.SCORES`` of one run.  run: its row of ``tables.RUNS``.
    samples, correct, unparsed, timeout and truncated (stopped by length) are numbers of samples; tokens
    is their mean length.
    """
    flags = pd.DataFrame(
        {
            **{key: scores[key] for key in ("step", "benchmark", "problem", "correct", "tokens")},
            "samples": 1,
            "unparsed": (scores["verdict"] == "unparsed").astype(int),
            "timeout": (scores["verdict"] == "timeout").astype(int),
            "truncated": (scores["stop"] == "length").astype(int),
        }
    )
    totals = flags.groupby(["step", "benchmark", "problem"], as_index=False).sum()
    totals["tokens"] = totals["tokens"] / totals["samples"]
    about = {key: run[key] for key in ("run", "model", "method", "setting", "seed")}
    return frame(COUNTS, [about | row for row in totals.to_dict("records")])
