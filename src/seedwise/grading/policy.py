"""Extraction policy: which part of a completion is its answer.

1. Whatever the rule: the content of the last closed ``\\boxed{...}``, braces balanced (``\\{``, ``\\}`` not counted).
2. Otherwise the rule of the task or benchmark (study key ``answer``):

   - ``box``     nothing else counts
   - ``marker``  the rest of the line after the last marker, e.g. after the last ``#``
   - ``whole``   the whole text, unless it opens a box that never closes

3. Nothing found, or nothing left after normalisation: the completion is *unparsed*, counted apart from wrong.

Normalisation is the same for every verifier: full-width characters become ASCII, the Unicode minus becomes ``-``,
maths delimiters and a ``\\text{...}`` around the whole answer are removed.  Units and percent signs mean something
only to math-verify and are read in maths.py.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

POLICY_VERSION = 2

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: " ", 0x2212: "-", 0xA0: " "}
_DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
_TEXT_COMMAND = re.compile(r"\\(?:text|textbf|textit|textrm|textnormal|mathrm|mathbf|mbox)\s*\{")
_BOX = re.compile(r"\\boxed\s*\{")
# A box, also behind an escaped backslash; an escaped character; a brace.
_BRACES = re.compile(r"\\{1,2}boxed\s*\{|\\.|[{}]", re.DOTALL)
_WRAPPERS = 20


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Box(_Rule):
    """Only a closed ``\\boxed{...}`` is an answer."""

    rule: Literal["box"] = "box"


class Marker(_Rule):
    """The rest of the line after the last ``marker`` is the answer."""

    rule: Literal["marker"] = "marker"
    marker: str = Field(min_length=1, description="text before the answer, e.g. '#'")


class Whole(_Rule):
    """The whole completion is the answer."""

    rule: Literal["whole"] = "whole"


AnswerRule = Annotated[Box | Marker | Whole, Field(discriminator="rule")]


def extract(text: str, rule: Box | Marker | Whole) -> str | None:
    """The answer of a completion, normalised; None when there is none."""
    answer = _last_box(text)
    if answer is None:
        answer = _by_rule(text, rule)
    return (normalise(answer) or None) if answer is not None else None


def normalise(answer: str) -> str:
    """One spelling of an answer: ASCII forms, no delimiters, no ``\\text{...}`` around all of it."""
    answer = answer.translate(_FULL_WIDTH).strip()
    for _ in range(_WRAPPERS):
        answer = _unwrapped(answer).strip()
    return answer


def closing_brace(text: str, start: int) -> int | None:
    """Index of the brace that closes the one before ``start``; None when it never closes."""
    depth, at = 1, start
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return None


def _last_box(text: str) -> str | None:
    """Content of the closed box that begins last, in one pass: a model that repeats itself opens thousands."""
    open_at: list[int | None] = []  # of each open brace, where the content of its box begins
    last: tuple[int, int] | None = None
    for mark in _BRACES.finditer(text):
        if mark[0] == "}":
            start = open_at.pop() if open_at else None
            if start is not None and (last is None or start > last[0]):
                last = (start, mark.start())
        elif mark[0].endswith("{") and mark[0] != "\\{":
            open_at.append(None if mark[0] == "{" else mark.end())
    return text[last[0] : last[1]] if last else None


def _by_rule(text: str, rule: Box | Marker | Whole) -> str | None:
    if isinstance(rule, Marker):
        _, found, rest = text.rpartition(rule.marker)
        return (rest.strip().splitlines() or [""])[0] if found else None
    if isinstance(rule, Whole):
        return None if _BOX.search(text) else text
    return None


def _unwrapped(answer: str) -> str:
    for left, right in _DELIMITERS:
        inner = answer[len(left) : -len(right)]
        if answer.startswith(left) and answer.endswith(right) and inner and left not in inner:
            return inner
    command = _TEXT_COMMAND.match(answer)
    if command and closing_brace(answer, command.end()) == len(answer) - 1:
        return answer[command.end() : -1]
    return answer
