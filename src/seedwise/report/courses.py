"""The figure of success along a response: a panel for every method, a line for each outcome."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from seedwise.report.figures import title
from seedwise.report.style import NEGATIVE, POSITIVE, Margins, empty, name_axes, panels, styled

COURSE_CAPTION = (
    "How often the policy ends right when it goes on from a response after a share of its tokens, for responses that "
    "were correct and incorrect in the end. Bands: 95 % interval, clustered by problem, the trained models as given."
)
_LINES = (("correct", POSITIVE), ("incorrect", NEGATIVE))


def courses(rows: pd.DataFrame, reference: str) -> Figure:
    """rows: COURSE.  The reference stands first; a position without an interval has its point alone."""
    groups = list(dict.fromkeys(zip(rows["model"], rows["setting"], rows["method"], strict=True)))
    groups.sort(key=lambda group: group[2] != reference)
    with styled():
        if not groups:
            return empty("responses were not continued along their length (resample.positions)")
        fig, axes = panels(len(groups), 4, 1.5, margins=Margins(top=0.6))
        several = len({group[:2] for group in groups}) > 1
        for ax, (model, setting, method) in zip(axes, groups, strict=True):
            here = (rows["model"] == model) & (rows["setting"] == setting) & (rows["method"] == method)
            part = rows[here].sort_values("position")
            for outcome, colour in _LINES:
                line = part[part["outcome"] == outcome].astype(dict.fromkeys(("reward", "low", "high"), float))
                ax.plot(line["position"], line["reward"], color=colour, marker="o", ms=3, lw=1.6, label=outcome)
                ax.fill_between(line["position"], line["low"], line["high"], color=colour, alpha=0.18, linewidth=0)
            title(ax, f"{method}  {model} {setting}" if several else method, f"{part['problems'].max()} problems")
            ax.set_ylim(-0.02, 1.02)
            ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=""))
            ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=""))
        lines = axes[0].get_lines()
        fig.legend(lines, [f"{name} responses" for name, _ in _LINES], loc="upper center", ncols=2, frameon=False)
        name_axes(fig, "kept of the response (% of its tokens)", "continuations that end right (%)")
        return fig
