"""Which part of a completion is its answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedwise.grading.policy import Box, Marker, Whole, extract, normalise

HASH = Marker(marker="#")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{4}. Wait, \boxed{3}", "3"),  # the last box
        (r"\boxed{4}. Wait, \boxed{3", "4"),  # the last box that is closed
        (r"so \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),  # escaped braces do not count
        (r"\boxed{x = \boxed{3}}", "3"),
        (r"\boxed {7}", "7"),
        (r"} \boxed{7} }", "7"),  # braces that nothing opened
        (r"{ \boxed{7", None),
        (r"\boxed{4 \boxed{3}", "3"),
        (r"\\boxed{7}", "7"),  # as JSON escapes it
        (r"\boxed{\\}7}", "\\\\"),  # a line break closes nothing, the brace behind it does
        (r"\boxed{5", None),
        (r"\boxed{}", None),
        (r"\boxed{ }", None),
        (r"\boxed{\text{}}", None),
        ("the answer is 5", None),
        ("", None),
    ],
)
def test_box(text: str, answer: str | None) -> None:
    assert extract(text, Box()) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("1+2=3;3-4=-1#-1", "-1"),
        ("#4 wait #5", "5"),
        ("#4\nand more", "4"),
        ("# 4 ", "4"),
        ("#", None),
        ("4", None),
        ("#4 \\boxed{6}", "6"),  # a closed box comes first, whatever the rule
        ("\\boxed{6 #7", "7"),
    ],
)
def test_marker(text: str, answer: str | None) -> None:
    assert extract(text, HASH) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [("3x + 4y = 0", "3x + 4y = 0"), (" 7\n", "7"), ("", None), ("so \\boxed{5", None), ("so \\boxed{5}", "5")],
)
def test_whole(text: str, answer: str | None) -> None:
    assert extract(text, Whole()) == answer


@pytest.mark.parametrize(
    ("answer", "normal"),
    [
        ("\uff11\uff12\uff0e\uff15", "12.5"),  # full-width 1 2 . 5
        ("\u22123", "-3"),  # the Unicode minus
        ("$\\frac12$", "\\frac12"),
        ("\\(x\\)", "x"),
        ("\\text{5 cm}", "5 cm"),
        ("\\textbf{\\text{A}}", "A"),
        ("\\text{a}\\text{b}", "\\text{a}\\text{b}"),  # two texts are not one
        ("x\u00b2", "x\u00b2"),  # a superscript is not a digit
    ],
)
def test_normalise(answer: str, normal: str) -> None:
    assert normalise(answer) == normal


@given(st.text(alphabet="{}\\$boxedtxt 1#", max_size=60))
def test_extraction_never_fails_and_never_gives_blanks(text: str) -> None:
    for rule in (Box(), HASH, Whole()):
        answer = extract(text, rule)
        assert answer is None or answer.strip() == answer != ""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("repeated", ["\\boxed{", "\\text{", "{", "\\", "\\boxed ", "$", "\\boxed{\\text{"])
def test_a_model_that_repeats_itself_costs_little(repeated: str) -> None:
    """Reading each of these boxes to the end of the text would take hours."""
    text = repeated * 100_000
    assert extract(text, Box()) is None
    assert extract(text + "\\boxed{7}", Box()) == "7"
    assert extract("\\boxed{7}" + text, Box()) == "7"
