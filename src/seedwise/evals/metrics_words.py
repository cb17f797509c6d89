"""Words in responses: epistemic markers, and which words stand where the policy is uncertain.

A word is matched whole and in any case: ``sure`` is not in ``measure``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")  # let's is one word


def occurrences(text: str, words: Sequence[str]) -> dict[str, int]:
    """How often each of the words stands in the text, as a whole word, in any case."""
    found = Counter[str]()
    if words:
        either = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
        found.update(match.lower() for match in re.findall(rf"(?<!\w)(?:{either})(?!\w)", text, re.IGNORECASE))
    return {word: found[word.lower()] for word in words}


def per_1000_tokens(counts: int, tokens: int) -> float | None:
    """Occurrences per 1,000 generated tokens, ``1000 * counts / tokens``; None without tokens.

    Over several responses give the sums: a long response then counts by its length (EAPO, arXiv 2609.33781, figure 4).
    """
    return 1000 * counts / tokens if tokens else None


def word_entropies(
    text: str, spans_T: Sequence[tuple[int, int]], entropy_T: Sequence[float]
) -> list[tuple[str, float]]:
    """The words of a response, lower case, each with the entropy of the token that begins it.

    spans_T: characters [start, end) of each token in ``text``.  entropy_T: nats, one per token.
    The token that holds a word's first letter is where the word was decided on, spaces before it included; a word
    whose first letter lies in no token is left out.  Raises ValueError where spans and entropies differ in number.
    """
    if len(spans_T) != len(entropy_T):
        raise ValueError(f"{len(spans_T)} tokens with {len(entropy_T)} entropies: give one entropy a token")
    at = {place: float(entropy) for span, entropy in zip(spans_T, entropy_T, strict=True) for place in range(*span)}
    words = ((match.group().lower().replace("’", "'"), match.start()) for match in _WORD.finditer(text))
    return [(word, at[start]) for word, start in words if start in at]


@dataclass(frozen=True)
class Enriched:
    """A word in one entropy tail of one outcome's responses.

    count: occurrences in the tail.  of: the outcome's occurrences anywhere.
    tail_words, words: words of the outcome in the tail, and anywhere; sums over runs give the enrichment of all.
    enrichment: share of the tail's words over share of the outcome's words; 1 is neither more nor less than usual,
        None where no word of the outcome is in the tail.
    """

    outcome: str
    tail: str
    word: str
    count: int
    of: int
    tail_words: int
    words: int
    enrichment: float | None


def enrichment(
    words_B: Sequence[Sequence[tuple[str, float]]], outcome_B: Sequence[str], *, share: float = 0.1, least: int = 5
) -> list[Enriched]:
    """Words in the top (``high``) and bottom (``low``) tails of entropy, by outcome (EAPO, arXiv 2609.33781, figure 2).

    words_B: per response its words with their entropies, see ``word_entropies``.  outcome_B: e.g. correct, incorrect.
    share: part of all words, over all responses and both outcomes, that a tail holds: the thresholds are the same for
    both outcomes, so the tails mean the same.  A word whose entropy equals a threshold is in the tail.  least: words
    that occur in an outcome's responses less often are left out.  The figure's own formula is not given; this is ours.

    Most enriched first, then by word; a word that is in no tail has a row with enrichment 0.
    Empty without words.  Raises ValueError unless 0 < share <= 1/2.
    """
    if not 0 < share <= 0.5:
        raise ValueError(f"share: {share}: give a part above 0 and at most 1/2")
    every = sorted(entropy for words in words_B for _, entropy in words)
    if not every:
        return []
    held = math.ceil(share * len(every) - 1e-9)  # 0.1 * 30 is 3.0000000000000004
    bounds = {"high": every[-held], "low": every[held - 1]}
    found: list[Enriched] = []
    for outcome in dict.fromkeys(outcome_B):
        words = [word for some, this in zip(words_B, outcome_B, strict=True) if this == outcome for word in some]
        whole = Counter(word for word, _ in words)
        for tail, bound in bounds.items():
            inside = [word for word, entropy in words if (entropy >= bound if tail == "high" else entropy <= bound)]
            found += _ratios(outcome, tail, Counter(inside), whole, least)
    return sorted(found, key=lambda row: (row.outcome, row.tail, -(row.enrichment or 0.0), row.word))


def _ratios(outcome: str, tail: str, inside: Counter[str], whole: Counter[str], least: int) -> list[Enriched]:
    n_tail, n = inside.total(), whole.total()
    return [
        Enriched(
            outcome, tail, word, inside[word], of, n_tail, n, (inside[word] / n_tail) / (of / n) if n_tail else None
        )
        for word, of in whole.items()
        if of >= least
    ]


def mean_rate(counts_B: Sequence[Mapping[str, int]], tokens_B: Sequence[int]) -> dict[str, float | None]:
    """Per word, occurrences per 1,000 tokens over B responses; see ``per_1000_tokens``."""
    tokens = int(np.sum(tokens_B, dtype=np.int64)) if len(tokens_B) else 0
    words = dict.fromkeys(word for counts in counts_B for word in counts)
    return {word: per_1000_tokens(sum(counts[word] for counts in counts_B), tokens) for word in words}
