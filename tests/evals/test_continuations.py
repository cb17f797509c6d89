"""The continuation experiment, whole on a tiny model and in detail on a scripted one."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedwise import tables
from seedwise.engines.base import Completion, Sampling
from seedwise.evals.along import kept
from seedwise.evals.chosen import Response
from seedwise.evals.continuations import experiment, overlaps
from seedwise.evals.continuing import Cut, Policy, continued
from seedwise.evals.resampling import of_run, together, windows_table
from seedwise.evals.samples import sample
from seedwise.evals.scores import score
from seedwise.identity import stream

SETTINGS = SimpleNamespace(
    band=(0.2, 0.8), problems=2, responses=2, window=2, continuations=3, edge=0.2, apart=0.5, positions=(),
    per_position=2, words=0,
)  # fmt: skip
SAMPLING = Sampling(24, stop_token_ids=(1,))


@given(st.lists(st.lists(st.integers(0, 1), max_size=5), min_size=2, max_size=6), st.integers(1, 6))
def test_overlap_is_the_mean_pairwise_common_prefix(ids_MT: list[list[int]], window: int) -> None:
    def common(a: list[int], b: list[int]) -> int:
        return sum(
            1 for _ in itertools.takewhile(lambda both: both[0] == both[1], zip(a[:window], b[:window], strict=False))
        )

    M, found = len(ids_MT), overlaps(ids_MT, window)
    for i in range(M):
        assert found[i] == pytest.approx(sum(common(ids_MT[i], ids_MT[j]) for j in range(M) if j != i) / (M - 1))
    pairs = [common(a, b) for a, b in itertools.combinations(ids_MT, 2)]
    assert sum(found) / M == pytest.approx(sum(pairs) / len(pairs))


def test_overlap_by_hand() -> None:
    # 1 2 | 1 2 | 1 3: pairs share 2, 1 and 1 tokens; the first is averaged over (2, 1)
    assert overlaps([[1, 2, 9], [1, 2, 8], [1, 3, 9]], 2) == [1.5, 1.5, 1.0]
    assert overlaps([[1, 2]], 2) == [None]


class Scripted:
    """Entropy of a token is its id; every continuation is the text given for the window, cut to its budget."""

    name = "scripted 1"

    def __init__(self, tokenizer, says: dict[int, list[str]]) -> None:
        self.tokenizer, self.says, self.calls = tokenizer, says, []

    def entropies(self, prompts: Sequence, responses: Sequence, temperature: float) -> list[list[float]]:
        return [[float(token) for token in response] for response in responses]

    def generate(self, prompts, n, sampling, seeds, *, entropy=False, budgets=None) -> list[list[Completion]]:
        self.calls.append((prompts, n, seeds, budgets))
        groups = []
        for prompt in prompts:
            texts = self.says[len(prompt)]
            ids = [[*self.tokenizer(text)["input_ids"], 1] for text in texts]
            groups.append([Completion(i, t, [0.0] * len(i), "stop") for i, t in zip(ids, texts, strict=True)])
        return groups


def scored(*rows: tuple[str, int, str, str], step: int = 60) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(problem, sample, text, verdict) -> samples and scores, one stop token each."""
    key = [{"step": step, "benchmark": "same", "problem": p, "sample": k} for p, k, _, _ in rows]
    more = [{"text": text, "tokens": len(text) + 1, "stop": "stop"} for _, _, text, _ in rows]
    samples = pd.DataFrame(
        [a | b | {"seed": i, "engine": "hand"} for i, (a, b) in enumerate(zip(key, more, strict=True))]
    )
    judged = [{"verdict": verdict, "correct": int(verdict == "correct")} for *_, verdict in rows]
    scores = pd.DataFrame([a | b for a, b in zip(key, judged, strict=True)])
    return samples, scores


def go(engine, tokenizer, grader, problems, samples, scores, **settings) -> pd.DataFrame:
    return whole(engine, tokenizer, grader, problems, samples, scores, **settings)["continuations"]


def whole(engine, tokenizer, grader, problems, samples, scores, **settings) -> dict[str, pd.DataFrame]:
    return experiment(
        engine,
        tokenizer,
        samples=samples,
        scores=scores,
        problems=problems,
        settings=SimpleNamespace(**(vars(SETTINGS) | settings)),
        sampling=SAMPLING,
        grader=grader,
        run="r",
    )


