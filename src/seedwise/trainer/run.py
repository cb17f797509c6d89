"""One training, from a model folder and a table of problems to published checkpoints.

The story, top to bottom: take the run (lease), take a device, load the model, train, publish.

Work happens in ``work``: every ``save_every`` steps, and on SIGTERM or SIGUSR1, a resumable state is saved there
at the end of a rollout (in the middle of one TRL cannot resume exactly).  A killed training goes on from the
newest whole state and ends with the same bits on a CPU as one that was never interrupted, since every random
number is derived from the seed and the step.  Results appear in ``out`` by rename, ``trained.json`` last.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import nullcontext
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
from seedwise.models.sizes import Size, size
from seedwise.trainer import lease, lineage, memory, published, states
from seedwise.trainer.adapter import ComposedTrainer, Diverged, config
from seedwise.trainer.published import RECORD
from seedwise.trainer.records import Records
from seedwise.trainer.rollout import Rollout, correct, penalty
from seedwise.trainer.watch import REWARDS, GivenUp, Watch, listening

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase

    from seedwise.study import Run
    from seedwise.trainer.live import Live

PACKAGES = ("torch", "trl", "transformers", "peft", "accelerate", "numpy")


class TrainError(ValueError):
    """A training that cannot be run as asked: one line with the key, its value and the remedy."""


class Interrupted(RuntimeError):
    """SIGTERM or SIGUSR1 came; the state is saved and the same command goes on from it."""


def train(
    run: Run,
    *,
    model_folder: Path,
    problems: pd.DataFrame,
    out: Path,
    work: Path,
    spec: dict,
    workers: int = 1,
    give_up: str | None = None,
    live: Live | None = None,
) -> None:
    """Train one run and publish it under ``out``; a run that is published already is left alone.

    problems: rows of PROBLEMS.  out: checkpoints/<step>/, metrics.parquet, timing.parquet, spec.json, state/ (of the
    last step, where the run keeps it) and, last, trained.json; the folders beside it are other runs, which this one
    may start from or go on from.  work: resumable states; removed after publishing.  spec: written to spec.json
    with the stack beside it; of ``reward_code``, the grader's, the list of all that gave rewards up to there.
    workers: grading processes.  give_up: why it takes no further step: it counts as stopped with the weights of its
    last state, or those it started from.  live: told of every step as it ends.
    Raises TrainError, LeaseError (another writer), BatchError, OriginError, SamplerError, Interrupted (told to stop,
    state saved).
    """
    if _published(out):
        return
    check_launch(os.environ)
    torch.set_num_threads(1)
    main = os.environ.get("RANK", "0") == "0"  # of a distributed launch; the others write nothing
    with (
        lease.hold(work) if main else nullcontext() as held,
        lease.device() as device,
        Grader(workers, run.grading.time_limit_s, run.grading.memory_mb) as grader,
    ):
        if held is not None and _published(out):  # by the writer before, between our look and our lease
            shutil.rmtree(work)
            return
        state, other, scratch = _beginning(run, out, work, held)
        if other is not None and held is not None:
            print(f"{run.name}: goes on from {other.name}, which has the same beginning", flush=True)
            lineage.adopt(run, other, out)
        start = lineage.origin(run, out.parent)
        trainer = build(run, model_folder, problems, grader, scratch, device, state, start)
        graders = _graders(state, spec.get("reward_code", {}))
        watch = Watch(trainer, run, out, work, held, give_up, graders)
        trainer.add_callback(watch)
        if live is not None and held is not None:
            trainer.add_callback(live.of(trainer.records))
        stopped = None
        with listening(watch):
            try:
                trainer.train(resume_from_checkpoint=str(state) if state else None)
            except (Diverged, GivenUp) as error:
                stopped = {"step": trainer.state.global_step, "reason": str(error)}
                watch.publish_rest()
        if watch.terminated and trainer.state.global_step < run.train.steps and stopped is None:
            step = trainer.state.global_step
            raise Interrupted(f"{run.name}: told to stop after step {step}, state saved: start it again to go on")
        if held is not None:
            last = work / f"state-{run.train.steps}"
            if last.is_dir():
                held.check()
                lineage.keep(last, out)
            spec = {**spec, "reward_code": graders, "stack": stack(trainer, device)}
            _publish(run, trainer, out, spec, stopped, held)
            shutil.rmtree(work)


def check_launch(environment: Mapping[str, str]) -> None:
    """Raise TrainError where ``accelerate launch`` would shard the weights.

    Every process draws completions from the weights it trains, as many tokens as its own take; sharded weights are
    gathered by all processes at once, which then wait for each other for ever.
    """
    remedy = "launch with config/accelerate/ddp.yaml or deepspeed_zero2.yaml"
    if environment.get("ACCELERATE_USE_FSDP", "false").lower() == "true":
        raise TrainError(f"distributed_type: FSDP: completions cannot be drawn from sharded weights: {remedy}")
    stage = environment.get("ACCELERATE_DEEPSPEED_ZERO_STAGE")
    if stage == "3":
        raise TrainError(f"zero_stage: {stage}: completions cannot be drawn from sharded weights: {remedy}")


def _published(out: Path) -> bool:
    """Whether the run is finished; says so."""
    if there := (out / RECORD).exists() or published.restored(out):
        print(f"{out / RECORD}: published already, nothing to do", flush=True)
    return there


def _beginning(run: Run, out: Path, work: Path, held: lease.Lease | None) -> tuple[Path | None, Path | None, Path]:
    """The state to go on from (None: there is none), the shorter run it belongs to if it is not our own, and where
    this writer's new states are written."""
    state = other = None
    scratch = states.scratch(work, held.owner.fence if held else 0)
    if held is not None:
        state = states.newest(work, out / "checkpoints", run.train.checkpoints)
        if state is None and (other := lineage.shorter(run, out.parent)) is not None:
            state = other / lineage.STATE
        for left in work.glob("scratch-*"):  # of writers before, killed while they wrote
            shutil.rmtree(left)
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return state, other, scratch
    PartialState()  # starts the process group: all processes go on from what the first one saw
    return tuple(broadcast_object_list([state, other, scratch]))


def _graders(state: Path | None, code: Mapping[str, str]) -> list[Mapping[str, str]]:
    """The codes of the grader that give a training its rewards: those before ``state``, then the present one."""
    earlier = json.loads((state / REWARDS).read_text()) if state and (state / REWARDS).exists() else []
    return [*(other for other in earlier if other != code), code]


def build(
    run: Run,
    model_folder: Path,
    problems: pd.DataFrame,
    grader: Grader,
    scratch: Path,
    device: str,
    state: Path | None,
    start: Path | None = None,
) -> ComposedTrainer:
    """The trainer of a run with its rollout and records attached, as of ``state`` (None: from the start).

    scratch: where transformers writes new states.
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
        max_skipped=run.train.max_skipped,
        model=model,
        args=config(run, scratch, device, processes),
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
    weights = float(sum(weight.numel() for weight in model.parameters()))
    own = size(run.model) or Size(weights, weights)
    records = Records(run.group_size, run.train.words, size=own, adapter=lora is not None)
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
    weights = sorted((out / "checkpoints").glob("*/*.safetensors"))
    record = {
        "run": run.name,
        "steps": trainer.state.global_step,
        "stopped": stopped,
        "checkpoints": list(run.train.checkpoints),
        "lineage": run.lineage,
        "sha256": {str(path.relative_to(out)): file_digest(path) for path in weights},
    }
    with held.publishing():
        published.complete(out, trainer.records.frames(), spec, record)
