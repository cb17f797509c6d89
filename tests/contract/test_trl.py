"""The adapter against TRL 1.16.0 itself: the same bits as stock training, and the names it leans on.

SGD without gradient clipping, steps_per_generation different from accumulation, and two passes over a
rollout: AdamW hides a wrong scale of the loss, and equal settings hide a wrong one of the token count.
"""

import dataclasses
import inspect
import json
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, Trainer, set_seed
from trl import GRPOConfig, GRPOTrainer

from seedwise.algos import algorithm as presets
from seedwise.trainer.adapter import ComposedTrainer
from seedwise.trainer.batch import active

CHARACTERS = [*"0123456789+= "]
STEPS, LENGTH, G = 6, 6, 4
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tokenizer():
    vocabulary = {w: i for i, w in enumerate(["<pad>", "<eos>", "<unk>", *CHARACTERS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random model on disk, since TRL loads the reference policy from there."""
    set_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(CHARACTERS) + 3,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )
    )
    path = tmp_path_factory.mktemp("model")
    model.save_pretrained(path)
    return path


def even_digits(completions, **_):
    return [float(any(c in "02468" for c in text)) for text in completions]


def train(folder, tokenizer, out, algorithm=None, skip=False, **settings):
    """Weights after STEPS steps: of stock TRL, or of the adapter with an algorithm."""
    args = GRPOConfig(
        **{
            "output_dir": str(out),
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 2,
            "steps_per_generation": 4,
            "num_generations": G,
            "num_iterations": 2,
            "max_completion_length": LENGTH,
            "max_steps": STEPS,
            "learning_rate": 1e-2,
            "optim": "sgd",
            "max_grad_norm": 0.0,
            "scale_rewards": "group",
            "use_bias_correction_kl": False,
            "gradient_checkpointing": False,
            "report_to": "none",
            "use_cpu": True,
            "bf16": False,
            "save_strategy": "no",
            "seed": 1,
            "disable_tqdm": True,
            "logging_steps": 1,
            **settings,
        }
    )
    kwargs = {
        "model": Qwen2ForCausalLM.from_pretrained(folder),
        "args": args,
        "reward_funcs": even_digits,
        "train_dataset": Dataset.from_dict({"prompt": [f"{a}+{b}=" for a in range(4) for b in range(4)]}),
        "processing_class": tokenizer,
    }
    if algorithm is None:
        trainer = GRPOTrainer(**kwargs)
    else:
        trainer = ComposedTrainer(algorithm=algorithm, seed=0, skip=skip, **kwargs)
    set_seed(3)
    trainer.train()
    return {name: weight.detach().double() for name, weight in trainer.model.state_dict().items()}


def largest_difference(one, other):
    return max((one[name] - other[name]).abs().max().item() for name in one)


# TRL adds 1e-4 to the standard deviation, these presets 1e-6 unless told
STOCK = {
    "grpo": ({"loss_type": "grpo"}, presets.grpo(eps=1e-4)),
    "grpo_kl": ({"loss_type": "grpo", "beta": 0.5}, presets.grpo(eps=1e-4, kl=0.5)),
    "dr_grpo": ({"loss_type": "dr_grpo", "scale_rewards": "none"}, presets.dr_grpo(length=LENGTH)),
    "clip_higher": ({"loss_type": "dapo", "epsilon_high": 0.28}, presets.clip_higher(eps=1e-4)),
    "gspo": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
        presets.gspo(eps=1e-4),
    ),
}


@pytest.mark.parametrize("name", STOCK)
def test_weights_equal_those_of_stock_trl(name, folder, tokenizer, tmp_path):
    settings, algorithm = STOCK[name]
    stock = train(folder, tokenizer, tmp_path / "stock", **settings)
    ours = train(folder, tokenizer, tmp_path / "ours", algorithm, **settings)
    start = {n: w.double() for n, w in Qwen2ForCausalLM.from_pretrained(folder).state_dict().items()}
    assert largest_difference(stock, start) > 1e-4  # it learned something
    # gspo: TRL has one loss per response, ours has one per token, so sums are rounded in another order
    assert largest_difference(ours, stock) <= (1e-8 if name == "gspo" else 0.0)
    if name == "clip_higher":  # teeth: another method, or another scale, is seen
        other = train(folder, tokenizer, tmp_path / "rloo", presets.rloo(), **settings)
        assert largest_difference(other, stock) > 1e-5


def gradients(folder, tokenizer, out, algorithm, skip):
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

    args = GRPOConfig(
        output_dir=str(out),
        per_device_train_batch_size=2,
        gradient_accumulation_steps=4,
        num_generations=G,
        max_completion_length=LENGTH,
        max_steps=1,
        max_grad_norm=0.0,
        gradient_checkpointing=False,
        report_to="none",
        use_cpu=True,
        bf16=False,
        save_strategy="no",
        seed=1,
        disable_tqdm=True,
    )
    trainer = Watched(
        algorithm=algorithm,
        seed=0,
        skip=skip,
        model=Qwen2ForCausalLM.from_pretrained(folder),
        args=args,
        reward_funcs=even_digits,
        train_dataset=Dataset.from_dict({"prompt": ["1+1=", "12+3="]}),
        processing_class=tokenizer,
    )
    set_seed(5)
    trainer.train()
    return found, passes


@pytest.mark.parametrize(
    "algorithm",
    [presets.qae(K=0.4), presets.grpo(), presets.dr_grpo(length=LENGTH), presets.gspo()],
    ids=["per_token", "per_sequence", "fixed_length", "gspo"],
)
def test_skipping_rows_without_advantage_keeps_the_gradient(algorithm, folder, tokenizer, tmp_path):
    whole, passes = gradients(folder, tokenizer, tmp_path / "whole", algorithm, skip=False)
    some, fewer = gradients(folder, tokenizer, tmp_path / "some", algorithm, skip=True)
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
