"""``seedwise compare``: the tables, verdicts and figures of a study's report, from a file of scores of any system.

The statistics and the report are a study's own; what is declared comes from the command line instead of a study file.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from seedwise import external, tables
from seedwise.identity import digest, file_digest
from seedwise.report.build import analyse, load, render
from seedwise.report.facts import Comparison, Facts
from seedwise.report.findings import findings, headline
from seedwise.report.layout import TableView
from seedwise.report.rendered import Designs, main_tables
from seedwise.report.results import Results, design
from seedwise.report.scores import metrics_of
from seedwise.report.wording import known
from seedwise.stats.audit import SIMULATIONS

KEYS = (
    "method",
    "reference",
    "estimand",
    "benchmark",
    "difference",
    "se",
    "df",
    "p",
    "p_adjusted",
    "low",
    "high",
    "verdict",
)
VARIES = ("whatever the system that trained it varies",)
FIXED = ("the problems of a benchmark, and nothing else that is known, so seeds of two methods are never paired",)


class CompareError(ValueError):
    """A comparison that cannot be made: one line with the option, its value and the remedy."""


@dataclass(frozen=True)
class Compared:
    """A comparison that was made.  results: the tables of its analysis.  page: report.html, where one was written."""

    results: Results
    facts: Facts
    designs: Designs
    page: Path | None

    def view(self) -> TableView:
        """The main table with its notes."""
        return main_tables(self.results, self.facts, self.designs)[0]

    def json(self) -> str:
        """One object: what was declared, ``contrasts`` and the notes of the main table.

        A contrast has the columns of ``KEYS``, ``seeds`` ([of the method, of the reference]) and ``reason`` (why p is
        null, or a verdict withheld); benchmark null is the macro average.  Differences are score units (0..1).
        p_adjusted and verdict belong to the declared family: the macro average for new problems; elsewhere null.
        """
        rows = self.results.contrasts
        primary = rows.loc[rows["metric"] == self.results.primary(self.facts)]
        compare = self.facts.compare
        shown = {
            "reference": external.as_written(compare.reference),
            "family": [external.as_written(method) for method in compare.family],
            "smallest_effect": compare.smallest_effect,
            "alpha": compare.alpha,
            "metric": self.results.primary(self.facts),
            "contrasts": [_contrast(row) for row in primary.to_dict("records")],
            "notes": self.view().notes,
        }
        return json.dumps(shown, ensure_ascii=False, allow_nan=False, indent=1)


def _contrast(row: dict[str, Any]) -> dict[str, Any]:
    found = {key: row[key] if known(row[key]) else None for key in KEYS}
    found["reason"] = next((row[key] for key in ("reason", "withheld") if known(row[key])), None)
    named = {key: external.as_written(row[key]) for key in ("method", "reference")}
    return found | named | {"seeds": [row["seeds"], row["seeds_reference"]]}


def compare(
    file: Path,
    reference: str,
    *,
    smallest_effect: float = 0.02,
    alpha: float = 0.05,
    metric: str = "avg@n",
    family: str | None = None,
    out: Path | None = None,
    simulations: int = SIMULATIONS,
) -> Compared:
    """Compare the methods of a file of scores with one of them.

    family: method names joined by commas, whose verdicts share alpha; None: all but the reference.
    out: where analysis, tables, figures and report.html go; None: nowhere.  simulations: of the self-audit, 0: none.
    Raises ScoresError on a file that cannot be read and CompareError on an option that makes no sense.
    """
    if out is not None and out.exists() and not out.is_dir():
        raise CompareError(f"--out: {out}: is a file: name a folder")
    scores = external.read(file)
    declared = _declared(file, scores, reference, smallest_effect, alpha, metric, family)
    runs, counts = external.runs_and_counts(scores)
    facts = _facts(file, declared)
    with tempfile.TemporaryDirectory() as scratch:
        folder = out or Path(scratch)
        analyse(runs, counts, None, declared, folder, simulations=simulations)
        page = None
        if out is not None:
            tables.write(tables.RUNS, runs, out / "runs.parquet")
            page = render(out, pd.DataFrame(columns=pd.Index([*(c[0] for c in tables.METRICS.columns), "run"])), facts)
        results = load(folder, runs)
    whole = Facts.of(facts)
    designs = {(model, setting): design(results, whole, model, setting) for model, setting, _ in results.places()}
    return Compared(results, whole, designs, page)


def _declared(
    file: Path,
    scores: pd.DataFrame,
    reference: str,
    smallest_effect: float,
    alpha: float,
    metric: str,
    family: str | None,
) -> Comparison:
    methods = list(dict.fromkeys(scores["method"]))
    for option, name in [("--reference", reference), *(("--family", name) for name in _names(family))]:
        if name not in methods:
            raise CompareError(f"{option}: {name!r}: no method of {file}; they are {', '.join(methods)}")
    others = tuple(_names(family)) or tuple(method for method in methods if method != reference)
    if not others:
        raise CompareError(f"{file}: holds the method {reference!r} only: a comparison needs another one")
    if reference in others:
        raise CompareError(f"--family: {reference!r}: it is the reference: leave it out")
    if not 0 < smallest_effect < 1:
        raise CompareError(
            f"--smallest-effect: {smallest_effect:g}: give score units between 0 and 1, 0.02 is 2 points"
        )
    if not 0 < alpha < 0.5:
        raise CompareError(f"--alpha: {alpha:g}: give a number between 0 and 0.5")
    _check_metric(metric, scores)
    family_of = tuple(map(external.told_apart, others))
    return Comparison(external.told_apart(reference), metric, family_of, (), smallest_effect, alpha, bands=())


def _names(family: str | None) -> list[str]:
    return list(dict.fromkeys(filter(None, (name.strip() for name in (family or "").split(",")))))


def _check_metric(metric: str, scores: pd.DataFrame) -> None:
    fewest = int(scores["samples"].min())
    allowed = ["avg@n", *metrics_of({fewest})[1:]]
    if metric not in allowed:
        raise CompareError(f"--metric: {metric!r}: with {fewest} samples of some problem, use {', '.join(allowed)}")


def _facts(file: Path, declared: Comparison) -> dict[str, Any]:
    chosen = asdict(declared)
    return {
        "study": file.name,
        "compare": declared,
        "compare_hash": digest(chosen)[:16],
        "declared_in": "Options of seedwise compare",
        "question": f"Which method of {file.name} differs from {declared.reference}?",
        "seed_varies": VARIES,
        "seed_fixed": FIXED,
        "hashes": {"scores": file_digest(file)[:16]},
    }


def show(compared: Compared) -> None:
    """Print the headline, the main table, what was found, the notes, and where the page lies."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    view, found = compared.view(), findings(compared.results, compared.facts, compared.designs)
    table = Table()
    for name, side in view.columns:
        table.add_column(Text(name), justify="right" if side == "r" else "left")
    for row in view.rows:
        table.add_row(*(Text(cell.whole, style="bold" if cell.strong else "") for cell in row))
    console = Console()
    if not console.is_terminal:
        console.width = 1000
    texts = [headline(found), view.title, table, *(finding.sentence for finding in found), *view.notes]
    texts += [f"report: {compared.page.absolute()}"] if compared.page else []
    for text in texts:
        console.print(text, markup=False, highlight=False, soft_wrap=isinstance(text, str))
