"""One response worked through: its two windows and what followed from before each (EAPO, arXiv 2609.33781, app. E).

All of it is text from a model: whoever prints it escapes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

BEFORE, AFTER = 600, 500
"""Characters shown of what stands before a window, from its end, and of a continuation, from its beginning."""
SHOWN = 3


@dataclass(frozen=True)
class Branch:
    """A window and what followed from before it.

    before, inside: the response up to the window, and the window.  right, of: continuations that end correct, and all.
    after: (verdict, text) of a few.
    """

    window: str
    entropy: float
    start: int
    end: int
    before: str
    inside: str
    right: int
    of: int
    after: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Worked:
    """origin: run, problem, response.  length: of the response, tokens."""

    origin: str
    outcome: str
    length: int
    prompt: str
    branches: tuple[Branch, ...]


def worked(rows: pd.DataFrame | None) -> Worked | None:
    """Of the responses that runs keep the texts of, the one whose two windows differ most in entropy; None without any.

    rows: EXAMPLE columns and ``run``.  So it is not chosen by what followed.
    """
    if rows is None or not len(rows):
        return None
    windows = rows.pivot_table(index=["run", "problem", "response"], columns="window", values="entropy_nats")
    run, problem, response = (windows["high"] - windows["low"]).idxmax()
    these = rows[(rows["run"] == run) & (rows["problem"] == problem) & (rows["response"] == response)]
    first = these.iloc[0]
    return Worked(
        origin=f"{run}, problem {problem}, sample {response}",
        outcome=first["outcome"],
        length=int(first["length_tokens"]),
        prompt=first["prompt"],
        branches=tuple(_branch(these[these["window"] == window]) for window in ("high", "low")),
    )


def _branch(part: pd.DataFrame) -> Branch:
    part = part.sort_values("continuation")
    first = part.iloc[0]
    return Branch(
        window=first["window"],
        entropy=float(first["entropy_nats"]),
        start=int(first["start_tokens"]),
        end=int(first["start_tokens"] + first["window_tokens"]),
        before=_end(first["before"], BEFORE),
        inside=first["inside"],
        right=int(part["correct"].sum()),
        of=len(part),
        after=tuple((row["verdict"], _beginning(row["after"], AFTER)) for row in part.head(SHOWN).to_dict("records")),
    )


def _end(text: str, most: int) -> str:
    return text if len(text) <= most else f"[{len(text) - most} more characters]\n{text[-most:]}"


def _beginning(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most} more characters]"
