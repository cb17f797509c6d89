"""What happens between optimizer steps: publishing, resumable states, time-keeping."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from seedwise import tables
from seedwise.trainer import memory

if TYPE_CHECKING:
    from seedwise.study import Run
    from seedwise.trainer.adapter import ComposedTrainer
    from seedwise.trainer.lease import Lease


class Watch(TrainerCallback):
    """Publishes checkpoints, saves states, keeps time, notes SIGTERM."""

    def __init__(self, trainer: ComposedTrainer, run: Run, out: Path, work: Path, held: Lease | None) -> None:
        self.trainer, self.run, self.out, self.work, self.held = trainer, run, out, work, held
        self.terminated = False
        self._began = 0.0

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the clock of an optimizer step."""
        self._began = time.perf_counter()
        self.trainer.rollout.seconds = {}

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Stop the clock, publish what is due, and ask for a state where a rollout ends."""
        step, train = state.global_step, self.run.train
        seconds = {"step_seconds": time.perf_counter() - self._began, **self.trainer.rollout.seconds}
        self.trainer.records.time(step, seconds)
        if step % 10 == 0:
            print(f"{self.run.name}: step {step} of {train.steps}, {seconds['step_seconds']:.2f} s", flush=True)
        if self.held is not None:
            self.held.check()
        if step in train.checkpoints:
            self.publish(step)
        between_rollouts = step % (train.updates_per_rollout * train.iterations) == 0
        if step == train.steps:
            control.should_save = train.keep_state
        elif between_rollouts:
            self.terminated = self._any_terminated()
            control.should_save = self.terminated or step % train.save_every == 0
            control.should_training_stop = control.should_training_stop or self.terminated

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Complete the folder transformers has just written and make it the state to go on from."""
        if self.held is None:
            return
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        (folder / "training_args.bin").unlink()  # pickled, and never read
        memory.save(self.trainer.memory, folder / "memory")
        for name, frame in zip(("metrics", "timing"), self.trainer.records.frames(), strict=True):
            tables.write(tables.METRICS, frame, folder / f"{name}.parquet")
        (folder / "totals.json").write_text(json.dumps(self.trainer.records.totals) + "\n")
        older = list(self.work.glob("state-*"))
        self.held.check()
        replace(folder, self.work / f"state-{state.global_step}")
        for path in older:
            if path.name != f"state-{state.global_step}":
                shutil.rmtree(path)

    def _any_terminated(self) -> bool:
        """Whether any process was told to stop: all must stop at the same step, wherever the signal caught them."""
        noted = torch.tensor(int(self.terminated), device=self.trainer.accelerator.device)
        return bool(self.trainer.accelerator.reduce(noted))

    def publish(self, step: int) -> None:
        """Put the present weights, tokenizer and memory of the parts under checkpoints/<step>/, by rename."""
        target = self.out / "checkpoints" / str(step)
        new = target.with_name(f".{step}.new")
        if self.held is not None:
            shutil.rmtree(new, ignore_errors=True)
        self.trainer.accelerator.wait_for_everyone()
        self.trainer.save_model(str(new))  # on every process: sharded weights are gathered
        if self.held is not None:
            (new / "training_args.bin").unlink()
            memory.save(self.trainer.memory, new / "memory")
            self.held.check()
            replace(new, target)

    def publish_rest(self) -> None:
        """A run that diverged counts with the weights at its stop: publish them for the steps it did not reach."""
        for step in self.run.train.checkpoints:
            if step > self.trainer.state.global_step:
                self.publish(step)


def replace(new: Path, target: Path) -> None:
    """Put a finished folder in place of whatever an interrupted attempt left there."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)
