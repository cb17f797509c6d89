"""The soft overlong penalty."""

from __future__ import annotations

import pytest
import torch

from seedwise.algos.overlong import SoftOverlong


def test_by_hand():
    # 100 tokens with a cache of 20: free up to 80, half way down at 90, -1 from 100 on
    penalty = SoftOverlong(max_length=100, cache=20)(torch.tensor([[0, 80, 90], [99, 100, 500]]))
    assert penalty.tolist() == [[0, 0, -0.5], [pytest.approx(-0.95), -1, -1]]


def test_cache_may_span_the_whole_length_and_no_more():
    assert SoftOverlong(max_length=4, cache=4)(torch.tensor([0, 1, 4])).tolist() == [0, -0.25, -1]
    with pytest.raises(ValueError, match=r"cache 5 is longer than max_length 4.*lower cache"):
        SoftOverlong(max_length=4, cache=5)


@pytest.mark.parametrize("fields", [{"max_length": 0, "cache": 1}, {"max_length": 4, "cache": 0}, {"max_length": 4}])
def test_fields_are_checked(fields):
    with pytest.raises(ValueError, match=r"max_length|cache"):
        SoftOverlong(**fields)
