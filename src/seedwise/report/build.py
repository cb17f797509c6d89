"""From score tables to the analysis files, and from those to tables, figures and the page.

The same input and the same versions of the libraries give the same bytes, PDF and Parquet included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from seedwise import tables
from seedwise.report import continuing, figures, intervals, layout, listings
from seedwise.report.analysis import contrasts, final_scores, frame, means, stops_of
from seedwise.report.audits import audits
from seedwise.report.courses import COURSE_CAPTION, courses
from seedwise.report.decisions import look_rows, withhold
from seedwise.report.difficulty import bands_of
from seedwise.report.examples import examples
from seedwise.report.exploring import benchmark_rows, grid_rows
from seedwise.report.facts import Compare, Facts, Look
from seedwise.report.findings import findings, headline
from seedwise.report.forcing import forcing_rows
from seedwise.report.forcing_shown import forcing_figure, forcing_table
from seedwise.report.further import further_tables
from seedwise.report.measured import grouped, measured_tables
from seedwise.report.measures import over_seeds
from seedwise.report.outcomes import outcome_rows
from seedwise.report.outcomes_shown import outcome_tables
from seedwise.report.page import Picture, Section, page
from seedwise.report.rendered import Designs, difference_tables, main_tables
from seedwise.report.resampling import Resampled, course, enriched, resampling
from seedwise.report.results import Results, design
from seedwise.report.robustness import effect_sizes, multiverse, places_of, rank_tests
from seedwise.report.spending import spent_rows
from seedwise.report.style import save
from seedwise.report.training import cost_rows, curve_rows
from seedwise.report.trends import trend_positions, trends
from seedwise.report.worked import Worked, worked
from seedwise.stats.audit import SIMULATIONS

OUTCOMES_LEAD = (
    "One number of each run's training, with the declared trends and differences. The claims and their signs were "
    "declared before the study ran."
)
_FILES = {
    "scores": tables.COUNTS,
    "means": tables.MEANS,
    "contrasts": tables.CONTRASTS,
    "trends": tables.TRENDS,
    "resampling": tables.RESAMPLING,
    "look": tables.LOOK,
    "stops": tables.STOPS,
    "audit": tables.AUDIT,
    "effects": tables.EFFECTS,
    "ranks": tables.RANKS,
    "multiverse": tables.MULTIVERSE,
    "strata": tables.STRATA,
    "curves": tables.CURVES,
    "costs": tables.COSTS,
    "grid": tables.GRID,
    "benchmarks": tables.BENCHMARKS,
    "course": tables.COURSE,
    "words": tables.WORDS,
    "forcing": tables.FORCING,
    "outcomes": tables.OUTCOMES,
    "spent": tables.SPENT,
}


def analyse(
    runs: pd.DataFrame,
    counts: pd.DataFrame,
    resampled: Resampled | None,
    compare: Compare,
    out: Path,
    *,
    look: Look | None = None,
    metrics: pd.DataFrame | None = None,
    stops: pd.DataFrame | None = None,
    forced: pd.DataFrame | None = None,
    simulations: int = SIMULATIONS,
) -> None:
    """Write ``out/analysis/*.parquet``, one file for each table of ``_FILES``.

    runs: RUNS, every planned run.  counts: COUNTS of those that were evaluated.  resampled: None
    without a resampling experiment.  look: which look at the data this is; None is one declared look.
    metrics: METRICS columns and ``run``, None without curves of training.  stops: STOPS, the runs that ended
    before their last step.  forced: COUNTS of forced continuations, with their number; they enter nothing else.
    simulations: of the self-audit, 0 for none.
    Raises ReportError on counts that make no sense.
    """
    known = stops if stops is not None else frame(tables.STOPS, [])
    logged = metrics if metrics is not None else pd.DataFrame(columns=pd.Index(["run", "step", "name", "value"]))
    stopped = set(known["run"])
    scored = final_scores(counts, compare)
    places = places_of(runs, counts, compare, scored)
    audit = audits(places, compare, look, simulations)
    withheld = {(row.model, row.setting): row.withheld for row in audit.itertuples() if isinstance(row.withheld, str)}
    compared = withhold(contrasts(runs, counts, compare, look, scored, stopped), withheld)
    found = {
        "scores": counts,
        "means": means(runs, counts, scored),
        "contrasts": compared,
        "trends": trends(runs, counts, compare, look, scored, stopped),
        "resampling": resampling(resampled),
        "look": look_rows(look),
        "stops": known,
        "audit": audit,
        "effects": effect_sizes(places),
        "ranks": rank_tests(places, runs, compare),
        "multiverse": multiverse(places, counts, compare, look, stops_of(runs, stopped)),
        "strata": bands_of(places, compare, look),
        "curves": curve_rows(places, runs, logged, compare, look),
        "costs": cost_rows(places, runs, counts, logged, compare, look),
        "grid": grid_rows(places, compared, compare, look),
        "benchmarks": benchmark_rows(places, compared, compare, look),
        "course": course(resampled),
        "words": enriched(resampled),
        "forcing": forcing_rows(forced),
        "outcomes": outcome_rows(runs, logged, known, compare, look),
        "spent": spent_rows(runs, logged, compare),
    }
    for name, rows in found.items():
        tables.write(_FILES[name], rows, Path(out) / "analysis" / f"{name}.parquet")


def render(
    out: Path,
    metrics: pd.DataFrame,
    study_facts: Mapping[str, Any],
    samples: pd.DataFrame | None = None,
    runs: pd.DataFrame | None = None,
    measured: pd.DataFrame | None = None,
    continued: pd.DataFrame | None = None,
) -> Path:
    """Write ``out/tables``, ``out/figures`` and ``out/report.html`` from ``out/analysis``; returns the page's path.

    metrics: METRICS columns and ``run``.  study_facts: the fields of ``facts.Facts``.  samples: SAMPLES
    columns and ``run`` (prompt, verdict and answer are shown where present).  runs: RUNS; read from
    ``out/runs.parquet`` when not given.  measured: MEASURED, None where nothing was measured beside the scores.
    continued: EXAMPLE columns and ``run``: the responses that one is shown of.
    """
    out, facts = Path(out), Facts.of(study_facts)
    results = load(out, runs)
    designs = {(model, setting): design(results, facts, model, setting) for model, setting, _ in results.places()}
    nothing = pd.DataFrame(columns=pd.Index([column[0] for column in tables.MEASURED.columns]))
    summary = over_seeds(nothing if measured is None else measured, results, facts.compare)
    views = cautioned(views_of(results, facts, designs) | {"measures": measured_tables(summary, results)}, facts)
    _write_tables(views, out / "tables")
    pictures = {
        name: Picture(name, caption, save(figure, name, out / "figures"))
        for name, (figure, caption) in _drawn(results, facts, metrics).items()
    }
    found = findings(results, facts, designs)
    shown = examples(samples, results, facts.compare.reference)
    path = out / "report.html"
    path.write_text(
        page(facts, headline(found), found, _sections(views, pictures, worked(continued)), shown), encoding="utf-8"
    )
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
        **further_tables(results, facts),
        "resampling": continuing.window_tables(results.resampling),
        "course": [continuing.course_table(results.course)],
        "words": [continuing.word_table(results.words)],
        "forcing": [forcing_table(results)],
        "outcomes": outcome_tables(results, facts),
        "runs": [listings.run_table(results)],
    }


def cautioned(views: Mapping[str, list[layout.TableView]], facts: Facts) -> dict[str, list[layout.TableView]]:
    """The same tables with the study's cautions under each, and in a column of its numbers."""
    said = " ".join(facts.cautions)
    return {
        name: [
            replace(view, notes=(said, *view.notes), data=view.data.assign(caution=said)) if said else view
            for view in group
        ]
        for name, group in views.items()
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
        "pass_at_k_benchmarks": (
            figures.pass_at_k_benchmarks(results.means, reference, facts.compare.family),
            "pass@k of each benchmark at the last checkpoint, up to its own number of samples; colours as above. At "
            "k = n a problem counts as solved when any sample is right.",
        ),
        "sparsity": (
            figures.sparsity(curves, reference),
            "Shares of responses with positive, zero and negative advantage at every step, mean over seeds.",
        ),
        "course": (courses(results.course, reference), COURSE_CAPTION),
        "forcing": (
            forcing_figure(results.forcing, reference),
            "Accuracy against mean tokens. Number at a point: forced continuations. Bars: 95 % intervals over seeds.",
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


def _sections(
    views: Mapping[str, list[layout.TableView]], pictures: Mapping[str, Picture], example: Worked | None
) -> list[Section]:
    forced = [pictures["forcing"]] if any(view.rows for view in views["forcing"]) else []
    outcomes = views["outcomes"] if any(view.rows for view in views["outcomes"]) else []
    along = [picture for name, picture in pictures.items() if name.startswith("trend_")]
    return [
        Section(
            "scores", "Scores and verdicts",
            "Every claim has passed a test that counts training seeds and problems as sources of chance.",
            views["main"], [pictures["forest"]], views["differences"], "Every difference in full",
        ),
        Section(
            "robustness", "How far the verdicts hang on the analysis",
            "The declared analysis decides; these tables show what others would have said, and what this one can claim "
            "by mistake.",
            [*views["audit"], *views["multiverse"]], (),
            [*views["effects"], *views["ranks"], *views["benchmarks"], *views["grid"]],
            "Effect sizes, exact tests on seeds, every benchmark, every method",
        ),
        *([Section("outcomes", "Outcomes of training", OUTCOMES_LEAD, outcomes)] if outcomes else []),
        Section("strata", "By difficulty", "", views["strata"]),
        Section("costs", "At equal cost", "", views["costs"], (), views["spent"], "What each training took"),
        Section(
            "training", "Training", "", views["curves"], [pictures["learning"], pictures["entropy"], pictures["length"]]
        ),
        Section(
            "passk", "pass@k", "", (), [pictures["pass_at_k"], pictures["pass_at_k_benchmarks"]], views["passk"],
            "Table",
        ),
        Section(
            "measures", "What else was measured",
            "Verdicts, accuracy under other rules, diversity of answers, length and words. Descriptive: no test stands "
            "behind a difference seen here; only the declared families above have verdicts.",
            grouped(views["measures"], ("verdicts", "accuracy")), (),
            grouped(views["measures"], ("problems", "responses")), "Difficulty, diversity, length and words",
        ),
        Section("sparsity", "Sparsity of the advantage", "", (), [pictures["sparsity"]]),
        Section("trends", "Trends", "", views["trends"], along),
        Section(
            "resampling", "Continuation resampling", continuing.LEAD, views["resampling"], [pictures["course"]],
            [*views["course"], *views["words"]], "Success along a response in numbers, words at high and low entropy",
            example,
        ),
        *([Section("forcing", "Budget forcing", "", views["forcing"], forced)] if forced else []),
        Section("runs", "Runs", "", views["runs"]),
    ]  # fmt: skip
