"""Samples are distinct draws whose streams come from what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from seedwise import tables
from seedwise.engines.base import Sampling
from seedwise.engines.distinct import SeedIgnored
from seedwise.evals.samples import sample
from seedwise.identity import stream

SAMPLING = Sampling(10, temperature=0.9, stop_token_ids=(1,))


def draw(engine, tokenizer, problems, **changed):
    settings = {"run": "r", "step": 20, "benchmark": "same", "n": 3, "sampling": SAMPLING} | changed
    return sample(engine, tokenizer, problems, **settings)


def test_rows(engine, tokenizer, problems_of, tmp_path: Path) -> None:
    drawn = draw(engine, tokenizer, problems_of(a="1", bcd="2"))
    tables.write(tables.SAMPLES, drawn, tmp_path / "samples.parquet")
    assert tables.read(tables.SAMPLES, tmp_path / "samples.parquet").equals(drawn)
    assert drawn[["problem", "sample"]].values.tolist() == [
        ["a", 0],
        ["a", 1],
        ["a", 2],
        ["bcd", 0],
        ["bcd", 1],
        ["bcd", 2],
    ]
    assert drawn["seed"].tolist() == [stream("r", 20, "same", p, k) for p in ("a", "bcd") for k in range(3)]
    assert drawn["engine"].unique().tolist() == [engine.name]
    # sample 1 of problem bcd, drawn alone
    (group,) = engine.generate([tokenizer("bcd=?")["input_ids"]], 1, SAMPLING, [stream("r", 20, "same", "bcd", 1)])
    assert drawn.loc[4, ["text", "tokens", "stop"]].tolist() == [group[0].text, len(group[0].ids), group[0].stop]


def test_more_samples_and_more_problems_leave_the_first_ones(engine, tokenizer, problems_of) -> None:
    few = draw(engine, tokenizer, problems_of(a="1"))
    many = draw(engine, tokenizer, problems_of(zz="3", a="1"), n=5)
    assert many[(many["problem"] == "a") & (many["sample"] < 3)].reset_index(drop=True).equals(few)


@pytest.mark.parametrize("other", [{"run": "q"}, {"step": 40}, {"benchmark": "longer"}])
def test_every_part_of_the_identity_changes_the_draws(engine, tokenizer, problems_of, other: dict) -> None:
    problems = problems_of(a="1", b="2")
    one, two = draw(engine, tokenizer, problems), draw(engine, tokenizer, problems, **other)
    assert not set(one["seed"]) & set(two["seed"])
    assert one["text"].tolist() != two["text"].tolist()


def test_a_backend_without_seeds_is_refused(engine, tokenizer, problems_of) -> None:
    class Stuck:
        name = "stuck 1"

        def generate(self, prompts, n, sampling, seeds, *, entropy=False, budgets=None):
            return engine.generate(prompts, n, sampling, [0] * len(seeds))

    with pytest.raises(SeedIgnored, match="stuck 1: different seeds give the same tokens"):
        draw(Stuck(), tokenizer, problems_of(a="1"))


def test_no_problems(engine, tokenizer, problems_of, tmp_path: Path) -> None:
    tables.write(tables.SAMPLES, draw(engine, tokenizer, problems_of()), tmp_path / "none.parquet")
    assert len(tables.read(tables.SAMPLES, tmp_path / "none.parquet")) == 0
