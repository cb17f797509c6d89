"""One training, from a model folder and a table of problems to published checkpoints.

The story, top to bottom: take the run (lease), take a device, load the model, train, publish.

Work happens in ``work``: every ``save_every`` steps, and on SIGTERM, a resumable state is saved there at the
end of a rollout (in the middle of one TRL cannot resume exactly).  A killed training goes on from the
newest state and ends with the same bits on a CPU as one that was never interrupted, since every random
number is derived from the seed and the step.  Results appear in ``out`` by rename, ``trained.json`` last.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from transformers import PrinterCallback

from seedwise import tables
from seedwise.engines.base import Sampling
from seedwise.engines.transformers import Transformers
from seedwise.grading.pool import Grader
from seedwise.identity import file_digest
from seedwise.models.load import load, lora_config
from seedwise.models.prompts import spoken, stop_token_ids
from seedwise.trainer import lease, lineage, memory
from seedwise.trainer.adapter import ComposedTrainer, Diverged, config
from seedwise.trainer.lineage import RECORD
from seedwise.trainer.records import Records
from seedwise.trainer.rollout import Rollout, correct, penalty
from seedwise.trainer.watch import Watch

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase

    from seedwise.study import Run

PACKAGES = ("torch", "trl", "transformers", "peft", "accelerate", "numpy")


class TrainError(ValueError):
    """A training that cannot be run as asked: one line with the key, its value and the remedy."""


class Interrupted(RuntimeError):
    """SIGTERM came; the state is saved and the same command goes on from it."""


def train(
    run: Run, *, model_folder: Path, problems: pd.DataFrame, out: Path, work: Path, spec: dict, workers: int = 1
) -> None:
    """Train one run and publish it under ``out``; a run that is published already is left alone.

    problems: rows of PROBLEMS.  out: checkpoints/<step>/, metrics.parquet, timing.parquet, spec.json, state/ (of the
    last step, where the run keeps it) and, last, trained.json; the folders beside it are other runs, which this one
    may start from or go on from.  work: resumable states; removed after publishing.  spec: written to spec.json
    with the stack beside it.  workers: grading processes.
    Raises TrainError, LeaseError (another writer), BatchError, OriginError, SamplerError, Interrupted (SIGTERM,
    state saved).
    """
    if (out / RECORD).exists():
        print(f"{out / RECORD}: published already, nothing to do", flush=True)
        return
    torch.set_num_threads(1)
    main = os.environ.get("RANK", "0") == "0"  # of a distributed launch; the others write nothing
    with (
        lease.hold(work) if main else nullcontext() as held,
        lease.device() as device,
        Grader(workers, run.grading.time_limit_s, run.grading.memory_mb) as grader,
    ):
        state, other = _beginning(run, out, work)
        if other is not None and held is not None:
            print(f"{run.name}: goes on from {other.name}, which has the same beginning", flush=True)
            lineage.adopt(run, other, out)
        start = lineage.origin(run, out.parent)
        trainer = build(run, model_folder, problems, grader, work, device, state, start)
        watch = Watch(trainer, run, out, work, held)
        trainer.add_callback(watch)
        stopped = None
        with _terminating(watch):
            try:
                trainer.train(resume_from_checkpoint=str(state) if state else None)
            except Diverged as error:
                stopped = {"step": trainer.state.global_step, "reason": str(error)}
                watch.publish_rest()
        if watch.terminated and trainer.state.global_step < run.train.steps and stopped is None:
            raise Interrupted(f"{run.name}: SIGTERM after step {trainer.state.global_step}: start it again to go on")
        if held is not None:
            last = newest(work)
            if last is not None and last.name == f"state-{run.train.steps}":
                lineage.keep(last, out)
            _publish(run, trainer, out, {**spec, "stack": stack(trainer, device)}, stopped, held)
            shutil.rmtree(work)


def _beginning(run: Run, out: Path, work: Path) -> tuple[Path | None, Path | None]:
    """The state to go on from (None: there is none), and the shorter run it belongs to if it is not our own."""
    state, other = newest(work), None
    if state is None and (other := lineage.shorter(run, out.parent)) is not None:
        state = other / lineage.STATE
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return state, other
    PartialState()  # starts the process group: all processes go on from what the first one saw
    return tuple(broadcast_object_list([state, other]))


def build(
    run: Run,
    model_folder: Path,
    problems: pd.DataFrame,
    grader: Grader,
    work: Path,
    device: str,
    state: Path | None,
    start: Path | None = None,
) -> ComposedTrainer:
    """The trainer of a run with its rollout and records attached, as of ``state`` (None: from the start).

    start: the checkpoint of another run whose weights it starts from, None for the untrained model.
    """
    if run.train.completions % run.group_size:
        raise TrainError(
            f"{run.name}: train.completions: {run.train.completions} is not a multiple of group_size {run.group_size}"
        )
    prompts = run.train.completions // run.group_size
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    lora = run.model.lora
    if start is None or lora is None:
        model, tokenizer = load(start or model_folder)
    else:
        model, tokenizer = load(model_folder, adapter=start, trainable=True)
    remembered = memory.load(state / "memory", device) if state else memory.start(run.algorithm, len(problems))
    trainer = ComposedTrainer(
        algorithm=run.algorithm,
        seed=run.seed,
        memory=remembered,
        skip=skips(run),
        model=model,
        args=config(run, work / "trainer", device, processes),
        reward_funcs=[correct, penalty],
        # one rollout is one epoch over P placeholders: the rollout draws the problems itself
        train_dataset=Dataset.from_dict({"prompt": [""] * prompts}),
        processing_class=tokenizer,
        peft_config=lora_config(lora) if lora and start is None else None,
    )
    trainer.remove_callback(PrinterCallback)
    rollout = Rollout(
        algorithm=run.algorithm,
        engine=Transformers(trainer.model, tokenizer),
        tokenizer=tokenizer,
        problems=spoken(run.model, tokenizer, problems),
        grader=grader,
        sampling=sampling(run, tokenizer),
        seed=run.seed,
        prompts=prompts,
        group_size=run.group_size,
    )
    records = Records(run.group_size, run.train.words)
    if state:
        frames = [tables.read(tables.METRICS, state / f"{name}.parquet") for name in ("metrics", "timing")]
        records.restore(*frames, json.loads((state / "totals.json").read_text()))
    trainer.attach(rollout, records, run.train.diagnostics)
    return trainer


def skips(run: Run) -> bool:
    """Whether rows without advantage are left out of the update.  Raises TrainError where that was asked for
    and is not exact."""
    why = run.algorithm.may_skip()
    if run.train.skip_zero_advantage is True and why:
        raise TrainError(f"{run.name}: train.skip_zero_advantage: true: {why}")
    return run.train.skip_zero_advantage is not False and why is None


def sampling(run: Run, tokenizer: PreTrainedTokenizerBase) -> Sampling:
    """How completions are drawn in training.  Raises PromptError on a stop that is not one token."""
    train, stops = run.train, stop_token_ids(run.model, tokenizer)
    return Sampling(train.max_tokens, train.temperature, train.top_p, train.top_k, stops)


def newest(work: Path) -> Path | None:
    """The resumable state with the most steps, None if there is none."""
    states = [path for path in work.glob("state-*") if path.name.removeprefix("state-").isdigit()]
    return max(states, key=lambda path: int(path.name.removeprefix("state-")), default=None)


def stack(trainer: ComposedTrainer, device: str) -> dict[str, Any]:
    """What the bits of a result depend on beside its spec."""
    return {
        **{package: version(package) for package in PACKAGES},
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "world_size": trainer.accelerator.num_processes,
        "engine": trainer.rollout.engine.name if trainer.rollout else None,
    }


def _publish(
    run: Run, trainer: ComposedTrainer, out: Path, spec: dict, stopped: dict | None, held: lease.Lease
) -> None:
    """Tables and spec, then the completion record with digests of what was published."""
    metrics, timing = trainer.records.frames()
    held.check()
    tables.write(tables.METRICS, metrics, out / "metrics.parquet")
    tables.write(tables.METRICS, timing, out / "timing.parquet")
    _write_json(out / "spec.json", spec)
    weights = sorted((out / "checkpoints").glob("*/*.safetensors"))
    record = {
        "run": run.name,
        "steps": trainer.state.global_step,
        "stopped": stopped,
        "checkpoints": list(run.train.checkpoints),
        "lineage": run.lineage,
        "sha256": {str(path.relative_to(out)): file_digest(path) for path in [*weights, out / "metrics.parquet"]},
    }
    _write_json(out / RECORD, record)


def _write_json(path: Path, content: dict) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    os.replace(new, path)


@contextmanager
def _terminating(watch: Watch) -> Iterator[None]:
    """While inside, SIGTERM is noted instead of ending the process; the training stops at the next rollout."""

    def note(number: int, frame: object) -> None:
        watch.terminated = True

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
