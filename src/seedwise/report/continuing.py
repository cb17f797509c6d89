"""The continuation experiment as people read it: windows, success along a response, words at high and low entropy."""

from __future__ import annotations

import json

import pandas as pd

from seedwise.report.layout import Cell, TableView
from seedwise.report.layout import row as cells
from seedwise.report.resampling import LEAST
from seedwise.report.views import place_of, text_of, view
from seedwise.report.wording import DASH, bounds, known, percent, plain, signed

SHOWN = 8
LEAD = (
    "Responses to problems of moderate difficulty, cut and continued many times: does the policy decide its fate where "
    "it is uncertain? Descriptive: no verdict rests on it."
)
NOTHING = "No response was resampled: the study leaves every method out of resample.methods."
_NAMES = {
    "reward": ("reward (%)", 100, 1),
    "overlap_tokens": ("overlap (tokens)", 1, 1),
    "position": ("start (% of length)", 100, 0),
    "entropy_nats": ("entropy (nats)", 1, 2),
}
_OUTCOMES = (
    ("Continuations from high- and low-entropy windows; difference high minus low with 95 % interval"),
    (
        "Overlap: mean common prefix of two continuations, in the first tokens up to the window's length.",
        "Intervals are clustered by problem and take the trained models as given.",
        "Problems: distinct ones over all runs. Where a run found fewer in the band of difficulty than the study "
        "wants, the remark says how many it went on with.",
    ),
)
_PLACES = (
    "Where the windows lie and how uncertain they are; difference high minus low with 95 % interval",
    ("Start: of the window, as a share of the response. Entropy: mean over the tokens of the window.",),
)


def window_tables(rows: pd.DataFrame) -> list[TableView]:
    """RESAMPLING: reward and overlap by window (EAPO, table 1), then places and entropies of the windows (table 7)."""
    return [
        _windows(rows[rows["quantity"].isin(quantities)], *about)
        for quantities, about in (
            (("reward", "overlap_tokens"), _OUTCOMES),
            (("position", "entropy_nats"), _PLACES),
        )
    ]


def _windows(rows: pd.DataFrame, title: str, notes: tuple[str, ...]) -> TableView:
    columns = (
        ("Method", "l"), ("Setting", "l"), ("Original response", "l"), ("Quantity", "l"), ("High entropy", "r"),
        ("Low entropy", "r"), ("Difference", "r"), ("Problems", "r"), ("Responses", "r"), ("Remark", "l"),
    )  # fmt: skip
    body = []
    for row in rows.to_dict("records"):
        name, scale, digits = _NAMES[row["quantity"]]
        high, low = (plain(scale * row[key], digits) if known(row[key]) else DASH for key in ("high", "low"))
        body.append(
            cells(
                row["method"], place_of(row), row["outcome"], name, high, low, _between(row, scale, digits),
                str(row["problems"]), str(row["responses"]), _remark(row),
            )
        )  # fmt: skip
    return view("resampling", title, columns, body, notes, rows.reset_index(drop=True), NOTHING)


def _between(row: dict, scale: int, digits: int) -> Cell:
    if not known(row["difference"]):
        return Cell(DASH)
    low, high = row["difference_low"], row["difference_high"]
    aside = f"[{signed(scale * low, digits)}, {signed(scale * high, digits)}]" if known(low) else ""
    return Cell(signed(scale * row["difference"], digits), aside)


def _remark(row: dict) -> str:
    """Too few problems, and why a number is missing."""
    used, few = json.loads(row["used"]), ""
    if min(used) < row["wanted"]:
        each = f"{min(used)} to {max(used)}" if min(used) < max(used) else str(min(used))
        few = f"{each} of {row['wanted']} problems wanted{' in each run' if len(used) > 1 else ''}"
    return "; ".join(filter(None, [few, text_of(row["reason"])]))


def course_table(rows: pd.DataFrame) -> TableView:
    """COURSE: success from each position, responses that ended right beside those that ended wrong."""
    columns = (
        ("Method", "l"), ("Setting", "l"), ("Kept, %", "r"), ("Correct responses, %", "r"), ("Incorrect, %", "r"),
        ("Problems", "r"), ("Responses", "r"), ("Remark", "l"),
    )  # fmt: skip
    body = []
    for (model, setting, method, position), both in rows.groupby(
        ["model", "setting", "method", "position"], sort=False
    ):
        by = {row["outcome"]: row for row in both.to_dict("records")}
        pair = [by.get(outcome) for outcome in ("correct", "incorrect")]
        shown = [Cell(percent(r["reward"]), bounds(r["low"], r["high"])) if r else Cell(DASH) for r in pair]
        counts = [" / ".join(str(r[key]) if r else "0" for r in pair) for key in ("problems", "responses")]
        remark = "; ".join(dict.fromkeys(filter(None, [text_of(r["reason"]) for r in pair if r])))
        place = place_of({"model": model, "setting": setting})
        body.append(cells(method, place, percent(position, 0), *shown, *counts, remark))
    notes = (
        "How often the policy ends right when it goes on from a response after that share of its tokens.",
        "Intervals are clustered by problem and take the trained models as given. Counts: correct / incorrect.",
    )
    empty = "No response was continued along its length: see resample.positions."
    return view("course", "Success along a response, with 95 % interval", columns, body, notes, rows, empty)


def word_table(rows: pd.DataFrame) -> TableView:
    """WORDS: the most enriched words of each tail of token entropy, by outcome (EAPO, figure 2)."""
    columns = (("Method", "l"), ("Setting", "l"), ("Response", "l"), ("Entropy", "l"), ("Words", "l"))
    body = []
    for (model, setting, method, outcome, tail), part in rows.groupby(
        ["model", "setting", "method", "outcome", "tail"], sort=False
    ):
        top = part[part["enrichment"] > 1].sort_values("rank").head(SHOWN)
        said = ", ".join(
            f"{row['word']} {row['enrichment']:.1f} ({row['count']} of {row['of']})" for row in top.to_dict("records")
        )
        place = place_of({"model": model, "setting": setting})
        body.append(cells(method, place, outcome, f"{tail} tenth", said or "none stands out"))
    notes = (
        "The top and the bottom tenth of words by the entropy of the token that begins each. After a word: its share "
        "of the tail over its share of all words of such responses, and how many of its occurrences are in the tail.",
        f"At most {SHOWN} words a line, of those that occur at least {LEAST} times; all of them stand in the file.",
    )
    empty = f"No word occurs {LEAST} times in the responses that were read: see resample.words."
    title = "Words at high and at low token entropy, most enriched first"
    return view("words", title, columns, body, notes, rows, empty)
