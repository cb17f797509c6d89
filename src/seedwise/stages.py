"""What each rule of the workflow does: one function per stage, from files to files.

Heavy libraries are imported inside, so that planning a study stays fast.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedwise import behaviour, retention, tables, tracked
from seedwise.engines.settings import EngineSettings, OnTransformers
from seedwise.faults import in_one_line
from seedwise.grid import training_behaviour
from seedwise.identity import file_digest
from seedwise.layout import WORK, Layout, record_of
from seedwise.reruns import ledger

if TYPE_CHECKING:
    import pandas as pd

    from seedwise.engines.base import ReadingEngine, Sampling
    from seedwise.engines.serving import Host
    from seedwise.evals.filling import Filled
    from seedwise.evals.metrics import Measures
    from seedwise.grading.pool import Grader


class StageError(RuntimeError):
    """A stage that cannot do its work; the message is one line with the remedy."""


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write JSON atomically, keys sorted, so that the same record gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")
    temporary.replace(path)


@in_one_line
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


@in_one_line
def base(layout: Layout, name: str) -> None:
    """Write the folder of an untrained model, and a record of its files with their digests; begin the mirror."""
    from seedwise.trainer.imports import quick

    with quick():
        from seedwise.models.load import export

    folder = layout.model(name)
    export(layout.grid.models[name], folder)
    files = {path.name: file_digest(path) for path in sorted(folder.iterdir()) if path.name != "files.json"}
    write_record(folder / "files.json", {"backbone": layout.grid.models[name].model_dump(mode="json"), "sha256": files})
    tracked.begin(layout)


@in_one_line
def train(layout: Layout, name: str, work: Path = WORK, give_up: str | None = None) -> None:
    """Train one run, or give it up for a reason; see trainer/run.py."""
    from seedwise.trainer.imports import quick

    with quick():
        from seedwise.trainer import run as trainer

    run = layout.grid.runs[name]
    spec = {
        "run": run.model_dump(mode="json"),
        "behaviour": training_behaviour(run.algorithm),
        "covers": sorted(behaviour.of_training()),
        "data_sha256": file_digest(layout.problems(run.data)),
        "accepted": ledger.resting(ledger.training(run.algorithm)),
        "reward_code": ledger.rewards(run.rewards),
        "git_commit": _git_commit(),
    }
    with tracked.live(layout, name, spec) as live:
        trainer.train(
            run,
            model_folder=layout.model(run.base),
            problems=tables.read(tables.PROBLEMS, layout.problems(run.data)),
            out=layout.run(name),
            work=work.absolute() / name,
            spec=spec,
            give_up=give_up,
            live=live,
        )
    if run.init_from in layout.grid.runs:
        retention.settle(layout, run.init_from)


def _evaluated(stage: ledger.Stage, digests: Mapping[str, str]) -> dict[str, Any]:
    """What stands beside the files of a stage of evaluation: their digests, and the code that made them."""
    code = ledger.evaluation(stage)
    return {
        "sha256": dict(digests),
        "behaviour": ledger.equated(code, stage=stage),
        "accepted": ledger.resting(code, stage=stage),
    }


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


@contextmanager
def _host(settings: EngineSettings) -> Iterator[Host]:
    """What serves all checkpoints of a job; nothing is loaded until it holds one."""
    from seedwise.engines.serving import opened

    with opened(settings) as host:
        yield host


def _engine(host: Host, layout: Layout, subject: str, step: int) -> tuple[ReadingEngine, Any]:
    """An engine that holds a subject's weights at a step, and its tokenizer."""
    from seedwise.trainer.imports import quick

    with quick():
        from safetensors import SafetensorError

        import seedwise.engines.transformers  # noqa: F401 - every host reads weights or tokenizers with it
        from seedwise.engines.serving import Weights

    if subject in layout.grid.bases:
        return host.hold(Weights(layout.model(layout.grid.bases[subject].folder)))
    run = layout.grid.runs[subject]
    checkpoint = layout.run(subject) / "checkpoints" / str(step)
    if not checkpoint.is_dir():
        removed = " (removed as train.keep says)" if retention.removed_files(layout.run(subject)) else ""
        raise StageError(f"{checkpoint}: missing{removed}: {_again(layout, subject)}")
    weights = Weights(checkpoint) if run.model.lora is None else Weights(layout.model(run.base), checkpoint)
    try:
        return host.hold(weights)
    except (SafetensorError, json.JSONDecodeError) as error:
        raise StageError(f"{checkpoint}: cut short or damaged ({error}): {_again(layout, subject)}") from None


def _again(layout: Layout, subject: str) -> str:
    return f"remove {layout.run(subject) / retention.RECORD} and its checkpoints folder to train it again"


@in_one_line
def sample(
    layout: Layout,
    subject: str,
    work: Path = WORK,
    engine: EngineSettings = OnTransformers(),  # noqa: B008 - frozen
) -> None:
    """Draw what the store lacks of a subject's samples, checkpoint by checkpoint, and record what the study rests on.

    Every part is published as it is drawn, so a sampling that was stopped goes on from there.
    engine: what draws, one for all checkpoints.
    """
    from seedwise.evals import store
    from seedwise.trainer import lease

    wanted = layout.samples(subject)
    if any(store.gaps(each, step) for each in wanted.values() for step in each.steps):
        folder = work.absolute() / subject / "samples"
        with lease.hold(folder) as held, _host(engine) as host:
            for step in layout.steps(subject):
                for each, part, rows in _drawn(host, layout, subject, step):
                    with held.publishing():
                        store.write(each.folder, part, rows)
                    print(f"{subject}: {each.label}, step {step}: {len(rows)} completions drawn", flush=True)
            shutil.rmtree(folder)
            if not any(folder.parent.iterdir()):
                folder.parent.rmdir()
    write_record(layout.sampled(subject), _evaluated("sampling", store.record(wanted.values())))
    if subject in layout.grid.runs:
        retention.settle(layout, subject)


