"""Metrics of every checkpoint on every benchmark: one row per problem, and one over the problems.

What each number is stands with the function that computes it: metrics_answers, metrics_words, metrics_length; names,
units and sources of all in ``seedwise.definitions``.  They describe: the comparison computes what it tests from the
counts of samples (evals.scores.counts).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pandas as pd

from seedwise.evals.frames import frame
from seedwise.evals.metrics_answers import best_of, classes, diversity, majority
from seedwise.evals.metrics_length import by_band, hard, lengths, within
from seedwise.evals.metrics_words import mean_rate, occurrences
from seedwise.evals.scorers import Scorer
from seedwise.tables import MEASURES, TableError

_KEY = ["step", "benchmark", "problem", "sample"]
_DIVERSITY = ("answer_entropy", "answer_entropy_distinct", "collision_rate")
_VERDICTS = ("correct", "wrong", "unparsed", "timeout")
_HIDDEN = {"correct", "verdict", "words"}  # what no scorer may see, and what it has no use for
Value = tuple[float | None, str | None]


@dataclass(frozen=True)
class Measures:
    """What is measured.

    words: counted per 1,000 tokens.  pass_ks, majority_ks, best_ks: k of pass@k, majority@k and best-of-k, those up
    to the number of samples.  budgets: tokens, for accuracy within a budget.  edges: bands of the base's accuracy.
    hard_below: answer diversity is that of problems the base model solves in less than this share of its samples.
    scorers: name -> scorer, for best-of-k.  same: whether two wrong answers are one; None compares their texts.
    """

    words: tuple[str, ...]
    pass_ks: tuple[int, ...]
    majority_ks: tuple[int, ...]
    best_ks: tuple[int, ...]
    budgets: tuple[int, ...]
    edges: tuple[float, ...]
    hard_below: float
    scorers: Mapping[str, Scorer]
    same: Callable[[str, str], bool] | None = None


def metrics(samples: pd.DataFrame, scores: pd.DataFrame, base: pd.DataFrame | None, measures: Measures) -> pd.DataFrame:
    """Rows of ``MEASURES`` of one run.

    samples, scores: ``tables.SAMPLES`` and ``tables.SCORES`` of the same samples, any checkpoints and benchmarks.
    base: ``tables.SCORES`` of the base model on the same benchmarks, one checkpoint; it fixes the bands of difficulty
        and the problems whose answer diversity is measured, the same for every run.  None leaves those undefined.

    Over the problems a metric is the mean of their values, a rate per 1,000 tokens the ratio of the sums, a number of
    samples the sum; problems without a value (a mean length of correct samples where none is) are left out and
    ``problems`` says how many count, except that accuracy within a budget and best-of-k are undefined as soon as one
    problem's is.

    Raises TableError where samples and scores are not of the same samples, or where a problem is new to the base.
    """
    both = _joined(samples, scores)
    both["words"] = [occurrences(text, measures.words) for text in both["text"]]
    known = _accuracies(base) if base is not None else None
    rows: list[dict[str, Any]] = []
    for place, here in both.groupby(_KEY[:2]):
        step, benchmark = cast("tuple[int, str]", place)
        problems = {str(name): some.to_dict("records") for name, some in here.groupby("problem")}
        base_N = known.get(str(benchmark), {}) if known is not None else None
        easy = frozenset(problems) - hard(base_N, measures.hard_below) if base_N is not None else frozenset(problems)
        of = {name: _of_problem(some, measures, name not in easy) for name, some in problems.items()}
        whole = _over(of, problems, base_N, measures)
        about = {"step": step, "benchmark": benchmark}
        for name, values in of.items():
            n = len(problems[name])
            rows += [about | _row(name, metric, value, 1, n) for metric, value in values.items()]
        n = len(here)
        rows += [about | _row(None, metric, value, count, n) for metric, (value, count) in whole.items()]
    return frame(MEASURES, rows)


def _joined(samples: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Samples with answer, correctness and verdict, sorted by their key."""
    both = samples.merge(scores[[*_KEY, "correct", "answer", "verdict"]], on=_KEY, how="outer", indicator=True)
    if (both["_merge"] != "both").any():
        raise TableError("scores: they are not those of the samples; score again")
    both["answer"] = both["answer"].astype(object).where(both["answer"].notna(), None)
    return both.drop(columns="_merge").sort_values(_KEY, ignore_index=True)


def _accuracies(scores: pd.DataFrame) -> dict[str, dict[str, float]]:
    """benchmark -> problem -> accuracy."""
    if scores["step"].nunique() > 1:
        raise TableError("base: scores of several checkpoints; select one")
    found: dict[str, dict[str, float]] = {}
    for place, accuracy in scores.groupby(["benchmark", "problem"])["correct"].mean().items():
        benchmark, problem = cast("tuple[str, str]", place)
        found.setdefault(benchmark, {})[problem] = float(accuracy)
    return found


