"""Diagnostics of real steps: they agree with what the run publishes and with each other."""

import pytest
from trainer.outputs import value

from seedwise.algos import presets
from seedwise.trainer.adapter import ComposedTrainer

EVERY = ("update_mass", "gradient_noise", "entropy_slope", "entropy_change", "entropy_identity")


def test_cheap_ones_are_on_by_default_and_cost_no_pass(train, make_run, monkeypatch):
    passes = []
    real = ComposedTrainer._score
    monkeypatch.setattr(ComposedTrainer, "_score", lambda trainer, out: passes.append(1) or real(trainer, out))
    _, metrics = train(make_run(presets.qae(K=0.4)))
    assert not passes
    for step in (1, 2, 3, 4):
        # sum over groups of their mass is the mass of all: mean mass at n1 times the share of groups with n1, times P
        shares = {n1: value(metrics, step, f"groups_with_{n1}_of_8_correct_share") for n1 in range(9)}
        masses = {n1: value(metrics, step, f"update_mass_with_{n1}_of_8_correct") for n1 in range(9) if shares[n1]}
        mass = sum(masses[n1] * shares[n1] for n1 in masses)
        assert mass * 2 == pytest.approx(value(metrics, step, "advantage_mass"), rel=1e-5)
        assert value(metrics, step, "gradient_variance_all") >= 0
        assert value(metrics, step, "entropy_slope_nats") is not None
    assert "entropy_change_actual_nats" not in set(metrics.name)


def test_change_of_entropy_is_that_of_the_policies_before_and_after(train, make_run):
    settings = {"steps": 2, "checkpoints": (1, 2), "save_every": 1, "lr": 1e-5, "skip_zero_advantage": False}
    algorithm = presets.clip_higher()
    _, metrics = train(make_run(algorithm, diagnostics=EVERY, **settings))
    for step in (1, 2):
        actual = value(metrics, step, "entropy_change_actual_nats")
        assert actual != 0 and abs(actual) < 0.005
        # the identity is of first order in the step, which is small here
        told = value(metrics, step, "entropy_change_covariance_nats")
        assert told == pytest.approx(value(metrics, step, "entropy_change_chosen_nats"), rel=0.05, abs=1e-6)
        assert -1 <= value(metrics, step, "entropy_change_correlation") <= 1


def test_the_change_is_measured_after_the_last_update_on_a_rollout(train, make_run):
    settings = {"steps": 4, "checkpoints": (4,), "save_every": 4, "updates_per_rollout": 2, "iterations": 2}
    _, metrics = train(make_run(presets.clip_higher(), diagnostics=("entropy_change",), **settings))
    assert set(metrics[metrics.name == "entropy_change_actual_nats"].step) == {4}


def test_a_mean_over_responses_weighs_tokens_by_their_response_s_length(train, make_run):
    slopes = {}
    for name in ("grpo", "clip_higher"):
        _, metrics = train(make_run(presets.preset(name), steps=1, checkpoints=(1,), save_every=1), name)
        slopes[name] = value(metrics, 1, "entropy_slope_nats")
    # the first rollout is the same, responses have at least one token: dividing by it can only weaken the pull
    assert 0 < abs(slopes["grpo"]) < abs(slopes["clip_higher"])


def test_no_diagnostics_leave_no_trace(train, make_run):
    _, metrics = train(make_run(diagnostics=(), steps=1, checkpoints=(1,), save_every=1))
    names = ("update_mass", "gradient_noise", "gradient_variance", "entropy_slope")
    assert not [name for name in set(metrics.name) if name.startswith(names)]
