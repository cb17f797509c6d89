"""The study of mechanisms, and its page: run (or resume) config/mechanism.yaml, then fill docs/mechanism.md.

    python -m benchmarks.mechanism

What is there is not made again, so an interrupted run goes on.  ``results/<study>/sittings.jsonl`` has a line when one
begins and one when it ends, from which the page's wall time is added up.  Every number of the page stands in
``results/<study>/analysis`` too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from benchmarks.calibration import written
from seedwise import layout as layouts
from seedwise import tables
from seedwise.layout import Layout
from seedwise.report.facts import PRIMARY
from seedwise.report.layout import Cell, TableView, markdown
from seedwise.report.layout import row as cells
from seedwise.report.outcomes_shown import figure
from seedwise.report.wording import DASH, known, plain, points, probability
from seedwise.study import Outcome, StudyError

REPOSITORY = Path(__file__).parents[1]
MARKER = "<!-- mechanism -->"
TESTED = (
    ("Outcome", "l"), ("What", "l"), ("Kind", "l"), ("Estimate", "r"), ("95 % interval", "r"), ("Claimed", "l"),
    ("Adjusted p", "r"), ("Equivalence p", "r"), ("g", "r"), ("Could have found", "r"), ("S", "r"),
    ("Verdict", "l"), ("Remark", "l"),
)  # fmt: skip
MEANS = (("Outcome", "l"), ("Measure", "l"), ("Method", "l"), ("Mean", "r"), ("95 % interval", "r"), ("S", "r"))
SCORES = (
    ("Method", "l"), ("Difference, points", "r"), ("95 % interval", "r"), ("Adjusted p", "r"), ("Verdict", "l"),
)  # fmt: skip


def sittings(path: Path) -> tuple[float, int, int]:
    """(hours of the sittings that ended, how many ended, how many were killed), from the lines of the record."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    seconds, ended, begun = 0.0, 0, None
    for line in lines:
        time = datetime.fromisoformat(line["time"])
        if line["event"] == "ended" and begun is not None:
            seconds, ended = seconds + (time - begun).total_seconds(), ended + 1
        begun = time if line["event"] == "begun" else None
    return seconds / 3600, ended, sum(line["event"] == "begun" for line in lines) - ended


def run(study: Path, layout: Layout, cores: str) -> None:
    """Snakemake on the study, with the sitting on record.  Raises typer.Exit with Snakemake's status where it fails."""
    record = layout.folder / "sittings.jsonl"
    profile = REPOSITORY / "workflow" / "profiles" / "default"
    command = ["snakemake", "-s", str(REPOSITORY / "Snakefile"), "--profile", str(profile), "--cores", cores]
    _note(record, "begun")
    try:
        with subprocess.Popen([sys.executable, "-m", *command, "--config", f"study={study}"]) as process:
            status = _ended(process)
    finally:
        _note(record, "ended")
    if status:
        raise typer.Exit(status)


def _ended(process: subprocess.Popen) -> int:
    try:
        return process.wait()
    except KeyboardInterrupt:  # Snakemake had it too: it ends its jobs and unlocks, which a kill would prevent
        return process.wait() or 130


def _note(record: Path, event: str) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    with record.open("a") as file:
        file.write(json.dumps({"event": event, "time": datetime.now(UTC).isoformat(timespec="seconds")}) + "\n")


def page(layout: Layout, study: Path) -> str:
    """The generated part of the page, Markdown.  Raises TableError where the study was not analysed."""
    folder, outcomes = layout.folder / "analysis", layout.grid.study.compare.outcomes
    rows = tables.read(tables.OUTCOMES, folder / "outcomes.parquet").to_dict("records")
    found = tables.read(tables.CONTRASTS, folder / "contrasts.parquet")
    stops = tables.read(tables.STOPS, folder / "stops.parquet")
    tested, means = [row for row in rows if row["kind"] != "mean"], [row for row in rows if row["kind"] == "mean"]
    primary = found[found["family"] == PRIMARY].to_dict("records")
    views = [
        _view("What was asked, and what came out", TESTED, [_tested(row, outcomes) for row in tested], rows),
        _view("Means of runs", MEANS, [_mean(row) for row in means], rows),
        _view("Accuracy after training (primary family, new problems)", SCORES, [_score(row) for row in primary], rows),
    ]
    return "\n".join([*_heading(layout, study, stops, tested), "", *_claims(outcomes), "", markdown(views).rstrip()])


