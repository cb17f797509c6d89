"""Figures of training and of pass@k: DataFrames in, a matplotlib Figure out.

curves: columns model, setting, method, seed, step, name, value (one row per logged number).
Every method has its own small panel, so ten or more stay readable; one thin line per seed, one
thick line for their mean, and the reference's mean in grey behind.  No line is smoothed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from seedwise.report.facts import BASE
from seedwise.report.style import (
    INK,
    MUTED,
    NEGATIVE,
    PALE,
    POSITIVE,
    RULE,
    ZERO,
    Margins,
    apart,
    empty,
    name_axes,
    palette,
    panels,
    styled,
)

SHARES = (
    ("positive_advantage_share", "positive", POSITIVE),
    ("zero_advantage_share", "zero", ZERO),
    ("negative_advantage_share", "negative", NEGATIVE),
)
Group = tuple[str, str, str]


def learning(curves: pd.DataFrame, reference: str) -> Figure:
    """Training reward of each step, method by method."""
    return _multiples(curves, "reward", "reward (mean of the step)", reference)


def entropy(curves: pd.DataFrame, reference: str) -> Figure:
    """Token entropy of the policy at each step, method by method."""
    return _multiples(curves, "entropy_nats", "token entropy (nats)", reference)


def length(curves: pd.DataFrame, reference: str) -> Figure:
    """Mean completion length at each step, method by method."""
    return _multiples(curves, "length_tokens", "completion length (tokens)", reference)


def _multiples(curves: pd.DataFrame, name: str, label: str, reference: str) -> Figure:
    rows = curves[(curves["name"] == name) & curves["value"].notna()]
    groups = _groups(rows)
    with styled():
        if not groups:
            return empty(f"{name} was not recorded")
        colours = palette([method for _, _, method in groups], reference)
        fig, axes = panels(len(groups), 4, 1.2)
        for ax, group in zip(axes, groups, strict=True):
            model, setting, method = group
            if method != reference and (model, setting, reference) in groups:
                behind = _mean(_part(rows, (model, setting, reference)))
                ax.plot(behind.index, behind.to_numpy(), color=PALE, lw=2.4, label=reference)
            part = _part(rows, group)
            for _, line in part.groupby("seed", sort=True):
                ax.plot(line["step"], line["value"], color=colours[method], lw=0.7, alpha=0.55)
            mean = _mean(part)
            ax.plot(mean.index, mean.to_numpy(), color=colours[method], lw=1.9)
            title(ax, _name(group, groups), f"{part['seed'].nunique()} seeds")
            ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        name_axes(fig, "optimizer step", label)
        return fig


def sparsity(curves: pd.DataFrame, reference: str) -> Figure:
    """Shares of responses with positive, zero and negative advantage at each step, mean over seeds.

    The reference stands first; the shares of a step add up to one.
    """
    names = [name for name, _, _ in SHARES]
    rows = curves[curves["name"].isin(names) & curves["value"].notna()]
    groups = sorted(_groups(rows), key=lambda group: group[2] != reference)
    with styled():
        if not groups:
            return empty("advantage shares were not recorded")
        fig, axes = panels(len(groups), 4, 1.2, margins=Margins(top=0.6))
        for ax, group in zip(axes, groups, strict=True):
            part = _part(rows, group)
            wide = part.pivot_table(index="step", columns="name", values="value", aggfunc="mean").reindex(columns=names)
            wide = wide.dropna()
            bands = ax.stackplot(wide.index, wide.to_numpy().T, colors=[colour for _, _, colour in SHARES], linewidth=0)
            zero = wide["zero_advantage_share"].mean()
            title(ax, _name(group, groups), f"zero {100 * zero:.0f} %")
            ax.set_ylim(0, 1)
            ax.margins(x=0)
            ax.grid(False)
            ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        fig.legend(bands, [f"{label} advantage" for _, label, _ in SHARES], loc="upper center", ncols=3, frameon=False)
        name_axes(fig, "optimizer step", "share of responses")
        return fig


def pass_at_k(means: pd.DataFrame, reference: str, family: Sequence[str]) -> Figure:
    """Macro pass@k against k at the final checkpoint, one panel per model and setting.

    means: MEANS rows.  The reference, the untrained model and the declared family are drawn in
    colour, all other methods in grey; every line carries its name.
    """
    rows = _passk(means[means["benchmark"].isna()])
    places = list(dict.fromkeys(zip(rows["model"], rows["setting"], strict=True)))
    parts = {
        f"{model} {setting}" if len(places) > 1 else "": rows[(rows["model"] == model) & (rows["setting"] == setting)]
        for model, setting in places
    }
    return _fans(rows, parts, reference, family, "macro pass@k (%)")


def pass_at_k_benchmarks(means: pd.DataFrame, reference: str, family: Sequence[str]) -> Figure:
    """pass@k against k of every benchmark, up to the samples it has: a panel for each, per model and setting."""
    rows = _passk(means[means["benchmark"].notna()])
    groups = list(rows.groupby(["model", "setting", "benchmark"], sort=False))
    several = len(set(zip(rows["model"], rows["setting"], strict=True))) > 1
    parts = {f"{name} {model} {setting}" if several else name: part for (model, setting, name), part in groups}
    return _fans(rows, parts, reference, family, "pass@k (%)")


def _passk(means: pd.DataFrame) -> pd.DataFrame:
    """The rows of pass@k at the last checkpoints, with their k."""
    rows = final_rows(means[means["metric"].str.startswith("pass@") & means["mean"].notna()])
    return rows.assign(k=lambda frame: frame["metric"].str.removeprefix("pass@").astype(int))


def _fans(
    rows: pd.DataFrame, parts: Mapping[str, pd.DataFrame], reference: str, family: Sequence[str], label: str
) -> Figure:
    """Curves over k, a panel for each part with its title."""
    with styled():
        if rows["k"].nunique() < 2:
            return empty("pass@k needs at least 2 samples per problem")
        fig, axes = panels(len(parts), 2, 3.6)
        colours = palette(dict.fromkeys(rows["method"]), reference)
        least = 0.046 * max(rows["mean"].max() - rows["mean"].min(), 0.02)
        extents = [rows["mean"].min(), rows["mean"].max()]
        ks = sorted(rows["k"].unique())
        for ax, (name, part) in zip(axes, parts.items(), strict=True):
            extents += _fan(ax, part, colours, {reference, BASE, *family}, least)
            ax.set_xscale("log", base=2)
            ax.set_xlim(ks[0] / 1.08, ks[-1] * 2 ** (0.75 if len(parts) == 1 else 1.6))
            ax.set_xticks(ks, [str(k) for k in ks])
            ax.minorticks_off()
            ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=""))
            if name:
                title(ax, name, "")
        low, high = min(extents) - least, max(extents) + least
        # names may stand above 100 %, ticks may not
        ticks = [tick for tick in MaxNLocator(7, steps=[1, 2, 5, 10]).tick_values(low, high) if low <= tick <= 1]
        axes[0].set_yticks(ticks)
        axes[0].set_ylim(low, high)
        name_axes(fig, "k (samples drawn per problem)", label)
        return fig


def _fan(ax: Axes, part: pd.DataFrame, colours: dict[str, str], named: set[str], least: float) -> list[float]:
    """Draw one panel's lines with their names at the right; returns where the names stand."""
    ends: list[tuple[str, float, float]] = []
    for method, line in part.groupby("method", sort=False):
        line, bright = line.sort_values("k"), method in named
        ax.plot(
            line["k"],
            line["mean"],
            color=colours[method] if bright else PALE,
            lw=1.8 if bright else 1.0,
            ls="--" if method == BASE else "-",
            marker="o",
            ms=3.2 if bright else 2.0,
            zorder=3 if bright else 2,
        )
        ends.append((method, line["k"].iloc[-1], line["mean"].iloc[-1]))
    labels = apart([end for _, _, end in ends], least)
    for (method, k, end), place in zip(ends, labels, strict=True):
        colour = colours[method] if method in named else MUTED
        ax.plot([k, k * 1.1], [end, place], color=RULE, lw=0.8, zorder=1)
        ax.text(k * 1.12, place, method, va="center", fontsize=8, color=colour)
    return labels


