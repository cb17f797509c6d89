"""Figures of comparisons: the forest plot of differences and the trend along an ordered axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from seedwise.report.facts import Comparison
from seedwise.report.figures import final_rows, title
from seedwise.report.style import HUES, INK, MUTED, PALE, RULE, empty, name_axes, palette, panels, styled
from seedwise.report.trends import AXIS_LABEL, tick
from seedwise.report.wording import known, p_phrase, point_bounds, points


def forest(contrasts: pd.DataFrame, compare: Comparison) -> Figure:
    """Differences to the reference (macro, primary metric): 95 % interval over new seeds and problems.

    contrasts: CONTRASTS rows of the primary metric.  The thin line is the interval at 1 - alpha/m of
    the family; the open circle with its own thin line is the interval on exactly these problems; the
    band is the smallest effect of interest.  A method without an interval is named with the reason.
    """
    macro = contrasts[contrasts["benchmark"].isna()]
    rows = macro[macro["estimand"] == "new_problems"]
    fixed = macro[macro["estimand"] == "fixed_problems"].set_index(["model", "setting", "method"])
    places = list(dict.fromkeys(zip(rows["model"], rows["setting"], strict=True)))
    with styled():
        if not len(rows):
            return empty("there is no comparison with the reference to draw")
        fig, axes = _stacked(rows, places)
        colours = palette(dict.fromkeys(rows["method"]), compare.reference)
        for ax, (model, setting) in zip(axes, places, strict=True):
            part = rows[(rows["model"] == model) & (rows["setting"] == setting)]
            _differences(ax, part.to_dict("records"), fixed, colours, compare.smallest_effect)
            if len(places) > 1:
                ax.set_title(f"{model}  {setting}", loc="left", fontweight="bold")
        axes[-1].set_xlabel(f"difference to {compare.reference}, points of macro {rows['metric'].iloc[0]}")
        return fig


def _stacked(rows: pd.DataFrame, places: Sequence[tuple[str, str]]) -> tuple[Figure, list[Axes]]:
    """One panel per model and setting, as high as its methods need; names left, remarks right."""
    counts = [int(((rows["model"] == m) & (rows["setting"] == s)).sum()) for m, s in places]
    left = 0.2 + 0.085 * max(map(len, rows["method"]))
    right = 0.2 + sum(_widths(rows.to_dict("records")))
    width, gap, bottom, top = 8.4, 0.62, 0.5, 0.3 if len(places) > 1 else 0.08
    heights = [0.32 * count + 0.1 for count in counts]
    total = bottom + top + sum(heights) + gap * (len(places) - 1)
    fig, edge, axes = Figure(figsize=(width, total)), total - top, []
    for height in heights:
        box = (left / width, (edge - height) / total, (width - left - right) / width, height / total)
        axes.append(fig.add_axes(box, sharex=axes[0] if axes else None))
        edge -= height + gap
    return fig, axes


def _differences(
    ax: Axes, rows: Sequence[dict], fixed: pd.DataFrame, colours: dict[str, str], smallest_effect: float
) -> None:
    ax.axvspan(-100 * smallest_effect, 100 * smallest_effect, color=RULE, alpha=0.45, lw=0, zorder=0)
    ax.axvline(0, color=MUTED, lw=0.9, zorder=1)
    widths = _widths(rows)
    for y, row in enumerate(reversed(rows)):
        colour = colours[row["method"]]
        if known(row["family_low"]):
            ax.plot([100 * row["family_low"], 100 * row["family_high"]], [y, y], color=colour, lw=0.9, zorder=2)
        if known(row["low"]):
            ax.plot([100 * row["low"], 100 * row["high"]], [y, y], color=colour, lw=3, solid_capstyle="butt", zorder=3)
        if known(row["difference"]):
            ax.plot(100 * row["difference"], y, "o", color=colour, ms=6, zorder=4)
        key = (row["model"], row["setting"], row["method"])
        if key in fixed.index and known(fixed.loc[key, "low"]):
            other = fixed.loc[key]
            ax.plot([100 * other["low"], 100 * other["high"]], [y - 0.27] * 2, color=PALE, lw=1.0, zorder=2)
            ax.plot(100 * other["difference"], y - 0.27, "o", mfc="none", mec=MUTED, ms=3.4, mew=0.9, zorder=3)
        for shift, text in zip(np.cumsum([0.12, *widths[:-1]]), _remark(row), strict=True):
            ax.annotate(
                text, (1, y), (72 * shift, 0), ("axes fraction", "data"), textcoords="offset points", va="center",
                fontsize=8, color=INK,
            )  # fmt: skip
    ax.set_yticks(range(len(rows)), [row["method"] for row in reversed(rows)])
    ax.set_ylim(-0.65, len(rows) - 0.35)
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _widths(rows: Sequence[dict]) -> list[float]:
    """Inches that each column of remarks needs."""
    return [0.12 + 0.063 * max(map(len, column)) for column in zip(*map(_remark, rows), strict=True)]


def _remark(row: dict) -> tuple[str, str, str]:
    """Difference with interval, adjusted p, verdict."""
    shown = f"{points(row['difference'])} {point_bounds(row['low'], row['high'])}".strip()
    if not known(row["p"]):
        return shown, "", "not tested"
    if isinstance(row["withheld"], str):
        return shown, "", "withheld"
    if not isinstance(row["verdict"], str):
        return shown, "", "descriptive"
    return shown, p_phrase(row["p_adjusted"]), row["verdict"]


def trend(positions: pd.DataFrame, means: pd.DataFrame, trends: pd.DataFrame, axis: str, reference: str) -> Figure:
    """Macro score against an ordered axis: one dot per seed, mean with interval, and the trend's p.

    positions: columns model, setting, axis, method (the line), x (natural axis), cell_setting, point
    (method point), seed, score.  means: MEANS macro rows of the primary metric.  trends: TRENDS.
    """
    rows = positions[positions["axis"] == axis]
    lines = list(dict.fromkeys(zip(rows["model"], rows["setting"], rows["method"], strict=True)))
    with styled():
        if not lines:
            return empty(f"no method has two points on the axis {axis}")
        fig, axes = panels(len(lines), 2, 2.5, 8.4 if len(lines) > 1 else 5.6)
        for position, (ax, line) in enumerate(zip(axes, lines, strict=True)):
            model, setting, method = line
            chosen = (rows["model"] == model) & (rows["setting"] == setting) & (rows["method"] == method)
            _along(ax, rows[chosen], final_rows(means), HUES[position % len(HUES)], reference)
            tested = trends[
                (trends["model"] == model)
                & (trends["setting"] == setting)
                & (trends["method"] == method)
                & (trends["axis"] == axis)
            ]
            title(ax, f"{method}  {setting}", _tested(tested))
            xs = sorted(rows["x"].unique())
            ax.set_xticks(xs, [tick(axis, x) for x in xs])
            ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
            ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=""))
        name_axes(fig, AXIS_LABEL.get(axis, axis), f"macro {means['metric'].iloc[0]} (%)")
        return fig


def _along(ax: Axes, part: pd.DataFrame, means: pd.DataFrame, colour: str, reference: str) -> None:
    model, xs = part["model"].iloc[0], sorted(part["x"].unique())
    width = (xs[-1] - xs[0]) / max(len(xs) - 1, 1)
    for setting in dict.fromkeys(part["cell_setting"]):
        level = means[(means["model"] == model) & (means["setting"] == setting) & (means["method"] == reference)]
        if part["cell_setting"].nunique() == 1 and len(level):
            ax.axhline(level["mean"].iloc[0], color=PALE, lw=1.6, zorder=1)
            ax.annotate(
                reference, (1, level["mean"].iloc[0]), (0, 3), ("axes fraction", "data"),
                textcoords="offset points", ha="right", fontsize=8, color=MUTED,
            )  # fmt: skip
    centres = []
    for x, cell in part.groupby("x"):
        row = means[
            (means["model"] == model)
            & (means["setting"] == cell["cell_setting"].iloc[0])
            & (means["method"] == cell["point"].iloc[0])
        ].iloc[0]
        jitter = 0.05 * width * (np.arange(len(cell)) - (len(cell) - 1) / 2)
        ax.plot(x + 0.14 * width + jitter, cell["score"], "o", ms=3.4, color=colour, alpha=0.55, mew=0, zorder=3)
        if known(row["low"]):
            ax.plot([x, x], [row["low"], row["high"]], color=colour, lw=2, solid_capstyle="butt", zorder=2)
        centres.append((x, row["mean"]))
    ax.plot(*zip(*centres, strict=True), color=colour, lw=1.2, marker="s", ms=5.5, zorder=4)


def _tested(rows: pd.DataFrame) -> str:
    names = {1: "linear", 2: "quadratic"}
    parts = [
        f"{names[row.degree]} {p_phrase(row.p_adjusted)}"
        if known(row.p_adjusted)
        else f"{names[row.degree]} not tested"
        for row in rows.sort_values("degree").itertuples()
    ]
    return ", ".join(parts)
