"""The shipped model: its size, its alphabet, how it came about, and what reinforcement learning finds in it."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.models import embedded, expressions, load, measure, warmstart

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def shipped():
    return load.load(embedded.WEIGHTS)


def test_it_is_small_and_safe(shipped):
    model, tokenizer = shipped
    assert sum(p.numel() for p in model.parameters()) <= 600_000
    assert sum(path.stat().st_size for path in embedded.WEIGHTS.iterdir()) <= 5e6
    assert {path.suffix for path in embedded.WEIGHTS.iterdir()} <= {".safetensors", ".json"}
    fresh = embedded.untrained(0)
    assert {n: p.shape for n, p in model.named_parameters()} == {n: p.shape for n, p in fresh.named_parameters()}
    assert tokenizer.get_vocab() == embedded.tokenizer().get_vocab()
    assert model.config.vocab_size == len(tokenizer)


@settings(deadline=None)
@given(st.text(alphabet=embedded.ALPHABET, max_size=40))
def test_a_token_is_a_character(text):
    tokenizer = embedded.tokenizer()
    ids = tokenizer(text).input_ids
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode([*ids, tokenizer.eos_token_id], skip_special_tokens=True) == text


def test_a_foreign_character_is_one_unknown_token(shipped):
    _, tokenizer = shipped
    ids = tokenizer("4\u00df3").input_ids
    assert len(ids) == 3
    assert ids[1] == tokenizer.unk_token_id


def test_the_first_steps_give_the_recorded_losses():
    recorded = json.loads((embedded.WEIGHTS / "losses.json").read_text())
    recipe = warmstart.Recipe()
    assert recorded["recipe"] == asdict(recipe)
    losses = list(islice(warmstart.train(embedded.untrained(recipe.seed), recipe), 8))
    assert losses == pytest.approx(recorded["loss_nats"][:8], rel=1e-4)
    other = warmstart.Recipe(seed=1)
    assert next(warmstart.train(embedded.untrained(1), other)) != pytest.approx(losses[0], rel=1e-4)


def test_steps_agree_with_reasoning_gym():
    for prompt, answer in measure.problems("mixed", 300, seed=3):
        assert str(expressions.steps(prompt[:-1])[-1].value) == answer


@pytest.mark.parametrize("text", ["", "7", "4+", "4+3)", "(4+3", "4**3"])
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(ValueError, match="not an expression"):
        expressions.steps(text)


def test_hasty_answers_are_wrong_by_construction_and_careful_ones_are_not():
    rng, right = Random(5), {"hasty": [], "careful": []}
    for _ in range(3000):
        prompt, answer = warmstart.example(rng, warmstart.Recipe())
        gold = expressions.steps(prompt[:-1])[-1].value
        way = "careful" if "=" in answer else "hasty"
        right[way].append(int(answer.rsplit("#", 1)[1]) == gold)
    share = {way: sum(values) / len(values) for way, values in right.items()}
    # by construction 22 % of hasty answers are right; a careful one survives 2 to 7 steps, each failing in 2 %
    assert 0.19 < share["hasty"] < 0.25
    assert 0.88 < share["careful"] < 0.97


def test_careful_pays_and_the_base_is_in_between(shipped):
    pairs = measure.problems("same", 96, seed=777)
    found = measure.measure(*shipped, pairs, samples=4, temperature=0.7, seed=0, max_tokens=64)
    assert 0.35 < found.right < 0.65
    assert 0.4 < found.careful < 0.7
    assert found.right_careful > 0.8
    assert found.right_hasty < 0.3


def test_the_base_has_length_and_entropy_to_explore(shipped):
    pairs = measure.problems("same", 64, seed=778)
    found = measure.measure(*shipped, pairs, samples=2, temperature=1.0, seed=0, max_tokens=64)
    assert found.length_tokens > 20
    assert found.longest_tokens <= 64
    assert found.entropy_nats > 0.2


def test_a_way_nobody_took_has_no_accuracy(shipped):
    found = measure.measure(*shipped, [("1+1+1+1=", "4")], samples=1, temperature=1.0, seed=0, max_tokens=1)
    assert (found.right, found.careful, found.right_careful, found.right_hasty) == (0.0, 0.0, None, 0.0)
    assert "careful -" in str(found)
