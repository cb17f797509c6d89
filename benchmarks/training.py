"""Training and sampling side by side with stock TRL 1.16.0, in one process, on the same weights; stock TRL is 1.

``update_phase.qae_ratio``: loss and gradients of one rollout under QAE at K = 0.4, rows without advantage skipped
(``active_share`` of them has one), over those of stock TRL, whose loss has no such rows to skip.  Same batch, same
advantages; ``gradient_difference`` is the largest one, relative to the largest gradient.
``update_phase.floor_ratio``: tokens of active rows over tokens that stock TRL pads them to: the least that skipping
and ordering could leave.
``whole_step.clip_higher_ratio``: a whole step of the embedded model (generation, grading, scoring, update), over
stock TRL's with the same grader; ``whole_step.qae_ratio`` beside it.  ``..._without_entropy``: the engine measures no
entropies.  ``whole_step.<method>_floor_seconds``: 2 x weights operations per generated token and 6 per trained one,
without padding, at the rate of one large matrix product on this machine.
``sampling.ratio``: tokens per second of our engine over those of ``generate`` with the same model;
``sampling.evaluation_ratio``: of an evaluation over the bare engine.
``growth.<axis>_<value>``: seconds and peak bytes of tensors of an update, ours under QAE beside stock TRL.
``..._cpu_ratio``: of CPU seconds of this process, for a machine that is not idle.

    python -m benchmarks.training

fills the tables of docs/skipping.md too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from time import perf_counter, process_time
from typing import Any

import pandas as pd
import torch
from torch import Generator
from transformers import TrainerCallback
from trl import GRPOTrainer

from benchmarks import trainers
from benchmarks.calibration import written
from benchmarks.growth import Found, both, growth
from benchmarks.record import record
from benchmarks.tables import tables
from benchmarks.trainers import Cost, G, cpu_ratio, peak_bytes, ratio, seconds, turns
from seedwise.algos import presets
from seedwise.engines.base import Completion, Sampling
from seedwise.engines.drawing import draw
from seedwise.engines.transformers import Transformers
from seedwise.evals.samples import sample
from seedwise.grading.pool import Grader
from seedwise.identity import stream
from seedwise.models.load import export, load
from seedwise.study import ModelSpec
from seedwise.tasks import ReasoningGym, problems
from seedwise.trainer.adapter import ComposedTrainer
from seedwise.trainer.batch import arranged

EMBEDDED = ModelSpec(kind="embedded", template="{compact}=")
ROWS, MICRO, STEPS, ROUNDS = 64, 16, 4, 3
DOCUMENT, MARKER = Path(__file__).parents[1] / "docs" / "skipping.md", "<!-- training -->"


def sums() -> pd.DataFrame:
    """The default study's training problems."""
    task = ReasoningGym.model_validate(
        {
            "task": "reasoning_gym", "name": "chain_sum", "size": 400, "seed": 1, "verifier": "math_verify",
            "answer": {"rule": "marker", "marker": "#"},
            "params": {"min_terms": 4, "max_terms": 6, "min_digits": 1, "max_digits": 1, "allow_negation": False},
        }
    )  # fmt: skip
    return pd.DataFrame(problems(task, EMBEDDED.template))


# ---------------------------------------------------------------- update phase


