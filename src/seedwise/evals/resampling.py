"""From continuations to one row per response: its high-entropy window beside its low-entropy window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from seedwise.evals.frames import frame
from seedwise.tables import WINDOWS, TableError

_KEY = ["problem", "response", "outcome"]


def windows_table(continuations: pd.DataFrame, run: Mapping[str, Any]) -> pd.DataFrame:
    """Rows of ``tables.WINDOWS``: per response and window the mean reward and overlap of its continuations.

    continuations: ``tables.CONTINUATIONS`` of one run.  run: its row of ``tables.RUNS``.
    overlap is in tokens and null where a window has one continuation.

    Raises TableError naming the response where one of its windows is missing.
    """
    about = {key: run[key] for key in ("run", "model", "method", "setting", "seed")}
    rows = []
    for (problem, response, outcome), both in continuations.groupby(_KEY):
        windows = dict(iter(both.groupby("window")))
        if set(windows) != {"high", "low"}:
            raise TableError(f"continuations: problem {problem!r}, response {response} lacks a window; resample again")
        row = about | {"problem": problem, "response": int(response), "outcome": outcome}
        for window, these in windows.items():
            overlap = these["overlap_tokens"].mean(skipna=False)
            row |= {
                f"reward_{window}": float(these["correct"].mean()),
                f"overlap_{window}": None if pd.isna(overlap) else float(overlap),
                f"position_{window}": float(these["position"].iloc[0]),
                f"entropy_{window}": float(these["entropy_nats"].iloc[0]),
            }
        rows.append(row)
    return frame(WINDOWS, rows)
