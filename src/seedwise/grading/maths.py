"""math-verify 0.9.0 with its own faults corrected, all of them here.

math-verify decides whether two expressions are equal.  What is corrected around it:

- the answer is given to the LaTeX parser whole, never searched with regular expressions, so an equation does not
  collapse to the number behind its last ``=``;
- the grammar of latex2sympy has no end of input and returns what it could read of malformed LaTeX: an expression that
  was not read to its last token is not an answer;
- rewrites that lose a part of the expression (units, "nits", "malformed operators", dots) are switched off or refused;
- small numbers were compared at 6 decimals: numbers must also agree relatively;
- ``2^{0.5}`` was not the root of 2: expressions with a decimal inside were compared to the last binary digit;
- equations without solutions counted as equal;
- a number with a full stop behind it was none;
- an equation counted as its right-hand side whatever stood on the left: only ``name = value`` does;
- percent signs, units, the base of a number and multiples like "million" are read in notation.py and spelling.py.

Its signal-based timeouts are off: the process that runs this is killed from outside (pool.py).
"""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from antlr4 import Token
from latex2sympy2_extended.latex2sympy2 import _Latex2Sympy
from latex2sympy2_extended.logic import And
from latex2sympy2_extended.math_normalization import NormalizationConfig, normalize_latex
from math_verify.grader import should_treat_as_complex
from sympy import Basic, Eq, Expr, Float, Integer, MatrixBase, Rational, expand

from seedwise.grading.notation import Notation, notation
from seedwise.grading.spelling import NotMaths

_KEEP_PARTS = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=False, nits=False, boxed="none", equations=False
)
_EXACT_DIGITS = 50
# A decimal may be a rounded fraction: math-verify compares 6 decimals, and 0.333333 for 1/3 is off by 1e-6.
_FLOAT_TOLERANCE = 1e-5
_EXACT_TOLERANCE = 1e-30
# A decimal is held in binary: what is computed from one agrees to fewer than its 15 digits.
_COMPUTED_TOLERANCE = 1e-12
# Relative, of numbers computed to 15 digits.
_DIFFERENT = 1e-9
_NOISE = 1e-60  # what sympy computes for an expression that is 0 is about 1e-125


@dataclass(frozen=True)
class Reading:
    """An answer as read.  value: a sympy object, or None for text.  notation: units, percent sign, name, words."""

    value: Any
    notation: Notation


def read(latex: str, *, prose: bool = False) -> Reading:
    """Read a whole answer.  prose: several plain words are a text.

    Raises NotMaths when it cannot be read to its last token.
    """
    form = notation(latex, prose=prose)
    if form.words is not None:
        return Reading(None, form)
    return Reading(_parse(form.body), form)


def equal(gold: Reading, answer: Reading) -> bool:
    """Whether ``answer`` is the gold answer; not symmetric."""
    if gold.value is None or answer.value is None:
        return gold.value is answer.value and gold.notation.words == answer.notation.words
    if gold.notation.unit and answer.notation.unit and gold.notation.unit != answer.notation.unit:
        return False
    gold, answer = _same_form(gold, answer)
    if _is_equation(gold.value) != _is_equation(answer.value):
        return False
    if gold.notation.percent == answer.notation.percent:
        return _verify(gold.value, answer.value)
    # One of the two has the sign: it divides by 100, or names the unit of a number that the other leaves out.
    percent, plain = (gold, answer) if gold.notation.percent else (answer, gold)
    return any(
        _verify(*((value, plain.value) if percent is gold else (plain.value, value)))
        for value in (_hundredth(percent.value), percent.value)
    )


def _hundredth(value: Any) -> Any:
    return value / 100 if isinstance(value, Float) else value * Rational(1, 100)


def _same_form(gold: Reading, answer: Reading) -> tuple[Reading, Reading]:
    """``name = value`` against ``value``: the value on both sides; any other equation stays one."""
    if _is_equation(answer.value) and not _is_equation(gold.value):
        return gold, _assigned(answer)
    if _is_equation(gold.value) and not _is_equation(answer.value):
        return _assigned(gold), answer
    return gold, answer


def _assigned(reading: Reading) -> Reading:
    sides = _sides(reading.value)
    named = sides[1:] if reading.notation.name else sides
    if any(side.free_symbols for side in named[:-1]) or any(not _verify(named[-1], side) for side in named[:-1]):
        return reading
    return replace(reading, value=named[-1])


def _sides(value: Any) -> list[Any]:
    """[a, b, c] of a = b = c."""
    equations = _parts(value) if isinstance(value, And) else [value]
    return [equations[0].lhs, *(equation.rhs for equation in equations)]


def _parts(value: Any) -> list[Any]:
    """Of a chain of relations, in the order in which they were written."""
    return list(value._unsorted_args)


def _is_equation(value: Any) -> bool:
    if isinstance(value, And):
        parts = _parts(value)
        return bool(parts) and all(isinstance(part, Eq) for part in parts)
    return isinstance(value, Eq)