def final_rows(means: pd.DataFrame) -> pd.DataFrame:
    """The rows of each method's last checkpoint."""
    last = means.groupby(["model", "setting", "method"])["step"].transform("max")
    return means[means["step"] == last]


def _groups(rows: pd.DataFrame) -> list[Group]:
    return list(dict.fromkeys(zip(rows["model"], rows["setting"], rows["method"], strict=True)))


def _part(rows: pd.DataFrame, group: Group) -> pd.DataFrame:
    model, setting, method = group
    chosen = (rows["model"] == model) & (rows["setting"] == setting) & (rows["method"] == method)
    return rows[chosen].sort_values(["seed", "step"])


def _mean(part: pd.DataFrame) -> pd.Series:
    # only where every seed has a value: a seed that stops early must not bend the mean
    by_step = part.groupby("step")["value"].agg(["mean", "count"])
    return by_step.loc[by_step["count"] == part["seed"].nunique(), "mean"]


def _name(group: Group, groups: Sequence[Group]) -> str:
    model, setting, method = group
    places = {(m, s) for m, s, _ in groups}
    extra = [model] * (len({m for m, _ in places}) > 1) + [setting] * (len({s for _, s in places}) > 1)
    return "  ".join([method, *extra])


def title(ax: Axes, left: str, right: str) -> None:
    """A panel's name in bold, and a remark at its right end."""
    ax.set_title(left, loc="left", color=INK, fontweight="bold", pad=4)
    ax.set_title(right, loc="right", color=MUTED, fontsize=7.5, pad=4)
