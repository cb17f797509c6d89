"""Trainings with the adapter end with the bits of stock TRL 1.16.0: methods, KL, and how a rollout is divided."""

from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from trained import METHODS, G, even_digits, largest_difference, make, run, train, weights, with_kl
from transformers import Qwen2ForCausalLM
from trl import GRPOTrainer
from two_processes import drawn

from seedwise.algos import presets
from seedwise.algos.credit_tokens import ForkingTokens
from seedwise.algos.overlong import OverlongFilter
from seedwise.algos.views import TokenView


@pytest.fixture
def both(folder, tmp_path):
    """Trainings by stock TRL and by the adapter, once it is sure that there was something to get wrong."""

    def trained(settings, algorithm, **division):
        stock = train(folder, tmp_path / "stock", **settings, **division)
        ours = train(folder, tmp_path / "ours", algorithm, **settings, **division)
        start = weights(Qwen2ForCausalLM.from_pretrained(folder))
        assert largest_difference(stock.weights, start) > 1e-3  # it learned something
        assert min(stock.logged("completions/min_length")) < max(stock.logged("completions/mean_length"))
        return ours, stock

    return trained


# the same sums in another order: TRL has one GSPO loss per response, ours is one per token; TRL takes CISPO after KL
ROUNDED = [("gspo", 0.0), ("gspo", 0.1), ("cispo", 0.1)]


@pytest.mark.parametrize("kl", [0.0, 0.1], ids=["", "kl"])
@pytest.mark.parametrize("name", METHODS)
def test_weights_and_losses_equal_those_of_stock_trl(name, kl, both):
    settings, algorithm = with_kl(name, kl)
    ours, stock = both(settings, algorithm)
    bounds = ["cispo_clip_ratio"] if name == "cispo" else ["clip_ratio/low_mean", "clip_ratio/high_mean"]
    assert all(max(stock.logged(bound)) > 0 for bound in bounds)
    assert bool(stock.logged("kl")) is (kl > 0)
    tolerance = 1e-5 if (name, kl) in ROUNDED else 0.0
    assert largest_difference(ours.weights, stock.weights) <= tolerance
    assert ours.logged("loss") == pytest.approx(stock.logged("loss"), rel=0, abs=tolerance)


# how many micro-batches an update and a rollout have, and passes over a rollout
DIVISIONS = {
    "a rollout per update: no old log-probabilities": (4, 4, 1),
    "an update per micro-batch": (1, 4, 1),
    "two rollouts per update": (4, 2, 1),
    # the 4 prompts are 8 micro-batches, so each epoch ends with an update of 2
    "rollouts in the middle of an update, and a last one cut short": (3, 2, 1),
    "updates that end in another pass": (3, 4, 2),
}


@pytest.mark.parametrize("name", ["grpo", "clip_higher"])
@pytest.mark.parametrize("division", DIVISIONS)
def test_weights_equal_those_of_stock_trl_however_a_rollout_is_divided(division, name, both):
    accumulation, steps, passes = DIVISIONS[division]
    ours, stock = both(
        *with_kl(name, 0.1),
        gradient_accumulation_steps=accumulation,
        steps_per_generation=steps,
        num_iterations=passes,
    )
    assert largest_difference(ours.weights, stock.weights) == 0
    assert ours.logged("loss") == stock.logged("loss")


def test_another_method_does_not_pass_for_stock_trl(both):
    settings, algorithm = METHODS["clip_higher"]
    for other in (presets.rloo(low=0.01, high=0.02), presets.clip_higher(low=0.01, high=0.02, eps=1e-6)):
        assert other != algorithm
        ours, stock = both(settings, other)
        assert largest_difference(ours.weights, stock.weights) > 1e-6


# the micro-batch is the rollout and the update its first: entropies of the old policy are those of the present one
WHOLE = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "steps_per_generation": 1,
    "num_iterations": 1,
}


def forking(form, rho):
    settings = {"loss_type": "dapo", "epsilon_high": 0.28, "top_entropy_quantile": rho}
    return settings, presets.forking(rho=rho, form=form, eps=1e-4)


