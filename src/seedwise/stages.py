"""What each rule of the workflow does: one function per stage, from files to files.

Heavy libraries are imported inside, so that planning a study stays fast.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedwise import behaviour, tables
from seedwise.grid import training_behaviour
from seedwise.identity import digest, file_digest
from seedwise.layout import WORK, Layout

if TYPE_CHECKING:
    import pandas as pd

    from seedwise.engines.base import Engine, Sampling
    from seedwise.grading.pool import Grader


class StageError(RuntimeError):
    """A stage that cannot do its work; the message is one line with the remedy."""


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write JSON atomically, keys sorted, so that the same record gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")
    temporary.replace(path)


def data(layout: Layout, name: str) -> None:
    """Build one file of problems; a benchmark shares no problem with the training data."""
    from seedwise.tasks import check_overlap, contents, problems

    item = layout.grid.problems[name]
    if item.exclude is None:
        rows = problems(item.task, item.template)
    else:
        train = tables.read(tables.PROBLEMS, layout.problems(item.exclude))
        rows = problems(item.task, item.template, exclude=contents(train.to_dict("records")))
        check_overlap(train.to_dict("records"), {item.label: rows})
    tables.write(tables.PROBLEMS, rows, layout.problems(name))


def base(layout: Layout, name: str) -> None:
    """Write the folder of an untrained model, and a record of its files with their digests."""
    from seedwise.trainer.imports import quick

    with quick():
        from seedwise.models.load import export

    folder = layout.model(name)
    export(layout.grid.models[name], folder)
    files = {
        path.name: file_digest(path) for path in sorted(folder.iterdir()) if path.suffix in (".safetensors", ".json")
    }
    write_record(folder / "files.json", {"backbone": layout.grid.models[name].model_dump(mode="json"), "sha256": files})


def train(layout: Layout, name: str, work: Path = WORK) -> None:
    """Train one run; see trainer/run.py."""
    from seedwise.trainer.imports import quick

    with quick():
        from seedwise.trainer import run as trainer

    run = layout.grid.runs[name]
    spec = {
        "run": run.model_dump(mode="json"),
        "behaviour": training_behaviour(run.algorithm),
        "covers": sorted(behaviour.of_modules(behaviour.TRAINING)),
        "data_sha256": file_digest(layout.problems(run.data)),
        "git_commit": _git_commit(),
    }
    trainer.train(
        run,
        model_folder=layout.model(run.base),
        problems=tables.read(tables.PROBLEMS, layout.problems(run.data)),
        out=layout.run(name),
        work=work.absolute() / name,
        spec=spec,
    )


def _git_commit() -> str | None:
    import subprocess

    shown = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() or None


def _sampling(layout: Layout, tokenizer: Any, subject: str) -> Sampling:
    from seedwise.engines.base import Sampling
    from seedwise.models.prompts import stop_token_ids

    evaluate = layout.grid.study.evaluate
    return Sampling(
        max_tokens=evaluate.max_tokens,
        temperature=evaluate.temperature,
        top_p=evaluate.top_p,
        top_k=evaluate.top_k,
        stop_token_ids=stop_token_ids(layout.grid.model_of(subject), tokenizer),
    )


def _engine(layout: Layout, subject: str, step: int) -> tuple[Engine, Any]:
    """An engine that holds a subject's weights at a step, and its tokenizer."""
    from seedwise.trainer.imports import quick

    with quick():
        from seedwise.engines.transformers import Transformers
        from seedwise.models.load import load

    if subject in layout.grid.bases:
        model, tokenizer = load(layout.model(layout.grid.bases[subject].folder))
    else:
        run = layout.grid.runs[subject]
        checkpoint = layout.run(subject) / "checkpoints" / str(step)
        if not checkpoint.is_dir():
            raise StageError(f"{checkpoint}: checkpoint of step {step} is missing: run its training again")
        if run.model.lora is None:
            model, tokenizer = load(checkpoint)
        else:
            model, tokenizer = load(layout.model(run.base), adapter=checkpoint)
    return Transformers(model, tokenizer, batch=512), tokenizer


