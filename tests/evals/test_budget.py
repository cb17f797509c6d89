"""Budget forcing: token by token on a scripted engine, and on a real one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from seedwise import tables
from seedwise.engines.base import Completion, Sampling
from seedwise.evals.budget import forced
from seedwise.evals.samples import sample
from seedwise.identity import stream

END, THOUGHT, WAIT = 1, 2, 90


class Letters:
    """A tokenizer whose tokens are characters by their code; 0 is unknown, 1 ends, 2 ends the thinking."""

    unk_token_id = 0

    def __call__(self, text: Any, add_special_tokens: bool = True) -> dict[str, Any]:
        if isinstance(text, str):
            return {"input_ids": [WAIT] if text == "Wait" else [0 if c == "?" else ord(c) for c in text]}
        return {"input_ids": [[ord(c) for c in one] for one in text]}

    def batch_decode(self, ids_BT: Sequence[Sequence[int]], **_: Any) -> list[str]:
        names = {WAIT: "<Wait>", THOUGHT: ""}
        return ["".join(names.get(i, chr(i)) for i in ids) for ids in ids_BT]


class Script:
    """An engine that answers a prompt by what has been written so far; it obeys the budget it is given."""

    name = "script 1"

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers, self.asked = answers, []

    def generate(self, prompts, n, sampling, seeds, *, entropy=False, budgets=None):
        if sampling.temperature == 100.0:  # whether seeds are used: see engines.distinct
            return [[Completion([seed % 7 + 3 + i for i in range(8)], "", [-9.0] * 8, "stop") for seed in seeds]]
        written = [Letters().batch_decode([prompt])[0] for prompt in prompts]
        limits = budgets or [sampling.max_tokens] * len(prompts)
        self.asked.append((written, list(limits), list(seeds)))
        return [[self._one(text, limit) for _ in range(n)] for text, limit in zip(written, limits, strict=True)]

    def _one(self, text: str, limit: int) -> Completion:
        ids = [THOUGHT if c == "|" else ord(c) for c in self.answers[text]] + [END]
        ids, stop = (ids[:limit], "length") if len(ids) > limit else (ids, "stop")
        return Completion(ids, "", [-1.0] * len(ids), stop)  # pyright: ignore[reportArgumentType]


def force(engine: Any, problems: Any, tokenizer: Any = None, **changed: Any) -> dict[int, Any]:
    settings = {"run": "r", "step": 20, "benchmark": "b", "n": 1, "sampling": Sampling(12, stop_token_ids=(END,))}
    return forced(engine, tokenizer or Letters(), problems, **(settings | changed))


def shown(frame: Any) -> list[list[Any]]:
    return frame[["text", "tokens", "stop"]].values.tolist()


def test_a_response_goes_on_after_the_word_within_its_budget(problems_of) -> None:
    engine = Script({"a=?": "xy", "a=?xy<Wait>": "z", "a=?xy<Wait>z<Wait>": "", "a=?xy<Wait>z<Wait><Wait>": "longer!"})
    found = force(engine, problems_of(a="1"), continuations=3)
    assert shown(found[0]) == [["xy", 3, "stop"]]  # x, y, end
    assert shown(found[1]) == [["xy<Wait>z", 5, "stop"]]  # the end token has gone, the word counts
    assert shown(found[2]) == [["xy<Wait>z<Wait>", 6, "stop"]]  # it ended at once
    # x y W z W W leaves 6 of 12 tokens: cut in the middle
    assert shown(found[3]) == [["xy<Wait>z<Wait><Wait>longer", 12, "length"]]
    assert [limits for _, limits, _ in engine.asked] == [[12], [9], [7], [6]]


def test_what_was_cut_or_has_no_room_stays_as_it_is(problems_of) -> None:
    # b writes 11 tokens and the end: without its end and with the word it is 12 long, and nothing is left
    engine = Script({"a=?": "x" * 20, "b=?": "y" * 11, "c=?": "z", "c=?z<Wait>": "w"})
    found = force(engine, problems_of(a="1", b="1", c="1"), continuations=1)
    assert shown(found[1]) == [["x" * 12, 12, "length"], ["y" * 11, 12, "stop"], ["z<Wait>w", 4, "stop"]]
    assert [written for written, *_ in engine.asked] == [["a=?", "b=?", "c=?"], ["c=?z<Wait>"]]
    ended = force(Script({"a=?": "x" * 20}), problems_of(a="1"), continuations=4)
    assert all(shown(frame) == [["x" * 12, 12, "length"]] for frame in ended.values())


def test_a_response_is_cut_where_its_thinking_ended(problems_of) -> None:
    engine = Script({"a=?": "t|A", "a=?t<Wait>": "u|B"})
    found = force(engine, problems_of(a="1"), continuations=1, end_of_thinking=THOUGHT)
    assert shown(found[0]) == [["tA", 4, "stop"]]
    assert shown(found[1]) == [["t<Wait>uB", 6, "stop"]]  # t W u | B end: the first answer has gone


def test_every_continuation_has_a_stream_of_its_own(problems_of) -> None:
    engine = Script({"a=?": "x", "a=?x<Wait>": "y", "a=?x<Wait>y<Wait>": "z"})
    found = force(engine, problems_of(a="1"), continuations=2, n=2)
    wanted = [[stream("r", 20, "b", "a", k, *part) for k in range(2)] for part in ((), ("forced", 1), ("forced", 2))]
    assert [seeds for *_, seeds in engine.asked] == wanted
    assert [frame["seed"].tolist() for frame in found.values()] == wanted
    assert found[2]["sample"].tolist() == [0, 1]


def test_a_real_engine(engine, tokenizer, problems_of, tmp_path: Path) -> None:
    sampling = Sampling(24, temperature=0.9, stop_token_ids=(1,))
    about: dict[str, Any] = {"run": "r", "step": 20, "benchmark": "b", "n": 8, "sampling": sampling}
    problems = problems_of(a="1", bcd="2")
    found = forced(engine, tokenizer, problems, **about, continuations=3, word="+")
    assert found[0].equals(sample(engine, tokenizer, problems, **about))  # without continuations: the usual samples
    longer = 0
    for j in (1, 2, 3):
        tables.write(tables.SAMPLES, found[j], tmp_path / f"{j}.parquet")
        assert found[j]["tokens"].max() <= 24
        for before, after in zip(found[j - 1].to_dict("records"), found[j].to_dict("records"), strict=True):
            if before["stop"] == "length" or before["tokens"] == 24:
                assert after == before
            else:
                assert after["text"].startswith(before["text"] + "+")
                longer += 1
    assert longer >= 8
    assert forced(engine, tokenizer, problems, **about, continuations=1, word="+")[1].equals(found[1])


def test_refused(problems_of) -> None:
    for word in ("", "?"):
        with pytest.raises(ValueError, match="has no tokens of its own in this tokenizer; name a word"):
            force(Script({}), problems_of(a="1"), word=word)
    with pytest.raises(ValueError, match="continuations: -1; give 0 or more"):
        force(Script({}), problems_of(a="1"), continuations=-1)
    assert [len(frame) for frame in force(Script({}), problems_of(), continuations=2).values()] == [0, 0, 0]
