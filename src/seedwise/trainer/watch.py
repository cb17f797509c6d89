"""What happens between optimizer steps: publishing, resumable states, time-keeping, the wish to stop."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from seedwise import tables
from seedwise.trainer import memory, states
from seedwise.trainer.lease import LeaseError
from seedwise.trainer.meter import Meter

if TYPE_CHECKING:
    from seedwise.study import Run
    from seedwise.trainer.adapter import ComposedTrainer
    from seedwise.trainer.lease import Lease

REWARDS = "rewards.json"  # in a state: the codes of the grader so far
STOPS = (signal.SIGTERM, signal.SIGUSR1)  # the second is what Slurm sends ahead of a time limit: --signal=USR1@300


class GivenUp(RuntimeError):
    """The run was told to take no further step and to count with the weights it has."""


class Watch(TrainerCallback):
    """Publishes checkpoints, saves states, keeps time, notes SIGTERM and SIGUSR1.

    held: the right to write the run; None in the processes of a distributed training that write nothing.
    give_up: why the run takes no step at all; None: it trains.
    graders: the codes of the grader that give the rewards, noted in every state.
    """

    def __init__(
        self,
        trainer: ComposedTrainer,
        run: Run,
        out: Path,
        work: Path,
        held: Lease | None,
        give_up: str | None = None,
        graders: Sequence[Mapping[str, str]] = (),
    ) -> None:
        self.trainer, self.run, self.out, self.work, self.held = trainer, run, out, work, held
        self.give_up, self.graders = give_up, graders
        self.terminated = False
        self._began = 0.0
        self._meter = Meter(trainer.accelerator.device.type)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Raise GivenUp where the run takes no further step; its state has been read."""
        if self.give_up is not None:
            raise GivenUp(self.give_up)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the clock of an optimizer step."""
        self._began = time.perf_counter()
        self._meter.begin()
        self.trainer.rollout.seconds = {}

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Stop the clock, publish what is due, and ask for a state where a rollout ends."""
        step, train = state.global_step, self.run.train
        seconds = {"step_seconds": time.perf_counter() - self._began, **self.trainer.rollout.seconds}
        self.trainer.records.time(step, {name: (value, None) for name, value in seconds.items()} | self._meter.read())
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
        (folder / REWARDS).write_text(json.dumps(list(self.graders)) + "\n")
        states.seal(folder)
        with self.held.publishing():
            states.replace(folder, self.work / f"state-{state.global_step}")
        states.forget(self.work, but=state.global_step)

    def _any_terminated(self) -> bool:
        """Whether any process was told to stop: all must stop at the same step, wherever the signal caught them."""
        noted = torch.tensor(int(self.terminated), device=self.trainer.accelerator.device)
        return bool(self.trainer.accelerator.reduce(noted))

    def publish(self, step: int) -> None:
        """Put the present weights, tokenizer and memory of the parts under checkpoints/<step>/, by rename."""
        target = self.out / "checkpoints" / str(step)
        new = target.with_name(f".{step}.new-{Path(self.trainer.args.output_dir).name}")
        if self.held is not None:
            for left in target.parent.glob(f".{step}.new*"):  # by a writer that was killed here
                shutil.rmtree(left)
        self.trainer.accelerator.wait_for_everyone()
        self.trainer.save_model(str(new))  # on every process: sharded weights are gathered
        if self.held is not None:
            (new / "training_args.bin").unlink()
            memory.save(self.trainer.memory, new / "memory")
            states.flush(new)
            try:
                with self.held.publishing():
                    states.replace(new, target)
            except LeaseError:
                shutil.rmtree(new)  # the run is another writer's, who has weights of his own
                raise

    def publish_rest(self) -> None:
        """A run that stopped counts with the weights at its stop: publish them for the steps it did not reach."""
        for step in self.run.train.checkpoints:
            if step > self.trainer.state.global_step:
                self.publish(step)


@contextmanager
def listening(watch: Watch) -> Iterator[None]:
    """While inside, SIGTERM and SIGUSR1 are noted instead of ending the process: the training stops at the next
    rollout, with its state saved."""

    def note(number: int, frame: object) -> None:
        watch.terminated = True

    before = {number: signal.signal(number, note) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
