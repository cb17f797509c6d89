"""The stages that look at a whole study: compare, report, mirror."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedwise import looks, tables, tracked
from seedwise.faults import in_one_line
from seedwise.identity import digest, file_digest
from seedwise.layout import Layout
from seedwise.partial import of_what_is_there
from seedwise.reruns import graders, ledger
from seedwise.reruns.published import Archive
from seedwise.stages import StageError, samples_of, write_record
from seedwise.tracked import runs_table

if TYPE_CHECKING:
    import pandas as pd


@in_one_line
def analyse(layout: Layout, simulations: int | None = None) -> None:
    """Join the scores of all subjects, note the look, compare them, and write results/<study>/analysis.

    simulations: of the self-audit; None for as many as it has by default.
    """
    import pandas as pd

    from seedwise.evals.resampling import of_run, together
    from seedwise.evals.scores import counts
    from seedwise.report.build import analyse as compare
    from seedwise.report.resampling import Resampled

    runs = runs_table(layout)
    tables.write(tables.RUNS, runs, layout.folder / "runs.parquet")
    counted, resampled = [], []
    for row in runs[runs["run"].isin(evaluated(layout))].to_dict("records"):
        counted.append(counts(tables.read(tables.SCORES, layout.scores(row["run"])), row))
        if (files := layout.resampling(row["run"])) and files["continuations"].exists():
            read = {name: tables.read(tables.RESAMPLED[name], path) for name, path in files.items()}
            resampled.append(of_run(read, row))
    scores, forced = _apart(layout, pd.concat(counted, ignore_index=True))
    compare(
        runs,
        scores,
        Resampled(**together(resampled)) if resampled else None,
        layout.grid.study.compare,
        layout.folder,
        look=looks.record(layout.looks, sight(layout, scores), datetime.now(UTC)),
        metrics=_training(layout),
        stops=_stops(layout, runs),
        forced=forced,
        **({} if simulations is None else {"simulations": simulations}),
    )
    _mark(layout, "analysis", (layout.folder / "analysis").glob("*.parquet"))


def _apart(layout: Layout, counts: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """COUNTS of the benchmarks, which are compared; and of forced continuations, with their number in a column."""
    import pandas as pd

    evaluate = layout.grid.study.evaluate
    kept = counts[counts["benchmark"].isin(list(evaluate.benchmarks))].reset_index(drop=True)
    if (forcing := evaluate.forcing) is None:
        return kept, counts[:0].assign(continuations=0)
    frames = [
        counts[counts["benchmark"] == forcing.label(name, j)].assign(benchmark=name, continuations=j)
        for name in forcing.benchmarks
        for j in range(forcing.continuations + 1)
    ]
    return kept, pd.concat(frames, ignore_index=True)


def partial(layout: Layout) -> Path:
    """Compare and report the runs that are there; returns the page.  Raises PartialError where that would mislead."""
    there = of_what_is_there(layout)
    analyse(there)
    return report(there)


def evaluated(layout: Layout) -> list[str]:
    """All subjects.  Raises StageError when one has no scores: tables never leave one out without saying so."""
    if lost := [name for name in layout.subjects if not layout.scores(name).exists()]:
        raise StageError(
            f"{lost[0]}: no scores ({len(lost)} of {len(layout.subjects)} have none): run snakemake, "
            "or seedwise analyse --partial for marked tables of the others"
        )
    return layout.subjects


def sight(layout: Layout, counts: pd.DataFrame) -> looks.Sight:
    """What a comparison of these scores sees.  counts: tables.COUNTS of the subjects that have scores."""
    compare = layout.grid.study.compare
    families = [compare.family, *(each.family for each in compare.secondary.values())]
    families += [each.methods for each in compare.outcomes.values()]
    declared = {compare.reference}.union(*families)
    compared = {name: run for name, run in layout.planned.runs.items() if run.method in declared}
    planned = Counter((run.model_name, run.setting, run.method) for run in compared.values())
    cells = counts[counts["method"].isin(declared - {"base"})].groupby(["model", "setting", "method"])["seed"].nunique()
    bases = [name for name in layout.grid.bases if "base" in declared]
    seen = [name for name in evaluated(layout) if name in {*compared, *bases}]
    return looks.Sight(
        seeds=max(planned.values(), default=0),
        cells={"/".join(cell): int(S) for cell, S in cells.items()},
        scores=digest(sorted(str(layout.scores(name).relative_to(layout.root)) for name in seen)),
        analysis=layout.analysis_id,
        declaration=compare.model_dump(mode="json"),
    )


def _trained(layout: Layout) -> list[str]:
    """Runs whose training is finished."""
    return [name for name in layout.grid.runs if (layout.run(name) / "trained.json").exists()]


def _training(layout: Layout) -> pd.DataFrame:
    """Metrics of all runs, with times where the study compares at equal device seconds."""
    import pandas as pd

    timed = "device_seconds" in layout.grid.study.compare.budget
    names = ("metrics", "timing") if timed else ("metrics",)
    frames = [
        tables.read(tables.METRICS, layout.run(run) / f"{name}.parquet").assign(run=run)
        for run in _trained(layout)
        for name in names
    ]
    return pd.concat(frames, ignore_index=True)


def _stops(layout: Layout, runs: pd.DataFrame) -> pd.DataFrame:
    """tables.STOPS, of the runs' own records: the runs that ended before their last step."""
    import pandas as pd

    keys = ["run", "model", "method", "setting", "seed"]
    rows = []
    for row in runs[runs["run"].isin(_trained(layout))][keys].to_dict("records"):
        stopped = json.loads((layout.run(row["run"]) / "trained.json").read_text())["stopped"]
        if stopped is not None:
            rows.append(row | {"step": stopped["step"], "reason": stopped["reason"]})
    return pd.DataFrame(rows, columns=pd.Index([*keys, "step", "reason"]))


