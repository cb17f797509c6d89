"""All metrics of a run as one table: by hand on two problems, and what is undefined."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pytest

from seedwise import tables
from seedwise.definitions import DEFINITIONS, definition
from seedwise.engines.base import Sampling
from seedwise.evals.metrics import Measures, metrics
from seedwise.evals.samples import sample
from seedwise.evals.scorers import SCORERS, log_probability, longest, most_frequent, shortest
from seedwise.evals.scores import score
from seedwise.stats.scores import passk
from seedwise.study import Scorer
from seedwise.tables import MEASURES, TableError

# problem, text, tokens, stop, answer, correct
HERE = [
    ("easy", "Wait, so 4", 100, "stop", "4", 1),
    ("easy", "4", 50, "stop", "4", 1),
    ("hard", "perhaps 5 or wait", 200, "stop", "5", 0),
    ("hard", "6", 90, "length", None, 0),
    ("hard", "5", 40, "stop", "5", 0),
    ("hard", "7", 60, "stop", "7", 1),
]
SOME = Measures(
    words=("wait", "perhaps"),
    pass_ks=(1, 3),
    majority_ks=(2, 3, 8),
    best_ks=(2, 3, 8),
    budgets=(60, 90),
    edges=(0.0, 0.5, 1.0),
    hard_below=0.25,
    scorers={"shortest": shortest},
)


def framed(rows: Sequence[tuple[Any, ...]], step: int = 20, benchmark: str = "b") -> tuple[pd.DataFrame, pd.DataFrame]:
    """SAMPLES and SCORES of these rows."""
    numbers: dict[str, int] = {}
    samples, scores = [], []
    for problem, text, tokens, stop, answer, correct in rows:
        numbers[problem] = numbers.get(problem, -1) + 1
        key = {"step": step, "benchmark": benchmark, "problem": problem, "sample": numbers[problem]}
        samples.append(key | {"text": text, "tokens": tokens, "stop": stop, "seed": 1, "engine": "e 1"})
        verdict = "correct" if correct else "wrong" if answer else "unparsed"
        scores.append(key | {"correct": correct, "answer": answer, "verdict": verdict, "verifier": "v"})
    graded = pd.DataFrame(scores).assign(
        tokens=[row["tokens"] for row in samples], stop=[row["stop"] for row in samples]
    )
    return pd.DataFrame(samples), graded


def base(**accuracy: float) -> pd.DataFrame:
    """SCORES of the base model: ten samples of each problem."""
    rows = [
        (problem, "", 1, "stop", "1", int(k < round(10 * share)))
        for problem, share in accuracy.items()
        for k in range(10)
    ]
    return framed(rows, step=0)[1]


def values(frame: pd.DataFrame, problem: str | None) -> dict[str, float | None]:
    some = frame[frame["problem"].isna() if problem is None else frame["problem"] == problem]
    return {row["metric"]: None if math.isnan(row["value"]) else row["value"] for row in some.to_dict("records")}


def reasons(frame: pd.DataFrame) -> dict[str, str]:
    some = frame[frame["problem"].isna() & frame["value"].isna()]
    return dict(zip(some["metric"], some["reason"], strict=True))


def test_a_run_by_hand(tmp_path: Path) -> None:
    found = metrics(*framed(HERE), base(easy=0.9, hard=0.1), SOME)
    tables.write(MEASURES, found, tmp_path / "measures.parquet")
    assert len(tables.read(MEASURES, tmp_path / "measures.parquet")) == len(found)
    assert values(found, "hard") == {
        "avg@n": 0.25,
        "correct_samples": 1.0,
        "wrong_samples": 2.0,
        "unparsed_samples": 1.0,
        "timeout_samples": 0.0,
        "pass@1": 0.25,
        "pass@3": pytest.approx(3 / 4),  # three of the four triples hold the right one
        "length_tokens": 97.5,  # (200 + 90 + 40 + 60) / 4
        "length_tokens_correct": 60.0,
        "length_tokens_incorrect": 110.0,
        "truncated_share": 0.25,
        "unanswered_share": 0.25,
        "accuracy_within_60_tokens": 0.25,
        "accuracy_within_90_tokens": 0.25,
        # pairs of 5, -, 5', 7: right alone with -, half with 5 and 5': (1 + 1/2 + 1/2) / 6
        "majority@2": pytest.approx(1 / 3),
        # triples: {5, 5', 7}: 5; {5, 5', -}: 5; {5, -, 7} and {5', -, 7}: a tie; (1/2 + 1/2) / 4
        "majority@3": pytest.approx(1 / 4),
        # shortest first 40 wrong, 60 right, 200 wrong, then the one that was cut: right in {60, 200}, {60, cut}
        "best@2_shortest": pytest.approx(2 / 6),
        "best@3_shortest": pytest.approx(1 / 4),  # only {60, 200, cut}
        # classes 2, 1, 1 of 4: 2 * 1/4 ln 4 + 1/2 ln 2 = 3/2 ln 2, over ln 4 and over ln 3
        "answer_entropy": pytest.approx(0.75),
        "answer_entropy_distinct": pytest.approx(1.5 * math.log(2) / math.log(3)),
        "collision_rate": pytest.approx(1 / 6),
        # 390 tokens: one wait, one perhaps
        "markers_per_1000_tokens": pytest.approx(2000 / 390),
        "wait_per_1000_tokens": pytest.approx(1000 / 390),
        "perhaps_per_1000_tokens": pytest.approx(1000 / 390),
    }
    easy = values(found, "easy")
    assert "majority@3" not in easy  # two samples
    assert "collision_rate" not in easy  # the base solves it
    assert easy["length_tokens_incorrect"] is None
    whole = values(found, None)
    assert whole["length_tokens"] == pytest.approx((75 + 97.5) / 2)
    assert whole["length_tokens_incorrect"] == 110.0  # of the one problem that has any
    assert whole["avg@n"] == (1 + 0.25) / 2
    assert whole["correct_samples"] == 3.0  # a number of samples is a sum: 2 + 1
    assert whole["pass@1"] == pytest.approx((1 + 0.25) / 2)
    assert whole["majority@2"] == pytest.approx((1 + 1 / 3) / 2)
    assert whole["collision_rate"] == pytest.approx(1 / 6)  # of the hard problem alone
    assert whole["wait_per_1000_tokens"] == pytest.approx(2000 / 540)  # 2 in 150 + 390 tokens, not a mean of rates
    assert whole["accuracy_of_base_0-0.5"] == 0.25
    assert whole["accuracy_of_base_0.5-1"] == 1.0
    over = found[found["problem"].isna()].set_index("metric")
    assert over.loc["length_tokens_incorrect", "problems"] == over.loc["collision_rate", "problems"] == 1
    assert over.loc["length_tokens", "problems"] == 2
    assert set(over["samples"]) == {6}


def test_what_is_undefined_says_why() -> None:
    measures = replace(
        SOME, words=(), budgets=(60, 500), scorers={"log_probability": log_probability}, best_ks=(2,), pass_ks=()
    )
    found = metrics(*framed(HERE), None, measures)
    assert reasons(found) == {
        "accuracy_within_500_tokens": "a sample was cut before 500 tokens: sample with more",
        "best@2_log_probability": "the samples keep nothing that log_probability could look at",
        **dict.fromkeys(
            (
                "answer_entropy",
                "answer_entropy_distinct",
                "collision_rate",
                "accuracy_of_base_0-0.5",
                "accuracy_of_base_0.5-1",
            ),
            "no scores of the base model",
        ),
    }
    # easy alone is known within 500 tokens, and no mean is made of it
    assert values(found, "easy")["accuracy_within_500_tokens"] == 1.0
    solved = metrics(*framed(HERE), base(easy=0.9, hard=0.6), measures)
    assert reasons(solved)["collision_rate"] == "no problem that the base solves below 0.25"
    assert reasons(solved)["accuracy_of_base_0-0.5"] == "no problem in this band"


def test_checkpoints_and_benchmarks_are_kept_apart() -> None:
    places = [(20, "b"), (40, "b"), (20, "c")]
    both = [framed(HERE[:2] if place[1] == "c" else HERE, *place) for place in places]
    samples, scores = (pd.concat(some, ignore_index=True) for some in zip(*both, strict=True))
    found = metrics(samples.sample(frac=1, random_state=3), scores, None, SOME)
    one = metrics(*both[1], None, SOME)
    part = found[(found["step"] == 40) & (found["benchmark"] == "b")].reset_index(drop=True)
    pd.testing.assert_frame_equal(part, one)
    assert set(found[found["benchmark"] == "c"]["problem"].dropna()) == {"easy"}


def test_a_scorer_does_not_see_what_is_right_and_may_be_ones_own() -> None:
    seen: list[Mapping[str, Any]] = []

    def says_seven(samples: Sequence[Mapping[str, Any]]) -> list[float | None]:
        seen.extend(samples)
        return [float(row["answer"] == "7") for row in samples]

    found = metrics(*framed(HERE), None, replace(SOME, best_ks=(2,), scorers={"seven": says_seven}))
    assert values(found, "hard")["best@2_seven"] == pytest.approx(0.5)  # any of the 3 of 6 pairs with the right one
    assert seen
    assert not {"correct", "verdict", "words"} & {key for row in seen for key in row}


def test_the_shipped_scorers() -> None:
    rows = [{"tokens": 5, "stop": "stop"}, {"tokens": 9, "stop": "length"}, {"tokens": 7, "stop": "stop"}]
    assert shortest(rows) == [-5.0, None, -7.0]
    assert longest(rows) == [5.0, None, 7.0]
    assert most_frequent([{"answer": text} for text in ("5", None, "5", "7")]) == [2.0, None, 2.0, 1.0]
    assert log_probability(rows) is None
    # nats of a token: -10 / 5 and -21 / 7; a cut response has no answer to be likely
    kept = [row | {"log_probability": nats} for row, nats in zip(rows, (-10.0, -1.0, -21.0), strict=True)]
    assert log_probability(kept) == [-2.0, None, -3.0]
    assert set(SCORERS) == set(get_args(Scorer))  # what a study may name


def test_scores_of_other_samples_are_refused() -> None:
    samples, scores = framed(HERE)
    for wrong in (scores.iloc[1:], pd.concat([scores, scores.iloc[:1].assign(sample=9)])):
        with pytest.raises(TableError, match="scores: they are not those of the samples; score again"):
            metrics(samples, wrong, None, SOME)
    with pytest.raises(TableError, match="base: problem 'hard' has no accuracy of the base model"):
        metrics(samples, scores, base(easy=0.9), SOME)
    with pytest.raises(TableError, match="base: scores of several checkpoints; select one"):
        metrics(samples, scores, pd.concat([scores, scores.assign(step=40)]), SOME)


def test_a_real_run_fits_the_table(engine, tokenizer, problems_of, grader, tmp_path: Path) -> None:
    problems = problems_of(a="1", b="2")
    sampling = Sampling(12, temperature=0.9, stop_token_ids=(1,))
    drawn = sample(engine, tokenizer, problems, run="r", step=20, benchmark="b", n=8, sampling=sampling)
    tables.write(tables.SAMPLES, drawn, tmp_path / "samples.parquet")
    tables.write(tables.SCORES, score(drawn, problems, grader), tmp_path / "scores.parquet")
    samples, scores = (
        tables.read(table, tmp_path / f"{table.name}.parquet") for table in (tables.SAMPLES, tables.SCORES)
    )
    found = metrics(samples, scores, scores, replace(SOME, budgets=(12,), best_ks=(2, 4, 8), scorers=SCORERS))
    tables.write(MEASURES, found, tmp_path / "measures.parquet")
    whole = values(found, None)
    assert whole["length_tokens"] == pytest.approx(drawn["tokens"].mean())
    assert whole["truncated_share"] == pytest.approx((drawn["stop"] == "length").mean())
    assert {f"best@{k}_{name}" for k in (2, 4, 8) for name in SCORERS} <= set(whole)
    assert sum(whole[f"{verdict}_samples"] or 0 for verdict in ("correct", "wrong", "unparsed", "timeout")) == 16


def test_no_samples() -> None:
    samples, scores = framed(HERE)
    assert metrics(samples.iloc[:0], scores.iloc[:0], None, SOME).empty


@pytest.mark.parametrize("n", [4, 6])
def test_pass_at_k_is_that_of_the_statistics(n: int) -> None:
    for c in range(n + 1):
        rows = [("p", "", 1, "stop", str(k), int(k < c)) for k in range(n)]
        found = values(metrics(*framed(rows), None, replace(SOME, pass_ks=tuple(range(1, n + 3)))), "p")
        assert [found[f"pass@{k}"] for k in range(1, n + 1)] == [
            pytest.approx(float(passk(n, c, k))) for k in range(1, n + 1)
        ]
        assert f"pass@{n + 1}" not in found


def test_every_metric_is_defined_once_and_every_definition_is_measured() -> None:
    measures = replace(SOME, scorers=SCORERS)
    measured = set(metrics(*framed(HERE), base(easy=0.9, hard=0.1), measures)["metric"])
    named = {each.name: {metric for metric in measured if each.names(metric)} for each in DEFINITIONS}
    assert all(named.values())
    assert set.union(*named.values()) == measured
    # the sum of all markers stands before the words one by one
    twice = [metric for metric in measured if sum(metric in names for names in named.values()) > 1]
    assert twice == ["markers_per_1000_tokens"]
    assert definition("markers_per_1000_tokens").name == "markers_per_1000_tokens"
    assert definition("wait_per_1000_tokens").name == "<word>_per_1000_tokens"
    assert definition("accuracy_of_base_0-0.5").unit == "share"
    with pytest.raises(KeyError):
        definition("accuracy")