def _of_problem(rows: list[dict[str, Any]], measures: Measures, diverse: bool) -> dict[str, Value]:
    """Every metric of one problem's samples; answer diversity only where asked."""
    correct = [bool(row["correct"]) for row in rows]
    tokens, stops = [int(row["tokens"]) for row in rows], [str(row["stop"]) for row in rows]
    labels = classes([row["answer"] for row in rows], correct, measures.same)
    length = lengths(tokens, stops, correct)
    values: dict[str, Value] = {
        "avg@n": (sum(correct) / len(rows), None),
        **{f"{verdict}_samples": (sum(row["verdict"] == verdict for row in rows), None) for verdict in _VERDICTS},
        "length_tokens": (length.mean, None),
        "length_tokens_correct": (length.correct, "no correct sample"),
        "length_tokens_incorrect": (length.incorrect, "no incorrect sample"),
        "truncated_share": (length.truncated, None),
        "unanswered_share": (sum(label is None for label in labels) / len(labels), None),
    }
    for budget in measures.budgets:
        why = f"a sample was cut before {budget} tokens: sample with more"
        values[f"accuracy_within_{budget}_tokens"] = (within(tokens, stops, correct, budget), why)
    values |= _of_k(rows, labels, correct, measures)
    if diverse:
        found = diversity(labels)
        why = "fewer than 2 answers" if found.answers < 2 else "one distinct answer"
        for name, value in zip(_DIVERSITY, (found.entropy, found.entropy_distinct, found.collision), strict=True):
            values[name] = (value, why)
    return values | {name: (rate, "no tokens") for name, rate in _rates(rows).items()}


def _of_k(
    rows: Sequence[Mapping[str, Any]], labels: list[int | None], correct: list[bool], measures: Measures
) -> dict[str, Value]:
    """What k of a problem's samples would have come to."""
    n = len(rows)
    # pass@k is the best of k by a scorer that knows what is right
    values: dict[str, Value] = {f"pass@{k}": (best_of(correct, correct, k), None) for k in measures.pass_ks if k <= n}
    values |= {f"majority@{k}": (majority(labels, correct, k), None) for k in measures.majority_ks if k <= n}
    shown = [{key: value for key, value in row.items() if key not in _HIDDEN} for row in rows]
    for name, scorer in measures.scorers.items():
        given, why = scorer(shown), f"the samples keep nothing that {name} could look at"
        values |= {
            f"best@{k}_{name}": (None if given is None else best_of(given, correct, k), why)
            for k in measures.best_ks
            if k <= n
        }
    return values


def _rates(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    every = [{"markers": sum(row["words"].values()), **row["words"]} if row["words"] else {} for row in rows]
    rates = mean_rate(every, [int(row["tokens"]) for row in rows])
    return {f"{word}_per_1000_tokens": rate for word, rate in rates.items()}


def _over(
    of: Mapping[str, Mapping[str, Value]],
    problems: Mapping[str, list[dict[str, Any]]],
    base_N: Mapping[str, float] | None,
    measures: Measures,
) -> dict[str, tuple[Value, int]]:
    """Every metric over a benchmark's problems, and how many of them it rests on."""
    whole: dict[str, tuple[Value, int]] = {}
    for metric in dict.fromkeys(name for values in of.values() for name in values):
        given = [values[metric] for values in of.values() if metric in values]
        known = [value for value, _ in given if value is not None]
        broken = metric.startswith(("accuracy_within_", "best@")) and len(known) < len(given)
        parts = 1 if metric.endswith("_samples") else len(known)
        mean = math.fsum(known) / parts if known and not broken else None
        why = next((reason for value, reason in given if value is None), None)
        whole[metric] = ((mean, why), len(known))
    pooled = _rates([row for rows in problems.values() for row in rows])
    whole |= {metric: ((rate, "no tokens"), len(problems)) for metric, rate in pooled.items()}
    why = (
        "no scores of the base model"
        if base_N is None
        else f"no problem that the base solves below {measures.hard_below:g}"
    )
    whole |= {name: ((None, why), 0) for name in _DIVERSITY if name not in whole}
    return whole | _banded(problems, base_N, measures.edges)


def _banded(
    problems: Mapping[str, list[dict[str, Any]]], base_N: Mapping[str, float] | None, edges: tuple[float, ...]
) -> dict[str, tuple[Value, int]]:
    accuracy = {name: math.fsum(row["correct"] for row in rows) / len(rows) for name, rows in problems.items()}
    if base_N is None:
        none = by_band({}, {}, edges)
        return {f"accuracy_of_base_{name}": ((None, "no scores of the base model"), 0) for name in none}
    try:
        found = by_band(accuracy, base_N, edges)
    except ValueError as error:
        raise TableError(f"base: {error}") from None
    return {f"accuracy_of_base_{name}": ((mean, "no problem in this band"), n) for name, (mean, n) in found.items()}


def _row(problem: str | None, metric: str, value: Value, problems: int, samples: int) -> dict[str, Any]:
    number, reason = value
    return {
        "problem": problem,
        "metric": metric,
        "value": number,
        "problems": problems if problem is None or number is not None else 0,
        "samples": samples,
        "reason": reason if number is None else None,
    }
