"""Stock TRL and ours, built alike: the same weights, settings, problems and grader; and what a call costs.

Dimension key:  P prompts, G samples of one prompt, B rows, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import pandas as pd
import torch
from datasets import Dataset
from torch import Generator, Tensor
from torch.profiler import ProfilerActivity, profile
from transformers import PreTrainedTokenizerBase, PrinterCallback, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import shuffle_sequence_dict, split_tensor_dict

from seedwise.algos import presets
from seedwise.algos.algorithm import Algorithm
from seedwise.algos.views import GroupView
from seedwise.grading.pool import Grader, Item
from seedwise.models import embedded
from seedwise.models.load import load
from seedwise.study import Grading, ModelSpec, Run, Train
from seedwise.trainer.adapter import ComposedTrainer
from seedwise.trainer.run import build
from seedwise.trainer.settings import settings

PROMPT, G = 14, 8
SPECIAL = 3
"""Token ids below this are padding, end and unknown."""

Batch = dict[str, Any]


@dataclass(frozen=True)
class Cost:
    """Of a call: seconds that pass, and CPU seconds of this process."""

    wall: float
    cpu: float


def turns(*calls: Callable[[], object], times: int) -> list[list[Cost]]:
    """What each call costs, ``times`` over; they take turns, and the first turn does not count."""
    taken: list[list[Cost]] = [[] for _ in calls]
    for _ in range(times + 1):
        for call, costs in zip(calls, taken, strict=True):
            wall, cpu = perf_counter(), process_time()
            call()
            costs.append(Cost(perf_counter() - wall, process_time() - cpu))
    return [costs[1:] for costs in taken]


def seconds(costs: Sequence[Cost]) -> float:
    """Median seconds that pass."""
    return median(cost.wall for cost in costs)


def ratio(ours: Sequence[Cost], stock: Sequence[Cost]) -> float:
    """Median of ours over median of stock, seconds that pass."""
    return seconds(ours) / seconds(stock)


def cpu_ratio(ours: Sequence[Cost], stock: Sequence[Cost]) -> float:
    """The same of CPU seconds, on which other programs of the machine have less influence."""
    return median(cost.cpu for cost in ours) / median(cost.cpu for cost in stock)


def peak_bytes(call: Callable[[], object]) -> int:
    """The most bytes of tensors that a call held at once beyond those it found."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        call()
    assert profiled.profiler is not None and profiled.profiler.kineto_results is not None
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def gemm_rate() -> float:
    """Floating-point operations per second of one thread in a matrix product of the embedded model's shapes."""
    one, other = torch.randn(2048, 128), torch.randn(128, 384)
    (costs,) = turns(lambda: [one @ other for _ in range(20)], times=5)
    return 20 * 2 * 2048 * 128 * 384 / seconds(costs)


def save_model(folder: Path, *, hidden: int, layers: int, vocabulary: int, positions: int) -> Path:
    """A Qwen3 of random weights, with the embedded model's tokenizer."""
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        num_key_value_heads=hidden // 64,
        head_dim=32,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    torch.manual_seed(0)
    Qwen3ForCausalLM(config).save_pretrained(folder)
    embedded.tokenizer().save_pretrained(folder)
    return folder


def run_of(algorithm: Algorithm, *, completions: int, micro_batch: int, max_tokens: int, steps: int = 1) -> Run:
    """A run whose rate is so small that weights stay: every step is then as long as any other."""
    train = Train(
        steps=steps, completions=completions, micro_batch=micro_batch, max_tokens=max_tokens, lr=1e-9,
        checkpoints=(steps,),
    )  # fmt: skip
    return Run(
        name="bench.s0-00000000", method="bench", model_name="bench", model=ModelSpec(kind="embedded"),
        algorithm=algorithm, group_size=G, seed=0, setting=f"G{G}", axes={}, train=train, grading=Grading(),
        data="sums-00000000", base="bench-00000000",
    )  # fmt: skip


