"""Budget forcing as people read it: a table and a figure."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from seedwise.report.figures import title
from seedwise.report.layout import Cell, TableView
from seedwise.report.layout import row as cells
from seedwise.report.results import Results
from seedwise.report.style import empty, name_axes, palette, panels, styled
from seedwise.report.views import Columns, place_of, text_of, view
from seedwise.report.wording import bounds, known, percent, plain


def forcing_table(results: Results) -> TableView:
    """Accuracy and mean tokens by number of forced continuations."""
    columns: Columns = (
        ("Benchmark", "l"), ("Method", "l"), ("Setting", "l"), ("Continuations", "r"), ("Accuracy, %", "r"),
        ("Tokens", "r"), ("Seeds", "r"), ("Problems", "r"), ("Samples", "r"), ("Remark", "l"),
    )  # fmt: skip
    rows = (
        cells(
            row["benchmark"], row["method"], place_of(row), str(row["continuations"]),
            Cell(percent(row["accuracy"]), bounds(row["low"], row["high"])),
            Cell(plain(row["tokens"]), _range(row["tokens_low"], row["tokens_high"])),
            str(row["seeds"]), str(row["problems"]), str(row["samples"]), text_of(row["reason"]),
        )
        for row in results.forcing.to_dict("records")
    )  # fmt: skip
    notes = (
        "With 95 % intervals for new seeds on these very problems. They describe: nothing is tested, and no other "
        "table has these answers.",
        "Continuations: how often a response that had ended was made to go on, within one budget of tokens; one that "
        "was cut by length stays as it is. Tokens: mean length, the forced ones included.",
    )
    none = "The study asks for no forced continuations (evaluate.forcing)."
    return view("forcing", "Budget forcing", columns, rows, notes, results.forcing, none)


def _range(low: float | None, high: float | None) -> str:
    return f"[{plain(low)}, {plain(high)}]" if known(low) and known(high) else ""


def forcing_figure(rows: pd.DataFrame, reference: str) -> Figure:
    """Accuracy against mean tokens, a point for each number of continuations; one panel per benchmark and place.

    rows: FORCING.  Bars: 95 % intervals over seeds, where there are any, cut at 0 and 100 %.
    """
    places = list(rows[["benchmark", "model", "setting"]].drop_duplicates().itertuples(index=False, name=None))
    with styled():
        if not places:
            return empty("the study asks for no forced continuations")
        colours = palette(dict.fromkeys(rows["method"]), reference)
        fig, axes = panels(len(places), 2, 3.0)
        for ax, place in zip(axes, places, strict=True):
            here = rows[(rows[["benchmark", "model", "setting"]] == list(place)).all(axis=1)]
            for method, part in here.groupby("method", sort=False):
                line = part.sort_values("continuations")
                colour = colours[str(method)]
                ax.plot(line["tokens"], line["accuracy"], color=colour, lw=1.4, marker="o", ms=3.5, label=str(method))
                sure = line[line["low"].notna()]
                ax.vlines(sure["tokens"], sure["low"].astype(float), sure["high"].astype(float), color=colour, lw=0.8)
                for at in line.itertuples():
                    ax.annotate(
                        str(at.continuations), (at.tokens, at.accuracy), xytext=(3, 3), textcoords="offset points",
                        fontsize=7, color=colour,
                    )  # fmt: skip
            title(ax, place[0], ", ".join(place[1:]))
            ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=""))
            ax.legend(frameon=False, fontsize=7)
        # with few seeds an interval reaches beyond what an accuracy can be
        extents = rows[["accuracy", "low", "high"]].to_numpy(dtype=float).clip(0, 1)
        axes[0].set_ylim(np.nanmin(extents) - 0.03, np.nanmax(extents) + 0.03)
        name_axes(fig, "mean tokens of a response", "accuracy (%)")
        return fig