def test_by_hand(tokenizer, grader, problems_of) -> None:
    # ids of digits are 3..12 in order, so entropy follows the digit: tokens 2..7 of 10 may hold a window of 2
    samples, scores = scored(("p", 0, "0000990000", "wrong"), ("p", 1, "0011001100", "correct"))
    # the correct response: 11 at 2 is high, 00 at 4 is low; the wrong one: 99 at 4 is high, 00 at 2 is low
    says = {3 + 2: ["12#5", "12#6", "34#5"], 3 + 4: ["#5", "#5", "9"]}
    engine = Scripted(tokenizer, says)
    rows = go(engine, tokenizer, grader, problems_of(p="5"), samples, scores)
    rows = rows.set_index(["response", "window", "continuation"]).sort_index()
    assert rows["outcome"].groupby("response").first().tolist() == ["incorrect", "correct"]
    assert rows["start_tokens"].groupby(["response", "window"]).first().to_dict() == {
        (0, "high"): 4,
        (0, "low"): 2,
        (1, "high"): 2,
        (1, "low"): 4,
    }
    assert rows.loc[(1, "high"), "position"].tolist() == [0.2] * 3
    assert rows.loc[(0, "high"), "entropy_nats"].tolist() == [12.0] * 3
    # 12 and 12 share both tokens of the window, 34 none
    assert rows.loc[(1, "high"), "overlap_tokens"].tolist() == [1.0, 1.0, 0.0]
    assert rows.loc[(1, "high"), "verdict"].tolist() == ["correct", "wrong", "correct"]
    assert rows.loc[(1, "low"), "verdict"].tolist() == ["correct", "correct", "unparsed"]
    ((prompts, n, seeds, budgets),) = engine.calls
    by_cut = dict(zip([tokenizer.decode(p) for p in prompts], budgets, strict=True))
    assert by_cut == {"p=?0011": 20, "p=?00": 22, "p=?0000": 20}  # of 24 tokens, less those kept
    assert n == 3
    assert stream("r", 60, "same", "continuations", "p", 1, "high", 2) in seeds
    assert len(set(seeds)) == 12


def test_answer_before_the_window_counts(tokenizer, grader, problems_of) -> None:
    samples, scores = scored(("p", 0, "#500990000", "correct"), ("p", 1, "0", "wrong"))
    rows = go(Scripted(tokenizer, {5: [""] * 3, 7: [""] * 3}), tokenizer, grader, problems_of(p="5"), samples, scores)
    # kept: "#5" before the low window, "#500" before the high one
    assert rows.groupby("window")["correct"].sum().to_dict() == {"high": 0, "low": 3}


def test_short_and_unreadable_responses_are_reported(tokenizer, grader, problems_of, caplog) -> None:
    samples, scores = scored(
        ("p", 0, "0011001100", "correct"),
        ("p", 1, "00", "wrong"),
        ("p", 2, "0011001100", "wrong"),
        ("q", 0, "0", "correct"),
    )
    samples.loc[2, "tokens"] = 40  # its text does not give back its tokens
    with caplog.at_level(logging.WARNING):
        rows = go(
            Scripted(tokenizer, {5: ["a"] * 3, 7: ["b"] * 3}),
            tokenizer,
            grader,
            problems_of(p="5", q="1"),
            samples,
            scores,
        )
    assert rows["response"].unique().tolist() == [0]
    assert "r: 1 of 2 problems have an accuracy in [0.2, 0.8], 1 of them" in caplog.text
    assert "1 responses are too short for two windows of 2 tokens, 1 cannot be read back" in caplog.text


def test_no_difference_in_entropy_is_passed_over(tokenizer, grader, problems_of, caplog) -> None:
    samples, scores = scored(("p", 0, "0000000000", "correct"), ("p", 1, "0011001100", "wrong"))
    says = {5: ["a"] * 3, 7: ["b"] * 3}
    rows = go(Scripted(tokenizer, says), tokenizer, grader, problems_of(p="5"), samples, scores)
    assert rows["response"].unique().tolist() == [1]
    assert "problem p, sample 0: no two windows differ in entropy" in caplog.text


