"""Success along a response: how often the policy ends right when it goes on from each of several depths.

EAPO (arXiv 2609.33781) cuts a response before two windows; here it is cut at given shares of its length, so that one
sees where a response that ended right was won and where one that ended wrong was lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from seedwise.evals.chosen import Response
from seedwise.evals.continuing import Continued, Cut, Policy, continued

_ROUNDING = 1e-9  # 0.29 * 100 is 28.999999999999996


def kept(position: float, length: int) -> int:
    """Tokens of a response of ``length`` tokens that are kept at a share of it, rounded down."""
    return math.floor(position * length + _ROUNDING)


def along(policy: Policy, responses: Sequence[Response], positions: Sequence[float], n: int) -> list[dict[str, Any]]:
    """Rows of ``tables.ALONG``: n continuations of each response from each position.

    positions: shares of the length, 0: from the prompt alone.
    """
    places = [(response, position) for response in responses for position in positions]
    cuts = [Cut(response, str(position), kept(position, len(response.ids))) for response, position in places]
    groups = continued(policy, cuts, n, "continuations along responses")
    return [
        _row(cut, position, m, one)
        for cut, (_, position), group in zip(cuts, places, groups, strict=True)
        for m, one in enumerate(group)
    ]


def _row(cut: Cut, position: float, m: int, one: Continued) -> dict[str, Any]:
    return {
        "problem": cut.response.problem,
        "response": cut.response.sample,
        "outcome": cut.response.outcome,
        "position": position,
        "continuation": m,
        "start_tokens": cut.start,
        "length_tokens": len(cut.response.ids),
        "correct": one.verdict.correct,
        "verdict": one.verdict.verdict,
    }
