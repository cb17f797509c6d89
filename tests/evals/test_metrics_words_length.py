"""Words and lengths, by hand."""

from __future__ import annotations

import pytest

from seedwise.evals.metrics_length import band, by_band, hard, lengths, within
from seedwise.evals.metrics_words import (
    Enriched,
    enrichment,
    mean_rate,
    occurrences,
    per_1000_tokens,
    word_entropies,
)


def test_words_are_whole_and_in_any_case() -> None:
    text = "Wait, wait! I am sure we measure. Unlikely? Perhaps... WAITING, wait_2, let's say: maybe-maybe"
    assert occurrences(text, ("wait", "sure", "likely", "perhaps", "maybe", "Let's")) == {
        "wait": 2,  # not WAITING, not wait_2
        "sure": 1,  # not measure
        "likely": 0,  # not Unlikely
        "perhaps": 1,
        "maybe": 2,
        "Let's": 1,
    }
    assert occurrences("a.b", ("a.b", ".")) == {"a.b": 1, ".": 0}  # a dot is a dot; the longest word is found first
    assert occurrences(text, ()) == {}


def test_rates_are_ratios_of_sums() -> None:
    assert per_1000_tokens(3, 600) == 5.0
    assert per_1000_tokens(0, 0) is None
    # 1 in 100 tokens and 1 in 300: 2 in 400, not the mean of 10 and 3.3
    assert mean_rate([{"wait": 1}, {"wait": 1}], [100, 300]) == {"wait": 5.0}
    assert mean_rate([], []) == {}


def test_a_word_has_the_entropy_of_the_token_that_begins_it() -> None:
    #       tokens: "Let" "'s" " try" " it" "."
    text, spans = "Let's try it.", [(0, 3), (3, 5), (5, 9), (9, 12), (12, 13)]
    assert word_entropies(text, spans, [1.0, 2.0, 3.0, 4.0, 5.0]) == [("let's", 1.0), ("try", 3.0), ("it", 4.0)]
    assert word_entropies("ab cd", [(0, 2)], [1.0]) == [("ab", 1.0)]  # no token holds the c of cd
    assert word_entropies("x2 12", [(0, 5)], [1.0]) == [("x", 1.0)]  # digits are no word
    with pytest.raises(ValueError, match="1 tokens with 2 entropies"):
        word_entropies("a", [(0, 1)], [1.0, 2.0])


def test_enrichment_by_hand() -> None:
    # 10 words in all, share 0.2: the 2 highest (9, 8) and the 2 lowest (0, 1) entropies
    right = [("try", 9.0), ("so", 5.0), ("so", 0.0), ("try", 4.0), ("so", 3.0)]
    wrong = [("so", 8.0), ("end", 1.0), ("end", 2.0), ("so", 6.0), ("so", 7.0)]
    found = enrichment([right, wrong], ["correct", "incorrect"], share=0.2, least=1)
    assert found == [
        # one word of the tail is try, 2 of 5 words are: 1 / (2/5)
        Enriched("correct", "high", "try", 1, 2, 1, 5, 2.5),
        Enriched("correct", "high", "so", 0, 3, 1, 5, 0.0),
        Enriched("correct", "low", "so", 1, 3, 1, 5, pytest.approx(1 / (3 / 5))),
        Enriched("correct", "low", "try", 0, 2, 1, 5, 0.0),
        Enriched("incorrect", "high", "so", 1, 3, 1, 5, pytest.approx(1 / (3 / 5))),
        Enriched("incorrect", "high", "end", 0, 2, 1, 5, 0.0),
        Enriched("incorrect", "low", "end", 1, 2, 1, 5, 2.5),
        Enriched("incorrect", "low", "so", 0, 3, 1, 5, 0.0),
    ]
    # words seen less than 3 times are left out
    assert {row.word for row in enrichment([right, wrong], ["correct", "incorrect"], share=0.2, least=3)} == {"so"}


def test_enrichment_over_responses_of_one_outcome() -> None:
    found = enrichment([[("a", 2.0)], [("b", 1.0), ("a", 1.0)]], ["correct", "correct"], share=0.3, least=1)
    # 3 words: the tail holds ceil(0.9) = 1; both words at the lower threshold 1.0 are in it
    assert [(row.tail, row.word, row.enrichment) for row in found] == [
        ("high", "a", pytest.approx(1 / (2 / 3))),
        ("high", "b", 0.0),
        ("low", "b", pytest.approx((1 / 2) / (1 / 3))),
        ("low", "a", pytest.approx((1 / 2) / (2 / 3))),
    ]
    assert enrichment([[]], ["correct"]) == []
    # both tails hold one of 4 words: no word of the right response is in one
    lone = enrichment([[("a", 2.0)], [("b", 9.0), ("b", 3.0), ("b", 1.0)]], ["correct", "incorrect"], least=1)
    assert [(row.tail_words, row.enrichment) for row in lone if row.outcome == "correct"] == [(0, None)] * 2
    for share in (0.0, 0.6):
        with pytest.raises(ValueError, match=f"share: {share}"):
            enrichment([], [], share=share)


def test_lengths() -> None:
    found = lengths([10, 20, 60], ["stop", "stop", "length"], [True, False, False])
    assert (found.mean, found.correct, found.incorrect) == (30.0, 10.0, 40.0)
    assert found.truncated == pytest.approx(1 / 3)
    assert lengths([5], ["stop"], [True]).incorrect is None
    with pytest.raises(ValueError, match="no samples"):
        lengths([], [], [])


def test_accuracy_within_a_budget() -> None:
    tokens, stops, correct = [10, 20, 30, 40], ["stop", "stop", "stop", "length"], [True, True, False, False]
    assert within(tokens, stops, correct, 40) == 0.5
    assert within(tokens, stops, correct, 20) == 0.5  # 20 tokens fit into 20
    assert within(tokens, stops, correct, 19) == 0.25
    assert within(tokens, stops, correct, 41) is None  # what the fourth would have come to is not known
    with pytest.raises(ValueError, match="no samples"):
        within([], [], [], 1)


EDGES = (0.0, 0.25, 0.5, 1.0)


@pytest.mark.parametrize(("accuracy", "name"), [(0, "0-0.25"), (0.25, "0.25-0.5"), (0.5, "0.5-1"), (1, "0.5-1")])
def test_a_band_holds_its_lower_edge(accuracy: float, name: str) -> None:
    assert band(accuracy, EDGES) == name


def test_bands_are_those_of_the_base_model() -> None:
    base = {"a": 0.0, "b": 0.2, "c": 0.9}
    found = by_band({"a": 0.5, "b": 1.0, "c": 0.0}, base, EDGES)
    assert found == {"0-0.25": (0.75, 2), "0.25-0.5": (None, 0), "0.5-1": (0.0, 1)}
    assert hard(base) == {"a", "b"}
    assert hard({"x": 0.25}) == frozenset()
    with pytest.raises(ValueError, match="problem 'd' has no accuracy of the base model"):
        by_band({"d": 1.0}, base, EDGES)


@pytest.mark.parametrize("edges", [(0.0,), (0.1, 1.0), (0.0, 0.9), (0.0, 0.5, 0.5, 1.0)])
def test_wrong_edges_are_refused(edges: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="edges: .*: give increasing numbers from 0 to 1"):
        band(0.5, edges)
    with pytest.raises(ValueError, match="accuracy 1.5"):
        band(1.5, EDGES)
