"""From the files of the continuation experiment to what is compared over runs.

One row per response, its high-entropy window beside its low-entropy window; one per response and position; the words
and what was chosen as they are, with the run they are of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from seedwise.evals.frames import frame
from seedwise.tables import PREFIXES, WINDOWS, TableError

_KEY = ["problem", "response", "outcome"]
_RUN = ("run", "model", "method", "setting", "seed")


def of_run(files: Mapping[str, pd.DataFrame], run: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """windows, prefixes, chosen and words of one run.

    files: ``tables.RESAMPLED``.  run: its row of ``tables.RUNS``.
    """
    about = {key: run[key] for key in _RUN}
    return {
        "windows": windows_table(files["continuations"], run),
        "prefixes": prefixes_table(files["along"], run),
        "chosen": files["chosen"].assign(**about),
        "words": files["words"].assign(**about),
    }


def together(runs: Sequence[Mapping[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """The same of several runs, one below the other."""
    return {name: pd.concat([run[name] for run in runs], ignore_index=True) for name in runs[0]}


def windows_table(continuations: pd.DataFrame, run: Mapping[str, Any]) -> pd.DataFrame:
    """Rows of ``tables.WINDOWS``: per response and window the mean reward and overlap of its continuations.

    continuations: ``tables.CONTINUATIONS`` of one run.  run: its row of ``tables.RUNS``.
    overlap is in tokens and null where a window has one continuation.

    Raises TableError naming the response where one of its windows is missing.
    """
    about = {key: run[key] for key in _RUN}
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


def prefixes_table(along: pd.DataFrame, run: Mapping[str, Any]) -> pd.DataFrame:
    """Rows of ``tables.PREFIXES``: per response and position the mean reward of its continuations.

    along: ``tables.ALONG`` of one run.  run: its row of ``tables.RUNS``.
    """
    about = {key: run[key] for key in _RUN}
    means = along.groupby([*_KEY, "position"], as_index=False)["correct"].mean().rename(columns={"correct": "reward"})
    return frame(PREFIXES, [about | row for row in means.to_dict("records")])