@pytest.mark.parametrize("verdict", ["correct", "wrong"])
def test_no_problem_in_the_band_gives_an_empty_table(
    tokenizer, engine, grader, problems_of, tmp_path: Path, verdict: str, run, caplog
) -> None:
    samples, scores = scored(*(("p", k, "0011001100", verdict) for k in range(4)))
    rows = go(engine, tokenizer, grader, problems_of(p="5"), samples, scores)
    tables.write(tables.CONTINUATIONS, rows, tmp_path / "c.parquet")
    assert len(tables.read(tables.CONTINUATIONS, tmp_path / "c.parquet")) == 0
    assert "0 of 1 problems" in caplog.text
    tables.write(tables.WINDOWS, windows_table(rows, run), tmp_path / "w.parquet")
    files = whole(engine, tokenizer, grader, problems_of(p="5"), samples, scores, positions=(0.0, 0.5))
    (chosen,) = files["chosen"].to_dict("records")
    assert (chosen["in_band"], chosen["used"], chosen["wanted"], chosen["problems"]) == (0, 0, 2, 1)
    assert len(files["along"]) == len(files["example"]) == 0
    none = go(engine, tokenizer, grader, problems_of(), samples.iloc[:0], scores.iloc[:0])
    tables.write(tables.CONTINUATIONS, none, tmp_path / "c.parquet")


def test_samples_and_scores_must_match(tokenizer, engine, grader, problems_of) -> None:
    samples, scores = scored(("p", 0, "0011001100", "correct"), ("p", 1, "0011001100", "wrong"))
    with pytest.raises(tables.TableError, match="not those of the samples"):
        go(engine, tokenizer, grader, problems_of(p="5"), samples, scores.iloc[:1])
    both = [pd.concat([frame, frame.assign(step=20)]) for frame in (samples, scores)]
    with pytest.raises(tables.TableError, match="one checkpoint and one benchmark"):
        go(engine, tokenizer, grader, problems_of(p="5"), *both)


def test_whole_on_a_tiny_model(tokenizer, engine, grader, problems_of, run, tmp_path: Path) -> None:
    problems = problems_of(a="1", bcd="2", e="3")
    samples = sample(engine, tokenizer, problems, run="r", step=60, benchmark="same", n=6, sampling=SAMPLING)
    scores = score(samples, problems, grader)
    scores["verdict"] = ["correct" if k % 2 else "wrong" for k in scores["sample"]]  # a random model is never right
    rows = go(engine, tokenizer, grader, problems, samples, scores)
    again = go(engine, tokenizer, grader, problems, samples, scores)
    assert rows.equals(again)
    tables.write(tables.CONTINUATIONS, rows, tmp_path / "c.parquet")
    assert len(rows) >= 2 * 2 * 3  # two problems, at least one response each, two windows, three continuations
    text = samples.set_index(["problem", "sample"])
    for (problem, response), both in rows.groupby(["problem", "response"]):
        high, low = (both[both["window"] == window].iloc[0] for window in ("high", "low"))
        assert high["entropy_nats"] > low["entropy_nats"]
        ids = tokenizer(text.loc[(problem, response), "text"])["input_ids"]
        (entropy_T,) = engine.entropies([tokenizer(f"{problem}=?")["input_ids"]], [ids], 1.0)
        for window in (high, low):
            start = int(window["start_tokens"])
            assert window["position"] == start / len(ids)
            assert window["entropy_nats"] == pytest.approx(sum(entropy_T[start : start + 2]) / 2, abs=1e-5)
    windows = windows_table(rows, run)
    tables.write(tables.WINDOWS, windows, tmp_path / "w.parquet")
    assert len(windows) == len(rows) / 6


def test_everything_on_a_tiny_model(tokenizer, engine, grader, problems_of, run, tmp_path: Path) -> None:
    problems = problems_of(a="1", bcd="2", e="3")
    samples = sample(engine, tokenizer, problems, run="r", step=60, benchmark="same", n=6, sampling=SAMPLING)
    scores = score(samples, problems, grader)
    scores["verdict"] = ["correct" if k % 2 else "wrong" for k in scores["sample"]]
    scores["correct"] = scores["sample"] % 2
    asked = {"positions": (0.0, 0.5), "words": 8}
    files = whole(engine, tokenizer, grader, problems, samples, scores, **asked)
    again = whole(engine, tokenizer, grader, problems, samples, scores, **asked)
    assert set(files) == set(tables.RESAMPLED)
    for name, rows in files.items():
        assert rows.equals(again[name])
        tables.write(tables.RESAMPLED[name], rows, tmp_path / f"{name}.parquet")
        assert len(rows)
    # the same responses, at two positions, two continuations each
    responses = files["continuations"][["problem", "response"]].drop_duplicates()
    assert len(files["along"]) >= len(responses) * 2 * 2
    assert files["chosen"]["used"].tolist() == [2]
    both = together([of_run(files, run), of_run(files, run | {"run": "qae.G8.s2-00000000", "seed": 2})])
    assert len(both["prefixes"]) == len(files["along"])  # two runs, a row for two continuations
    tables.write(tables.PREFIXES, both["prefixes"], tmp_path / "p.parquet")
    assert set(both["words"]["seed"]) == {1, 2}
    assert both["prefixes"]["reward"].between(0, 1).all()


