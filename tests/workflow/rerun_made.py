"""A finished study, laid out by hand: small, whole files under the names a real one has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from seedwise import tables
from seedwise.evals import store
from seedwise.grid import expand
from seedwise.identity import file_digest
from seedwise.layout import Layout, record_of
from seedwise.reading import parse
from seedwise.reruns import ledger

WEIGHTS = 1000  # bytes
STEP_SECONDS = 2.0


def layout_of(content: dict[str, Any], folder: Path) -> Layout:
    return Layout(expand(parse(content)), folder / "results")


def record(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def weights(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"w" * WEIGHTS)


def rows(name: str, values: list[float]) -> list[dict[str, Any]]:
    return [{"step": step, "name": name, "value": value, "reason": None} for step, value in enumerate(values, 1)]


def publish(layout: Layout, name: str, behaviour: dict[str, str] | None = None) -> None:
    """A trained run: rewards 0.1, 0.2, ..., steps of STEP_SECONDS, checkpoints of WEIGHTS bytes."""
    run, folder = layout.grid.runs[name], layout.run(name)
    steps = range(1, run.train.steps + 1)
    tables.write(tables.METRICS, rows("reward", [step / 10 for step in steps]), folder / "metrics.parquet")
    tables.write(tables.METRICS, rows("step_seconds", [STEP_SECONDS] * len(steps)), folder / "timing.parquet")
    files = [folder / name for name in ("metrics.parquet", "timing.parquet", "spec.json")]
    for step in run.train.checkpoints:
        files.append(folder / "checkpoints" / str(step) / "model.safetensors")
        weights(files[-1])
    spec = {
        "run": run.model_dump(mode="json"),
        "behaviour": behaviour or ledger.equated(ledger.training(run.algorithm)),
        "reward_code": [ledger.rewards(run.rewards)],
        "data_sha256": file_digest(layout.problems(run.data)),
        "stack": {"device": "cpu", "world_size": 1},
    }
    record(folder / "spec.json", spec)
    digests = {file.relative_to(folder).as_posix(): file_digest(file) for file in files}
    record(
        folder / "trained.json",
        {
            "run": name,
            "steps": run.train.steps,
            "stopped": None,
            "checkpoints": list(run.train.checkpoints),
            "lineage": run.lineage,
            "sha256": digests,
        },
    )


def sources(layout: Layout) -> None:
    """Problems and models."""
    problem = {"problem": "p0", "prompt": "1+1=", "answer": "2", "source": "s", "verifier": "task", "metadata": "{}"}
    for name in layout.grid.problems:
        tables.write(tables.PROBLEMS, [{**problem, "difficulty": None}], layout.problems(name))
    for name in layout.grid.models:
        weights(layout.model(name) / "model.safetensors")
        digest = file_digest(layout.model(name) / "model.safetensors")
        record(layout.model(name) / "files.json", {"sha256": {"model.safetensors": digest}})


def draw(wanted: store.Wanted, first: int, stop: int) -> None:
    """Parts of the store with samples ``first`` to ``stop`` - 1 of one problem."""
    told = {"benchmark": wanted.label, "text": "2", "tokens": 1, "stop": "stop", "seed": 1, "engine": "e"}
    for step in wanted.steps:
        rows = [{**told, "step": step, "problem": "p0", "sample": k} for k in range(first, stop)]
        store.write(wanted.folder, store.Part(step, first, stop), pd.DataFrame(rows))


def evaluate(layout: Layout, subject: str) -> None:
    """Every wanted sample of one problem, scores of one answer, continuations and a measure."""
    where = {"step": 0, "benchmark": "same", "problem": "p0", "sample": 0}
    for wanted in layout.samples(subject).values():
        draw(wanted, 0, wanted.n)
    made(layout.sampled(subject), "sampling", store.record(layout.samples(subject).values()))
    verdict = {"correct": 1, "answer": "2", "verdict": "correct", "verifier": "v", "tokens": 1, "stop": "stop"}
    tables.write(tables.SCORES, [{**where, **verdict}], layout.scores(subject))
    made(record_of(layout.scores(subject)), "scoring", digest_of(layout.scores(subject)))
    if files := layout.resampling(subject):
        for name, path in files.items():
            tables.write(tables.RESAMPLED[name], [], path)
        made(record_of(files["continuations"]), "resampling", digest_of(*files.values()))
    measure = {"metric": "avg@n", "value": 1.0, "problems": 1, "samples": 1, "reason": None}
    place = {"step": 0, "benchmark": "same", "problem": None}
    tables.write(tables.MEASURES, [{**place, **measure}], layout.measures(subject))


def digest_of(*paths: Path) -> dict[str, str]:
    return {path.name: file_digest(path) for path in paths}


def made(place: Path, stage: ledger.Stage, digests: dict[str, str]) -> None:
    """The record beside files of a stage of evaluation."""
    code = ledger.equated(ledger.evaluation(stage), stage=stage)
    record(place, {"sha256": digests, "behaviour": code, "accepted": []})


def conclude(layout: Layout) -> None:
    """Markers and the page."""
    content = {"study": layout.grid.study.model_dump(mode="json"), "subjects": sorted(layout.subjects), "notes": []}
    for stage in ("analysis", "report", "tracking"):
        for old in layout.marker(stage).parent.glob("*.json"):
            old.unlink()
        record(layout.marker(stage), content)
    layout.report.write_text("<p>report</p>")


def finish(layout: Layout) -> None:
    """Every file that a finished study has."""
    sources(layout)
    for name in layout.grid.runs:
        publish(layout, name)
    for subject in layout.subjects:
        evaluate(layout, subject)
    conclude(layout)
