"""A random model on disk and a training of it, by stock TRL or by the adapter, in which nothing hides a wrong scale.

SGD without gradient clipping, since AdamW divides a scale of the loss away; steps_per_generation different
from accumulation, since equal settings hide a wrong count of tokens; two passes over a rollout, since in the
first one every ratio is 1; bounds so narrow that both hold tokens back; few characters, so that responses end
early and their lengths differ.

Dimension key:  B rows of one process.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from datasets import Dataset
from peft import PeftConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, set_seed
from transformers.utils.logging import disable_progress_bar
from trl import GRPOConfig, GRPOTrainer

from seedwise.algos import presets
from seedwise.algos.algorithm import Algorithm
from seedwise.trainer.adapter import ComposedTrainer

VOCABULARY = {word: i for i, word in enumerate(["<pad>", "<eos>", "<unk>", *"0123+="])}
PROMPTS = ["1+0=", "10+1=", "100+2=", "1000+3="]  # lengths differ, so that prompts are padded
LENGTH, G = 8, 4
torch.set_num_threads(1)
disable_progress_bar()
gc.freeze()  # accelerate collects garbage before each training: half a second over all that trl imports

SETTINGS: dict[str, Any] = {
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 2,
    "steps_per_generation": 4,
    "num_generations": G,
    "num_iterations": 2,
    "max_completion_length": LENGTH,
    "max_steps": 5,  # 4 on one rollout, 1 on the next
    "learning_rate": 0.05,
    "optim": "sgd",
    "max_grad_norm": 0.0,
    "use_bias_correction_kl": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "use_cpu": True,
    "bf16": False,
    "save_strategy": "no",
    "seed": 1,
    "disable_tqdm": True,
    "logging_steps": 1,
    "ddp_find_unused_parameters": False,
}

# TRL's settings and the same method over parts; TRL adds 1e-4 to the standard deviation, presets 1e-6 unless told
METHODS: dict[str, tuple[dict[str, Any], Algorithm]] = {
    "grpo": ({"loss_type": "grpo", "epsilon": 0.01}, presets.grpo(low=0.01, high=0.01, eps=1e-4)),
    "dr_grpo": (
        {"loss_type": "dr_grpo", "scale_rewards": "none", "epsilon": 0.01},
        presets.dr_grpo(length=LENGTH, low=0.01, high=0.01),
    ),
    "clip_higher": (
        {"loss_type": "dapo", "epsilon": 0.01, "epsilon_high": 0.02},
        presets.clip_higher(low=0.01, high=0.02, eps=1e-4),
    ),
    "gspo": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.01, "epsilon_high": 0.02},
        presets.gspo(low=0.01, high=0.02, eps=1e-4),
    ),
    "cispo": ({"loss_type": "cispo", "epsilon_high": 1.01}, presets.cispo(cap=1.01, eps=1e-4)),
}


def with_kl(name: str, weight: float) -> tuple[dict[str, Any], Algorithm]:
    settings, algorithm = METHODS[name]
    objective = algorithm.objective.model_copy(update={"kl": weight})
    return {**settings, "beta": weight}, algorithm.model_copy(update={"objective": objective})


class Trained(NamedTuple):
    """weights: by name, double.  logs: what TRL logged, a dict per optimizer step and one at the end."""

    weights: dict[str, Tensor]
    logs: list[dict[str, float]]

    def logged(self, key: str) -> list[float]:
        return [logs[key] for logs in self.logs if key in logs]


def make_model(folder: Path) -> Path:
    """Saved, since TRL loads the reference policy from disk.  Wide logits, so that entropies differ."""
    set_seed(0)
    config = Qwen2Config(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        initializer_range=0.3,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


def tokenizer() -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def even_digits(completions: list[str], **_: Any) -> list[float]:
    """Graded, so that few groups are flat."""
    return [sum(character in "02" for character in text) / LENGTH for text in completions]


def make(
    folder: Path,
    out: Path,
    algorithm: Algorithm | None = None,
    skip: bool = False,
    kind: Callable[..., GRPOTrainer] | None = None,
    rewards: Sequence[Callable[..., list[float]]] = (even_digits,),
    peft: PeftConfig | None = None,
    **settings: Any,
) -> GRPOTrainer:
    """Stock TRL without an algorithm, else the adapter with it; kind: a subclass of either."""
    arguments: dict[str, Any] = {
        "model": AutoModelForCausalLM.from_pretrained(folder),
        "peft_config": peft,
        "args": GRPOConfig(output_dir=str(out), **{**SETTINGS, **settings}),
        "reward_funcs": list(rewards),
        "train_dataset": Dataset.from_dict({"prompt": PROMPTS}),
        "processing_class": tokenizer(),
    }
    if algorithm is None:
        return (kind or GRPOTrainer)(**arguments)
    return (kind or ComposedTrainer)(algorithm=algorithm, seed=0, skip=skip, **arguments)


def run(trainer: GRPOTrainer, rollout: Callable[..., dict[str, Any]] | None = None) -> Trained:
    """Train; ``rollout`` in place of sampling, where one process shall see what two see."""
    trainer.rollout_func = rollout
    set_seed(3 + trainer.accelerator.process_index)
    trainer.train()
    return Trained(weights(trainer.accelerator.unwrap_model(trainer.model)), trainer.state.log_history)


def train(folder: Path, out: Path, algorithm: Algorithm | None = None, **settings: Any) -> Trained:
    return run(make(folder, out, algorithm, **settings))


def weights(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().double() for name, weight in model.state_dict().items()}


def largest_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    return max((one[name] - other[name]).abs().max().item() for name in one)
