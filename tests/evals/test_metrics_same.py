"""Wrong answers that are one by the verifier."""

from __future__ import annotations

from seedwise.evals.metrics_answers import classes
from seedwise.evals.metrics_same import by_verifier


def test_classes_by_the_verifier(grader) -> None:
    answers = ["\\frac{1}{2}", "0.5", "3", "03", "foo bar", "foo bar", "bar foo", "12"]
    correct = [False] * 7 + [True]
    same = by_verifier(grader)
    # 1/2 = 0.5, 3 = 03; what is no mathematics is compared as text
    assert classes(answers, correct, same) == [0, 0, 1, 1, 2, 2, 3, 4]
    assert classes(answers, correct) == [0, 1, 2, 3, 4, 4, 5, 6]
    assert not same("5^{(5^{(5^{(5^5)})}-4)}-5", "0")  # would never end
