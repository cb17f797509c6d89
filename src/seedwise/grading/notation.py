"""The notation around an answer's mathematics: wrappers, units, percent signs, ``name =``, words.  No sympy.

Only what cannot be a part of the expression is taken off: a unit in ``\\text{...}`` behind a number, a plain unit of
two or more letters behind a number, degrees, currency.  A plain single letter is a variable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from seedwise.grading.policy import closing_brace, normalise


class NotMaths(ValueError):
    """A text that is not one whole mathematical answer."""


@dataclass(frozen=True)
class Notation:
    """body: the LaTeX left.  words: a text answer, case-folded, else None.  unit: canonical, else None.
    percent: a percent sign was taken off.  name: the answer begins with ``name =``."""

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
_POWER = r"(?:\s*\^?\s*\{?\s*([23])\s*\}?)?$"
_TEXT_UNIT = re.compile(r"(?<=[0-9})\]a-z])\s*\\(?:text|mathrm|textrm|mbox|rm)\s*\{([^{}]*)\}" + _POWER)
_NUMBER_PARTS = r"(?:[-+0-9.,/{}()\s]|\\d?frac|\\sqrt|\\pi|\\cdot)+?"
_BARE_UNIT = re.compile(rf"^{_NUMBER_PARTS}\s*(?P<unit>{_PLAIN_UNIT})" + _POWER)
_DEGREES = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|°|\\degree)$")
_CURRENCY = re.compile(r"^(?P<sign>[-+]?)\s*(?:\\\$|\$|€|£|\\pounds)\s*(?=[0-9.])")
_CURRENCY_UNIT = {"$": "dollar", "\\$": "dollar"}
_SPACING = re.compile(r"\\[,;:>]|\\(?:quad|qquad|displaystyle|thinspace)(?![a-zA-Z])|~|\\ ")
_NAME = re.compile(
    r"^\s*(?:\\angle\s*)?(?:[A-Za-z]|[A-Z]{2,}|\\[a-zA-Z]+|\\(?:text|mathrm)\s*\{[^{}]*\})"
    r"(?:_(?:[A-Za-z0-9]|\{[^{}]*\}))?(?:\([^()=]*\))?\s*(?:=(?!=)|\\in(?![a-zA-Z]))"
)
_WORDS = re.compile(r"[A-Za-z][A-Za-z' \-]*[A-Za-z]")
_LONG_WORD = re.compile(r"[A-Za-z]{3,}")
_TWO_WORDS = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}\s+[A-Za-z]{2,}")
_BARE_NOUN = re.compile(r"[0-9]\s+([a-z]{3,})(?![a-z])")
_TWO_NUMBERS = re.compile(r"[0-9.]\s+[0-9.]")
_THOUSANDS = re.compile(r"(?<![0-9.])([1-9][0-9]{0,2}(?: [0-9]{3})+)(?![0-9])")
_SCIENTIFIC = re.compile(r"([0-9.])[eE]([-+]?[0-9]+)(?![0-9a-zA-Z])")
_UPRIGHT = re.compile(r"\\(?:text|mathrm|textrm|rm)\s*\{\s*([A-Za-z])\s*\}")
_DROPPED = re.compile(r"\\[lc]?dots|\\ldots|\.\.\.|…|[\"]|__")
_FUNCTIONS = re.compile(r"(?:arc)?(?:sin|cos|tan)|cot|sec|csc|log|exp|sqrt|inf|infinity|mod|gcd|lcm|min|max|det")


def notation(answer: str) -> Notation:
    """Take an answer apart.  Raises NotMaths when it is neither mathematics nor one text."""
    in_text = normalise(answer) != answer.strip()
    body = _SPACING.sub(" ", normalise(answer).replace("\\!", "")).strip().removesuffix(".").strip()
    if not body:
        raise NotMaths("the answer is empty")
    words = _words(body, in_text)
    if words is not None:
        return Notation(body, words=words)
    body, percent = _cut(_PERCENT, body)
    body, unit = _unit(body)
    if not body:
        raise NotMaths(f"{answer!r} has a unit and no value")
    body = _repaired(body)
    return Notation(body, unit=unit, percent=percent, name=bool(_NAME.match(body)))


def _words(body: str, in_text: bool) -> str | None:
    """The folded text of an answer that is words: in ``\\text{...}``, or one plain word of three letters or more."""
    if not _WORDS.fullmatch(body) or not _LONG_WORD.search(body) or _FUNCTIONS.fullmatch(body.lower()):
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
    if match := _TEXT_UNIT.search(body):
        spelling = match[1].strip().lower()
        # \text{e} behind a number is Euler's number, not a unit.
        if len(spelling) > 1 or spelling in _CANONICAL:
            return body[: match.start()].rstrip(), _CANONICAL.get(spelling, spelling) + (match[2] or "")
    if match := _BARE_UNIT.match(body):
        return body[: match.start("unit")].rstrip(), _CANONICAL[match["unit"]] + (match[2] or "")
    return body, None


def _repaired(body: str) -> str:
    """Spellings that the grammar lacks, rewritten without losing a part."""
    if _DROPPED.search(body):
        raise NotMaths(f"{body!r} leaves out a part of the answer")
    body = _THOUSANDS.sub(lambda match: match[1].replace(" ", ""), body)
    if _TWO_NUMBERS.search(body):
        raise NotMaths(f"{body!r} is two numbers")  # latex2sympy adds them up
    noun = _BARE_NOUN.search(body)
    unknown_unit = noun is not None and not _FUNCTIONS.fullmatch(noun[1])
    if unknown_unit or _TWO_WORDS.search(re.sub(r"\b(?:and|or)\b", ",", body)):
        raise NotMaths(f"{body!r} is several words: write a text answer as \\text{{...}}")
    body = _UPRIGHT.sub(r" \1", body)
    body = _SCIENTIFIC.sub(r"\1 \\times 10^{\2}", body)
    body = body.replace("'", r"^{\prime}")
    return _braced(_rooted(body))


def _rooted(body: str) -> str:
    r"""\sqrt(x) and sqrt(x) as \sqrt{x}, parentheses balanced."""
    while match := re.search(r"\\?\bsqrt\s*\(", body):
        depth, at = 1, match.end()
        while at < len(body) and depth:
            depth += {"(": 1, ")": -1}.get(body[at], 0)
            at += 1
        if depth:
            raise NotMaths(f"{body!r} has an open parenthesis")
        body = f"{body[: match.start()]}\\sqrt{{{body[match.end() : at - 1]}}}{body[at:]}"
    return body


_COMMANDS = re.compile(r"\\(?:[dtc]?frac|sqrt\s*(?:\[[^\[\]]*\])?)(?![a-zA-Z])")
_ONE_TOKEN = re.compile(r"\s*([0-9A-Za-z]|\\(?:pi|alpha|beta|theta)(?![a-zA-Z]))")


def _braced(body: str) -> str:
    r"""\frac12 as \frac{1}{2} and \sqrt2 as \sqrt{2}, as TeX reads them."""
    at = 0
    while match := _COMMANDS.search(body, at):
        at, place = match.end(), match.end()
        for _ in range(2 if "frac" in match[0] else 1):
            if token := _ONE_TOKEN.match(body, place):
                body = f"{body[:place]}{{{token[1]}}}{body[token.end() :]}"
            opening = len(body[place:]) - len(body[place:].lstrip()) + place
            end = closing_brace(body, opening + 1) if body[opening : opening + 1] == "{" else None
            if end is None:
                raise NotMaths(f"{match[0]} lacks an argument in {body!r}")
            place = end + 1
    return body
