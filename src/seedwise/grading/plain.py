"""What two answers say without sympy: equal spellings, rational numbers, words.  Agrees with maths.py (tested).

This runs without a limit, so answers that are long, whose patterns could take long, are left to the workers.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from seedwise.grading.notation import WORDS, notation
from seedwise.grading.spelling import NotMaths

_LONGEST = 500  # characters
_INTEGER = re.compile(r"(?P<n>[-+]?[0-9]{1,500}|-?[1-9][0-9]{0,2}(?:,[0-9]{3}){1,200})\.?")
_FRACTION = re.compile(
    r"(?P<sign>[-+]?)(?:\\[dt]?frac\s*\{\s*(?P<top>-?[0-9]{1,200})\s*\}\s*\{\s*(?P<bottom>[0-9]{1,200})\s*\}"
    r"|(?P<over>[0-9]{1,200})/(?P<under>[0-9]{1,200}))"
)
_SIZED = re.compile(r"\\(?:left|right)(?![a-zA-Z])\s*(?=[()\[\]])")
_SMALL_OR_LARGE = re.compile(r"\\[dt]frac(?![a-zA-Z])")
# 1, 100 is two numbers and 1,100 is one
_BESIDE_A_MARK = re.compile(r"(?<=[-+*/=(){}\[\]^_])\s+|(?<=,)\s+(?![0-9]{3})|(?<!\\)\s+(?=[-+*/=(){}\[\]^_])")


def equal(gold: str, answer: str) -> bool | None:
    """Whether ``answer`` is the gold answer where that is plain; None where it takes mathematics."""
    if answer == gold:
        return True
    if len(answer) > _LONGEST or len(gold) > _LONGEST:
        return None
    if spelling(answer) == spelling(gold):
        return True
    value = rational(gold)
    if value is not None:
        given = rational(answer)
        return None if given is None else given == value
    words = _words(gold)
    if words is None or not WORDS.fullmatch(answer):
        return None
    return " ".join(answer.casefold().split()) == words


def rational(answer: str) -> Fraction | None:
    """The number that an integer or a fraction of two integers is, exactly; None for any other answer."""
    if integer := _INTEGER.fullmatch(answer):
        return Fraction(int(integer["n"].replace(",", "")))
    if not (found := _FRACTION.fullmatch(answer)):
        return None
    top, bottom = int(found["top"] or found["over"]), int(found["bottom"] or found["under"])
    return Fraction(-top if found["sign"] == "-" else top, bottom) if bottom else None


def spelling(answer: str) -> str:
    """The answer without differences that LaTeX itself ignores: size of fractions and brackets, blanks beside marks."""
    return _BESIDE_A_MARK.sub("", _SMALL_OR_LARGE.sub(r"\\frac", _SIZED.sub("", answer)))


@lru_cache(maxsize=256)
def _words(gold: str) -> str | None:
    try:
        return notation(gold).words
    except NotMaths:
        return None
