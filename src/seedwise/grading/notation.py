"""The notation around an answer's mathematics: wrappers, units, percent signs, ``name =``, words.  No sympy.

Only what cannot be a part of the expression is taken off: a unit in ``\\text{...}`` behind a number, a plain unit of
two or more letters behind a number, degrees, currency, the base of a number.  A plain single letter is a variable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from seedwise.grading.policy import normalise
from seedwise.grading.spelling import FUNCTIONS, NotMaths, ascii_forms, multiplied, repaired


@dataclass(frozen=True)
class Notation:
    """body: the LaTeX left.  words: a text answer, case-folded, else None.  unit: canonical, else None.
    percent: a percent sign was taken off.  name: the answer begins with ``name =`` or ``(x, y) =``."""

    body: str
    words: str | None = None
    unit: str | None = None
    percent: bool = False
    name: bool = False


_UNITS = {
    "m": "metre meter metres meters m",
    "cm": "centimetre centimeter centimetres centimeters cm",
    "mm": "millimetre millimeter millimetres millimeters mm",
    "km": "kilometre kilometer kilometres kilometers km",
    "in": "inch inches in",
    "ft": "foot feet ft",
    "yd": "yard yards yd",
    "mi": "mile miles mi",
    "s": "second seconds sec secs s",
    "min": "minute minutes min mins",
    "h": "hour hours hr hrs h",
    "day": "day days",
    "week": "week weeks",
    "month": "month months",
    "year": "year years yr yrs",
    "g": "gram grams gm g",
    "kg": "kilogram kilograms kg",
    "lb": "pound pounds lb lbs",
    "l": "litre liter litres liters l",
    "ml": "millilitre milliliter millilitres milliliters ml",
    "degree": "degree degrees deg",
    "dollar": "dollar dollars usd",
    "cent": "cent cents",
    "mph": "mph",
    "unit": "unit units",
}
_CANONICAL = {spelling: unit for unit, spellings in _UNITS.items() for spelling in spellings.split()}
_PLAIN_UNIT = "|".join(sorted((s for s in _CANONICAL if len(s) > 1), key=len, reverse=True))
_PERCENT = re.compile(r"\s*(?:\\?%|\\text\s*\{\s*\\?%\s*\}|\b(?:percent|per cent|pct)|\\text\s*\{\s*percent\s*\})$")
_POWER = r"(?:\s*\^\s*\{?\s*([23])\s*\}?)?$"
_TEXT_UNIT = re.compile(r"(?<=[0-9})\]a-z])\s*\\(?:text|mathrm|textrm|mbox|rm)\s*\{([^{}]*)\}" + _POWER)
_NUMBER_PARTS = r"(?:[-+0-9.,/{}()\s]|\\d?frac|\\sqrt|\\pi|\\cdot)+?"
_BARE_UNIT = re.compile(rf"^{_NUMBER_PARTS}\s*(?P<unit>{_PLAIN_UNIT})(?:(?:\s*\^\s*)?\{{?([23])\}}?)?$")
_BASE = re.compile(r"^([-+]?[0-9][0-9A-F]*)_\s*(?:\{\s*(?:\\text\s*\{\s*)?([a-z0-9]+)\s*\}?\s*\}|([0-9]))$")
_DEGREES = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|°|\\degree)$")
_CURRENCY = re.compile(r"^(?P<sign>[-+]?)\s*(?:\\\$|\$|€|£|\\pounds)\s*(?=[0-9.])")
_CURRENCY_UNIT = {"$": "dollar", "\\$": "dollar"}
_SPACING = re.compile(r"\\[,;:>]|\\(?:quad|qquad|displaystyle|thinspace)(?![a-zA-Z])|~|\\ ")
_NAME = re.compile(
    r"^\s*(?:\\angle\s*)?(?:\(\s*[a-z](?:\s*,\s*[a-z])+\s*\)|[A-Za-z]|[A-Z]{2,}|\\[a-zA-Z]+|\\(?:text|mathrm)\s*\{[^{}]*\})"
    r"(?:_(?:[A-Za-z0-9]|\{[^{}]*\}))?(?:\([^()=]*\))?\s*(?:=(?!=)|\\in(?![a-zA-Z]))"
)
WORDS = re.compile(r"[A-Za-z][A-Za-z' \-]*[A-Za-z]")
_LONG_WORD = re.compile(r"[A-Za-z]{3,}")


def notation(answer: str, *, prose: bool = False) -> Notation:
    """Take an answer apart.  Raises NotMaths when it is neither mathematics nor one text.

    prose: several words are a text without ``\\text{...}`` too, as the extraction leaves them.
    """
    in_text = prose or normalise(answer) != answer.strip()
    body = _SPACING.sub(" ", ascii_forms(normalise(answer)).replace("\\!", "")).strip().removesuffix(".").strip()
    body = body.removeprefix("=").lstrip()
    if not body:
        raise NotMaths("the answer is empty")
    words = _words(body, in_text)
    if words is not None:
        return Notation(body, words=words)
    body, percent = _cut(_PERCENT, multiplied(body))
    body, unit = _unit(body)
    if not body:
        raise NotMaths(f"{answer!r} has a unit and no value")
    body = repaired(body)
    return Notation(body, unit=unit, percent=percent, name=bool(_NAME.match(body)))


def _words(body: str, in_text: bool) -> str | None:
    """The folded text of an answer that is words: in ``\\text{...}``, or one plain word of three letters or more."""
    if not WORDS.fullmatch(body) or not _LONG_WORD.search(body) or FUNCTIONS.fullmatch(body.lower()):
        return None
    if not in_text and " " in body:
        raise NotMaths(f"{body!r} is several words: write a text answer as \\text{{...}}")
    return " ".join(body.casefold().split())


def _cut(pattern: re.Pattern[str], body: str) -> tuple[str, bool]:
    match = pattern.search(body)
    return (body[: match.start()].rstrip(), True) if match else (body, False)


def _unit(body: str) -> tuple[str, str | None]:
    """(body without its unit, canonical unit)."""
    if currency := _CURRENCY.match(body):
        sign = body[currency.end("sign") : currency.end()].strip()
        return currency["sign"] + body[currency.end() :], _CURRENCY_UNIT.get(sign, sign)
    without, degrees = _cut(_DEGREES, body)
    if degrees:
        return without, "degree"
    if base := _BASE.match(body):
        return base[1], f"base {base[2] or base[3]}"
    if match := _TEXT_UNIT.search(body):
        spelling = match[1].strip().lower()
        # \text{e} behind a number is Euler's number, not a unit.
        if len(spelling) > 1 or spelling in _CANONICAL:
            return body[: match.start()].rstrip(), _CANONICAL.get(spelling, spelling) + (match[2] or "")
    if match := _BARE_UNIT.match(body):
        return body[: match.start("unit")].rstrip(), _CANONICAL[match["unit"]] + (match[2] or "")
    return body, None