def _mark(layout: Layout, stage: str, written: Iterable[Path]) -> None:
    """Leave the marker of this id, with digests of what was written, and remove those of earlier ones."""
    marker = layout.marker(stage)
    for old in marker.parent.glob("*.json"):
        old.unlink()
    study = layout.grid.study
    write_record(
        marker,
        {
            "study": study.model_dump(mode="json"),
            "subjects": sorted(layout.subjects),
            "notes": layout.grid.notes,
            "sha256": {path.relative_to(layout.folder).as_posix(): file_digest(path) for path in sorted(written)},
        },
    )


@in_one_line
def report(layout: Layout) -> Path:
    """Write tables, figures and report.html of an analysed study; returns the page."""
    import pandas as pd

    from seedwise.report.build import render
    from seedwise.report.stability import labelled

    curves = [
        tables.read(tables.METRICS, layout.run(name) / "metrics.parquet").assign(run=name) for name in _trained(layout)
    ]
    metrics = pd.concat(curves, ignore_index=True)
    planned = runs_table(layout)
    runs = labelled(planned, metrics, layout.grid.study.stability)
    found = measured(layout, planned)
    tables.write(tables.MEASURED, found, layout.folder / "measures.parquet")
    page = render(
        layout.folder,
        metrics,
        facts(layout),
        samples=_answers(layout),
        runs=runs,
        measured=found,
        continued=_continued(layout),
    )
    drawn = [path for folder in ("tables", "figures") for path in (layout.folder / folder).iterdir()]
    _mark(layout, "report", [*drawn, layout.folder / "measures.parquet", layout.report])
    return page


def measured(layout: Layout, runs: pd.DataFrame) -> pd.DataFrame:
    """tables.MEASURED: what was measured of all subjects over the problems of each benchmark."""
    import pandas as pd

    keys, frames = ["run", "model", "method", "setting", "seed"], []
    for row in runs[runs["run"].isin(layout.measured)][keys].to_dict("records"):
        found = tables.read(tables.MEASURES, layout.measures(row["run"]))
        frames.append(found[found["problem"].isna()].drop(columns="problem").assign(**row))
    columns = pd.Index([column[0] for column in tables.MEASURED.columns])
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def facts(layout: Layout) -> dict[str, Any]:
    """What the report prints beside the tables (report.facts.Facts)."""
    study = layout.grid.study
    stacks = {json.dumps(_stack(layout, name), sort_keys=True) for name in _trained(layout)}
    if len(stacks) > 1:
        raise StageError(
            f"{study.study}: its runs come from {len(stacks)} software stacks, which may not share a table: "
            f"{' | '.join(sorted(stacks))}: train them again on one"
        )
    shared = {**json.loads(stacks.pop()), "sampling engine": sampling_engine(layout)}
    train = study.train
    return {
        "study": study.study,
        "compare": study.compare,
        "compare_hash": looks.registration(study.compare.model_dump(mode="json")),
        "seed_varies": ("order of prompts", "sampling of rollouts", "initial weights of an adapter"),
        "seed_fixed": (
            "backbone weights",
            "training problems",
            "benchmark problems",
            "streams of one seed between methods",
        ),
        "cautions": (*layout.cautions, *graders.told(layout, Archive(layout.root / "runs"))),
        "hashes": {"analysis": layout.analysis_id, "report": layout.report_id},
        "versions": {key: str(value) for key, value in shared.items()},
        "settings": {
            "models": ", ".join(study.models),
            "training problems": f"{len(tables.read(tables.PROBLEMS, _any_data(layout)))} from {study.train_data.task}",
            "optimizer steps": str(train.steps),
            "completions per rollout": str(train.completions),
            "learning rate": f"{train.lr:g}",
            "evaluation": f"temperature {study.evaluate.temperature:g}, at most {study.evaluate.max_tokens} tokens",
            **_accepted(layout),
        },
    }


