"""Rows without advantage left out of forward and backward: the gradient stays, and where it would not it is refused."""

import pytest
import torch
from peft import LoraConfig
from trained import LENGTH, VOCABULARY, largest_difference, make, run
from transformers import Qwen2ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM, set_seed
from trl import GRPOTrainer

from seedwise.algos import presets
from seedwise.trainer.adapter import ComposedTrainer
from seedwise.trainer.batch import active

LORA = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)  # else half of the adapter has no gradient
KEPT = (1, 4)  # of 8 rows, so at least 2 of 4 micro-batches have none


def watched(kind, kept=KEPT, forced=False):
    """A trainer in which the rows ``kept`` alone have an advantage; what it ran and found is beside it.

    forced: rows without one are left out by force, where the trainer would not do it.
    """
    passes, found = [], {}

    class Watched(kind):
        def _get_per_token_logps_and_entropies(self, model, input_ids, *args, **kwargs):
            if torch.is_grad_enabled():
                passes.append(tuple(input_ids.shape))
            return super()._get_per_token_logps_and_entropies(model, input_ids, *args, **kwargs)

        def _generate_and_score_completions(self, inputs):
            batch = super()._generate_and_score_completions(inputs)
            silent_B = torch.tensor([i not in kept for i in range(len(batch["advantages"]))])
            adv_BT = batch["advantages"].view(len(silent_B), -1) + 0.5
            batch["advantages"] = torch.where(silent_B[:, None], 0.0, adv_BT) * batch["completion_mask"]
            return batch

        def _compute_loss(self, model, inputs):
            return super()._compute_loss(model, active(inputs) if forced else inputs)

        def _get_grad_norm(self, model, grad_norm=None):
            weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
            found.update({name: weight.grad.double().clone() for name, weight in weights.items()})
            return super()._get_grad_norm(model, grad_norm)

    return Watched, passes, found


DIVISION = {"gradient_accumulation_steps": 4, "steps_per_generation": 4, "num_iterations": 1, "max_steps": 1}


def gradients(folder, out, algorithm, skip, kept=KEPT, **settings):
    """Gradients of one optimizer step, accumulated over 4 micro-batches of 2 rows, and the rows in each pass."""
    kind, passes, found = watched(ComposedTrainer, kept)
    run(make(folder, out, algorithm, skip, kind, **{**DIVISION, **settings}))
    return found, passes


def relative_difference(whole, some):
    return largest_difference(whole, some) / max(gradient.abs().max().item() for gradient in whole.values())


@pytest.mark.parametrize(
    "algorithm",
    [presets.qae(K=0.4), presets.grpo(), presets.dr_grpo(length=LENGTH), presets.gspo(), presets.cispo()],
    ids=["per_token", "per_sequence", "fixed_length", "gspo", "cispo"],
)
def test_skipping_rows_without_advantage_keeps_the_gradient(algorithm, folder, tmp_path):
    whole, passes = gradients(folder, tmp_path / "whole", algorithm, skip=False)
    some, fewer = gradients(folder, tmp_path / "some", algorithm, skip=True)
    scale = max(gradient.abs().max().item() for gradient in whole.values())
    assert scale > 0
    assert largest_difference(whole, some) <= 1e-6 * scale
    assert sum(rows for rows, _ in passes) == 8
    # a micro-batch without an active row keeps one: 1 + 1 + 1 + 1 rows, or 2 + 1 + 1 + 1
    assert sum(rows for rows, _ in fewer) in (4, 5)
    assert len(fewer) == len(passes) == 4


@pytest.mark.parametrize(
    "settings",
    [
        {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}},
        {"peft": LORA},
        {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}, "peft": LORA},
    ],
    ids=["checkpointing", "lora", "both"],
)
def test_also_with_recomputed_activations_and_with_an_adapter(settings, folder, tmp_path):
    whole, _ = gradients(folder, tmp_path / "whole", presets.qae(K=0.4), skip=False, **settings)
    some, _ = gradients(folder, tmp_path / "some", presets.qae(K=0.4), skip=True, **settings)
    assert all("lora" in name for name in whole) is ("peft" in settings)
    assert any(gradient.any() for gradient in whole.values())
    assert relative_difference(whole, some) <= 1e-5