def test_along_by_hand(tokenizer, grader, problems_of) -> None:
    # of 10 tokens 0, 3 (rounded down) and 9 are kept; with the prompt's 3 that is 3, 6 and 12
    samples, scores = scored(("p", 0, "00110011#5", "correct"), ("p", 1, "0011001100", "wrong"))
    says = {3 + 2: [""] * 3, 3 + 4: [""] * 3, 3: ["#5", "9"], 6: ["#5", "#5"], 12: ["5", "#5"]}
    engine = Scripted(tokenizer, says)
    files = whole(engine, tokenizer, grader, problems_of(p="5"), samples, scores, positions=(0.0, 0.39, 0.9))
    rows = files["along"].set_index(["response", "position", "continuation"]).sort_index()
    assert len(rows) == 2 * 3 * 2
    assert rows.loc[0, "start_tokens"].groupby("position").first().to_dict() == {0.0: 0, 0.39: 3, 0.9: 9}
    assert set(rows["length_tokens"]) == {10}
    assert rows.loc[(0, 0.0), "correct"].tolist() == [1, 0]
    assert rows.loc[(1, 0.39), "correct"].tolist() == [1, 1]
    # "00110011#" and "5" is right; "001100110" and "5" has no answer
    assert rows.loc[(0, 0.9, 0), "correct"] == 1
    assert rows.loc[(1, 0.9), "verdict"].tolist() == ["unparsed", "correct"]
    *_, (prompts, n, seeds, budgets) = engine.calls
    assert (n, sorted(budgets)) == (2, [15, 15, 21, 21, 24, 24])
    assert [len(prompt) for prompt in prompts] == [3, 3, 6, 6, 12, 12]
    assert stream("r", 60, "same", "continuations along responses", "p", 1, "0.39", 1) in seeds


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 400))
def test_a_cut_leaves_something_to_write(position: float, length: int) -> None:
    assert 0 <= kept(position, length) <= length
    assert kept(0.0, length) == 0


def test_hundredths_are_kept_exactly() -> None:
    assert [kept(share / 100, 100) for share in range(100)] == list(range(100))


def test_one_example_with_its_texts(tokenizer, grader, problems_of, tmp_path: Path) -> None:
    # windows of the first response differ by 9, of the second by 1
    samples, scores = scored(("p", 0, "0000990000", "wrong"), ("p", 1, "0011001100", "correct"))
    says = {3 + 2: ["12#5", "<b>#6", "34#5"], 3 + 4: ["#5", "#5", "9"]}
    files = whole(Scripted(tokenizer, says), tokenizer, grader, problems_of(p="5"), samples, scores)
    rows = files["example"]
    assert set(zip(rows["problem"], rows["response"], strict=True)) == {("p", 0)}
    high, low = (rows[rows["window"] == window].iloc[0] for window in ("high", "low"))
    assert (high["before"], high["inside"], high["prompt"]) == ("0000", "99", "p=?")
    assert (low["before"], low["inside"]) == ("00", "00")
    assert rows[rows["window"] == "low"]["after"].tolist() == ["12#5", "<b>#6", "34#5"]
    assert (high["start_tokens"], high["window_tokens"], high["length_tokens"]) == (4, 2, 10)
    tables.write(tables.EXAMPLE, rows, tmp_path / "example.parquet")


def test_batches_are_of_similar_depth_and_say_how_far_it_is(tokenizer, grader, problems_of, capsys) -> None:
    engine = Scripted(tokenizer, {3 + start: [str(start)] * 2 for start in range(5)})
    asked = {row["problem"]: row for row in problems_of(p="5").to_dict("records")}
    policy = Policy(engine, tokenizer, SAMPLING, grader, asked, ("r", 60, "same"))  # pyright: ignore
    response = Response("p", 0, "correct", tokenizer("p=?")["input_ids"], tokenizer("12345")["input_ids"])
    cuts = [Cut(response, str(start), start) for start in (4, 0, 3, 1, 2)]
    groups = continued(policy, cuts, 2, "continuations", rows=5)
    # 2 cuts of 2 continuations fit into 5 rows
    assert [len(prompts) for prompts, *_ in engine.calls] == [2, 2, 1]
    assert [[one.text for one in group] for group in groups] == [[t, t] for t in "40312"]
    said = [f"continuations: {number} of 3 batches" for number in (1, 2, 3)]
    assert capsys.readouterr().out.splitlines() == said
    assert continued(policy, [], 2, "continuations") == []