def _heading(layout: Layout, study: Path, stops: pd.DataFrame, tested: Sequence[dict]) -> Iterator[str]:
    hours, ended, killed = sittings(layout.folder / "sittings.jsonl")
    specs = [json.loads((layout.run(name) / "spec.json").read_text()) for name in layout.grid.runs]
    commits = sorted({str(spec["git_commit"])[:10] for spec in specs})
    trained = sum(layout.grid.runs[name].train.steps for name in layout.grid.runs)
    yield f"Written on {datetime.now(UTC):%Y-%m-%d} from `results/{layout.folder.name}/analysis`, by"
    yield ""
    yield f"    python -m benchmarks.mechanism --study {study}"
    yield ""
    plural = "sitting" if ended == 1 else "sittings"
    lost = f" and {killed} killed, whose time is not known" if killed else ""
    yield (
        f"{len(specs)} runs, {trained:,} optimizer steps, seeds {len(layout.grid.study.seeds)}; wall time "
        f"{60 * hours:.0f} minutes in {ended} {plural}{lost}; trained at commit {', '.join(commits)}; "
        f"{len(stops)} runs stopped before their last step."
    )
    words = [row["verdict"] if known(row["verdict"]) else "not tested" for row in tested]
    counts = [f"{words.count(word)} {word}" for word in dict.fromkeys(sorted(words))]
    yield ""
    yield f"Of {len(tested)} tested rows: {'; '.join(counts)}."


def _claims(outcomes: dict[str, Outcome]) -> Iterator[str]:
    for name, outcome in outcomes.items():
        low, high = (f"{100 * share:g}" for share in outcome.over)
        what = f"{outcome.summary} of `{outcome.measure}`, {low} to {high} % of the steps"
        yield f"- `{name}` ({what}): {outcome.claim or 'none'}."


def _view(title: str, columns: tuple, lines: list[tuple[Cell, ...]], data: list[dict]) -> TableView:
    return TableView("mechanism", title, columns, tuple(lines), (), pd.DataFrame(data))


def _tested(row: dict, outcomes: dict[str, Outcome]) -> tuple[Cell, ...]:
    direction = outcomes[row["outcome"]].direction if row["kind"] != "quadratic" else None
    said = [row["flags"], row["reason"] if isinstance(row["reason"], str) else ""]
    return cells(
        row["outcome"], row["subject"], row["kind"], figure(row["estimate"]), _interval(row), direction or DASH,
        probability(row["p_adjusted"]), probability(row["tost_p_adjusted"]), plain(row["hedges_g"], 2),
        figure(row["detectable"]), str(row["seeds"]),
        row["verdict"] if known(row["verdict"]) else DASH, "; ".join(filter(None, said)),
    )  # fmt: skip


def _mean(row: dict) -> tuple[Cell, ...]:
    return cells(
        row["outcome"], row["measure"], row["subject"], figure(row["estimate"]), _interval(row), str(row["seeds"])
    )


def _score(row: dict) -> tuple[Cell, ...]:
    interval = f"{points(row['low'])} to {points(row['high'])}" if known(row["low"]) else DASH
    verdict = row["verdict"] if known(row["verdict"]) else DASH
    return cells(row["method"], points(row["difference"]), interval, probability(row["p_adjusted"]), verdict)


def _interval(row: dict) -> str:
    return f"{figure(row['low'])} to {figure(row['high'])}" if known(row["low"]) else DASH


def main(
    study: Annotated[Path, typer.Option(help="study file")] = Path("config/mechanism.yaml"),
    document: Annotated[Path, typer.Option(help="page to fill between its markers")] = Path("docs/mechanism.md"),
    cores: Annotated[str, typer.Option(help="of Snakemake")] = "all",
    write_only: Annotated[bool, typer.Option("--write-only", help="fill the page from what is there")] = False,
) -> None:
    """Run or resume the study, then fill the page."""
    try:
        layout = layouts.read(study)
    except StudyError as error:
        raise typer.BadParameter(str(error)) from None
    written(document.read_text(), "", MARKER)  # a page without its markers is said before an hour of training
    if not write_only:
        run(study, layout, cores)
    document.write_text(written(document.read_text(), page(layout, study), MARKER))
    typer.echo(f"written: {document}")


if __name__ == "__main__":
    typer.run(main)
