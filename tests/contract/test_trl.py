"""The names of TRL 1.16.0 and transformers that the adapter leans on, no other, and every setting."""

import ast
import dataclasses
import inspect
import json
from pathlib import Path

import pytest
from trained import make, run
from transformers import Trainer
from trl import GRPOConfig, GRPOTrainer

from seedwise.algos import presets
from seedwise.trainer.adapter import ComposedTrainer

SIGNATURES = {
    (GRPOTrainer, "_calculate_rewards"): "(self, inputs, prompts, completions, completion_ids_list)",
    (GRPOTrainer, "_generate_and_score_completions"): (
        "(self, inputs: list[dict[str, torch.Tensor | typing.Any]]) -> dict[str, torch.Tensor | typing.Any]"
    ),
    (GRPOTrainer, "_compute_loss"): "(self, model, inputs)",
    (GRPOTrainer, "_prepare_inputs"): (
        "(self, generation_batch: dict[str, torch.Tensor | typing.Any]) -> dict[str, torch.Tensor | typing.Any]"
    ),
    (GRPOTrainer, "log"): "(self, logs: dict[str, float], start_time: float | None = None) -> None",
    (Trainer, "_get_grad_norm"): "(self, model, grad_norm=None)",
    (GRPOTrainer, "_send_telemetry"): "(self)",
}
OVERRIDDEN = {name for _, name in SIGNATURES} | {"_get_per_token_logps_and_entropies"}
READ = {
    "accelerator", "args", "current_gradient_accumulation_steps", "model", "num_generations", "num_iterations",
    "optimizer", "reward_weights", "state", "_step",
}  # fmt: skip
WRITTEN = {"rollout_func", "_buffered_inputs"}


@pytest.mark.parametrize(("owner", "name"), SIGNATURES, ids=lambda value: getattr(value, "__name__", value))
def test_private_names_have_the_signatures_the_adapter_expects(owner, name):
    assert str(inspect.signature(inspect.unwrap(getattr(owner, name)))) == SIGNATURES[owner, name]


def test_the_scoring_pass_takes_what_the_adapter_gives():
    names = list(inspect.signature(inspect.unwrap(GRPOTrainer._get_per_token_logps_and_entropies)).parameters)
    assert names[:7] == [
        "self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size", "compute_entropy",
    ]  # fmt: skip


def test_no_setting_of_grpo_config_is_new_gone_or_has_another_default():
    # a changed default that ``adapter.config`` does not write out would change every training unseen:
    # decide there, then put the new line into the file
    recorded = json.loads((Path(__file__).parent / "grpo_config_1.16.0.json").read_text())
    found = {field.name: repr(field.default) for field in dataclasses.fields(GRPOConfig) if field.name != "output_dir"}
    found = {name: "" if "MISSING" in default else default for name, default in found.items()}
    assert found == recorded


def test_the_adapter_leans_on_no_other_name(folder, tmp_path):
    ours = [part for part in ComposedTrainer.__mro__ if part.__module__.startswith("seedwise.")]
    trees = [ast.parse(inspect.getsource(part)).body[0] for part in ours]
    selves = [
        node
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
    ]
    defined = {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}
    own = defined | {node.attr for node in selves if isinstance(node.ctx, ast.Store)}
    trainer = make(folder, tmp_path, max_steps=1)
    run(trainer)
    theirs = {*dir(GRPOTrainer), *vars(trainer)}
    # new here: pin what it means in test_trl_calls.py.  new in TRL: the adapter would override it unawares
    assert {node.attr for node in selves} - own == READ
    assert own & theirs - {"__init__"} == OVERRIDDEN | WRITTEN
    assert theirs >= READ


def test_nothing_is_told_to_hugging_face(folder, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(GRPOTrainer, "_send_telemetry", lambda trainer: told.append(type(trainer)))
    make(folder, tmp_path)
    make(folder, tmp_path, presets.grpo())
    assert told == [GRPOTrainer]
