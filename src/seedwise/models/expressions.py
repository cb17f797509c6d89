"""Arithmetic with + - * ( ): made at random, and taken apart into the steps that evaluate it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

_APPLY: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_TOKEN = re.compile(r"\d+|[-+*()]")


@dataclass(frozen=True)
class Step:
    """left operator right = value.  left_step, right_step: the earlier step an operand came from, else None."""

    left: int
    operator: str
    right: int
    value: int
    left_step: int | None
    right_step: int | None


def apply(left: int, symbol: str, right: int) -> int:
    """The value of one operation, ``symbol`` one of + - *."""
    return _APPLY[symbol](left, right)


def chain(rng: Random, terms: int) -> str:
    """A one-digit chain sum, distributed as reasoning-gym's chain_sum: ``4+3-0-9``."""
    return "".join(f"{rng.choice('+-') if i else ''}{rng.randint(0, 9)}" for i in range(terms))


def mixture(rng: Random) -> str:
    """Three or four one-digit terms under + - *, one pair possibly in parentheses: ``3*(2--5)``."""
    terms = rng.randint(3, 4)
    parts = [f"{rng.choice('+-*') if i else ''}{{}}{rng.randint(-9, 9)}{{}}" for i in range(terms)]
    opening, closing = [""] * terms, [""] * terms
    if rng.random() < 0.5:
        first = rng.randrange(terms - 1)
        last = rng.randrange(first + 1, terms)
        opening[first], closing[last] = "(", ")"
    return "".join(part.format(a, b) for part, a, b in zip(parts, opening, closing, strict=True))


def steps(expression: str) -> list[Step]:
    """The binary operations in the order of evaluation, usual precedence; ValueError if it does not parse."""
    return _Parser(_TOKEN.findall(expression)).parse()


class _Parser:
    """Recursive descent; an operand is (value, index of the step it came from or None)."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at, self.done = tokens, 0, list[Step]()

    def parse(self) -> list[Step]:
        self._level(("+", "-"), lambda: self._level(("*",), self._atom))
        if self.at != len(self.tokens) or not self.done:
            raise ValueError(f"not an expression: {''.join(self.tokens)!r}")
        return self.done

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _level(self, symbols: tuple[str, ...], inner: Callable[[], tuple[int, int | None]]) -> tuple[int, int | None]:
        left, left_step = inner()
        while self._peek() in symbols:
            symbol = self._peek()
            self.at += 1
            right, right_step = inner()
            self.done.append(Step(left, symbol, right, apply(left, symbol, right), left_step, right_step))
            left, left_step = self.done[-1].value, len(self.done) - 1
        return left, left_step

    def _atom(self) -> tuple[int, int | None]:
        token = self._peek()
        self.at += 1
        if token == "(":
            inside = self._level(("+", "-"), lambda: self._level(("*",), self._atom))
            self.at += 1
            return inside
        if token == "-":
            value, step = self._atom()
            return -value, step
        if not token.isdigit():
            raise ValueError(f"not an expression: {''.join(self.tokens)!r}")
        return int(token), None
