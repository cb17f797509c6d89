"""``python two_processes.py MODEL OUT``: train every case in two processes, write OUT/<case>.<process>.safetensors.

The processes are forked once everything is imported and speak gloo over loopback: accelerate's debug_launcher.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import PartialState, debug_launcher
from safetensors.torch import save_file
from trained import LENGTH, METHODS, SETTINGS, VOCABULARY, make, run, tokenizer, with_kl
from trl import GRPOTrainer

from seedwise.algos import presets
from seedwise.algos.algorithm import Algorithm
from seedwise.trainer.adapter import ComposedTrainer


class Case(NamedTuple):
    """algorithm: None is stock TRL.  given: completions are those of ``drawn``, not sampled.  kind: of ours."""

    settings: dict[str, Any]
    algorithm: Algorithm | None
    skip: bool = False
    given: bool = False
    kind: type[GRPOTrainer] | None = None


class HalfSilent(ComposedTrainer):
    """The second process has no row with an advantage."""

    def _generate_and_score_completions(self, inputs: list[dict]) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        return {**batch, "advantages": batch["advantages"] * (1 - self.accelerator.process_index)}


def drawn(prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
    """Random completions that depend on the step and the place in the rollout, not on the processes.

    TRL shuffles the rows within a process, so an update must see all of them for one and two to be equal.
    """
    first = trainer.accelerator.process_index * len(prompts)
    return {
        "prompt_ids": tokenizer()(prompts)["input_ids"],
        "completion_ids": [completion(trainer.state.global_step, first + i) for i in range(len(prompts))],
        "logprobs": None,
    }


def completion(step: int, row: int) -> list[int]:
    rng = torch.Generator().manual_seed(100 * step + row)
    length = min(LENGTH, int(torch.randint(1, LENGTH + 6, (), generator=rng)))  # 6 of 13 are cut off
    ids = torch.randint(2, len(VOCABULARY), (length,), generator=rng).tolist()
    return ids if length == LENGTH else [*ids[1:], 1]


# on two processes two groups of 4; micro-batches of 2 rows are what two processes have of 4
WHOLE = {"steps_per_generation": 2}
ALONE = {**WHOLE, "per_device_train_batch_size": 2 * SETTINGS["per_device_train_batch_size"]}

STOCK = {
    "grpo": with_kl("grpo", 0.1),
    "clip_higher": with_kl("clip_higher", 0.1),
    "gspo": METHODS["gspo"],
    "cispo": METHODS["cispo"],
    "forking": (
        {
            "loss_type": "dapo",
            "epsilon_high": 0.28,
            "top_entropy_quantile": 0.3,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 1,
            "steps_per_generation": 1,
            "num_iterations": 1,
        },
        presets.forking(rho=0.3, form="threshold", eps=1e-4),
    ),
}
# eapo pools quantiles of the entropy; qae leaves rows out, not as many on one process as on the other
GIVEN = {
    "clip_higher": with_kl("clip_higher", 0.1),
    "eapo": ({}, presets.eapo(low=0.01, high=0.02)),
    "qae": ({}, presets.qae(K=0.4, low=0.01, high=0.02)),
}
CASES = {
    **{f"stock {name}": Case(settings, None) for name, (settings, _) in STOCK.items()},
    **{f"ours {name}": Case(*pair) for name, pair in STOCK.items()},
    "given stock": Case({**GIVEN["clip_higher"][0], **WHOLE}, None, given=True),
    **{
        f"given {name}": Case({**settings, **WHOLE}, algorithm, skip=name == "qae", given=True)
        for name, (settings, algorithm) in GIVEN.items()
    },
    **{
        f"half silent{how}": Case(WHOLE, presets.grpo(low=0.01, high=0.02), skip=bool(how), given=True, kind=HalfSilent)
        for how in ("", ", skipped")
    },
}


def train_all(folder: str, out: str) -> None:
    for name, case in CASES.items():
        trainer = make(Path(folder), Path(out, "trainer"), case.algorithm, case.skip, case.kind, **case.settings)
        trained = run(trainer, drawn if case.given else None)
        save_file(trained.weights, Path(out, f"{name}.{PartialState().process_index}.safetensors"))


if __name__ == "__main__":
    debug_launcher(train_all, tuple(sys.argv[1:]), num_processes=2)
