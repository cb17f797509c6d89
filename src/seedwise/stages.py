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
from seedwise.identity import file_digest
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