def ours(run: Run, folder: Path, problems: pd.DataFrame, grader: Grader) -> ComposedTrainer:
    """A training as ``seedwise train`` builds it."""
    return build(run, folder, problems, grader, folder / "scratch", "cpu", None)


def stock(run: Run, folder: Path, problems: pd.DataFrame, grader: Grader) -> GRPOTrainer:
    """Stock TRL with clip-higher (DAPO's loss and bounds), its own generation, and our grader for its reward."""
    records = problems.to_dict("records")

    def reward(completions: list[str], place: list[int], **_: Any) -> list[float]:
        items = [Item.of(records[at], text) for at, text in zip(place, completions, strict=True)]
        return [verdict.credit for verdict in grader.grade(items)]

    given = {
        **settings(run, folder / "scratch", "cpu", 1),
        "epsilon_high": 0.28,
        "scale_rewards": "group",
        "reward_weights": None,
    }
    model, tokenizer = load(folder)
    trainer = GRPOTrainer(
        model=model,
        args=GRPOConfig(**given),
        reward_funcs=[reward],
        train_dataset=Dataset.from_dict({"prompt": problems["prompt"].tolist(), "place": [*range(len(problems))]}),
        processing_class=tokenizer,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def rollout(P: int, T: int, vocabulary: int, rng: Generator) -> Batch:
    """P groups of random responses of up to T tokens, half as long in the middle, with QAE's advantages at K = 0.4.

    Groups have 3, 4, .. 7, 0, 1, 2, 3 .. correct responses in turn: over 8 groups one response in four has an
    advantage.
    """
    B = P * G
    length_B = (torch.randn(B, generator=rng) * 0.5).exp().mul(T / 2).round().clamp(4, T).long()
    length_B[0] = T
    mask_BT = (torch.arange(T) < length_B[:, None]).long()
    start_B = torch.randint(PROMPT - 6, generator=rng, size=(B,))
    prompt_mask = (torch.arange(PROMPT) >= start_B[:, None]).long()
    correct_PG = (torch.rand(P, G, generator=rng).argsort(1) < (torch.arange(P)[:, None] + 3) % G).float()
    adv_B = advantages(presets.qae(K=0.4), correct_PG)
    ids = [torch.randint(SPECIAL, vocabulary, (B, width), generator=rng) for width in (PROMPT, T)]
    return {
        "prompt_ids": ids[0] * prompt_mask,
        "prompt_mask": prompt_mask,
        "completion_ids": ids[1] * mask_BT,
        "completion_mask": mask_BT,
        "advantages": adv_B[:, None] * mask_BT,
        "num_items_in_batch": mask_BT.sum(),
    }


def advantages(algorithm: Algorithm, correct_PG: Tensor) -> Tensor:
    """Of all responses, ``[B]``."""
    zeros_PG = torch.zeros_like(correct_PG)
    view = GroupView(correct_PG, correct_PG, zeros_PG, zeros_PG, torch.arange(len(correct_PG)), 0, 1)
    return algorithm.advantages(view, algorithm.start(), Generator().manual_seed(0)).flatten().float()


def micro_batches(batch: Batch, rows: int) -> list[Batch]:
    """As TRL divides a rollout."""
    torch.manual_seed(0)
    return split_tensor_dict(shuffle_sequence_dict(batch), len(batch["advantages"]) // rows)


def update(trainer: GRPOTrainer, parts: Sequence[Batch]) -> None:
    """Forward and backward of all micro-batches of an optimizer step, into fresh gradients."""
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = len(parts)
    trainer.model.zero_grad(set_to_none=True)
    for part in parts:
        trainer._compute_loss(trainer.model, part).backward()


def parameters(model: torch.nn.Module) -> int:
    """Weights of matrices, which cost a multiplication and an addition per token."""
    return sum(weight.numel() for weight in model.parameters() if weight.dim() > 1)


def tokenized(tokenizer: PreTrainedTokenizerBase, problems: pd.DataFrame) -> list[list[int]]:
    """Token ids of every prompt."""
    return tokenizer(problems["prompt"].tolist())["input_ids"]