def sample(layout: Layout, subject: str) -> None:
    """Sample every checkpoint of a subject on every benchmark: one file per benchmark, made once and kept."""
    import pandas as pd

    study, wanted = layout.grid.study, layout.samples(subject)
    files = {benchmark: path for benchmark, path in wanted.items() if not path.exists()}
    frames: dict[str, list[pd.DataFrame]] = {benchmark: [] for benchmark in files}
    for step in layout.steps(subject) if files else ():
        engine, tokenizer = _engine(layout, subject, step)
        from seedwise.evals.samples import sample as draw  # after the engine, whose import is made quick

        sampling = _sampling(layout, tokenizer, subject)
        for benchmark in files:
            frames[benchmark].append(
                draw(
                    engine,
                    tokenizer,
                    _problems(layout, tokenizer, subject, benchmark),
                    run=subject,
                    step=step,
                    benchmark=benchmark,
                    n=study.evaluate.samples_of(benchmark),
                    sampling=sampling,
                )
            )
    for benchmark, path in files.items():
        tables.write(tables.SAMPLES, pd.concat(frames[benchmark], ignore_index=True), path)
    write_record(layout.sampled(subject), {path.name: file_digest(path) for path in wanted.values()})


def _problems(layout: Layout, tokenizer: Any, subject: str, benchmark: str) -> pd.DataFrame:
    """A benchmark's problems as the subject's model is asked them."""
    from seedwise.models.prompts import spoken

    found = tables.read(tables.PROBLEMS, layout.problems(layout.benchmarks(subject)[benchmark]))
    return spoken(layout.grid.model_of(subject), tokenizer, found)


@contextmanager
def _grader(layout: Layout) -> Iterator[Grader]:
    from seedwise.grading.pool import Grader

    limits = layout.grid.study.grading
    with Grader(time_limit_s=limits.time_limit_s, memory_mb=limits.memory_mb) as grader:
        yield grader


def score(layout: Layout, subject: str) -> None:
    """Grade every sample of a subject."""
    import pandas as pd

    from seedwise.evals.scores import score as grade

    names, frames = layout.benchmarks(subject), []
    with _grader(layout) as grader:
        for benchmark, path in layout.samples(subject).items():
            problems = tables.read(tables.PROBLEMS, layout.problems(names[benchmark]))
            frames.append(grade(tables.read(tables.SAMPLES, path), problems, grader))
    tables.write(tables.SCORES, pd.concat(frames, ignore_index=True), layout.scores(subject))


def resample(layout: Layout, subject: str) -> None:
    """The continuation experiment on the last checkpoint of a subject."""
    path, benchmark, step = layout.continuations(subject), layout.resampled, layout.steps(subject)[-1]
    if path is None:
        raise StageError(f"{subject}: resample.methods leaves it out: add its method point to resample.methods")
    engine, tokenizer = _engine(layout, subject, step)
    from seedwise.evals.continuations import continuations  # after the engine, whose import is made quick

    samples = tables.read(tables.SAMPLES, layout.samples(subject)[benchmark])
    scores = tables.read(tables.SCORES, layout.scores(subject))
    with _grader(layout) as grader:
        rows = continuations(
            engine,
            tokenizer,
            samples=samples[samples["step"] == step],
            scores=scores[(scores["step"] == step) & (scores["benchmark"] == benchmark)],
            problems=_problems(layout, tokenizer, subject, benchmark),
            settings=layout.grid.study.resample,
            sampling=_sampling(layout, tokenizer, subject),
            grader=grader,
            run=subject,
        )
    tables.write(tables.CONTINUATIONS, rows, path)


def runs_table(layout: Layout) -> pd.DataFrame:
    """tables.RUNS: one row per run, and one per base and model that rests on it."""
    import pandas as pd

    rows = [
        {
            "run": name,
            "model": run.model_name,
            "method": run.method,
            "setting": run.setting,
            "group_size": run.group_size,
            "seed": run.seed,
            "axes": json.dumps(run.axes, sort_keys=True),
            "id": run.id,
        }
        for name, run in layout.grid.runs.items()
    ]
    for model, name in layout.grid.base_of.items():
        row = {"run": name, "model": model, "method": "base", "setting": "", "group_size": 0, "seed": 0, "axes": "{}"}
        rows.append({**row, "id": name.rpartition("-")[2]})
    return pd.DataFrame(rows)


def analyse(layout: Layout) -> None:
    """Join the scores of all subjects, compare them, and write results/<study>/analysis."""
    import pandas as pd

    from seedwise.evals.resampling import windows_table
    from seedwise.evals.scores import counts
    from seedwise.report.build import analyse as compare

    runs = runs_table(layout)
    tables.write(tables.RUNS, runs, layout.folder / "runs.parquet")
    counted, windows = [], []
    for row in runs.to_dict("records"):
        counted.append(counts(tables.read(tables.SCORES, layout.scores(row["run"])), row))
        if path := layout.continuations(row["run"]):
            windows.append(windows_table(tables.read(tables.CONTINUATIONS, path), row))
    compare(
        runs,
        pd.concat(counted, ignore_index=True),
        pd.concat(windows, ignore_index=True) if windows else None,
        layout.grid.study.compare,
        layout.folder,
    )
    _mark(layout, "analysis")


