"""Rows without advantage left out of forward and backward: the gradient stays."""

import pytest
import torch
from trained import LENGTH, largest_difference, make, run
from transformers import Qwen2ForCausalLM

from seedwise.algos import presets
from seedwise.trainer.adapter import ComposedTrainer
from seedwise.trainer.batch import active


def gradients(folder, out, algorithm, skip):
    """Gradients of one optimizer step, accumulated over 4 micro-batches of 2 rows, and the rows in each pass."""
    passes, found = [], {}

    class Watched(ComposedTrainer):
        def _get_per_token_logps_and_entropies(self, model, input_ids, *args, **kwargs):
            if torch.is_grad_enabled():
                passes.append(tuple(input_ids.shape))
            return super()._get_per_token_logps_and_entropies(model, input_ids, *args, **kwargs)

        def _generate_and_score_completions(self, inputs):
            batch = super()._generate_and_score_completions(inputs)
            # 2 of 8 rows stay active, so at least 2 of 4 micro-batches have none
            silent_B = torch.tensor([i not in (1, 4) for i in range(len(batch["advantages"]))])
            batch["advantages"] = (
                torch.where(silent_B[:, None], 0.0, batch["advantages"] + 0.5) * batch["completion_mask"]
            )
            return batch

        def _get_grad_norm(self, model, grad_norm=None):
            found.update({name: weight.grad.double().clone() for name, weight in model.named_parameters()})
            return super()._get_grad_norm(model, grad_norm)

    division = {"gradient_accumulation_steps": 4, "steps_per_generation": 4, "num_iterations": 1, "max_steps": 1}
    run(make(folder, out, algorithm, skip, Watched, **division))
    return found, passes


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
