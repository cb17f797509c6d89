"""From score tables to the analysis files, and from those to tables, figures and the page.

The same input and the same versions of the libraries give the same bytes, PDF and Parquet included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from seedwise import tables
from seedwise.report import figures, intervals, layout, listings
from seedwise.report.analysis import contrasts, means, trend_positions, trends
from seedwise.report.examples import examples
from seedwise.report.facts import Compare, Facts
from seedwise.report.findings import findings, headline
from seedwise.report.page import Picture, Section, page
from seedwise.report.rendered import Designs, difference_tables, main_tables
from seedwise.report.resampling import resampling
from seedwise.report.results import Results, design
from seedwise.report.style import save

_FILES = {
    "scores": tables.COUNTS,
    "means": tables.MEANS,
    "contrasts": tables.CONTRASTS,
    "trends": tables.TRENDS,
    "resampling": tables.RESAMPLING,
}


def analyse(
    runs: pd.DataFrame, counts: pd.DataFrame, windows: pd.DataFrame | None, compare: Compare, out: Path
) -> None:
    """Write ``out/analysis/{scores,means,contrasts,trends,resampling}.parquet``.

    runs: RUNS, every planned run.  counts: COUNTS of those that were evaluated.  windows: WINDOWS, or
    None without a resampling experiment.  Raises ReportError on counts that make no sense.
    """
    found = {
        "scores": counts,
        "means": means(runs, counts),
        "contrasts": contrasts(runs, counts, compare),
        "trends": trends(runs, counts, compare),
        "resampling": resampling(windows),
    }
    for name, frame in found.items():
        tables.write(_FILES[name], frame, Path(out) / "analysis" / f"{name}.parquet")


def render(
    out: Path,
    metrics: pd.DataFrame,
    study_facts: Mapping[str, Any],
    samples: pd.DataFrame | None = None,
    runs: pd.DataFrame | None = None,
) -> Path:
    """Write ``out/tables``, ``out/figures`` and ``out/report.html`` from ``out/analysis``; returns the page's path.

    metrics: METRICS columns and ``run``.  study_facts: the fields of ``facts.Facts``.  samples: SAMPLES
    columns and ``run`` (prompt, verdict and answer are shown where present).  runs: RUNS; read from
    ``out/runs.parquet`` when not given.
    """
    out, facts = Path(out), Facts.of(study_facts)
    results = load(out, runs)
    designs = {(model, setting): design(results, facts, model, setting) for model, setting, _ in results.places()}
    views = views_of(results, facts, designs)
    _write_tables(views, out / "tables")
    pictures = {
        name: Picture(name, caption, save(figure, name, out / "figures"))
        for name, (figure, caption) in _drawn(results, facts, metrics).items()
    }
    found = findings(results, facts, designs)
    shown = examples(samples, results, facts.compare.reference)
    path = out / "report.html"
    path.write_text(page(facts, headline(found), found, _sections(views, pictures), shown), encoding="utf-8")
    return path


def load(out: Path, runs: pd.DataFrame | None = None) -> Results:
    """The analysis tables under ``out`` and RUNS, checked.  Raises TableError when one is missing."""
    planned = runs if runs is not None else tables.read(tables.RUNS, Path(out) / "runs.parquet")
    read = [tables.read(table, Path(out) / "analysis" / f"{name}.parquet") for name, table in _FILES.items()]
    return Results(planned, *read)


def views_of(results: Results, facts: Facts, designs: Designs) -> dict[str, list[layout.TableView]]:
    """Every table of the report, by the name of its files."""
    return {
        "main": main_tables(results, facts, designs),
        "differences": difference_tables(results, facts),
        "passk": listings.passk_tables(results, facts),
        "trends": [listings.trend_table(results)],
        "resampling": [listings.resampling_table(results)],
        "runs": [listings.run_table(results)],
    }


def _write_tables(views: Mapping[str, list[layout.TableView]], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, group in views.items():
        for ending, spell in (("md", layout.markdown), ("csv", layout.csv), ("tex", layout.latex)):
            (folder / f"{name}.{ending}").write_text(spell(group), encoding="utf-8")


def _drawn(results: Results, facts: Facts, metrics: pd.DataFrame) -> dict[str, tuple[Figure, str]]:
    """name -> (figure, caption)."""
    reference, primary = facts.compare.reference, results.primary(facts)
    labels = results.runs[["run", "model", "setting", "method", "seed"]]
    curves = labels.merge(metrics, on="run", how="inner")
    means = results.means[(results.means["metric"] == primary) & results.means["benchmark"].isna()]
    tested = results.contrasts[results.contrasts["metric"] == primary]
    thin = "Thin lines: one training seed each. Thick: their mean, where all seeds have a value. Grey: the reference."
    drawn = {
        "forest": (
            intervals.forest(tested, facts.compare),
            "Differences to the reference. Thick bar: 95 % interval for new seeds and new problems; thin bar: interval "
            "at 1 - alpha/m of the family; open circle: on exactly these problems. Band: smallest effect of interest.",
        ),
        "learning": (figures.learning(curves, reference), f"Training reward at every step. {thin}"),
        "entropy": (figures.entropy(curves, reference), f"Token entropy at every step. {thin}"),
        "length": (figures.length(curves, reference), f"Completion length at every step. {thin}"),
        "pass_at_k": (
            figures.pass_at_k(results.means, reference, facts.compare.family),
            "Macro pass@k at the last checkpoint. Coloured: reference, untrained model and declared family.",
        ),
        "sparsity": (
            figures.sparsity(curves, reference),
            "Shares of responses with positive, zero and negative advantage at every step, mean over seeds.",
        ),
    }
    positions = trend_positions(results.runs, results.counts, facts.compare)
    for axis in facts.compare.trends:
        drawn[f"trend_{re.sub(r'[^A-Za-z0-9_]+', '_', axis)}"] = (
            intervals.trend(positions, means, results.trends, axis, reference),
            f"Macro score along {axis}. Dots: training seeds. Squares: mean with 95 % interval. "
            "p-values: Holm over linear and quadratic.",
        )
    return drawn


def _sections(views: Mapping[str, list[layout.TableView]], pictures: Mapping[str, Picture]) -> list[Section]:
    along = [picture for name, picture in pictures.items() if name.startswith("trend_")]
    return [
        Section(
            "scores", "Scores and verdicts",
            "Every claim has passed a test that counts training seeds and problems as sources of chance.",
            views["main"], [pictures["forest"]], views["differences"], "Every difference in full",
        ),
        Section("training", "Training", "", (), [pictures["learning"], pictures["entropy"], pictures["length"]]),
        Section("passk", "pass@k", "", (), [pictures["pass_at_k"]], views["passk"], "Table"),
        Section("sparsity", "Sparsity of the advantage", "", (), [pictures["sparsity"]]),
        Section("trends", "Trends", "", views["trends"], along),
        Section("resampling", "Continuation resampling", "", views["resampling"]),
        Section("runs", "Runs", "", views["runs"]),
    ]  # fmt: skip
