"""math-verify with its faults corrected: one table row per kind of fault."""

from __future__ import annotations

import pytest

from seedwise.grading.maths import equal, read
from seedwise.grading.notation import NotMaths

RIGHT = [
    # the same value written differently
    (r"\frac{1}{2}", "1/2"),
    (r"\frac{1}{2}", "0.5"),
    ("1.5", r"\frac{3}{2}"),
    ("6", "6.0"),
    (r"2\frac{1}{2}", "5/2"),
    (r"\frac{3}{4}", r"\frac34"),
    (r"\sqrt{2}", r"\sqrt2"),
    (r"4\sqrt{2}", r"4\sqrt(2)"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    ("x^2+2x+1", "(x+1)^2"),
    (r"1-\frac{1}{\mathrm{e}}", r"1-\frac{1}{e}"),
    ("1000", "1,000"),
    ("1000", r"1\,000"),
    ("10000", r"10,\!000"),
    ("0.00001", "1e-5"),
    (r"3\cdot 10^{-5}", "3e-5"),
    (r"\frac{1}{3}", "0.333333"),  # a rounded fraction at 6 decimals, as math-verify has it
    ("1+2i", "2i+1"),
    ("10", r"\binom{5}{2}"),
    # sets, intervals, relations: gold is the first argument
    ("(0,12.5)", "0 < x < 12.5"),
    (r"[3,\infty)", r"x \ge 3"),
    (r"x \ge 3", r"[3,\infty)"),
    (r"\{1,2\}", "2,1"),
    ("1,2", "x=1,x=2"),
    ("-1,1", r"\pm 1"),
    # equations
    ("3*x-1*y+13=0", "6x - 2y + 26 = 0"),
    ("3*x-1*y+13=0", "y = 3x + 13"),
    ("x=5", "5"),
    ("5", "x=5"),
    ("5", "f(x)=5"),
    ("5", "2+3=5"),
    ("2x+1", "y=2x+1"),
    # units and percent signs
    ("5", r"\text{5 cm}"),
    ("5", r"5\text{ m}"),
    ("5 cm", "5 centimeters"),
    ("5", "5 dollars"),
    (r"\$5", "5"),
    ("90", r"90^\circ"),
    ("12", r"12\text{ apples}"),
    ("0.5", r"50\%"),
    ("0.05", r"5\%"),
    ("5", r"5\%"),
    (r"50\%", "0.5"),
    (r"50\%", "50 percent"),
    # text
    (r"\text{Monday}", "monday"),
    ("A", r"\text{A}"),
    (r"\text{(A)}", "A"),
]

WRONG = [
    # tiny values
    (r"\frac{1}{2004!}", r"\frac{1}{2006!}"),
    ("0.0000001", "0.0000002"),
    ("0.00001234", "0.000012"),
    ("0", "0.0000001"),
    (r"10^{-7}x", r"2\cdot 10^{-7}x"),
    (r"\begin{pmatrix}0.0000001\\2\end{pmatrix}", r"\begin{pmatrix}0.0000003\\2\end{pmatrix}"),
    (r"\{0.0000001, 1\}", r"\{0.0000002, 1\}"),
    # a part is dropped
    (r"1-\frac{1}{\mathrm{e}}", r"1+\frac{1}{\mathrm{e}}"),
    ("2t", "2s"),
    ("f'(x)", "f(x)"),
    ("5", "5m"),
    (r"\{1,2\}", "1,2,3"),
    # malformed LaTeX read as its beginning
    ("4", r"4\sqrt(2)"),
    # an equation collapses
    ("3*x-1*y+13=0", "3x + 4y + 14=0"),
    ("13", "x+y=13"),
    ("x+y=13", "13"),
    ("5", "1+1=5"),
    ("x=5", "y=5"),
    ("x^2+1=0", "x^2+4=0"),  # neither has a real solution, and they are not the same equation
    # other values
    (r"\frac{1}{3}", "0.3333"),
    ("(1,2)", "(2,1)"),
    ("i", "-i"),
    (r"50\%", r"0.5\%"),
    (r"5\text{ m}", r"5\text{ cm}"),
    ("east", "seat"),  # not products of letters
    ("A", "B"),
]


@pytest.mark.parametrize(("gold", "answer"), RIGHT)
def test_right(gold: str, answer: str) -> None:
    assert equal(read(gold), read(answer))


@pytest.mark.parametrize(("gold", "answer"), WRONG)
def test_wrong(gold: str, answer: str) -> None:
    assert not equal(read(gold), read(answer))


@pytest.mark.parametrize(
    "answer",
    [
        "foo bar",
        "5 apples",
        r"\frac{8}{2",
        "2 3",  # latex2sympy would add them up
        r"1, 2, \ldots",
        "(1",
        "3+",
        "sqrt(2",
        "",
        "__import__('os')",
    ],
)
def test_not_one_whole_answer(answer: str) -> None:
    with pytest.raises(NotMaths):
        read(answer)


def test_the_installed_grader_stays_as_it_is() -> None:
    from math_verify import grader

    equal(read("1/3"), read("0.333333"))

    assert grader.sympy_numeric_eq.__module__ == "math_verify.grader"
