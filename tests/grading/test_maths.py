"""math-verify with its faults corrected: one table row per kind of fault."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.grading import plain
from seedwise.grading.maths import equal, read
from seedwise.grading.policy import Whole, normalise
from seedwise.grading.spelling import NotMaths
from seedwise.grading.verify import decide, judge

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
    ("0", r"\sqrt{2}\sqrt{3}-\sqrt{6}"),
    ("x^3-1", "(x-1)(x^2+x+1)"),
    (r"\sin^2 x+\cos^2 x", "1"),
    ("3", "6/2"),
    ("-1,000", "-1000."),
    ("(1,2)", r"\left( 1, 2 \right)"),
    (r"\sqrt{2}", "2^{0.5}"),  # 0.5 is held in binary
    (r"\frac{\sqrt{2}}{2}", r"0.5\sqrt{2}"),
    (r"\begin{pmatrix}\sqrt{2}\\1\end{pmatrix}", r"\begin{pmatrix}2^{0.5}\\1\end{pmatrix}"),
    (r"\frac{1}{3}", r"0.\overline{3}"),
    (r"0.1\overline{6}", r"\frac{1}{6}"),  # (16 - 1) / 90
    (r"-2.\overline{142857}", r"-\frac{15}{7}"),  # 2142855 / 999999
    (r"\log_2 3", r"\frac{\ln 3}{\ln 2}"),
    (r"\log_23", r"\log_{2}{3}"),
    ("1+2i", "2i+1"),
    ("10", r"\binom{5}{2}"),
    # sets, intervals, relations: gold is the first argument
    ("(0,12.5)", "0 < x < 12.5"),
    (r"[3,\infty)", r"x \ge 3"),
    (r"x \ge 3", r"[3,\infty)"),
    (r"\{1,2\}", "2,1"),
    ("1,2", "x=1,x=2"),
    ("-1,1", r"\pm 1"),
    ("1,2", "1 and 2"),
    ("1,2", r"1\text{ or }2"),
    (r"\emptyset", r"\varnothing"),
    ("(2,3)", "(x,y)=(2,3)"),
    # equations
    ("3*x-1*y+13=0", "6x - 2y + 26 = 0"),
    ("3*x-1*y+13=0", "y = 3x + 13"),
    ("x=5", "5"),
    ("5", "x=5"),
    ("5", "f(x)=5"),
    ("5", "2+3=5"),
    ("2x+1", "y=2x+1"),
    ("17", "= 17"),
    # characters that LaTeX has names for
    (r"2\sqrt{3}", "2√3"),
    (r"\frac{5}{2}", "2½"),
    ("x^2", "x²"),
    ("6", "2·3"),
    ("-2", "–2"),  # a dash
    (r"\frac{1}{2}", "１／２"),
    ("0.5", "５０％"),
    (r"(-\infty,\infty)", "(-∞, ∞)"),
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
    (r"25\text{ cm}^2", "25 cm^2"),
    ("25 cm2", r"25\,\mathrm{cm}^{2}"),
    ("5000000", "5 million"),
    (r"\$5\text{ million}", "5,000,000 dollars"),
    (r"2.5\text{ thousand dollars}", r"\$2500"),
    ("1011_2", "1011_{2}"),
    ("1A_{16}", r"1A_{\text{16}}"),
    ("1011_2", "1011"),  # a base is left out like a unit
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
    ("2", r"2\text{ to the power }3"),
    ("1", r"1\text{ and }2"),
    ("5", "5 million"),
    ("1011_2", "1011_3"),
    ("5", r"\text{(A) }5"),
    (r"0.\overline{3}", "0.3"),
    (r"0.\overline{3}", r"0.\overline{33}4"),
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
    ("1,100", "1, 100"),  # one number, two numbers
    ("x^3-1", "(x-1)(x^2+x-1)"),
    (r"19\sqrt{2}", r"19\sqrt{3}"),
    (r"\text{even}", "7"),
]


@pytest.mark.parametrize(("gold", "answer"), RIGHT)
def test_right(gold: str, answer: str) -> None:
    assert equal(read(gold), read(normalise(answer)))
    assert plain.equal(gold, normalise(answer)) in (True, None)


@pytest.mark.parametrize(("gold", "answer"), WRONG)
def test_wrong(gold: str, answer: str) -> None:
    assert not decide("math_verify", gold, normalise(answer), {})
    assert plain.equal(gold, normalise(answer)) in (False, None)


@pytest.mark.parametrize(
    "answer",
    [
        "foo bar",
        "5 apples",
        r"\frac{8}{2",
        "2 3",  # latex2sympy would add them up
        "1.000.000",  # latex2sympy would multiply them
        r"3\text{ or more }x",
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


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        (r"\text{No solution}", "no  solution", True),  # as the extraction leaves \boxed{\text{no solution}}
        (r"\text{No solution}", "no", False),
        ("5", "5 apples", False),
    ],
)
def test_prose(gold: str, answer: str, same: bool) -> None:
    assert judge("math_verify", gold, answer, Whole(), {}).correct == same


_PLAIN = st.sampled_from(["{}/{}", r"\frac{{{}}}{{{}}}", r"-\dfrac{{{}}}{{{}}}", "{}{}", "-{}{}.", "{},{:03}"])


@settings(max_examples=80)
@given(_PLAIN, _PLAIN, st.tuples(*[st.integers(1, 6)] * 4))
def test_plain_numbers_agree_with_the_libraries(gold: str, answer: str, drawn: tuple[int, int, int, int]) -> None:
    gold, answer = gold.format(*drawn[:2]), answer.format(*drawn[2:])
    assert plain.equal(gold, answer) is decide("math_verify", gold, answer, {})


@pytest.mark.parametrize("answer", ["1/0", "1.5", "1e3", "1 2", "01,000", "1,00", r"\frac{1}{2}x", "٥", "", "x"])
def test_what_is_not_plainly_a_number(answer: str) -> None:
    assert plain.rational(answer) is None


def test_the_installed_grader_stays_as_it_is() -> None:
    from math_verify import grader

    equal(read("1/3"), read("0.333333"))

    assert grader.sympy_numeric_eq.__module__ == "math_verify.grader"
