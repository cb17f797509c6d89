"""The soft overlong penalty."""

from __future__ import annotations

import pytest
import torch

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.overlong import OverlongFilter, SoftOverlong


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


def test_the_filter_takes_nothing_off_the_verdict():
    assert OverlongFilter()(torch.tensor([[0, 80], [100, 10**6]])).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("written", "part"),
    [
        ({"max_length": 8, "cache": 2}, SoftOverlong(max_length=8, cache=2)),
        ({"kind": "soft_overlong", "max_length": 8, "cache": 2}, SoftOverlong(max_length=8, cache=2)),
        ({"kind": "overlong_filter"}, OverlongFilter()),
        (None, None),
    ],
)
def test_a_penalty_as_it_is_written(written, part):
    assert Algorithm.model_validate({"baseline": [{"kind": "group_mean"}], "penalty": written}).penalty == part


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"kind": "overlong_filter", "max_length": 8}, "overlong_filter.max_length"),
        ({"kind": "overlong"}, "'soft_overlong', 'overlong_filter'"),
        (0.5, "penalty"),
    ],
)
def test_a_penalty_that_is_none(written, says):
    with pytest.raises(ValueError, match=says):
        Algorithm.model_validate({"baseline": [{"kind": "group_mean"}], "penalty": written})