def update_phase(folder: Path, asked: pd.DataFrame, grader: Grader) -> Found:
    """Of a Qwen3 of 2.4 million weights: 64 responses of up to 96 tokens in micro-batches of 16."""
    T = 96
    trainers.save_model(folder, hidden=256, layers=3, vocabulary=58, positions=T + trainers.PROMPT)
    stock, ours = both(folder, asked, grader, MICRO, ROWS, T)
    batch = trainers.rollout(ROWS // G, T, 58, Generator().manual_seed(1))
    parts = trainers.micro_batches(batch, MICRO)
    ordered = arranged(parts, skip=True)
    theirs, own, unordered = turns(
        lambda: trainers.update(stock, parts),
        lambda: trainers.update(ours, ordered),
        lambda: trainers.update(ours, parts),
        times=5,
    )
    active_B = (batch["advantages"] != 0).any(1)
    tokens_B = batch["prompt_mask"].sum(1) + batch["completion_mask"].sum(1)
    return {
        "update_phase.qae_ratio": ratio(own, theirs),
        "update_phase.qae_cpu_ratio": cpu_ratio(own, theirs),
        "update_phase.unordered_qae_ratio": ratio(unordered, theirs),
        "update_phase.unordered_qae_cpu_ratio": cpu_ratio(unordered, theirs),
        "update_phase.active_share": active_B.float().mean().item(),
        "update_phase.floor_ratio": tokens_B[active_B].sum().item() / (ROWS * (T + trainers.PROMPT)),
        "update_phase.gradient_difference": gradient_difference(stock, ours, parts, ordered),
        "update_phase.stock_seconds": seconds(theirs),
        "update_phase.stock_peak_mb": peak_bytes(lambda: trainers.update(stock, parts)) / 1e6,
        "update_phase.qae_peak_mb": peak_bytes(lambda: trainers.update(ours, ordered)) / 1e6,
    }


def gradient_difference(
    stock: GRPOTrainer, ours: ComposedTrainer, parts: Sequence[Any], ordered: Sequence[Any]
) -> float:
    """The largest difference of a gradient over the largest gradient."""
    trainers.update(stock, parts)
    trainers.update(ours, ordered)
    weights = zip(stock.model.parameters(), ours.model.parameters(), strict=True)
    pairs = [(one.grad, other.grad) for one, other in weights]
    scale = max(one.abs().max().item() for one, _ in pairs)
    return max((one - other).abs().max().item() for one, other in pairs) / scale


# ---------------------------------------------------------------- whole step


class Clock(TrainerCallback):
    """What each optimizer step of a training costs, from the end of the one before; the first is not counted."""

    def __init__(self) -> None:
        self.costs: list[Cost] = []
        self._last: Cost | None = None

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """Forget the training before."""
        self._last = None

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        """Note a step."""
        now = Cost(perf_counter(), process_time())
        if self._last is not None:
            self.costs.append(Cost(now.wall - self._last.wall, now.cpu - self._last.cpu))
        self._last = now


class Silent:
    """An engine that measures no entropies."""

    def __init__(self, engine: Transformers) -> None:
        self.engine, self.name = engine, engine.name

    def generate(self, *args: Any, entropy: bool = False, **kwargs: Any) -> list[list[Completion]]:
        """As the engine does."""
        return self.engine.generate(*args, **kwargs)


def whole_step(folder: Path, asked: pd.DataFrame, grader: Grader) -> Found:
    """Of the embedded model: 64 responses of up to 64 tokens, as in the default study, micro-batches of 16."""
    made = {
        name: trainers.run_of(algorithm, completions=ROWS, micro_batch=MICRO, max_tokens=64, steps=STEPS + 1)
        for name, algorithm in (("clip_higher", presets.clip_higher()), ("qae", presets.qae(K=0.4)))
    }
    own = {f"{name}{how}": trainers.ours(run, folder, asked, grader) for name, run in made.items() for how in ENTROPY}
    for name, trainer in own.items():
        if name.endswith(ENTROPY[1]):
            trainer.rollout.engine = Silent(trainer.rollout.engine)
    everyone = {"stock": trainers.stock(made["qae"], folder, asked, grader), **own}
    clocks = {name: Clock() for name in everyone}
    for turn in range(ROUNDS + 1):
        for name, trainer in everyone.items():
            if turn == 1:
                trainer.add_callback(clocks[name])
            trainer.train()
    costs = {name: clock.costs for name, clock in clocks.items()}
    logged = [
        median(one.cpu for one in costs[name]) / median(one.cpu for one in costs[f"{name}{ENTROPY[1]}"]) - 1
        for name in made
    ]
    return {
        **{f"whole_step.{name}_ratio": ratio(costs[name], costs["stock"]) for name in own},
        **{f"whole_step.{name}_cpu_ratio": cpu_ratio(costs[name], costs["stock"]) for name in own},
        **{f"whole_step.{name}_seconds": seconds(costs[name]) for name in ("stock", *made)},
        **{f"whole_step.{name}_floor_seconds": floor(own[name]) for name in made},
        "whole_step.entropy_cpu_share": fmean(logged),
    }


ENTROPY = ("", "_without_entropy")


def floor(trainer: ComposedTrainer) -> float:
    """Seconds of a mean step without padding or overhead: 2 operations per weight and token forward, 4 backward."""
    metrics = pd.DataFrame(trainer.records.metrics).groupby("name").value.mean()
    prompts = fmean(map(len, trainer.rollout.prompt_ids))
    active = ROWS * (1 - metrics["zero_advantage_share"])
    trained = metrics["trained_tokens"] + active * prompts
    drawn = metrics["generated_tokens"] + ROWS / G * prompts
    return trainers.parameters(trainer.model) * (2 * drawn + 6 * trained) / trainers.gemm_rate()


# ---------------------------------------------------------------- sampling


def sampling(folder: Path, asked: pd.DataFrame) -> Found:
    """Of the embedded model: 16 problems x 16 samples of up to 64 tokens."""
    model, tokenizer = load(folder)
    model.eval()
    some, n, settings = asked.head(16), 16, Sampling(64, stop_token_ids=(tokenizer.eos_token_id,))
    prompts, engine = trainers.tokenized(tokenizer, some), Transformers(model, tokenizer)
    seeds = [stream("bench", at) for at in range(len(some) * n)]
    counted: list[list[int]] = [[], [], [], []]
    padded = tokenizer([prompt for prompt in some["prompt"] for _ in range(n)], return_tensors="pt", padding=True)
    given = {key: padded[key] for key in ("input_ids", "attention_mask")}

    def generate() -> None:
        torch.manual_seed(len(counted[0]))
        ids_BT = model.generate(**given, do_sample=True, max_new_tokens=64, top_k=0, top_p=1.0, temperature=1.0)
        ended_BT = (ids_BT[:, given["input_ids"].shape[1] :] == tokenizer.eos_token_id).cumsum(1)
        counted[0].append(int((ended_BT.cumsum(1) <= 1).sum()))

    def ours(at: int, *, entropy: bool) -> None:
        drawn = engine.generate(prompts, n, settings, seeds, entropy=entropy)
        counted[at].append(sum(len(completion.ids) for group in drawn for completion in group))

    def evaluate() -> None:
        rows = sample(
            engine, tokenizer, some, run="bench", step=0, benchmark="same", n=n, sampling=settings
        )  # fmt: skip
        counted[3].append(int(rows["tokens"].sum()))

    taken = turns(generate, lambda: ours(1, entropy=False), lambda: ours(2, entropy=True), evaluate, times=5)
    generated, bare, measured, evaluation = (
        median(count / cost.wall for count, cost in zip(counts[1:], costs, strict=True))
        for counts, costs in zip(counted, taken, strict=True)
    )
    logits_BV = torch.randn(64, 150_000)
    noise_B = torch.rand(64, dtype=torch.float64)
    drawing = peak_bytes(lambda: draw(logits_BV, noise_B, settings, entropy=True))
    return {
        "sampling.generate_tokens_per_second": generated,
        "sampling.ours_tokens_per_second": bare,
        "sampling.ratio": bare / generated,
        "sampling.with_entropy_ratio": measured / generated,
        "sampling.evaluation_ratio": evaluation / bare,
        "sampling.drawing_peak_over_logits": drawing / (4 * logits_BV.numel()),
    }


# ---------------------------------------------------------------- all


def measure() -> Mapping[str, float]:
    """Everything."""
    torch.set_num_threads(1)
    asked = sums()
    with tempfile.TemporaryDirectory() as root, Grader() as grader:
        folder = Path(root, "embedded")
        export(EMBEDDED, folder)
        return {
            **update_phase(Path(root, "larger"), asked, grader),
            **whole_step(folder, asked, grader),
            **sampling(folder, asked),
            **growth(Path(root), asked, grader),
        }


def main() -> None:
    """Measure, print, add to results.json, and put the tables into the document."""
    record(measure())
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8"), tables(), MARKER), encoding="utf-8")


if __name__ == "__main__":
    main()
