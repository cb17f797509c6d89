"""The continuation experiment of all runs -> RESAMPLING, COURSE and WORDS (EAPO, arXiv 2609.33781, tables 1 and 7)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from seedwise import tables
from seedwise.report.analysis import frame
from seedwise.stats.clustered import clustered_mean

QUANTITIES = {
    "reward": ("reward_high", "reward_low"),
    "overlap_tokens": ("overlap_high", "overlap_low"),
    "position": ("position_high", "position_low"),
    "entropy_nats": ("entropy_high", "entropy_low"),
}
OUTCOMES = ("correct", "incorrect")
LEAST = 5
"""Occurrences in an outcome's responses below which a word is left out: its share in a tail is noise."""
_CELL = ["model", "setting", "method"]


@dataclass(frozen=True)
class Resampled:
    """What the experiment found in all runs it was done on.

    windows: WINDOWS.  prefixes: PREFIXES.
    chosen: CHOSEN, words: ENRICHED, both with run, model, method, setting, seed.
    """

    windows: pd.DataFrame
    prefixes: pd.DataFrame
    chosen: pd.DataFrame
    words: pd.DataFrame


def resampling(found: Resampled | None, alpha: float = 0.05) -> pd.DataFrame:
    """Mean by window and outcome, and the difference high - low with an interval clustered by problem.

    Responses to one problem, from whatever seed, are one cluster; the trained models are taken as given.
    A method without any response has its rows, undefined, with the reason.  No experiment gives an empty table.
    """
    rows: list[dict] = []
    if found is None:
        return frame(tables.RESAMPLING, rows)
    windows = {tuple(cell.values()): part for cell, part in _cells(found.windows)}
    for cell, chosen in _cells(found.chosen):
        part = windows.get(tuple(cell.values()), found.windows.iloc[:0])
        rows += (
            cell | _row(part[part["outcome"] == outcome], outcome, quantity, chosen, alpha)
            for outcome in OUTCOMES
            for quantity in QUANTITIES
        )
    return frame(tables.RESAMPLING, rows)


def _cells(rows: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    for place, part in rows.groupby(_CELL, sort=False):
        yield dict(zip(_CELL, place, strict=True)), part


def _row(part: pd.DataFrame, outcome: str, quantity: str, chosen: pd.DataFrame, alpha: float) -> dict:
    high, low = QUANTITIES[quantity]
    part = part.dropna(subset=[high, low])
    found = clustered_mean((part[high] - part[low]).to_numpy(dtype=float), part["problem"].tolist(), alpha)
    return {
        "outcome": outcome,
        "quantity": quantity,
        "high": _mean(part[high]),
        "low": _mean(part[low]),
        "difference": found.mean,
        "difference_low": found.lo,
        "difference_high": found.hi,
        "problems": part["problem"].nunique(),
        "responses": len(part),
        "wanted": int(chosen["wanted"].max()),
        "in_band": json.dumps(chosen["in_band"].tolist()),
        "used": json.dumps(chosen["used"].tolist()),
        "reason": found.reason if len(part) else _absent(outcome, chosen),
    }


def _absent(outcome: str, chosen: pd.DataFrame) -> str:
    """Why there is no response."""
    about = chosen.iloc[0]
    if not chosen["in_band"].any():
        return f"no problem has a share of correct answers between {about['band_low']:.4g} and {about['band_high']:.4g}"
    if not chosen["used"].any():
        short, unreadable = chosen["too_short"].sum(), chosen["unreadable"].sum()
        return f"no response could be used: {short} too short for two windows, {unreadable} not read back"
    return f"no {outcome} response was resampled"


def _mean(values: pd.Series) -> float | None:
    return float(values.mean()) if len(values) else None


def course(found: Resampled | None, alpha: float = 0.05) -> pd.DataFrame:
    """Success along a response: mean reward of continuations from each position, interval clustered by problem.

    Every response counts alike.  Without positions, or without any response of an outcome, there are no rows of it.
    """
    rows: list[dict] = []
    for cell, part in _cells(found.prefixes) if found else ():
        for (outcome, position), these in part.groupby(["outcome", "position"]):
            mean = clustered_mean(these["reward"].to_numpy(dtype=float), these["problem"].tolist(), alpha)
            about = {"outcome": outcome, "position": position, "reward": mean.mean, "low": mean.lo, "high": mean.hi}
            counts = {"problems": these["problem"].nunique(), "responses": len(these)}
            rows.append(cell | about | counts | {"reason": mean.reason})
    return frame(tables.COURSE, rows)


def enriched(found: Resampled | None, least: int = LEAST) -> pd.DataFrame:
    """Words in the tails of token entropy, by outcome, over all runs of a method.

    The tails are each run's own; counts are added up over runs, and the enrichment is that of the sums:
    ``(count / tail_words) / (of / words)``.  least: rarer words are left out.
    """
    rows: list[dict] = []
    for cell, part in _cells(found.words) if found else ():
        for (outcome, tail), these in part.groupby(["outcome", "tail"]):
            totals = these.drop_duplicates("run")[["tail_words", "words"]].sum()
            tail_words, words = int(totals["tail_words"]), int(totals["words"])
            summed = these.groupby("word", as_index=False)[["count", "of"]].sum()
            about = cell | {"outcome": outcome, "tail": tail, "tail_words": tail_words, "words": words}
            counted = [about | row for row in summed[summed["of"] >= least].to_dict("records")]
            ranked = sorted(
                (row | {"enrichment": _enrichment(row)} for row in counted),
                key=lambda row: (-(row["enrichment"] or 0.0), -row["count"], row["word"]),
            )
            rows += [row | {"rank": rank} for rank, row in enumerate(ranked, 1)]
    return frame(tables.WORDS, rows)


def _enrichment(row: dict) -> float | None:
    if not row["tail_words"]:
        return None
    return (row["count"] / row["tail_words"]) / (row["of"] / row["words"])