@pytest.mark.parametrize("rho", [0.2, 0.3])
def test_forking_tokens_of_threshold_form_equal_stock_trl(rho, both):
    ours, stock = both(*forking("threshold", rho), **WHOLE)
    assert largest_difference(ours.weights, stock.weights) == 0
    assert ours.logged("loss") == stock.logged("loss")


def test_forking_tokens_of_exact_form_differ_from_stock_trl(both):
    ours, stock = both(*forking("exact", 0.3), **WHOLE)
    assert largest_difference(ours.weights, stock.weights) > 1e-6


def test_forking_tokens_differ_from_stock_trl_from_the_second_pass_on(both):
    # TRL masks by the entropy of the present policy, so it changes the tokens while it learns from them
    ours, stock = both(*forking("threshold", 0.3), **{**WHOLE, "num_iterations": 2})
    assert ours.logged("loss")[0] == stock.logged("loss")[0]
    assert ours.logged("grad_norm")[0] == stock.logged("grad_norm")[0]
    assert ours.logged("grad_norm")[1] != stock.logged("grad_norm")[1]


class Given:
    """A rollout of completions as ``drawn`` has them, with how each ended."""

    def __call__(self, prompts, trainer):
        columns = drawn(prompts, trainer)
        self.rows = [
            SimpleNamespace(problem=row // G, stop="stop" if ids[-1] == 1 else "length")
            for row, ids in enumerate(columns["completion_ids"])
        ]
        return columns


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "clip_higher"])
def test_the_overlong_filter_equals_stock_trl_that_masks_truncated_completions(name, folder, tmp_path):
    settings, algorithm = METHODS[name]
    settings = {**settings, **WHOLE, "rewards": (even_digits, lambda completions, **_: [0.0] * len(completions))}
    stock = run(make(folder, tmp_path / "stock", mask_truncated_completions=True, **settings), drawn)
    plain = run(make(folder, tmp_path / "plain", **settings), drawn)
    assert largest_difference(plain.weights, stock.weights) > 1e-3  # some responses are truncated
    filtered = algorithm.model_copy(update={"penalty": OverlongFilter()})
    trainer = make(folder, tmp_path / "ours", filtered, **settings)
    trainer.rollout = Given()
    ours = run(trainer, trainer.rollout)
    # the rows of a rollout are shuffled by a stream of its own
    assert largest_difference(ours.weights, stock.weights) <= 1e-5


@pytest.mark.parametrize(
    ("entropies", "rho", "stock", "exact"),
    [
        # 14 tokens: the quantile 0.7 lies at 0.7 x 13 = 9.1, above the tenth: 4 remain; ceil(0.3 x 14) = 5
        ([*range(1, 15)], 0.3, [11, 12, 13, 14], [10, 11, 12, 13, 14]),
        # 5 tokens, 4 of them tied: the quantile 0.8 lies at 3.2, among the ties; ceil(0.2 x 5) = 1, the first
        ([2, 1, 2, 2, 2], 0.2, [2, 2, 2, 2], [2]),
        # 10 tokens: the quantile 0.8 lies at 7.2, above the eighth: 2 remain; ceil(0.2 x 10) = 2
        ([*range(1, 11)], 0.2, [9, 10], [9, 10]),
    ],
    ids=["share", "ties", "equal"],
)
def test_where_the_forms_of_forking_tokens_part(entropies, rho, stock, exact):
    # one row per token and one of padding beside it
    entropy_BT = torch.tensor([[float(value), 99.0] for value in entropies])
    mask_BT = torch.tensor([[1.0, 0.0]] * len(entropies))
    view = TokenView(mask_BT, *[torch.zeros(len(entropies))] * 3, step=0, steps=1, entropy_BT=entropy_BT)
    theirs_BT = GRPOTrainer.get_high_entropy_mask(
        SimpleNamespace(accelerator=Accelerator(cpu=True)), entropy_BT, mask_BT, 1 - rho
    )
    assert entropy_BT[theirs_BT].tolist() == stock
    assert entropy_BT[ForkingTokens(rho=rho, form="threshold").kept(view) > 0].tolist() == stock
    assert entropy_BT[ForkingTokens(rho=rho, form="exact").kept(view) > 0].tolist() == exact