@pytest.mark.parametrize("settings", [{}, {"peft": LORA}], ids=["full", "lora"])
def test_a_step_with_nothing_active_has_gradients_of_zero_and_the_next_one_learns(settings, folder, tmp_path):
    nothing, passes = gradients(folder, tmp_path, presets.qae(K=0.4), skip=True, kept=(), **settings)
    assert nothing and not any(gradient.any() for gradient in nothing.values())
    assert [rows for rows, _ in passes] == [1, 1, 1, 1]  # as many passes as on a process that has active rows
    kept = [()]

    class Later(tuple):
        def __contains__(self, row):
            return row in kept[-1]

    kind, _, found = watched(ComposedTrainer, Later())

    class Watched(kind):
        def _get_grad_norm(self, model, grad_norm=None):
            norm = super()._get_grad_norm(model, grad_norm)
            assert (float(norm) > 0) is bool(kept[-1])
            kept.append(KEPT)
            return norm

    run(make(folder, tmp_path, presets.qae(K=0.4), True, Watched, **{**DIVISION, **settings, "max_steps": 2}))
    assert len(kept) == 3 and any(gradient.any() for gradient in found.values())


# two passes: in the first one the policy is the reference and the old one, and neither pulls
@pytest.mark.parametrize("name", ["grpo", "kl_penalty", "clip_cov", "kl_cov"])
def test_where_it_is_refused_it_would_change_the_gradient(name, folder, tmp_path):
    algorithm = {
        "grpo": presets.grpo(),
        "kl_penalty": presets.grpo(kl=0.1),
        "clip_cov": presets.clip_cov(ratio=0.5, cov_low=0.0),
        "kl_cov": presets.kl_cov(ratio=0.5),
    }[name]
    settings = {"num_iterations": 2, "max_steps": 2, "beta": algorithm.objective.kl}
    whole, some = (
        gradients(folder, tmp_path / str(skip), algorithm, skip=skip, **settings)[0] for skip in (False, True)
    )
    refused = algorithm.may_skip()
    if name == "grpo":
        assert refused is None and relative_difference(whole, some) <= 1e-5
    else:
        assert refused.startswith(f"{name} acts on rows with zero advantage too")
        assert relative_difference(whole, some) > 1e-3


@pytest.fixture(scope="module")
def experts(tmp_path_factory):
    """A random mixture of experts on disk."""
    folder = tmp_path_factory.mktemp("experts")
    set_seed(0)
    config = Qwen3MoeConfig(
        vocab_size=len(VOCABULARY), hidden_size=16, intermediate_size=32, moe_intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, num_experts=4, num_experts_per_tok=2,
        initializer_range=0.3, pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    Qwen3MoeForCausalLM(config).save_pretrained(folder)
    return folder


# no part of ours is an entropy bonus or a router loss, so TRL's own are forced to skip
@pytest.mark.parametrize("extra", [{}, {"entropy_coef": 0.1}, {"router_aux_loss_coef": 0.1}], ids=str)
def test_an_entropy_bonus_or_a_router_loss_would_forbid_it(extra, experts, tmp_path):
    found, settings = [], {**DIVISION, "loss_type": "dapo", "router_aux_loss_coef": 0.0, **extra}
    for forced in (False, True):
        kind, _, gradient = watched(GRPOTrainer, forced=forced)
        run(make(experts, tmp_path, kind=kind, **settings))
        found.append(gradient)
    assert (relative_difference(*found) > 1e-3) if extra else (relative_difference(*found) <= 1e-5)


def test_a_micro_batch_with_nothing_active_gives_zero_gradients(folder):
    model = Qwen2ForCausalLM.from_pretrained(folder)
    batch = {
        "prompt_ids": torch.tensor([[0, 4], [5, 4]]),
        "prompt_mask": torch.tensor([[0, 1], [1, 1]]),
        "completion_ids": torch.tensor([[6, 1, 0], [7, 8, 1]]),
        "completion_mask": torch.tensor([[1, 1, 0], [1, 1, 1]]),
        "advantages": torch.zeros(2, 3),
        "num_items_in_batch": torch.tensor(5),
    }
    kept = active(batch)
    # the shorter response stays, with its padding cut on both sides
    assert kept["prompt_ids"].tolist() == [[4]]
    assert kept["completion_ids"].tolist() == [[6, 1]]
    assert kept["num_items_in_batch"].item() == 5
    ids = torch.cat([kept["prompt_ids"], kept["completion_ids"]], 1)
    logp_BT = model(ids).logits.log_softmax(2)[:, :-1].gather(2, ids[:, 1:, None])[..., 0]
    (logp_BT * kept["advantages"]).sum().backward()
    assert all(weight.grad is not None and not weight.grad.any() for weight in model.parameters())


def test_rows_with_an_advantage_on_any_token_stay():
    batch = {
        "prompt_ids": torch.tensor([[4], [5], [6]]),
        "prompt_mask": torch.ones(3, 1, dtype=torch.long),
        "completion_ids": torch.tensor([[6, 1, 0], [7, 8, 1], [9, 9, 9]]),
        "completion_mask": torch.tensor([[1, 1, 0], [1, 1, 1], [1, 1, 1]]),
        "advantages": torch.tensor([[0.0, 1e-30, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, -1.0]]),
    }
    assert active(batch)["prompt_ids"].flatten().tolist() == [4, 6]