def _mark(layout: Layout, stage: str) -> None:
    """Leave the marker of this id and remove those of earlier ones."""
    marker = layout.marker(stage)
    for old in marker.parent.glob("*.json"):
        old.unlink()
    study = layout.grid.study
    write_record(
        marker,
        {"study": study.model_dump(mode="json"), "subjects": sorted(layout.subjects), "notes": layout.grid.notes},
    )


def report(layout: Layout) -> Path:
    """Write tables, figures and report.html of an analysed study; returns the page."""
    import pandas as pd

    from seedwise.report.build import render

    curves = [
        tables.read(tables.METRICS, layout.run(name) / "metrics.parquet").assign(run=name) for name in layout.grid.runs
    ]
    page = render(layout.folder, pd.concat(curves, ignore_index=True), facts(layout), samples=_answers(layout))
    _mark(layout, "report")
    return page


def facts(layout: Layout) -> dict[str, Any]:
    """What the report prints beside the tables (report.facts.Facts)."""
    study = layout.grid.study
    stacks = {json.dumps(_stack(layout, name), sort_keys=True) for name in layout.grid.runs}
    if len(stacks) > 1:
        raise StageError(
            f"{study.study}: its runs come from {len(stacks)} software stacks, which may not share a table: "
            f"{' | '.join(sorted(stacks))}: train them again on one"
        )
    shared = stacks.pop()
    train = study.train
    return {
        "study": study.study,
        "compare": study.compare,
        "compare_hash": digest(study.compare.model_dump(mode="json"))[:16],
        "seed_varies": ("order of prompts", "sampling of rollouts", "initial weights of an adapter"),
        "seed_fixed": (
            "backbone weights",
            "training problems",
            "benchmark problems",
            "streams of one seed between methods",
        ),
        "hashes": {"analysis": layout.analysis_id, "report": layout.report_id},
        "versions": {key: str(value) for key, value in json.loads(shared).items()},
        "settings": {
            "models": ", ".join(study.models),
            "training problems": f"{len(tables.read(tables.PROBLEMS, _any_data(layout)))} from {study.train_data.task}",
            "optimizer steps": str(train.steps),
            "completions per rollout": str(train.completions),
            "learning rate": f"{train.lr:g}",
            "evaluation": f"temperature {study.evaluate.temperature:g}, at most {study.evaluate.max_tokens} tokens",
        },
    }


def _any_data(layout: Layout) -> Path:
    return layout.problems(next(iter(layout.grid.runs.values())).data)


def _stack(layout: Layout, name: str) -> dict[str, Any]:
    """Versions and device a run was trained with, from its spec.json."""
    return json.loads((layout.run(name) / "spec.json").read_text())["stack"]


def _answers(layout: Layout) -> pd.DataFrame:
    """Samples of the last checkpoints of every method's first seed, with prompt, verdict and answer."""
    import pandas as pd

    key, frames, seen = ["step", "benchmark", "problem", "sample"], [], set()
    for name in layout.subjects:
        run = layout.grid.runs.get(name)
        place = (run.model_name, run.method, run.setting) if run else (name,)
        if place in seen:
            continue
        seen.add(place)
        scores = tables.read(tables.SCORES, layout.scores(name))
        scores = scores[scores["step"] == layout.steps(name)[-1]]
        for benchmark, path in layout.samples(name).items():
            problems = tables.read(tables.PROBLEMS, layout.problems(layout.benchmarks(name)[benchmark]))
            drawn = tables.read(tables.SAMPLES, path).merge(scores[[*key, "verdict", "answer"]], on=key)
            frames.append(drawn.merge(problems[["problem", "prompt"]], on="problem").assign(run=name))
    return pd.concat(frames, ignore_index=True)


def sync(layout: Layout, record: Path | None = None) -> str:
    """Mirror what is new to MLflow; returns what was done, in a line.

    With ``record`` a store that refuses is no failure: the outcome is written there, and a later sync completes it.
    """
    from seedwise.trainer import tracking

    try:
        done = tracking.sync(store(layout), layout.grid.study.study, layout.root, wait_s=60.0, runs=runs_table(layout))
        outcome, complete = str(done), True
    except tracking.TrackingError as error:
        if record is None:
            raise StageError(str(error)) from None
        outcome, complete = str(error), False
    if record is not None:
        for old in record.parent.glob("*.json"):
            old.unlink()
        write_record(record, {"complete": complete, "outcome": outcome})
    return outcome


def store(layout: Layout) -> str:
    """The MLflow store: MLFLOW_TRACKING_URI, or a SQLite file in results/."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(layout.root / 'mlflow.db').absolute()}"