class _WholeInput(_Latex2Sympy):
    """latex2sympy that knows whether it read everything."""

    def create_parser(self, latex_str: str) -> Any:
        self.last_parser = super().create_parser(latex_str)
        return self.last_parser


def _parse(body: str) -> Any:
    latex = normalize_latex(body, _KEEP_PARTS)
    reader = _WholeInput(is_real=not should_treat_as_complex(latex), convert_degrees=False)
    try:
        value = reader.parse(latex)
    # latex2sympy raises Exception itself on bad input, and almost anything from deep inside sympy.
    except Exception as error:  # noqa: BLE001 - no narrower class exists
        raise NotMaths(f"{body!r} is not mathematics that latex2sympy can read ({type(error).__name__})") from None
    tokens: Any = reader.last_parser.getTokenStream()
    if tokens.LA(1) != Token.EOF:
        raise NotMaths(f"{body!r} can be read in part only")
    if not isinstance(value, (Basic, MatrixBase)):
        raise NotMaths(f"{body!r} is not an expression")
    return value


def _verify(gold: Any, answer: Any) -> bool:
    return bool(
        _grader().verify(
            gold, answer, strict=True, allow_set_relation_comp=True, timeout_seconds=None, raise_on_error=False
        )
    )


@lru_cache(maxsize=1)
def _grader() -> Any:
    """A private copy of math_verify.grader with three comparisons replaced; the installed module stays as it is."""
    spec = importlib.util.find_spec("math_verify.grader")
    assert spec is not None
    assert spec.loader is not None
    grader: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(grader)
    grader.logger = logging.getLogger("seedwise.grading.math_verify")
    grader.logger.setLevel(logging.ERROR)
    numeric_eq, solve_and_compare = grader.sympy_numeric_eq, grader.sympy_solve_and_compare
    symbolic_eq = grader.sympy_symbolic_eq

    def relative_numeric_eq(a: Any, b: Any, float_rounding: int, numeric_precision: int) -> bool:
        same = bool(numeric_eq(a, b, float_rounding, numeric_precision))
        return _relatively_close(a, b) if same else _equal_but_for_binary(a, b)

    def solvable_and_compare(gold: Any, pred: Any, float_rounding: int, numeric_precision: int) -> bool:
        from sympy import solve

        if isinstance(gold, Eq) and not solve(gold, gold.free_symbols):
            return False
        return bool(solve_and_compare(gold, pred, float_rounding, numeric_precision))

    def settled_or_symbolic_eq(a: Any, b: Any) -> bool:
        settled = _settled(a, b)
        return bool(symbolic_eq(a, b)) if settled is None else settled

    grader.sympy_numeric_eq = relative_numeric_eq
    grader.sympy_symbolic_eq = settled_or_symbolic_eq
    grader.sympy_solve_and_compare = solvable_and_compare
    return grader


def _relatively_close(a: Any, b: Any) -> bool:
    """Two numbers that math-verify holds for equal, compared relative to their size.

    Not numbers (matrices were compared element by element; symbols go on to symbolic equality): matrices are close,
    expressions with symbols are left to the symbolic comparison, which does not chop small values.
    """
    if isinstance(a, MatrixBase) or isinstance(b, MatrixBase) or a == b:
        return True
    if a.free_symbols or b.free_symbols:
        return False
    return _within(_FLOAT_TOLERANCE if a.has(Float) or b.has(Float) else _EXACT_TOLERANCE, a, b)


def _equal_but_for_binary(a: Any, b: Any) -> bool:
    """Whether two values with a decimal inside an expression are the same; a plain decimal is compared as it stands."""
    if isinstance(a, MatrixBase) or isinstance(b, MatrixBase) or a.is_Number or b.is_Number:
        return False
    computed = (a.has(Float) or b.has(Float)) and not (a.free_symbols or b.free_symbols)
    return computed and _within(_COMPUTED_TOLERANCE, a, b)


def _within(tolerance: float, a: Any, b: Any) -> bool:
    x, y = (value.doit().evalf(_EXACT_DIGITS) for value in (a, b))
    size = max(abs(x), abs(y))
    return bool(size == Integer(0) or abs(x - y) <= tolerance * size)


def _settled(a: Any, b: Any) -> bool | None:
    """What is known without simplifying, which takes most of the time: None where nothing is.

    Numbers that differ are not equal; polynomials are equal if their difference expands to 0.
    """
    if not (isinstance(a, Expr) and isinstance(b, Expr)) or a.has(Float) or b.has(Float):
        return None
    if a.free_symbols or b.free_symbols:
        return expand(a - b) == 0 if (a - b).is_polynomial() else None
    x, y = a.evalf(), b.evalf()
    if not (x.is_finite and y.is_finite):
        return None
    size = max(abs(x), abs(y))
    return False if size > _NOISE and abs(x - y) > _DIFFERENT * size else None
