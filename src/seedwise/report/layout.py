"""A table as cells of text, and its three spellings: Markdown, LaTeX, and the numbers as CSV.

LaTeX uses a plain ``tabular`` with ``\\hline``: no package is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Cell:
    """text: as shown, unescaped.  aside: the interval of a number.  strong: printed bold.

    kind: what a page may colour it by, e.g. a verdict.
    """

    text: str
    aside: str = ""
    strong: bool = False
    kind: str = ""

    @property
    def whole(self) -> str:
        """Text and aside on one line."""
        return f"{self.text} {self.aside}".strip()


def row(*parts: str | Cell) -> tuple[Cell, ...]:
    """Cells from texts and cells."""
    return tuple(part if isinstance(part, Cell) else Cell(part) for part in parts)


@dataclass(frozen=True)
class TableView:
    """One table as people read it.

    columns: (heading, alignment ``l`` or ``r``).  rows: one Cell per column.
    notes: sentences printed under the table.  data: the same numbers, unrounded, for CSV.
    """

    name: str
    title: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...]
    data: pd.DataFrame


def markdown(views: Sequence[TableView]) -> str:
    """GitHub-flavoured Markdown of tables one below the other; markup in names is escaped."""
    blocks = []
    for view in views:
        lines = [f"**{_markdown(view.title)}**", ""]
        if view.rows:
            lines.append("| " + " | ".join(_markdown(name) for name, _ in view.columns) + " |")
            lines.append("|" + "|".join("---:" if side == "r" else ":---" for _, side in view.columns) + "|")
            lines += ["| " + " | ".join(_bold(cell, "**{}**", _markdown) for cell in line) + " |" for line in view.rows]
        if view.notes:
            lines += ["", *(f"- {_markdown(note)}" for note in view.notes)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def latex(views: Sequence[TableView]) -> str:
    """One ``tabular`` per table, notes as paragraphs below; every special character is escaped."""
    blocks = ["% plain tabular with \\hline: needs no package"]
    for view in views:
        lines = [f"\\noindent\\textbf{{{_latex(view.title)}}}\\par\\smallskip"]
        if view.rows:
            lines += ["\\noindent\\begin{tabular}{" + "".join(side for _, side in view.columns) + "}", "\\hline"]
            lines += [" & ".join(_latex(name) for name, _ in view.columns) + " \\\\", "\\hline"]
            lines += [
                " & ".join(_bold(cell, "\\textbf{{{}}}", _latex) for cell in line) + " \\\\" for line in view.rows
            ]
            lines += ["\\hline", "\\end{tabular}"]
        lines += [f"\\par\\smallskip\\noindent {_latex(note)}" for note in view.notes]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _bold(cell: Cell, pattern: str, escape: Callable[[str], str]) -> str:
    """A cell's text, bold where it is strong, and its aside."""
    text = pattern.format(escape(cell.text)) if cell.strong else escape(cell.text)
    return f"{text} {escape(cell.aside)}".strip()


def csv(views: Sequence[TableView]) -> str:
    """The unrounded numbers of all tables as one CSV; an empty field is an undefined number."""
    frames = [view.data for view in views if len(view.data)]
    if not frames:
        return ",".join(views[0].data.columns) + "\n" if views else ""
    frame = pd.concat([frame.astype(object) for frame in frames], ignore_index=True)
    return frame.map(_inert).to_csv(index=False, lineterminator="\n")


def _inert(value: object) -> object:
    # a spreadsheet would run a text that starts like a formula
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    if isinstance(value, float):
        return f"{value:.10g}" if value == value else None
    return value


# only what would be read as markup: `qae_eapo`, `[0.1, 0.2]` and `<0.001` stay as they are
_MARKUP = re.compile(r"[\\`*|~]|^[#>]|(?<!\w)_|_(?!\w)|\](?=[(\[:])|<(?=[A-Za-z/!?])|&(?=#?\w+;)")


def _markdown(text: str) -> str:
    return _MARKUP.sub(lambda found: "\\" + found[0], " ".join(text.split()))


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "[": r"{[}",
    "]": r"{]}",
    "\N{MINUS SIGN}": r"$-$",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{PLUS-MINUS SIGN}": r"$\pm$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{LESS-THAN OR EQUAL TO}": r"$\le$",
    "\N{GREATER-THAN OR EQUAL TO}": r"$\ge$",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))
