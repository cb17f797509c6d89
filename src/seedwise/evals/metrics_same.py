"""Whether two wrong answers are one, by the verifier: 1/2 and 0.5 are, x and y are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seedwise.grading.policy import Whole
from seedwise.grading.verify import MATH_VERIFY

if TYPE_CHECKING:
    from seedwise.grading.pool import Grader


def by_verifier(grader: Grader) -> Callable[[str, str], bool]:
    """``same(first, other)`` for ``classes``: math-verify's judgement of ``other`` with ``first`` as the gold answer.

    Texts that math-verify cannot read are one only where they are equal, so answers that are no mathematics may be
    given too.  Every pair is judged in the grader's workers within its limits, and remembered.
    """
    from seedwise.grading.pool import Item

    def same(first: str, other: str) -> bool:
        if first == other:
            return True
        if grader.gold_faults([{"verifier": MATH_VERIFY, "answer": first, "metadata": "{}"}]) != [None]:
            return False
        [verdict] = grader.grade([Item(MATH_VERIFY, first, other, answer_rule=Whole())])
        return verdict.verdict == "correct"

    return same