def _accepted(layout: Layout) -> dict[str, str]:
    """The edits held to be neutral that the results rest on, if there are any."""
    found = ledger.accepted(layout.grid.runs.values())
    return {"accepted edits": "; ".join(f"{key} ({reason})" for key, reason in found.items())} if found else {}


def _any_data(layout: Layout) -> Path:
    return layout.problems(next(iter(layout.grid.runs.values())).data)


def _stack(layout: Layout, name: str) -> dict[str, Any]:
    """Versions and device a run was trained with, from its spec.json."""
    return json.loads((layout.run(name) / "spec.json").read_text())["stack"]


def sampling_engine(layout: Layout) -> str:
    """The engine that drew and continued every sample, with its version.  Raises StageError where there are several."""
    from seedwise.evals import store

    found: dict[str, set[str]] = {}
    for name in evaluated(layout):
        recorded = store.recorded(json.loads(layout.sampled(name).read_text()))
        for wanted in layout.samples(name).values():
            for part, _ in store.recorded_parts(wanted, recorded):
                for engine in tables.distinct(tables.SAMPLES, wanted.folder / part.file, "engine"):
                    found.setdefault(engine, set()).add(name)
        if (files := layout.resampling(name)) and files["chosen"].exists():
            for engine in tables.distinct(tables.CHOSEN, files["chosen"], "engine"):
                found.setdefault(engine, set()).add(name)
    if len(found) > 1:
        study = layout.grid.study.study
        shown = " | ".join(f"{engine} ({len(of)}, e.g. {min(of)})" for engine, of in sorted(found.items()))
        raise StageError(
            f"{study}: its samples come from {len(found)} engines, which may not share a table: {shown}: remove "
            f"samples, evals and resample in results/runs/<each of one>, and results/{study}/analysis, and run "
            "snakemake with the other's machine file"
        )
    return next(iter(found), "none")


def _answers(layout: Layout) -> pd.DataFrame:
    """Samples of the last checkpoints of every method's first seed, with prompt, verdict and answer."""
    import pandas as pd

    key, frames, seen = ["step", "benchmark", "problem", "sample"], [], set()
    for name in evaluated(layout):
        run = layout.grid.runs.get(name)
        place = (run.model_name, run.method, run.setting) if run else (name,)
        if place in seen:
            continue
        seen.add(place)
        scores = tables.read(tables.SCORES, layout.scores(name))
        scores = scores[scores["step"] == layout.steps(name)[-1]]
        for benchmark, asked in layout.benchmarks(name).items():
            problems = tables.read(tables.PROBLEMS, layout.problems(asked))
            drawn = samples_of(layout, name, benchmark).merge(scores[[*key, "verdict", "answer"]], on=key)
            frames.append(drawn.merge(problems[["problem", "prompt"]], on="problem").assign(run=name))
    return pd.concat(frames, ignore_index=True)


def _continued(layout: Layout) -> pd.DataFrame | None:
    """tables.EXAMPLE of every method's first run that the continuation experiment was done on; None without any."""
    import pandas as pd

    found: dict[tuple[str, ...], pd.DataFrame] = {}
    for name in layout.subjects:
        run, files = layout.grid.runs.get(name), layout.resampling(name)
        place = (run.model_name, run.method, run.setting) if run else (name,)
        if place not in found and files and files["continuations"].exists():
            found[place] = tables.read(tables.EXAMPLE, files["example"]).assign(run=name)
    return pd.concat(found.values(), ignore_index=True) if found else None


def sync(layout: Layout, record: Path | None = None) -> str:
    """Mirror what is new to MLflow; returns what was done, in a line.

    With ``record`` a store that refuses is no failure: the outcome is written there, and a later sync completes it.
    """
    from seedwise.trainer.mirror import sync as mirror
    from seedwise.trainer.passing import TrackingError

    study, address = layout.grid.study.study, tracked.store(layout)
    try:
        if address is None:
            outcome, complete = f"{study}: MLFLOW_TRACKING_URI=off: nothing is mirrored", False
        else:
            done = mirror(
                address, study, layout.root, wait_s=60.0, runs=runs_table(layout), scores=tracked.scores(layout)
            )
            outcome, complete = str(done), True
    except TrackingError as error:
        if record is None:
            raise StageError(str(error)) from None
        outcome, complete = str(error), False
    if record is not None:
        for old in record.parent.glob("*.json"):
            old.unlink()
        write_record(record, {"complete": complete, "outcome": outcome})
    return outcome
