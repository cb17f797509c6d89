"""A backend that repeats itself is caught; a policy that is certain is not accused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from seedwise.engines.base import Completion, Sampling
from seedwise.engines.distinct import IdenticalSamples, SeedIgnored, check_distinct, check_seeds
from seedwise.engines.transformers import Transformers


def said(ids: list[int], probability: float) -> Completion:
    """A completion every token of which had this probability."""
    return Completion(ids, "".join(map(chr, ids)), [math.log(probability)] * len(ids), "length")


ONCE = Sampling(8)


def test_sixteen_equal_improbable_texts_are_caught() -> None:
    # 0.5**8 = 1/256: sixteen equal ones have probability 256**-15
    with pytest.raises(IdenticalSamples, match="prompt 1: 16 of 16 samples are the same text"):
        check_distinct([[said([i] * 8, 0.5) for i in range(16)], [said([65] * 8, 0.5)] * 16], ONCE)


def test_half_a_group_repeated_is_caught() -> None:
    group = [said([65] * 8, 0.5)] * 8 + [said([i] * 8, 0.5) for i in range(8)]
    with pytest.raises(IdenticalSamples, match="8 of 16"):
        check_distinct([group], ONCE)


def test_honest_repetition_is_not_accused() -> None:
    check_distinct([[said([65] * 8, 0.99)] * 16], ONCE)  # 0.99**120 = 0.3
    check_distinct([[said([65], 0.4)] * 3 + [said([66], 0.4)] * 3], ONCE)  # short answers coincide


def test_the_nucleus_is_allowed_for() -> None:
    # probability 0.5 of which a nucleus of 0.5 makes certainty
    certain = [[said([65] * 8, 0.5)] * 16]
    check_distinct(certain, Sampling(8, top_p=0.5))
    check_distinct(certain, Sampling(8, top_k=1))
    check_distinct(certain, Sampling(8, temperature=0.0))
    with pytest.raises(IdenticalSamples):
        check_distinct(certain, Sampling(8, top_p=0.9))


class Reseeded:
    """An engine whose seeds are replaced before they are used."""

    name = "reseeded 1.0"

    def __init__(self, engine: Transformers, replace: Callable[[Sequence[int]], list[int]]) -> None:
        self.engine, self.replace = engine, replace

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        n: int,
        sampling: Sampling,
        seeds: Sequence[int],
        *,
        entropy: bool = False,
    ) -> list[list[Completion]]:
        return self.engine.generate(prompts, n, sampling, self.replace(seeds), entropy=entropy)


def test_seeds_are_used(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    check_seeds(Transformers(model, tokenizer), [5, 6])


def test_one_text_for_all_seeds_is_caught(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    engine = Reseeded(Transformers(model, tokenizer), lambda seeds: [7] * len(seeds))
    with pytest.raises(SeedIgnored, match="different seeds give the same tokens"):
        check_seeds(engine, [5, 6])
    sampling = Sampling(8, temperature=1.5)
    groups = engine.generate([[5, 6]], 16, sampling, list(range(16)))
    with pytest.raises(IdenticalSamples):
        check_distinct(groups, sampling)


def test_fresh_randomness_is_caught(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    engine = Reseeded(Transformers(model, tokenizer), lambda seeds: list(range(len(seeds))))
    with pytest.raises(SeedIgnored, match="one seed gives different tokens"):
        check_seeds(engine, [5, 6])


def test_independent_draws_pass(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    for temperature in (0.02, 0.5, 1.0):  # from almost certain to random
        sampling = Sampling(8, temperature=temperature)
        check_distinct(Transformers(model, tokenizer).generate([[5, 6], [9]], 16, sampling, list(range(32))), sampling)
