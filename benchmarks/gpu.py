"""One machine, one device, some minutes, no download: is training right-sized here, and what does it reach?

A Qwen3 of random weights in the dimensions of Qwen3-0.6B, vocabulary of 151,936 tokens included, is trained some steps
by grpo and qae, with and without skipping rows without advantage, whole and with an adapter.  Verdicts are dealt, not
found: one response in four counts as correct, so that every case has the same share of active rows.  On a CPU a model
of a few thousand weights stands in: that says that the check runs, not how fast anything is.

    python -m benchmarks.gpu
    python -m benchmarks.gpu --device cpu --out gpu.json
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, TrainerCallback

from seedwise.algos import presets
from seedwise.algos.algorithm import Algorithm
from seedwise.grading.pool import Grader
from seedwise.grading.verify import Verdict
from seedwise.models.sizes import Size, flops
from seedwise.reruns.stated import PEAK
from seedwise.study import Grading, Lora, ModelSpec, Run, Train
from seedwise.trainer.meter import Meter
from seedwise.trainer.run import build

PROBLEMS, G = 64, 8
CORRECT = 4  # one response in so many counts as correct


@dataclass(frozen=True)
class Scale:
    """How large the check is.  dimensions: of the model.  completions: of a rollout, of at most ``max_tokens``."""

    vocabulary: int
    hidden: int
    layers: int
    mlp: int
    heads: int
    head: int
    completions: int
    max_tokens: int
    micro_batch: int
    bf16: bool


SCALES = {
    "cuda": Scale(151_936, 1024, 28, 3072, 16, 128, completions=64, max_tokens=256, micro_batch=8, bf16=True),
    "cpu": Scale(512, 32, 2, 64, 2, 16, completions=16, max_tokens=8, micro_batch=4, bf16=False),
}


@dataclass(frozen=True)
class Case:
    """What is trained.  skip: rows without advantage are left out of the update."""

    name: str
    algorithm: Algorithm
    skip: bool
    lora: bool


CASES = (
    Case("grpo, whole", presets.grpo(), skip=False, lora=False),
    Case("qae, whole, every row", presets.qae(K=0.4), skip=False, lora=False),
    Case("qae, whole, skipping", presets.qae(K=0.4), skip=True, lora=False),
    Case("grpo, adapter", presets.grpo(), skip=False, lora=True),
    Case("qae, adapter, skipping", presets.qae(K=0.4), skip=True, lora=True),
)


@dataclass(frozen=True)
class Measured:
    """Medians over steps but the first.  utilisation: of the update, of the device's peak in bf16; None where the peak
    or, on a CPU, any is unknown.  energy: joules per step, None with the reason where it is not read."""

    case: str
    parameters: int
    trained_share: float
    generated_tokens_per_s: float
    trained_tokens_per_s: float
    generation_s: float
    update_s: float
    peak_memory_bytes: float
    utilisation: float | None
    energy_joules: float | None
    energy_reason: str | None


class Dealt(Grader):
    """Verdicts by place in the rollout: the first of every four responses is correct."""

    def grade(self, items: Sequence[Any]) -> list[Verdict]:
        """A verdict for each item, whatever it says."""
        return [
            Verdict("wrong" if place % CORRECT else "correct", None, 0.0 if place % CORRECT else 1.0)
            for place, _ in enumerate(items)
        ]


class Clock(TrainerCallback):
    """Times, memory and energy of every step."""

    def __init__(self, trainer: Any) -> None:
        self.trainer, self.meter = trainer, Meter(trainer.accelerator.device.type)
        self.steps: list[dict[str, Any]] = []
        self._began = 0.0

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        """Start the clock."""
        self.trainer.rollout.seconds = {}
        self.meter.begin()
        self._began = time.perf_counter()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        """Stop it once the device has done what it was told."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        seconds = {"step_seconds": time.perf_counter() - self._began, **self.trainer.rollout.seconds}
        self.steps.append({**seconds, **self.meter.read()})


