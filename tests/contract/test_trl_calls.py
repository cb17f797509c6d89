"""What the names of TRL 1.16.0 and transformers that the adapter leans on mean: when it calls what, with which tensors.

Dimension key:  N rows of a rollout, B rows, T completion tokens, F reward functions.
"""

import pytest
import torch
from trained import LENGTH, PROMPTS, G, largest_difference, make, run, weights
from trl import GRPOTrainer

from seedwise.algos import presets
from seedwise.trainer.adapter import ComposedTrainer, Diverged
from seedwise.trainer.rollout import correct, penalty

ROWS = 2 * G  # of a rollout: 4 micro-batches of 2
ALIGNED = {"gradient_accumulation_steps": 4, "num_iterations": 1}  # an update is a rollout


@pytest.fixture
def watched(folder, tmp_path):
    """What stock TRL does: a list of calls, each with a dict of what could be seen."""

    def watch(**settings):
        calls = []

        class Watched(GRPOTrainer):
            def _calculate_rewards(self, *args):
                rewards_NF = super()._calculate_rewards(*args)
                calls.append(("rewards", {"rewards_NF": rewards_NF, "step": self.state.global_step}))
                return rewards_NF

            def _generate_and_score_completions(self, inputs):
                batch = super()._generate_and_score_completions(inputs)
                calls.append(("rollout", {**batch, "step": self.state.global_step}))
                return batch

            def _get_per_token_logps_and_entropies(self, model, *args, **kwargs):
                found = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
                kind = "update" if torch.is_grad_enabled() else "score"
                calls.append((kind, {"present": model is self.model, "found": found}))
                return found

            def _compute_loss(self, model, inputs):
                count = {"micro": self._step, "window": self.current_gradient_accumulation_steps}
                calls.append(("loss", {**inputs, **count, "step": self.state.global_step}))
                return super()._compute_loss(model, inputs)

            def _get_grad_norm(self, model, grad_norm=None):
                norm = super()._get_grad_norm(model, grad_norm)
                calls.append(("norm", {"norm": float(norm), "step": self.state.global_step}))
                return norm

            def log(self, logs, start_time=None):
                calls.append(("log", {"logs": dict(logs), "step": self.state.global_step}))
                super().log(logs, start_time)

        run(make(folder, tmp_path, kind=Watched, **settings))
        return calls

    return watch


def of(kind, calls):
    return [seen for name, seen in calls if name == kind]


def test_a_rollout_is_the_dict_of_tensors_the_adapter_reads(watched):
    for settings, more in (({"beta": 0.1}, {"old_per_token_logps", "ref_per_token_logps"}), (ALIGNED, set())):
        calls = watched(max_steps=1, **settings)
        (batch,) = of("rollout", calls)
        plain = {"prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages", "num_items_in_batch"}
        assert set(batch) == plain | more | {"step"}
        T = batch["completion_mask"].size(1)
        assert T == LENGTH
        assert all(batch[key].shape == (ROWS, T) for key in {"completion_ids", "completion_mask"} | more)
        assert batch["advantages"].shape == (ROWS,)
        # of the rollout, not of the micro-batch, in every micro-batch
        tokens = batch["completion_mask"].sum().item()
        assert tokens < ROWS * T
        assert all(seen["num_items_in_batch"].item() == tokens for seen in of("loss", calls))
        # prompts are padded on the left, completions on the right
        assert batch["prompt_mask"].sort(1).values.equal(batch["prompt_mask"])
        assert batch["completion_mask"].sort(1, descending=True).values.equal(batch["completion_mask"])
        (scored,) = of("rewards", calls)
        assert scored["rewards_NF"].shape == (ROWS, 1)  # every row of every process, a column per reward function


def test_steps_and_micro_batches_are_counted_as_the_adapter_takes_them(watched):
    calls = watched(gradient_accumulation_steps=3, steps_per_generation=2, num_iterations=1, max_steps=4)
    # 8 micro-batches an epoch: updates of 3, 3 and the 2 that are left, then 3 of the next epoch
    assert [seen["micro"] for seen in of("loss", calls)] == [*range(11)]
    assert [seen["window"] for seen in of("loss", calls)] == [3, 3, 3, 3, 3, 3, 2, 2, 3, 3, 3]
    assert [seen["step"] for seen in of("loss", calls)] == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3]
    # a rollout before micro-batches 0, 2, 4, 6, 8, 10
    assert [seen["step"] for seen in of("rollout", calls)] == [0, 0, 1, 2, 3, 3]


def test_the_buffer_is_new_with_every_rollout_and_a_micro_batch_is_its_turn(folder, tmp_path):
    seen = []

    class Watched(GRPOTrainer):
        def _prepare_inputs(self, generation_batch):
            before = self._buffered_inputs
            inputs = super()._prepare_inputs(generation_batch)
            seen.append((self._step, self._buffered_inputs is before, self._buffered_inputs, inputs))
            return inputs

    run(make(folder, tmp_path, kind=Watched))  # 2 passes over a rollout of 4 micro-batches of 2 rows
    assert [step for step, old, *_ in seen if not old] == [0, 8]
    for step, _, buffered, inputs in seen:
        assert len(buffered) == 4 and inputs is buffered[step % 4]
        assert {len(value) for value in inputs.values() if value.dim()} == {2}


