"""A plan as people read it: printed tables and the power figure."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from seedwise.pilot import PowerError
from seedwise.powering import Design, Needed, Power
from seedwise.report.figures import title
from seedwise.report.style import HUES, MUTED, PALE, name_axes, panels, styled, svg
from seedwise.report.wording import known, percent, plain

PARTS = {
    "var_seed": "training seed",
    "var_mp": "method by problem",
    "var_seed_problem": "seed by problem",
    "theta_var": "one sampled answer",
}


def show(found: Power) -> None:
    """Print the components, every design, and what each number of problems allows."""
    from rich.console import Console
    from rich.table import Table

    console, table = Console(), Table()
    if not console.is_terminal:
        console.width = 1000
    rows = [_row(design) for design in found.designs]
    for name in rows[0]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row.values())
    lines = [sentence(found, needed) for needed in found.needed]
    for shown in (f"Variances from {found.pilot.origin}.", *_components(found), table, *lines, _meaning(found)):
        console.print(shown, markup=False, highlight=False, soft_wrap=isinstance(shown, str))


def _components(found: Power) -> list[str]:
    chosen = found.pilot.components
    parts = [f"{label} {percent(getattr(chosen, name) ** 0.5, 2)}" for name, label in PARTS.items()]
    lines = [f"Standard deviations in points: {', '.join(parts)}."]
    limits = (chosen.var_seed_low, chosen.var_seed_high, chosen.var_seed_upper)
    if all(known(limit) for limit in limits):
        low, high, upper = (percent(limit**0.5, 2) for limit in limits if limit is not None)
        lines.append(f"Training seed: 95 % interval {low} to {high}, upper 75 % limit {upper} points.")
    return lines


def _row(design: Design) -> dict[str, str]:
    """Heading -> text; what is not known for any design has no column."""
    cells = {
        "problems": plain(design.problems, 0 if design.problems == int(design.problems) else 1),
        "samples": str(design.samples),
        "seeds": str(design.seeds),
        "power": f"{design.power:.2f}",
    }
    if design.power_cautious is not None:
        cells["cautious power"] = f"{design.power_cautious:.2f}"
    cells["smallest difference"] = f"{percent(design.smallest)} points"
    if design.cost is not None:
        cells["cost of a method"] = f"{design.cost:g}"
    return cells


def sentence(found: Power, needed: Needed) -> str:
    """What one number of problems and samples allows, in words."""
    question = found.question
    what = f"detect {100 * question.effect:g} points with {100 * question.power:g} % power"
    few, many = needed.seeds, needed.seeds_cautious
    if few is None:
        parts = [str(needed.reason)]
    elif found.pilot.components.var_seed_upper is None or many == few:
        parts = [f"{few} seeds per method {what}", f"endless seeds reach {needed.ceiling:.2f}"]
    else:
        seeds = f"{few} seeds or more" if many is None else f"{few} to {many} seeds"
        parts = [f"{seeds} per method {what}", f"endless seeds reach {needed.ceiling:.2f}"]
    if needed.staged_power is not None:
        looks = ", ".join(map(str, question.looks))
        parts.append(
            f"looks at {looks} seeds find it with {needed.staged_power:.2f}, using {plain(needed.staged_seeds)}"
        )
    if needed.best_samples is not None:
        parts.append(f"cheapest at {needed.best_samples} samples of a problem")
    return f"{_problems(needed.problems)}, {needed.samples} samples each: {'; '.join(parts)}."


def _problems(count: float) -> str:
    return f"{count:g} problems" if count == int(count) else f"benchmarks worth {count:.0f} problems"


_CAUTIOUS = " Cautious, and the larger number of seeds: seed variance at its upper 75 % limit; plan on it."


def _meaning(found: Power) -> str:
    m = found.question.comparisons
    shared = f", one of {m} comparisons that share alpha" if m > 1 else ""
    return f"Two-sided test for new seeds and new problems at alpha {found.question.alpha:g}{shared}." + (
        "" if found.pilot.components.var_seed_upper is None else _CAUTIOUS
    )


def figure(found: Power, file: Path) -> None:
    """Write the power against the seeds per method as SVG, one panel per number of samples, one hue per problems.

    Band: from the cautious to the estimated seed variance; dotted: the ceiling; grey: the power asked for.
    Raises PowerError when the file is no .svg.
    """
    if file.suffix != ".svg":
        raise PowerError(f"--figure: {file}: end the name with .svg")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(svg(drawn(found)), encoding="utf-8")


def drawn(found: Power) -> Figure:
    """The power figure of at least one design."""
    samples = list(dict.fromkeys(design.samples for design in found.designs))
    with styled():
        fig, axes = panels(len(samples), 2, 2.8, 8.4 if len(samples) > 1 else 5.6)
        for ax, n in zip(axes, samples, strict=True):
            _panel(ax, found, n)
            title(ax, f"{n} samples of a problem", "")
        name_axes(fig, "training seeds per method", f"power at {100 * found.question.effect:g} points")
    return fig


def _panel(ax: Axes, found: Power, n: int) -> None:
    ax.axhline(found.question.power, color=PALE, lw=1.6, zorder=1)
    for position, needed in enumerate(each for each in found.needed if each.samples == n):
        hue = HUES[position % len(HUES)]
        designs = [d for d in found.designs if (d.problems, d.samples) == (needed.problems, n)]
        designs.sort(key=lambda design: design.seeds)
        S = [design.seeds for design in designs]
        likely = [design.power for design in designs]
        cautious = [design.power if design.power_cautious is None else design.power_cautious for design in designs]
        ax.fill_between(S, cautious, likely, color=hue, alpha=0.18, lw=0, zorder=2)
        ax.plot(S, likely, color=hue, lw=1.9, marker="o", ms=4, label=_problems(needed.problems), zorder=4)
        ax.axhline(needed.ceiling, color=hue, lw=1, ls=":", zorder=3)
    ax.set_ylim(0, 1.02)
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.legend(frameon=False, loc="best", labelcolor=MUTED)
