"""The exact value of an arithmetic expression of a generator, by reading it, never by evaluating it as code."""

from __future__ import annotations

import ast
from fractions import Fraction

_OPERATIONS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}


def value(expression: str) -> Fraction | None:
    """The value of numbers joined by ``+ - * /`` and parentheses; None when it is anything else or undefined."""
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body, expression.strip())
    except (SyntaxError, ZeroDivisionError, RecursionError, ValueError):
        return None


def _value(node: ast.expr, source: str) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return Fraction(ast.get_source_segment(source, node) or "")  # 0.1 as written, not as a float
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        operand = _value(node.operand, source)
        return -operand if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left, source), _value(node.right, source))
    raise ValueError(f"not arithmetic: {ast.dump(node)[:40]}")