def _drawn(host: Host, layout: Layout, subject: str, step: int) -> Iterator[Filled]:
    """What the store lacks at a checkpoint, one part after the other; nothing is loaded for none."""
    from seedwise.evals import store

    lacking = [each for each in layout.samples(subject).values() if step in each.steps and store.gaps(each, step)]
    if not lacking:
        return
    engine, tokenizer = _engine(host, layout, subject, step)
    from seedwise.evals.filling import fill  # after the engine, whose import is made quick

    yield from fill(
        engine,
        tokenizer,
        lacking,
        {each.benchmark: _problems(layout, tokenizer, subject, each.benchmark) for each in lacking},
        run=subject,
        step=step,
        sampling=_sampling(layout, tokenizer, subject),
        forcing=layout.grid.study.evaluate.forcing,
    )


def samples_of(layout: Layout, subject: str, label: str) -> pd.DataFrame:
    """The samples of a label that the study rests on, as recorded.

    Raises StageError where a part is gone or damaged: Snakemake asks for their record alone.
    """
    from seedwise.evals import store

    record = layout.sampled(subject)
    try:
        return store.read(layout.samples(subject)[label], store.recorded(json.loads(record.read_text())))
    except (tables.TableError, store.StoreError) as error:
        raise StageError(f"{error}; remove {record} with it: its other files are kept") from None


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


@in_one_line
def score(layout: Layout, subject: str) -> None:
    """Grade every sample of a subject that the study rests on."""
    import pandas as pd

    from seedwise.evals.scores import score as grade

    names, frames = layout.benchmarks(subject), []
    with _grader(layout) as grader:
        for label, wanted in layout.samples(subject).items():
            problems = tables.read(tables.PROBLEMS, layout.problems(names[wanted.benchmark]))
            frames.append(grade(samples_of(layout, subject, label), problems, grader))
    path = layout.scores(subject)
    tables.write(tables.SCORES, pd.concat(frames, ignore_index=True), path)
    write_record(record_of(path), _evaluated("scoring", {path.name: file_digest(path)}))


@in_one_line
def measure(layout: Layout, subject: str) -> None:
    """What the samples of a subject say beside their scores: every metric of every checkpoint and benchmark."""
    import pandas as pd

    from seedwise.evals.metrics import metrics

    base = tables.read(tables.SCORES, layout.measured_from(subject)[-1])
    scores = tables.read(tables.SCORES, layout.scores(subject))
    with _measures(layout) as wanted:
        frames = [
            metrics(samples_of(layout, subject, name), scores[scores["benchmark"] == name], base, wanted)
            for name in layout.benchmarks(subject)
        ]
    tables.write(tables.MEASURES, pd.concat(frames, ignore_index=True), layout.measures(subject))


@contextmanager
def _measures(layout: Layout) -> Iterator[Measures]:
    """What the study wants measured; a grader is there while it compares answers."""
    from seedwise.evals.metrics import Measures
    from seedwise.evals.scorers import SCORERS

    study = layout.grid.study
    wanted = study.metrics
    measures = Measures(
        words=wanted.markers,
        pass_ks=wanted.pass_k,
        majority_ks=wanted.majority_k,
        best_ks=wanted.best_k,
        budgets=wanted.within(study.evaluate.max_tokens),
        edges=wanted.bands,
        hard_below=wanted.hard_below,
        scorers={name: SCORERS[name] for name in wanted.best_of},
    )
    if wanted.same_answer == "text":
        yield measures
        return
    from seedwise.evals.metrics_same import by_verifier

    with _grader(layout) as grader:
        yield replace(measures, same=by_verifier(grader))


@in_one_line
def resample(
    layout: Layout,
    subject: str,
    engine: EngineSettings = OnTransformers(),  # noqa: B008 - frozen
) -> None:
    """The continuation experiment on the last checkpoint of a subject; the file that says it is done comes last.

    engine: what reads and continues.
    """
    files, benchmark, step = layout.resampling(subject), layout.resampled, layout.steps(subject)[-1]
    if not files:
        raise StageError(f"{subject}: resample.methods leaves it out: add its method point to resample.methods")
    with _host(engine) as host:
        reading, tokenizer = _engine(host, layout, subject, step)
        from seedwise.evals.continuations import experiment  # after the engine, whose import is made quick

        samples = samples_of(layout, subject, benchmark)
        scores = tables.read(tables.SCORES, layout.scores(subject))
        with _grader(layout) as grader:
            found = experiment(
                reading,
                tokenizer,
                samples=samples[samples["step"] == step],
                scores=scores[(scores["step"] == step) & (scores["benchmark"] == benchmark)],
                problems=_problems(layout, tokenizer, subject, benchmark),
                settings=layout.grid.study.resample,
                sampling=_sampling(layout, tokenizer, subject),
                grader=grader,
                run=subject,
            )
    for name in reversed(files):
        tables.write(tables.RESAMPLED[name], found[name], files[name])
    digests = {path.name: file_digest(path) for path in files.values()}
    write_record(record_of(files["continuations"]), _evaluated("resampling", digests))
    if subject in layout.grid.runs:
        retention.settle(layout, subject)