def test_the_first_scoring_pass_is_of_the_policy_that_drew_the_rollout(watched):
    calls = watched(beta=0.1)  # two rollouts: before updates 1 and 5
    assert [seen["present"] for seen in of("score", calls)] == [True, False, True, False]  # then the reference
    assert all(seen["found"][1:] == (None, None) for seen in of("score", calls))  # no entropy unless asked for
    (first, second) = [seen["old_per_token_logps"] for seen in of("rollout", calls)]
    assert first.equal(of("score", calls)[0]["found"][0])
    assert second.equal(of("score", calls)[2]["found"][0])
    assert not of("score", watched(**ALIGNED))


@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_the_norm_of_a_gradient_is_taken_once_per_update_and_before_it(clip, watched):
    calls = watched(max_grad_norm=clip, max_steps=3)
    norms, logs = of("norm", calls), of("log", calls)
    assert [seen["step"] for seen in norms] == [0, 1, 2]
    # logged once per update, after it; once more at the end, without a norm
    assert [seen["step"] for seen in logs] == [1, 2, 3, 3]
    assert [seen["logs"].get("grad_norm") for seen in logs] == [*(seen["norm"] for seen in norms), None]
    assert all("learning_rate" in seen["logs"] for seen in logs[:3])
    assert norms[0]["norm"] > 1.0 or clip == 0.0  # before clipping


@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_a_gradient_that_is_not_finite_stops_before_the_update(clip, folder, tmp_path):
    before = []

    class Broken(ComposedTrainer):
        def _compute_loss(self, model, inputs):
            loss = super()._compute_loss(model, inputs)
            before.append({name: weight.clone() for name, weight in weights(model).items()})
            return loss * float("nan") if self.state.global_step == 2 else loss

    trainer = make(folder, tmp_path, presets.grpo(), kind=Broken, max_grad_norm=clip)
    with pytest.raises(Diverged, match=r"step 3: the gradient is not finite \(norm nan\)"):
        run(trainer)
    assert len(before) == 6  # of 2 micro-batches an update
    assert largest_difference(before[-1], before[0]) > 1e-3
    assert largest_difference(before[-1], weights(trainer.model)) == 0


# TRL scores the old policy unless an update is a rollout, and the reference for KL: no pass for the entropy alone
@pytest.mark.parametrize(
    ("division", "rollouts"),
    [({}, [0, 4]), ({"gradient_accumulation_steps": 4}, [0, 2, 4]), (ALIGNED, [0, 1, 2, 3, 4])],
    ids=["updates of half", "two passes", "aligned"],
)
def test_entropy_is_taken_along_where_trl_scores_anyway(division, rollouts, folder, tmp_path):
    taken, passes = [], []

    class Watched(ComposedTrainer):
        def _get_per_token_logps_and_entropies(self, model, *args, **kwargs):
            if not torch.is_grad_enabled():
                passes.append(self.state.global_step)
            return super()._get_per_token_logps_and_entropies(model, *args, **kwargs)

        def _tokens(self, out, groups):
            view, count = super()._tokens(out, groups), len(passes)
            taken.append((view.entropy_BT, view.old_logp_BT, *self._score(out)))
            del passes[count:]
            return view

    run(make(folder, tmp_path, presets.eapo(), kind=Watched, beta=0.1, **division))
    assert passes == sorted(2 * rollouts)
    for entropy_BT, old_BT, logp_BT, again_BT in taken:
        torch.testing.assert_close(entropy_BT, again_BT)
        torch.testing.assert_close(old_BT, logp_BT)


def test_a_rollout_function_is_an_attribute_and_its_columns_reach_the_rewards(folder, tmp_path):
    asked, seen = [], []

    class Watched(ComposedTrainer):
        def _calculate_rewards(self, *args):
            seen.append(super()._calculate_rewards(*args))
            return seen[-1]

        def _generate_and_score_completions(self, inputs):
            seen.append(super()._generate_and_score_completions(inputs))
            return seen[-1]

    def rollout(prompts, trainer):
        asked.append((prompts, trainer.state.global_step))
        rows = range(len(prompts))
        return {
            "prompt_ids": [[4]] * len(prompts),
            "completion_ids": [[3 + row % 2, 1] for row in rows],
            "logprobs": None,
            "correct": [float(row % 2) for row in rows],
            "penalty": [-row / 8 for row in rows],
        }

    trainer = make(folder, tmp_path, presets.grpo(), kind=Watched, rewards=(correct, penalty), reward_weights=[1, 1])
    run(trainer, rollout)
    assert [step for _, step in asked] == [0, 4]
    assert all(len(prompts) == ROWS and set(prompts) <= set(PROMPTS) for prompts, _ in asked)
    rewards_NF, batch = seen[:2]
    assert rewards_NF.tolist() == [[row % 2, -row / 8] for row in range(ROWS)]
    assert batch["completion_ids"].tolist() == [[3 + row % 2, 1] for row in range(ROWS)]
    assert "sampling_per_token_logps" not in batch
    assert trainer.reward_weights.tolist() == [1.0, 1.0]
