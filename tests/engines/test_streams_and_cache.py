"""The random streams against SplitMix64 in plain integers; the reserved cache against the one that concatenates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from transformers.cache_utils import DynamicLayer

from seedwise.engines.cache import Reserved
from seedwise.engines.streams import _mix, uniforms

GAMMA, MASK = 0x9E3779B97F4A7C15, 2**64 - 1


def mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def test_published_outputs_of_splitmix64() -> None:
    counters = np.array([(1234567 + k * GAMMA) & MASK for k in (1, 2, 3)], dtype=np.uint64)
    assert _mix(counters).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4), st.integers(0, 300), st.integers(0, 70))
def test_a_block_is_a_slice_of_the_stream(seeds: list[int], start: int, length: int) -> None:
    block = uniforms(seeds, start, start + length)
    expected = [
        [(mix((mix(s) + (t + 1) * GAMMA) & MASK) >> 11) * 2.0**-53 for t in range(start, start + length)] for s in seeds
    ]
    np.testing.assert_array_equal(block, np.array(expected).reshape(len(seeds), length))


def test_uniform_along_a_stream_and_across_neighbouring_seeds() -> None:
    numbers = uniforms(list(range(2000)), 0, 64)
    assert stats.kstest(numbers[0:40].ravel(), "uniform").pvalue > 1e-3
    assert stats.kstest(numbers[:, 0], "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]) < 0.012  # 4 / sqrt(128,000)


steps = st.lists(
    st.one_of(st.integers(1, 40).map(lambda n: ("append", n)), st.lists(st.integers(0, 1), min_size=2, max_size=3)),
    max_size=8,
)


@given(steps)
@settings(max_examples=40, deadline=None)
def test_reserved_layer_holds_what_the_growing_layer_holds(operations: list) -> None:
    rng, plain = torch.Generator().manual_seed(0), DynamicLayer()
    plain.update(torch.randn(2, 2, 3, 4, generator=rng), torch.randn(2, 2, 3, 4, generator=rng))
    reserved = Reserved.of(plain)
    for operation in operations:
        if isinstance(operation, list):
            for layer in (plain, reserved):
                layer.batch_select_indices(torch.tensor(operation))
        else:
            keys, values = torch.randn(2, plain.keys.shape[0], 2, operation[1], 4, generator=rng)
            plain.update(keys, values)
            shown = reserved.update(keys, values)
            assert torch.equal(shown[0], plain.keys)
            assert torch.equal(shown[1], plain.values)
    assert reserved.get_seq_length() == plain.get_seq_length()
    assert torch.equal(reserved.keys, plain.keys)
    assert torch.equal(reserved.values, plain.values)


def test_a_copy_does_not_write_into_the_original() -> None:
    plain = DynamicLayer()
    plain.update(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2))
    Reserved.of(plain).update(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1, 2))
    assert torch.equal(plain.keys, torch.ones(1, 1, 2, 2))


def test_negative_seed_is_refused() -> None:
    with pytest.raises(OverflowError):
        uniforms([-1], 0, 1)
