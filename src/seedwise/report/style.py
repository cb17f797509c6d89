"""How figures look, and how they become bytes that are the same every time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seedwise.report.facts import BASE, stem

INK, MUTED, RULE, PALE = "#1b1f24", "#6a737d", "#d5dae0", "#b3bac2"
# Okabe and Ito's colour-blind-safe hues, darkest first, without the yellow that vanishes on white
HUES = ("#0072b2", "#d55e00", "#009e73", "#b8568f", "#56a4d9", "#c98a00", "#7a5cb8", "#8c6d46")
POSITIVE, ZERO, NEGATIVE = "#0072b2", "#c9ced4", "#d55e00"

SETTINGS = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.grid": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "seedwise",
    # TrueType: many venues refuse the other kind; embedding it is most of the time a figure takes
    "pdf.fonttype": 42,
    "text.parse_math": False,
}


def styled() -> AbstractContextManager[None]:
    """Context in which every figure is drawn and saved."""
    return matplotlib.rc_context(SETTINGS)


def palette(methods: Iterable[str], reference: str) -> dict[str, str]:
    """One hue per method family: the reference in ink, the untrained model in grey."""
    stems = [s for s in dict.fromkeys(map(stem, methods)) if s not in (BASE, stem(reference))]
    hues = {name: HUES[position % len(HUES)] for position, name in enumerate(stems)}
    return {m: MUTED if m == BASE else hues.get(stem(m), INK) for m in methods}


@dataclass(frozen=True)
class Margins:
    """Room around and between panels, inches."""

    left: float = 0.68
    right: float = 0.1
    top: float = 0.28
    bottom: float = 0.55
    across: float = 0.18
    down: float = 0.36


def panels(
    count: int, columns: int, height: float, width: float = 8.4, margins: Margins = Margins()
) -> tuple[Figure, list[Axes]]:
    """A figure of ``count`` small multiples with common axes, each ``height`` inches high; unused places are left out.

    The layout is computed from inches, not fitted: the same panels always lie in the same places.
    """
    columns = max(1, min(columns, count))
    rows = max(1, -(-count // columns))
    total = margins.top + margins.bottom + rows * height + (rows - 1) * margins.down
    panel = (width - margins.left - margins.right - (columns - 1) * margins.across) / columns
    fig = Figure(figsize=(width, total))
    grid = fig.subplots(
        rows,
        columns,
        sharex=True,
        sharey=True,
        squeeze=False,
        gridspec_kw={
            "left": margins.left / width,
            "right": 1 - margins.right / width,
            "top": 1 - margins.top / total,
            "bottom": margins.bottom / total,
            "wspace": margins.across / panel,
            "hspace": margins.down / height,
        },
    )
    axes = list(grid.ravel())
    for position, ax in enumerate(axes[count:], start=count):
        ax.remove()
        axes[position - columns].tick_params(labelbottom=True)
    return fig, axes[:count]


def name_axes(fig: Figure, x: str, y: str) -> None:
    """Common axis names, at a fixed distance from the edges."""
    width, height = fig.get_size_inches()
    fig.text(0.5, 0.08 / height, x, ha="center", va="bottom", fontsize=9)
    fig.text(0.06 / width, 0.5, y, ha="left", va="center", rotation=90, fontsize=9)


def empty(text: str) -> Figure:
    """A figure that says why there is nothing to draw."""
    fig = Figure(figsize=(8.4, 1.0))
    fig.text(0.5, 0.5, text, ha="center", va="center", color=MUTED)
    return fig


def apart(values: Sequence[float], least: float) -> list[float]:
    """Positions as near as possible to ``values``, in the same order, at least ``least`` from each other."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    groups: list[tuple[float, int]] = []  # (centre, size) of touching labels
    for index in order:
        groups.append((values[index], 1))
        while len(groups) > 1 and groups[-1][0] - groups[-2][0] < least * (groups[-1][1] + groups[-2][1]) / 2:
            (b, n), (a, m) = groups.pop(), groups.pop()
            groups.append(((a * m + b * n) / (m + n), m + n))
    placed = [centre + least * (i - (size - 1) / 2) for centre, size in groups for i in range(size)]
    result = [0.0] * len(values)
    for index, position in zip(order, placed, strict=True):
        result[index] = position
    return result


def svg(fig: Figure) -> str:
    """SVG text without date, random ids or the drawing program's metadata."""
    buffer = io.StringIO()
    with styled():
        fig.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def save(fig: Figure, name: str, folder: Path) -> str:
    """Write ``folder/name.svg`` and ``.pdf``; returns the SVG text."""
    folder.mkdir(parents=True, exist_ok=True)
    text = svg(fig)
    (folder / f"{name}.svg").write_text(text, encoding="utf-8")
    with styled():
        fig.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
    return text


def inline(text: str, name: str, title: str) -> str:
    """SVG for a page: no prolog, ids of its own, and ink that follows the page's colours.

    ``text`` is this module's own output; ``title`` must already be escaped.
    """
    text = text[text.index("<svg") :]
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    for colour, variable in ((INK, "ink"), (MUTED, "muted"), (RULE, "rule"), (PALE, "pale"), (ZERO, "zero")):
        text = text.replace(colour, f"var(--{variable})")
    text = re.sub(r"font: ([0-9.]+)px [^;\"]*", r"font-size: \1px", text)
    width = float(re.search(r'viewBox="0 0 ([0-9.]+) ', text)[1])
    # one scale for all figures: 604.8 pt, the width of most, is the width of the page's column
    head = rf'<svg viewBox="\1" style="max-width: {60 * width / 604.8:.1f}rem" role="img" aria-label="{title}">'
    return re.sub(r"<svg [^>]*?viewBox=\"([^\"]+)\"[^>]*>", head, text, count=1)
