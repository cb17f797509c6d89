"""What the answers of the n samples of one problem say together: majority vote and diversity.

Samples are put into classes of equal answers first; a sample without an answer has the class None.  Everything here is
exact over the samples that were drawn: where k of them are looked at, the value is the expectation over all subsets of
k, so no number depends on the order of the samples.  Shares and rates lie in 0..1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MOST = 1000  # binomial coefficients of more samples leave the range of a float


def classes(
    answers_K: Sequence[str | None], correct_K: Sequence[bool], same: Callable[[str, str], bool] | None = None
) -> list[int | None]:
    """The class of each sample's answer, numbered from 0; None for a sample without an answer.

    All correct answers are one class, since each equals the gold answer.  Wrong answers are alike where their
    extracted texts are, or where ``same(first, other)`` says so of the first member of a class and another text: with
    a verifier behind it, 1/2 and 0.5 are one wrong answer.
    """
    numbers: dict[str | bool, int] = {}
    firsts: list[str] = []
    found: list[int | None] = []
    for answer, correct in zip(answers_K, correct_K, strict=True):
        if answer is None:
            found.append(None)
            continue
        key = True if correct else answer
        if key not in numbers and not correct and same is not None:
            alike = next((first for first in firsts if same(first, answer)), None)
            if alike is None:
                firsts.append(answer)
            else:
                numbers[answer] = numbers[alike]
        found.append(numbers.setdefault(key, 1 + max(numbers.values(), default=-1)))
    return found


def majority(classes_K: Sequence[Hashable | None], correct_K: Sequence[bool], k: int) -> float:
    """majority@k: the probability that the most frequent answer of k of the n samples is correct.

    The k samples are drawn without replacement; of answers that are equally frequent one is taken at random; a sample
    without an answer has no vote, and without any vote the majority is wrong.  Exact: with class sizes c_a and u
    samples without an answer, the sum over right classes a and sizes j of
    C(c_a, j) sum_t [x^(k-j) y^t] (1+x)^u prod_{b != a} (sum_{i<j} C(c_b, i) x^i + y C(c_b, j) x^j) / (1 + t) / C(n, k).
    Self-consistency: Wang et al. 2022 (arXiv 2203.11171); the expectation over subsets as for pass@k.

    Raises ValueError unless 1 <= k <= n <= 1000.
    """
    n = len(classes_K)
    _check_k(k, n)
    sizes = Counter(label for label in classes_K if label is not None)
    right = {label for label, correct in zip(classes_K, correct_K, strict=True) if correct and label is not None}
    silent = n - sum(sizes.values())
    ways = 0.0
    for label in right:
        others = [size for other, size in sizes.items() if other != label]
        for j in range(1, min(sizes[label], k) + 1):
            tied_TX = _below(silent, others, j, k - j)
            ways += math.comb(sizes[label], j) * sum(row[k - j] / (1 + t) for t, row in enumerate(tied_TX))
    return float(ways / math.comb(n, k))


def _below(silent: int, others: Sequence[int], j: int, degree: int) -> NDArray[np.float64]:
    """Ways [t, x] to draw x samples of the others, t of them classes with j samples and none with more."""
    free = silent + sum(size for size in others if size < j)  # such a class can never reach j
    ways_TX: NDArray[np.float64] = np.zeros((degree // j + 1, degree + 1))
    ways_TX[0] = [math.comb(free, x) for x in range(degree + 1)]
    for size in others:
        if size < j:
            continue
        new_TX = ways_TX.copy()
        for i in range(1, min(j, degree + 1)):
            new_TX[:, i:] += math.comb(size, i) * ways_TX[:, : degree + 1 - i]
        if j <= degree:
            new_TX[1:, j:] += math.comb(size, j) * ways_TX[:-1, : degree + 1 - j]
        ways_TX = new_TX
    return ways_TX


def _check_k(k: int, n: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"k: {k} of {n} samples: give a whole number from 1 to {n}, or sample more")
    if n > _MOST:
        raise ValueError(f"{n} samples of a problem: the exact expectation is computed for at most {_MOST}")


@dataclass(frozen=True)
class Diversity:
    """Of N answers with class shares p_a = c_a / N.

    entropy: ``-sum p_a ln p_a / ln N``, 1 where all differ; None for fewer than 2 answers.
    entropy_distinct: the same over ``ln`` of the number of classes; None for fewer than 2 classes.
    collision: ``sum c_a (c_a - 1) / (N (N - 1))``, the probability that two samples agree; None as for entropy.
    answers: N.
    """

    entropy: float | None
    entropy_distinct: float | None
    collision: float | None
    answers: int


def diversity(classes_K: Sequence[Hashable | None], *, silent: bool = True) -> Diversity:
    """Normalised answer entropy and collision rate of one problem (EAPO, arXiv 2609.33781, table 4).

    The paper gives no definitions; these are ours.  silent: a sample without an answer is a class of its own and never
    collides; False leaves such samples out, and N is the number of the others.
    """
    sizes = list(Counter(label for label in classes_K if label is not None).values())
    if silent:
        sizes += [1] * sum(label is None for label in classes_K)
    N = sum(sizes)
    if N < 2:
        return Diversity(None, None, None, N)
    nats = -math.fsum(size / N * math.log(size / N) for size in sizes)
    return Diversity(
        entropy=nats / math.log(N),
        entropy_distinct=nats / math.log(len(sizes)) if len(sizes) > 1 else None,
        collision=sum(size * (size - 1) for size in sizes) / (N * (N - 1)),
        answers=N,
    )


def best_of(scores_K: Sequence[float | None], correct_K: Sequence[bool], k: int) -> float:
    """best-of-k: the probability that the sample with the highest score among k of the n samples is correct.

    The k samples are drawn without replacement; of equal highest scores one is taken at random.  A sample whose score
    is None ranks below all others.  Exact: a group of m equal scores, c of them correct, with b samples below holds
    the best of k in C(b + m, k) - C(b, k) of the C(n, k) subsets, and is right in c of m cases.

    Raises ValueError unless 1 <= k <= n, and on a score that is NaN.
    """
    n = len(scores_K)
    if not 1 <= k <= n:
        raise ValueError(f"k: {k} of {n} samples: give a whole number from 1 to {n}, or sample more")
    groups: dict[float, list[bool]] = {}
    for score, correct in zip(scores_K, correct_K, strict=True):
        value = -math.inf if score is None else float(score)
        if math.isnan(value):
            raise ValueError("a score is NaN: let the scorer return None where it has none")
        groups.setdefault(value, []).append(bool(correct))
    ways, below = 0.0, 0
    for value in sorted(groups):
        m = len(groups[value])
        # exact integers first: their quotient is the only rounding
        subsets = (math.comb(below + m, k) - math.comb(below, k)) / math.comb(n, k)
        ways += subsets * sum(groups[value]) / m
        below += m
    return ways
