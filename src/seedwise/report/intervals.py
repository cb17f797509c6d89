"""Figures of comparisons: the forest plot of differences and the trend along an ordered axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from seedwise.report.facts import Comparison
from seedwise.report.figures import final_rows
from seedwise.report.style import HUES, INK, MUTED, PALE, RULE, empty, palette, panels, plt, styled
from seedwise.report.trends import AXIS_LABEL, tick
from seedwise.report.wording import known, p_phrase, points


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
        heights = [0.34 * ((rows["model"] == m) & (rows["setting"] == s)).sum() + 0.55 for m, s in places]
        fig, grid = plt.subplots(
            len(places), 1, figsize=(8.4, sum(heights) + 0.5), squeeze=False, sharex=True,
            height_ratios=heights, layout="constrained",
        )  # fmt: skip
        colours = palette(dict.fromkeys(rows["method"]), compare.reference)
        for ax, (model, setting) in zip(grid[:, 0], places, strict=True):
            part = rows[(rows["model"] == model) & (rows["setting"] == setting)]
            _differences(ax, part.to_dict("records"), fixed, colours, compare.smallest_effect)
            if len(places) > 1:
                ax.set_title(f"{model}  {setting}", loc="left", fontweight="bold")
        grid[-1, 0].set_xlabel(f"difference to {compare.reference}, points of macro {rows['metric'].iloc[0]}")
        return fig


def _differences(
    ax: Axes, rows: Sequence[dict], fixed: pd.DataFrame, colours: dict[str, str], smallest_effect: float
) -> None:
    ax.axvspan(-100 * smallest_effect, 100 * smallest_effect, color=RULE, alpha=0.45, lw=0, zorder=0)
    ax.axvline(0, color=MUTED, lw=0.9, zorder=1)
    beside = ax.get_yaxis_transform()
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
        ax.text(1.02, y, _remark(row), transform=beside, va="center", fontsize=8, color=INK)
    ax.set_yticks(range(len(rows)), [row["method"] for row in reversed(rows)])
    ax.set_ylim(-0.65, len(rows) - 0.35)
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _remark(row: dict) -> str:
    shown = points(row["difference"], row["low"], row["high"])
    if not known(row["p"]):
        return f"{shown}  not tested"
    if not isinstance(row["verdict"], str):
        return f"{shown}  descriptive"
    adjusted = f"  {p_phrase(row['p_adjusted'])}" if known(row["p_adjusted"]) else ""
    return f"{shown}{adjusted}  {row['verdict']}"


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
        fig, axes = panels(len(lines), 2 if len(lines) > 1 else 1, 2.7, 8.4 if len(lines) > 1 else 5.6)
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
            ax.set_title(f"{method}  {setting}", loc="left", fontweight="bold")
            ax.annotate(
                _tested(tested), (0, 1), (2, -3), "axes fraction", textcoords="offset points", va="top", fontsize=8,
                color=MUTED,
            )  # fmt: skip
            xs = sorted(rows["x"].unique())
            ax.set_xticks(xs, [tick(axis, x) for x in xs])
            ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=""))
        low, high = axes[0].get_ylim()
        axes[0].set_ylim(low, high + 0.16 * (high - low))
        fig.supxlabel(AXIS_LABEL.get(axis, axis), fontsize=9)
        fig.supylabel(f"macro {means['metric'].iloc[0]} (%)", fontsize=9)
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
    return "trend: " + ", ".join(parts) if parts else ""
