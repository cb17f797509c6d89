"""The course of a run's entropy and its label, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedwise.stats.results import StatsError
from seedwise.stats.stability import Bounds, bounds_of, course
from seedwise.study import Stability

DEFAULT = Stability()


def curve(start: float, end: float, steps: int = 40) -> np.ndarray:
    """Flat at ``start`` for the first half and at ``end`` for the second."""
    return np.repeat([start, end], steps // 2)


def test_start_and_end_are_means_of_a_tenth_and_the_peak_is_the_largest():
    # 20 steps: a tenth is 2. Start (0.2 + 0.4) / 2, end (0.5 + 0.7) / 2, peak 0.9
    entropy_R = [0.2, 0.4, *[0.3] * 15, 0.9, 0.5, 0.7]
    found = course(entropy_R, DEFAULT)
    assert (found.start, found.peak, found.end) == pytest.approx((0.3, 0.9, 0.6))
    assert found.measured == 20
    # collapsing below 0.2 x 0.3, exploding above 3 x 0.3
    assert found.bounds == Bounds(pytest.approx(0.06), pytest.approx(0.9))
    assert (found.label, found.reason) == ("stable", None)


@pytest.mark.parametrize(
    ("start", "end", "label"),
    [
        # the embedded model begins at 0.29: collapsing below 0.058, exploding above 0.87
        (0.29, 0.245, "stable"),
        (0.29, 0.06, "stable"),
        (0.29, 0.05, "collapsing"),
        (0.29, 0.86, "stable"),
        (0.29, 0.90, "exploding"),
        # Qwen3-8B-Base begins near 0.6 (QAE, figure 9): K = 0.2, 0.4, 0.6, 0.8
        (0.6, 0.25, "stable"),
        (0.6, 0.5, "stable"),
        (0.6, 1.2, "stable"),
        (0.6, 2.5, "exploding"),
        (0.6, 0.05, "collapsing"),
        # 3 nats at first count as 1.0: settling at 0.5 is no collapse, staying at 3 no explosion
        (3.0, 0.5, "stable"),
        (3.0, 3.0, "stable"),
        (3.0, 0.19, "collapsing"),
        (3.0, 9.5, "exploding"),
        # 1.9 crosses explode_nats 2.0 before it triples
        (1.9, 2.1, "exploding"),
        # nearly deterministic from the start: 0.01 counts as 0.1, so 0.25 is not yet an explosion
        (0.01, 0.25, "stable"),
        (0.01, 0.31, "exploding"),
        (0.03, 0.019, "collapsing"),
    ],
)
def test_labels_suit_a_tiny_model_and_a_large_one(start: float, end: float, label: str):
    assert course(curve(start, end), DEFAULT).label == label


def test_thresholds_are_those_of_the_study():
    entropy_R = curve(0.29, 0.1)
    assert course(entropy_R, DEFAULT).label == "stable"
    assert course(entropy_R, Stability(collapse_share=0.5)).label == "collapsing"
    assert course(curve(0.29, 0.5), Stability(explode_ratio=1.5)).label == "exploding"
    # half of 40 steps make an edge: the end is the mean of all of the second half
    ramp = np.concatenate([np.full(20, 0.4), np.linspace(0.4, 0.0, 20)])
    assert course(ramp, Stability(edge=0.5)).end == pytest.approx(0.2)


def test_too_few_steps_have_no_label_but_the_reason():
    found = course([0.3, 0.1], DEFAULT)
    assert (found.start, found.peak, found.end) == (0.3, 0.3, 0.1)
    assert (found.label, found.bounds) == (None, None)
    assert found.reason == "a label needs at least 20 steps with an entropy, got 2"
    assert course(curve(0.3, 0.3, 20), DEFAULT).label == "stable"


def test_nothing_measured_is_null_everywhere():
    for nothing in ([], [math.nan] * 30):
        found = course(nothing, DEFAULT)
        assert (found.start, found.peak, found.end, found.label, found.measured) == (None, None, None, None, 0)
        assert found.reason == "a label needs at least 20 steps with an entropy, got 0"


def test_a_run_whose_end_was_not_measured_is_not_labelled_by_its_middle():
    entropy_R = [*[0.3] * 36, *[math.nan] * 4]
    found = course(entropy_R, DEFAULT)
    assert (found.start, found.end, found.label) == (pytest.approx(0.3), None, None)
    assert found.reason == "no entropy was measured at the last 4 steps"
    # one of the four is enough
    assert course([*entropy_R[:-1], 0.3], DEFAULT).label == "stable"


@given(
    start=st.floats(0.001, 12),
    ends=st.lists(st.floats(0, 12), min_size=2, max_size=2).map(sorted),
)
def test_a_higher_end_never_turns_a_label_towards_collapse(start: float, ends: list[float]):
    order = ["collapsing", "stable", "exploding"]
    low, high = (order.index(str(course(curve(start, end), DEFAULT).label)) for end in ends)
    assert low <= high


@given(start=st.floats(0, 12))
def test_a_run_that_stays_where_it_began_is_stable_unless_it_began_collapsed(start: float):
    expected = "collapsing" if start < DEFAULT.collapse_nats else "stable"
    assert course(curve(start, start), DEFAULT).label == expected


@given(start=st.floats(0, 12))
def test_bounds_never_cross(start: float):
    bounds = bounds_of(start, DEFAULT)
    assert 0 < bounds.collapse < bounds.explode


@pytest.mark.parametrize("wrong", [[0.3, -0.1], [0.3, math.inf], [[0.3], [0.2]]])
def test_what_is_no_entropy_is_refused(wrong: list):
    with pytest.raises(StatsError, match="entropy"):
        course(wrong, DEFAULT)


def test_the_dust_of_a_sure_policy_is_0():
    found = course(curve(0.3, -1e-9), DEFAULT)
    assert (found.end, found.label) == (0.0, "collapsing")
