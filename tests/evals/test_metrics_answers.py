"""Majority, diversity, best-of-k: by hand, against all subsets, and the golden value."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedwise.evals.metrics_answers import best_of, classes, diversity, majority


def majority_by_definition(labels: list[int | None], right: set[int], k: int) -> Fraction:
    """Every subset of k samples votes; ties are shared."""
    total, subsets = Fraction(0), list(itertools.combinations(labels, k))
    for votes in subsets:
        counts = {label: votes.count(label) for label in votes if label is not None}
        best = [label for label, count in counts.items() if count == max(counts.values())]
        total += Fraction(sum(label in right for label in best), len(best) or 1)
    return total / len(subsets)


labels_of = st.lists(st.sampled_from([None, 0, 1, 2, 3]), min_size=1, max_size=9)


@given(labels_of, st.sets(st.sampled_from([0, 1])), st.data())
def test_majority_equals_the_vote_of_every_subset(
    labels: list[int | None], right: set[int], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(labels)))
    correct = [label in right for label in labels]
    assert majority(labels, correct, k) == pytest.approx(float(majority_by_definition(labels, right, k)), abs=1e-12)


def test_majority_by_hand() -> None:
    labels, correct = [0, 1, 1], [True, False, False]  # one right, two alike and wrong
    assert majority(labels, correct, 1) == pytest.approx(1 / 3)
    # {0,1}, {0,1'}: a tie each, half right; {1,1'}: wrong; (1/2 + 1/2 + 0) / 3
    assert majority(labels, correct, 2) == pytest.approx(1 / 3)
    assert majority(labels, correct, 3) == 0.0
    # the silent have no vote: of {0,-}, {0,-'} the right answer wins, of {-,-'} none does
    assert majority([0, None, None], [True, False, False], 2) == pytest.approx(2 / 3)
    assert majority([None, None], [False, False], 2) == 0.0


def test_majority_at_1_is_accuracy_and_large_n_stays_exact() -> None:
    labels = [0] * 100 + [1] * 90 + [None] * 66
    correct = [label == 0 for label in labels]
    assert majority(labels, correct, 1) == pytest.approx(100 / 256, rel=1e-12)
    assert majority(labels, correct, 256) == pytest.approx(1.0, rel=1e-12)
    # two answers: right iff it has more than half of the votes cast, half of the ties; hypergeometric, by its sum
    exact = Fraction(0)
    for a in range(65):
        for b in range(65 - a):
            ways = math.comb(100, a) * math.comb(90, b) * math.comb(66, 64 - a - b)
            exact += Fraction(ways, math.comb(256, 64)) * (Fraction(a > b) + Fraction(a == b and a > 0, 2))
    assert majority(labels, correct, 64) == pytest.approx(float(exact), rel=1e-10)


def test_classes() -> None:
    answers = ["4", "5", None, "4.0", "5", "10/2"]
    correct = [True, False, False, True, False, False]
    assert classes(answers, correct) == [0, 1, None, 0, 1, 2]
    same = {("5", "10/2")}
    assert classes(answers, correct, lambda first, other: (first, other) in same) == [0, 1, None, 0, 1, 1]


def test_classes_ask_for_every_text_once() -> None:
    asked: list[tuple[str, str]] = []

    def same(first: str, other: str) -> bool:
        asked.append((first, other))
        return first[0] == other[0]

    assert classes(["a1", "b1", "a2", "a2", "b2"], [False] * 5, same) == [0, 1, 0, 0, 1]
    assert asked == [("a1", "b1"), ("a1", "a2"), ("a1", "b2"), ("b1", "b2")]


def test_diversity_by_hand() -> None:
    # two answers twice each: entropy ln 2, over ln 4 is 1/2, over ln 2 is 1; pairs alike 2 of C(4, 2) = 6
    found = diversity([0, 0, 1, 1])
    assert (found.entropy, found.entropy_distinct, found.answers) == (pytest.approx(0.5), pytest.approx(1.0), 4)
    assert found.collision == pytest.approx(1 / 3)
    # all alike: nothing to be uncertain about, and the entropy over ln 1 is undefined
    alike = diversity([0, 0])
    assert (alike.entropy, alike.entropy_distinct, alike.collision) == (0.0, None, 1.0)
    assert diversity([0, 1, 2]).entropy == pytest.approx(1.0)
    assert diversity([0, 1, 2]).collision == 0.0


def test_diversity_without_answers() -> None:
    # two silent samples are two classes: as [0, 0, 1, 2]: alike 1 pair of 6
    assert diversity([0, 0, None, None]).collision == pytest.approx(1 / 6)
    assert diversity([0, 0, None, None]) == diversity([0, 0, 1, 2])
    assert diversity([0, 0, None, None], silent=False) == diversity([0, 0])
    one = diversity([0, None], silent=False)
    assert (one.entropy, one.entropy_distinct, one.collision, one.answers) == (None, None, None, 1)


def test_diversity_golden(repository: Path) -> None:
    cases = json.loads((repository / "tests" / "golden" / "methods.json").read_text())["cases"]
    [case] = [case for case in cases if case["id"] == "diversity"]
    labels = [label for label, size in enumerate(case["inputs"]["answer_counts"]) for _ in range(size)]
    found = diversity(labels)
    assert found.entropy == pytest.approx(case["expected"]["answer_entropy"], abs=1e-9)
    assert found.collision == pytest.approx(case["expected"]["collision_rate"], abs=1e-9)


def best_by_definition(scores: list[float | None], correct: list[bool], k: int) -> Fraction:
    total, subsets = Fraction(0), list(itertools.combinations(range(len(scores)), k))
    for some in subsets:
        value = {i: -math.inf if scores[i] is None else float(scores[i] or 0) for i in some}
        best = [i for i in some if value[i] == max(value.values())]
        total += Fraction(sum(correct[i] for i in best), len(best))
    return total / len(subsets)


@given(st.lists(st.tuples(st.sampled_from([None, 0.0, 0.5, 1.0]), st.booleans()), min_size=1, max_size=8), st.data())
def test_best_of_equals_the_choice_of_every_subset(pairs: list[tuple[float | None, bool]], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(pairs)))
    scores, correct = [score for score, _ in pairs], [right for _, right in pairs]
    assert best_of(scores, correct, k) == pytest.approx(float(best_by_definition(scores, correct, k)), abs=1e-12)


def test_best_of_by_hand() -> None:
    scores, correct = [3.0, 2.0, 1.0], [False, True, True]
    assert best_of(scores, correct, 1) == pytest.approx(2 / 3)  # no choice: accuracy
    assert best_of(scores, correct, 2) == pytest.approx(1 / 3)  # of 3 pairs only {2, 1} is without the wrong favourite
    assert best_of(scores, correct, 3) == 0.0
    # a scorer that knows the truth turns best-of-k into pass@k: 1 - C(2, 2) / C(4, 2) = 5/6
    assert best_of([1.0, 1.0, 0.0, 0.0], [True, True, False, False], 2) == pytest.approx(5 / 6)


@pytest.mark.parametrize("k", [0, 3])
def test_k_beyond_the_samples_is_refused(k: int) -> None:
    for call in (lambda: majority([0, 1], [True, False], k), lambda: best_of([1.0, 2.0], [True, False], k)):
        with pytest.raises(ValueError, match=rf"k: {k} of 2 samples: give a whole number from 1 to 2"):
            call()


def test_what_has_no_value_is_refused() -> None:
    with pytest.raises(ValueError, match="a score is NaN"):
        best_of([math.nan], [True], 1)
    with pytest.raises(ValueError, match="1001 samples of a problem"):
        majority([0] * 1001, [True] * 1001, 2)
