"""The stream of prompts: whole epochs, an order by identity, state that survives a restart; groups fit to train."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from algos.made import stream

from seedwise.algos.sampler import DynamicSampling, SamplerError, UniformSampler, take


@dataclass(frozen=True)
class Answers:
    """A group of two answers to a problem."""

    problem: int
    correct_G: tuple[float, ...]


class Respond:
    """Answers every problem; the ones named are flat.  Remembers what each draw asked for."""

    def __init__(self, flat=()):
        self.flat, self.asked = set(flat), []

    def __call__(self, problems):
        self.asked.append(problems)
        return [Answers(p, (1.0, 1.0) if p in self.flat else (0.0, 1.0)) for p in problems]


def test_every_problem_once_per_epoch():
    state, rng = UniformSampler().start(10), stream(5)
    drawn = [problem for _ in range(5) for problem in take(4, state, rng)]
    assert sorted(drawn[:10]) == list(range(10))
    assert sorted(drawn[10:]) == list(range(10))
    assert drawn[:10] != drawn[10:], "each epoch has an order of its own"
    assert drawn[:10] != list(range(10))


def test_a_draw_larger_than_an_epoch():
    state = UniformSampler().start(3)
    drawn = take(7, state, stream())
    assert sorted(drawn[:3]) == sorted(drawn[3:6]) == [0, 1, 2]
    assert state["epoch"] == 2


def test_the_order_depends_on_the_seed_and_not_on_how_much_was_drawn_from_the_generator():
    def order(seed, used):
        rng = stream(seed)
        if used:
            rng.get_state().new_empty(99).random_(generator=rng)
        return take(50, UniformSampler().start(50), rng)

    assert order(1, used=False) == order(1, used=True)
    assert order(1, used=False) != order(2, used=False)


def test_the_order_is_the_same_on_every_machine():
    assert take(8, UniformSampler().start(8), stream(0)) == [5, 2, 7, 1, 3, 4, 6, 0]


def test_state_survives_json_in_the_middle_of_an_epoch():
    state, rng = UniformSampler().start(9), stream(2)
    take(4, state, rng)
    restored = json.loads(json.dumps(state))
    assert take(13, restored, rng) == take(13, state, rng)


@pytest.mark.parametrize("sampler", [UniformSampler(), DynamicSampling()], ids=lambda sampler: sampler.kind)
def test_observing_changes_nothing(sampler):
    state = sampler.start(4)
    before = json.dumps(state)
    sampler.observe([0, 1], stream().get_state().new_zeros(2, 3), state, stream())
    assert json.dumps(state) == before


@pytest.mark.parametrize("sampler", [UniformSampler(), DynamicSampling()], ids=lambda sampler: sampler.kind)
def test_no_problems_are_refused(sampler):
    with pytest.raises(SamplerError, match="start the sampler with the number of training problems"):
        sampler.fill(1, [], Respond(), sampler.start(), stream())


def test_uniform_sampling_trains_on_all_it_draws():
    respond = Respond(flat={5, 2})
    filled = UniformSampler().fill(4, [], respond, UniformSampler().start(8), stream(0))
    assert respond.asked == [[5, 2, 7, 1]] and filled.draws == 1
    assert filled.train == filled.generated and [g.problem for g in filled.train] == [5, 2, 7, 1]
    assert filled.surplus == []


def test_dynamic_sampling_draws_again_for_what_is_missing():
    # the stream is 5 2 7 1 | 3 4 6 0 | ...; 5, 7 and 3 are flat, so 4 groups need 5 2 7 1, then 3 4, then 6
    sampler, respond = DynamicSampling(factor=1), Respond(flat={5, 7, 3})
    filled = sampler.fill(4, [], respond, sampler.start(8), stream(0))
    assert respond.asked == [[5, 2, 7, 1], [3, 4], [6]] and filled.draws == 3
    assert [g.problem for g in filled.train] == [2, 1, 4, 6]
    assert [g.problem for g in filled.generated] == [5, 2, 7, 1, 3, 4, 6]
    assert filled.surplus == []


def test_dynamic_sampling_meets_the_same_problems_in_the_same_order_as_uniform_sampling():
    both = [Respond(), Respond()]
    for sampler, respond in zip((UniformSampler(), DynamicSampling(factor=1)), both, strict=True):
        sampler.fill(3, [], respond, sampler.start(8), stream(3))
    assert both[0].asked == both[1].asked


def test_a_larger_factor_leaves_a_surplus_that_is_handed_back():
    # 2 groups x 3 = 6 problems at once: 5 2 7 1 3 4, of which 5 and 7 are flat
    sampler, respond = DynamicSampling(factor=3), Respond(flat={5, 7})
    state = sampler.start(8)
    filled = sampler.fill(2, [], respond, state, stream(0))
    assert respond.asked == [[5, 2, 7, 1, 3, 4]]
    assert [g.problem for g in filled.train] == [2, 1]
    assert [g.problem for g in filled.surplus] == [3, 4]
    # held groups train first; 2 of 3 are missing none, so nothing is generated for 2
    again = sampler.fill(2, filled.surplus, respond, state, stream(0))
    assert again.train == filled.surplus and again.generated == [] and again.draws == 0
    assert len(respond.asked) == 1


def test_only_a_sampler_that_keeps_its_surplus_carries_groups():
    assert not UniformSampler().carries and not DynamicSampling().carries
    assert DynamicSampling(surplus="keep").carries


def test_the_bound_ends_the_search_with_one_line():
    # 2 groups, most 3: six problems, all flat, in draws of 2
    sampler, respond = DynamicSampling(factor=1, most=3), Respond(flat=range(8))
    with pytest.raises(SamplerError, match=r"drew 6 problems for 2 groups and 2 are missing.*raise sampler\.most"):
        sampler.fill(2, [], respond, sampler.start(8), stream(0))
    assert [len(asked) for asked in respond.asked] == [2, 2, 2]


def test_the_last_draw_stays_within_the_bound():
    # 2 groups, factor 2, most 3: a draw of 4, then not 4 but 2
    sampler, respond = DynamicSampling(factor=2, most=3), Respond(flat=range(8))
    with pytest.raises(SamplerError):
        sampler.fill(2, [], respond, sampler.start(8), stream(0))
    assert [len(asked) for asked in respond.asked] == [4, 2]


def test_graded_verdicts_are_flat_where_all_are_equal():
    def respond(problems):
        return [Answers(p, (0.5, 0.5) if p == 5 else (0.5, 0.25)) for p in problems]

    sampler = DynamicSampling(factor=1)
    filled = sampler.fill(1, [], respond, sampler.start(8), stream(0))
    assert [g.problem for g in filled.train] == [2]
