"""Numbers and findings in words.  An undefined number is an en dash, never 0; p is never printed as 0.000."""

from __future__ import annotations

from collections.abc import Sequence

MINUS, DASH = "\N{MINUS SIGN}", "\N{EN DASH}"


def known(value: float | None) -> bool:
    """Whether a number is defined (neither None nor NaN)."""
    return value is not None and value == value


def signed(value: float, digits: int = 1) -> str:
    """``+3.1``, ``-3.1`` with a true minus sign, ``0.0`` without a sign."""
    text = f"{value:+.{digits}f}"
    if float(text) == 0:
        return text.lstrip("+-")
    return text.replace("-", MINUS)


def plain(value: float | None, digits: int = 1) -> str:
    """A number with a true minus sign, or a dash."""
    return f"{value:.{digits}f}".replace("-", MINUS) if known(value) else DASH


def percent(value: float | None, digits: int = 1) -> str:
    """A share as per cent, without the sign."""
    return plain(100 * value, digits) if value is not None and known(value) else DASH


def bounds(low: float | None, high: float | None) -> str:
    """``[39.1, 56.0]`` in per cent, or nothing."""
    return f"[{percent(low)}, {percent(high)}]" if known(low) and known(high) else ""


def points(difference: float | None) -> str:
    """``+4.2``: a difference in points (hundredths of a score), or a dash."""
    return signed(100 * difference) if difference is not None and known(difference) else DASH


def point_bounds(low: float | None, high: float | None) -> str:
    """``[+0.6, +7.8]`` in points, or nothing."""
    return f"[{points(low)}, {points(high)}]" if known(low) and known(high) else ""


def probability(p: float | None) -> str:
    """A p-value with three decimals; below 0.001 as ``<0.001``."""
    if p is None or not known(p):
        return DASH
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def p_phrase(p: float) -> str:
    """``p = 0.012`` or ``p < 0.001``."""
    text = probability(p)
    return f"p < {text[1:]}" if text.startswith("<") else f"p = {text}"


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "nothing"


def spread(values: Sequence[float], digits: int = 1) -> str:
    """``4.2 to 7.9``, or the one value, or a dash."""
    values = [value for value in values if known(value)]
    if not values:
        return DASH
    low, high = plain(min(values), digits), plain(max(values), digits)
    return low if low == high else f"{low} to {high}"
