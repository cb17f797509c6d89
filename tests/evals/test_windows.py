"""Windows and responses of the continuation experiment: by hand, and against all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedwise.evals.windows import Bounds, choose, pair


def brute_force(entropy_T: list[float], bounds: Bounds) -> tuple[float, set[tuple[int, int]]] | None:
    """The largest difference over every admissible pair of windows, by the definition, and the pairs that attain it."""
    T, w, found = len(entropy_T), bounds.window, {}
    for a in range(T - w + 1):
        for b in range(a + w, T - w + 1):  # non-overlapping
            inside = a >= bounds.edge * T - 1e-9 and b + w <= (1 - bounds.edge) * T + 1e-9
            if inside and b - a <= bounds.apart * T + 1e-9:
                means = [float(np.mean(entropy_T[s : s + w])) for s in (a, b)]
                found[a, b] = abs(means[0] - means[1])
    best = max(found.values(), default=0.0)
    return (best, {pair for pair, gap in found.items() if gap == best}) if best > 0 else None


entropies = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.75, 3.0]), max_size=60)
bounds_of = st.builds(
    Bounds,
    window=st.integers(1, 7),
    edge=st.sampled_from([0.0, 0.1, 0.2, 0.35]),
    apart=st.sampled_from([0.1, 0.2, 0.5, 1.0]),
)


@given(entropies, bounds_of)
def test_equals_brute_force(entropy_T: list[float], bounds: Bounds) -> None:
    expected, found = brute_force(entropy_T, bounds), pair(entropy_T, bounds)
    if expected is None:
        assert found is None
        return
    gap, pairs = expected
    assert found is not None
    assert (min(found.high, found.low), max(found.high, found.low)) == min(pairs)
    assert found.entropy_high - found.entropy_low == gap
    for start, mean in ((found.high, found.entropy_high), (found.low, found.entropy_low)):
        assert mean == np.mean(entropy_T[start : start + bounds.window])


@given(st.integers(0, 400), bounds_of)
def test_fit_is_whether_any_pair_exists(length: int, bounds: Bounds) -> None:
    starts = bounds.starts(length)
    exists = any(
        bounds.window <= b - a <= bounds.reach(length) for a in starts for b in (a + bounds.window,) if b in starts
    )
    assert bounds.fit(length) == exists


def test_by_hand() -> None:
    # 20 tokens, edge 0.2: windows of 2 lie in tokens 4..15, starts at most 4 apart
    entropy = [9.0] * 4 + [0, 0, 1, 1, 5, 5, 0, 0, 2, 2, 3, 3] + [9.0] * 4
    found = pair(entropy, Bounds(2))
    # (8, 4), (8, 10) and (8, 12) are near enough; 4 and 10 tie at 5 - 0 and the earliest pair is (4, 8)
    assert found is not None
    assert (found.high, found.low, found.entropy_high, found.entropy_low) == (8, 4, 5.0, 0.0)
    # only 2 apart: (8, 10) is the one left with a difference of 5
    near = pair(entropy, Bounds(2, apart=0.1))
    assert near is not None
    assert (near.high, near.low) == (8, 10)


@pytest.mark.parametrize(("length", "fits"), [(29, False), (30, True), (35, True)])
def test_shortest_response(length: int, fits: bool) -> None:
    # windows of 6 tokens must start 6 apart, and 6 <= 0.2 T from T = 30
    assert Bounds(6).fit(length) is fits
    assert (pair(list(range(length)), Bounds(6)) is not None) is fits


def test_bounds_are_not_lost_to_rounding() -> None:
    assert (1 - 0.3) * 90 < 63
    assert Bounds(7, edge=0.3).starts(90) == range(27, 57)  # tokens 27..62 of 90


def test_no_difference_no_pair() -> None:
    assert pair([0.3] * 40, Bounds(4)) is None
    assert pair([], Bounds(4)) is None


def verdicts(correct: int, incorrect: int) -> list[bool]:
    return [True] * correct + [False] * incorrect


def chosen(correct: dict, length: dict | None = None, **changed):
    settings = {"band": (0.25, 0.75), "problems": 2, "responses": 2, "rng": np.random.default_rng(0)} | changed
    return choose(correct, length or {name: [20] * len(v) for name, v in correct.items()}, Bounds(2), **settings)


def test_band_includes_its_ends() -> None:
    correct = {"easy": verdicts(4, 0), "upper": verdicts(3, 1), "lower": verdicts(1, 3), "never": verdicts(0, 4)}
    choice = chosen(correct, problems=9)
    assert {problem for problem, *_ in choice.responses} == {"upper", "lower"}
    assert (choice.in_band, choice.used) == (2, 2)


def test_two_of_each_outcome() -> None:
    choice = chosen({name: verdicts(6, 10) for name in "abcde"})
    assert (choice.in_band, choice.used, choice.too_short, choice.unreadable) == (5, 2, 0, 0)
    for problem in {problem for problem, *_ in choice.responses}:
        taken = {k: outcome for name, k, outcome in choice.responses if name == problem}
        assert sorted(taken.values()) == ["correct", "correct", "incorrect", "incorrect"]
        assert all((k < 6) == (outcome == "correct") for k, outcome in taken.items())


def test_short_and_unreadable_responses_are_passed_over_and_counted() -> None:
    # of a: one correct and one incorrect usable; of b: all; complete problems come first
    correct = {"a": verdicts(2, 3), "b": verdicts(2, 2), "c": verdicts(1, 1)}
    length = {"a": [3, 20, 3, None, 20], "b": [20] * 4, "c": [None, 3]}
    choice = chosen(correct, length, problems=3)
    assert [r for r in choice.responses if r[0] == "a"] == [("a", 1, "correct"), ("a", 4, "incorrect")]
    assert choice.responses[0][0] == "b"
    assert (choice.in_band, choice.used, choice.too_short, choice.unreadable) == (3, 2, 3, 2)
    assert {problem for problem, *_ in chosen(correct, length, problems=1).responses} == {"b"}


def test_choice_depends_on_the_generator_alone() -> None:
    correct = {name: verdicts(8, 8) for name in "abcdefgh"}
    reordered = dict(reversed(correct.items()))
    first, again, other = (
        chosen(names, rng=np.random.default_rng(seed)) for names, seed in ((correct, 1), (reordered, 1), (correct, 2))
    )
    assert first == again
    assert first != other


def test_nothing_in_the_band() -> None:
    assert chosen({"a": verdicts(4, 0)}).responses == ()
    assert chosen({}).in_band == 0
