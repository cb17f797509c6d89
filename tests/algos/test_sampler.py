"""The stream of prompts: whole epochs, an order by identity, state that survives a restart."""

from __future__ import annotations

import json

import pytest
from algos.made import stream

from seedwise.algos.sampler import UniformSampler


def test_every_problem_once_per_epoch():
    sampler, state, rng = UniformSampler(), UniformSampler().start(10), stream(5)
    drawn = [problem for _ in range(5) for problem in sampler.draw(4, state, rng)]
    assert sorted(drawn[:10]) == list(range(10))
    assert sorted(drawn[10:]) == list(range(10))
    assert drawn[:10] != drawn[10:], "each epoch has an order of its own"
    assert drawn[:10] != list(range(10))


def test_a_draw_larger_than_an_epoch():
    state = UniformSampler().start(3)
    drawn = UniformSampler().draw(7, state, stream())
    assert sorted(drawn[:3]) == sorted(drawn[3:6]) == [0, 1, 2]
    assert state["epoch"] == 2


def test_the_order_depends_on_the_seed_and_not_on_how_much_was_drawn_from_the_generator():
    def order(seed, used):
        rng = stream(seed)
        if used:
            rng.get_state().new_empty(99).random_(generator=rng)
        return UniformSampler().draw(50, UniformSampler().start(50), rng)

    assert order(1, used=False) == order(1, used=True)
    assert order(1, used=False) != order(2, used=False)


def test_the_order_is_the_same_on_every_machine():
    assert UniformSampler().draw(8, UniformSampler().start(8), stream(0)) == [5, 2, 7, 1, 3, 4, 6, 0]


def test_state_survives_json_in_the_middle_of_an_epoch():
    sampler, rng = UniformSampler(), stream(2)
    state = sampler.start(9)
    sampler.draw(4, state, rng)
    restored = json.loads(json.dumps(state))
    assert sampler.draw(13, restored, rng) == sampler.draw(13, state, rng)


def test_observing_changes_nothing():
    sampler, state = UniformSampler(), UniformSampler().start(4)
    before = json.dumps(state)
    sampler.observe([0, 1], stream().get_state().new_zeros(2, 3), state, stream())
    assert json.dumps(state) == before


def test_no_problems_are_refused():
    with pytest.raises(ValueError, match="start the sampler with the number of training problems"):
        UniformSampler().draw(1, UniformSampler().start(), stream())
