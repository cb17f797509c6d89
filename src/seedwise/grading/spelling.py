"""Spellings of mathematics that the grammar of latex2sympy lacks, rewritten so that no part is lost.  No sympy."""

from __future__ import annotations

import re
from fractions import Fraction

from seedwise.grading.policy import closing_brace


class NotMaths(ValueError):
    """A text that is not one whole mathematical answer."""


FUNCTIONS = re.compile(r"(?:arc)?(?:sin|cos|tan)|cot|sec|csc|log|exp|sqrt|inf|infinity|mod|gcd|lcm|min|max|det")
_UNICODE = {
    "\u00b7": r"\cdot ",
    "\u221e": r"\infty ",
    "\u2205": r"\emptyset ",
    "\u00b2": "^{2}",
    "\u00b3": "^{3}",
    "\u2032": "'",
    "\u221a": "sqrt",
    "\u00bd": r"\frac{1}{2}",
    "\u00bc": r"\frac{1}{4}",
    "\u00be": r"\frac{3}{4}",
    **dict.fromkeys("\u2010\u2011\u2012\u2013", "-"),  # hyphens and the dash of a number
}
_FORMS = str.maketrans(_UNICODE)
_POWERS_OF_TEN = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_MULTIPLIER = re.compile(rf"(?<=[0-9])\s*(\\text\s*\{{)?\s*({'|'.join(_POWERS_OF_TEN)})\b\s*(?:(?<!\{{)\}})?")
_OR = re.compile(r"\\(?:text|mathrm|textrm|mbox)\s*\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])")
_TWO_WORDS = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}\s+[A-Za-z]{2,}")
_BARE_NOUN = re.compile(r"[0-9]\s+([a-z]{3,})(?![a-z])")
_TEXT = re.compile(r"\\(?:text|textrm|mbox)\s*\{\s*[^{}\s][^{}]*[^{}\s]\s*\}")
_TWO_NUMBERS = re.compile(r"[0-9.]\s+[0-9.]|[.][0-9]*[.]")
_THOUSANDS = re.compile(r"(?<![0-9.])([1-9][0-9]{0,2}(?: [0-9]{3})+)(?![0-9])")
_REPEATING = re.compile(r"([0-9]{0,99})\.([0-9]{0,99})\\(?:overline|bar)\s*(?:\{\s*([0-9]{1,99})\s*\}|([0-9]))")
_SCIENTIFIC = re.compile(r"([0-9.])[eE]([-+]?[0-9]+)(?![0-9a-zA-Z])")
_LOG = re.compile(r"\\log\s*_\s*([0-9a-z])\s*")
_UPRIGHT = re.compile(r"\\(?:text|mathrm|textrm|rm)\s*\{\s*([A-Za-z])\s*\}")
_DROPPED = re.compile(r"\\[lc]?dots|\\ldots|\.\.\.|…|[\"]|__")
_COMMANDS = re.compile(r"\\(?:[dtc]?frac|sqrt\s*(?:\[[^\[\]]*\])?)(?![a-zA-Z])")
_ONE_TOKEN = re.compile(r"\s*([0-9A-Za-z]|\\(?:pi|alpha|beta|theta)(?![a-zA-Z]))")


def ascii_forms(answer: str) -> str:
    """Characters that stand for LaTeX, as that LaTeX."""
    return answer.translate(_FORMS)


def multiplied(body: str) -> str:
    """``5 million`` as a product; what else stood in the same text, a unit, stays in it."""

    def product(match: re.Match[str]) -> str:
        closed = match[0].rstrip().endswith("}")
        return rf" \times 10^{{{_POWERS_OF_TEN[match[2]]}}}" + (r"\text{" if match[1] and not closed else "")

    return _MULTIPLIER.sub(product, body)


def repaired(body: str) -> str:
    """An expression as latex2sympy can read it.  Raises NotMaths where a part would be lost or two be joined."""
    if _DROPPED.search(body):
        raise NotMaths(f"{body!r} leaves out a part of the answer")
    body = _REPEATING.sub(_fraction, _THOUSANDS.sub(lambda match: match[1].replace(" ", ""), body))
    body = _LOG.sub(r"\\log_{\1} ", body)
    if _TWO_NUMBERS.search(body):
        raise NotMaths(f"{body!r} is two numbers")  # latex2sympy adds or multiplies them
    _refuse_words(body)
    if not re.search(r"[<>=]|\\[lg]e|\\n?eq", body):
        body = _OR.sub(",", body)
    body = _UPRIGHT.sub(r" \1", body).replace(r"\varnothing", r"\emptyset")
    body = _SCIENTIFIC.sub(r"\1 \\times 10^{\2}", body)
    body = body.replace("'", r"^{\prime}")
    return _braced(_rooted(body))


def _refuse_words(body: str) -> None:
    without = _OR.sub(",", body)
    noun = _BARE_NOUN.search(without)
    unknown_unit = noun is not None and not FUNCTIONS.fullmatch(noun[1])
    if unknown_unit or _TWO_WORDS.search(without) or _TEXT.search(without):
        raise NotMaths(f"{body!r} is several words: write a text answer as \\text{{...}}")


def _fraction(match: re.Match[str]) -> str:
    """0.1\\overline{6} as \\frac{1}{6}: (16 - 1) / 90."""
    whole, fixed, repeating = match[1], match[2], match[3] or match[4]
    all_digits, before = int(f"{whole}{fixed}{repeating}"), int(f"{whole}{fixed}" or "0")
    value = Fraction(all_digits - before, 10 ** len(fixed) * (10 ** len(repeating) - 1))
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def _rooted(body: str) -> str:
    r"""\sqrt(x) and sqrt(x) as \sqrt{x}, parentheses balanced."""
    body = re.sub(r"(?<![\\A-Za-z])sqrt\s*([0-9]+|[a-z])(?![A-Za-z])", r"\\sqrt{\1}", body)
    while match := re.search(r"\\?\bsqrt\s*\(", body):
        depth, at = 1, match.end()
        while at < len(body) and depth:
            depth += {"(": 1, ")": -1}.get(body[at], 0)
            at += 1
        if depth:
            raise NotMaths(f"{body!r} has an open parenthesis")
        body = f"{body[: match.start()]}\\sqrt{{{body[match.end() : at - 1]}}}{body[at:]}"
    return body


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