def save_model(folder: Path, scale: Scale) -> Path:
    """A Qwen3 of random weights and a tokenizer of as many words as it has tokens."""
    words = {"<pad>": 0, "<eos>": 1, "<unk>": 2} | {f"w{i}": i for i in range(3, scale.vocabulary)}
    inner = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=scale.vocabulary,
        hidden_size=scale.hidden,
        intermediate_size=scale.mlp,
        num_hidden_layers=scale.layers,
        num_attention_heads=scale.heads,
        num_key_value_heads=scale.heads // 2,
        head_dim=scale.head,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def problems() -> pd.DataFrame:
    """Prompts of 16 words; their answers are never looked at."""
    metadata = json.dumps({"answer_rule": {"rule": "box"}, "entry": {}})
    rows = [
        {
            "problem": f"p{i}", "prompt": " ".join(f"w{3 + (16 * i + j) % 500}" for j in range(16)), "answer": "0",
            "source": "dealt", "verifier": "math_verify", "difficulty": None, "metadata": metadata,
        }
        for i in range(PROBLEMS)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def run_of(case: Case, scale: Scale, steps: int) -> Run:
    """The run of a case."""
    train = Train(
        steps=steps,
        completions=scale.completions,
        micro_batch=scale.micro_batch,
        max_tokens=scale.max_tokens,
        lr=1e-6,
        checkpoints=(steps,),
        skip_zero_advantage=case.skip,
        bf16=scale.bf16,
        diagnostics=(),
        words=(),
    )
    return Run(
        name="check.s0-00000000",
        method=case.name,
        model_name="random",
        model=ModelSpec(kind="folder", path="random", lora=Lora(rank=32, alpha=64) if case.lora else None),
        algorithm=case.algorithm,
        group_size=G,
        seed=0,
        setting=f"G{G}",
        axes={},
        train=train,
        grading=Grading(),
        data="dealt-00000000",
        base="random-00000000",
    )


def measure(case: Case, scale: Scale, folder: Path, device: str, steps: int) -> Measured:
    """Train a case and say what its steps took."""
    run = run_of(case, scale, steps)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as scratch, Dealt(1) as grader:
        trainer = build(run, folder, problems(), grader, Path(scratch), device, None)
        clock = Clock(trainer)
        trainer.add_callback(clock)
        trainer.train()
    rows = pd.DataFrame(trainer.records.metrics).pivot(index="step", columns="name", values="value")
    parameters = sum(weight.numel() for weight in trainer.model.parameters())
    generated, trained = (float(rows[f"{name}_tokens"].iloc[1:].median()) for name in ("generated", "trained"))
    generation, update = (median(taken) for taken in zip(*_phases(clock.steps[1:]), strict=True))
    joules, why = clock.steps[-1]["energy_joules"]
    done = flops(Size(parameters, parameters), generated=0, trained=trained, adapter=case.lora)
    peak = peak_of(device)
    del trainer
    gc.collect()
    return Measured(
        case=case.name,
        parameters=parameters,
        trained_share=trained / generated,
        generated_tokens_per_s=generated / generation,
        trained_tokens_per_s=trained / update,
        generation_s=generation,
        update_s=update,
        peak_memory_bytes=max(step["peak_memory_bytes"][0] for step in clock.steps),
        utilisation=None if peak is None else done / update / peak,
        energy_joules=joules,
        energy_reason=why,
    )


def _phases(steps: Sequence[dict[str, Any]]) -> Iterator[tuple[float, float]]:
    """(generation, update) of each step, s: what is neither generation nor grading counts as update."""
    for step in steps:
        yield step["generation_seconds"], step["step_seconds"] - step["generation_seconds"] - step["grading_seconds"]


def peak_of(device: str) -> float | None:
    """Operations per second that the device's vendor states for bf16; None where the device is not known."""
    if device != "cuda":
        return None
    name = torch.cuda.get_device_name().lower().replace(" ", "")
    return next((rate for known, rate in PEAK.items() if known in name), None)


def lines(found: Sequence[Measured], device: str) -> Iterator[str]:
    """What was measured, for people."""
    yield f"{torch.cuda.get_device_name() if device == 'cuda' else 'CPU'}, torch {torch.__version__}"
    for each in found:
        of_peak = "-" if each.utilisation is None else f"{each.utilisation:.1%}"
        energy = "-" if each.energy_joules is None else f"{each.energy_joules:,.0f} J"
        yield (
            f"{each.case:<24} {each.parameters / 1e6:8.2f} M  generated {each.generated_tokens_per_s:10,.0f} tokens/s  "
            f"trained {each.trained_tokens_per_s:10,.0f} tokens/s ({each.trained_share:.0%})  "
            f"update {each.update_s:.3f} s  peak {each.peak_memory_bytes / 1e9:6.2f} GB  "
            f"of the peak rate {of_peak}  energy {energy}"
        )
    seconds = {each.case: each.update_s for each in found}
    for name, skipping, every in (
        ("whole", "qae, whole, skipping", "qae, whole, every row"),
        ("whole, against grpo", "qae, whole, skipping", "grpo, whole"),
        ("adapter, against grpo", "qae, adapter, skipping", "grpo, adapter"),
    ):
        yield f"update phase of qae skipping, {name}: {seconds[skipping] / seconds[every]:.2f} of the time"


def main() -> None:
    """Measure every case, print it and write it down."""
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument("--device", choices=SCALES, default="cuda" if torch.cuda.is_available() else "cpu")
    known.add_argument("--steps", type=int, default=4, help="of each case; the first does not count")
    known.add_argument("--out", type=Path, default=Path("gpu.json"))
    asked = known.parse_args()
    if asked.device == "cuda" and not torch.cuda.is_available():
        known.error("--device cuda: torch sees no GPU here: check the driver and the build of torch, or --device cpu")
    if asked.steps < 2:
        known.error(f"--steps {asked.steps}: at least 2, since the first does not count")
    scale = SCALES[asked.device]
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder), scale)
        found = [measure(case, scale, Path(folder), asked.device, asked.steps) for case in CASES]
    print("\n".join(lines(found, asked.device)))
    content = {"device": asked.device, "scale": asdict(scale), "cases": [asdict(each) for each in found]}
    asked.out.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
