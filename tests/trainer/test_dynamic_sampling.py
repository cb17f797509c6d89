"""Dynamic sampling in a real training: what trains, what is counted, and that a killed run loses no kept group."""

from dataclasses import replace

import pandas as pd
import pytest
import torch
from trainer.outputs import value, weights

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import DivideByGroupStd, GroupMean
from seedwise.algos.sampler import DynamicSampling, SamplerError, UniformSampler
from seedwise.trainer import run as story
from seedwise.trainer.adapter import ComposedTrainer
from seedwise.trainer.rollout import Rollout


def algorithm(sampler):
    return Algorithm(baseline=(GroupMean(), DivideByGroupStd()), sampler=sampler)


def test_no_flat_group_trains_and_all_that_was_generated_counts(train, make_run):
    # groups of 2 are flat half the time
    _, metrics = train(make_run(algorithm(DynamicSampling(factor=1)), group_size=2))
    for step in (1, 2, 3, 4):
        # a group of 2 with one right and one wrong answer: half the responses gain, half lose
        assert (
            value(metrics, step, "positive_advantage_share") == value(metrics, step, "negative_advantage_share") == 0.5
        )
        assert value(metrics, step, "groups_with_1_of_2_correct_share") == pytest.approx(
            16 / value(metrics, step, "generated_responses")
        )
    assert max(value(metrics, step, "prompt_draws") for step in (1, 2, 3, 4)) > 1
    assert max(value(metrics, step, "generated_responses") for step in (1, 2, 3, 4)) > 16
    total = sum(value(metrics, step, "generated_tokens") for step in (1, 2, 3, 4))
    assert value(metrics, 4, "generated_tokens_total") == total


def test_where_no_group_is_flat_it_is_uniform_sampling_bit_for_bit(train, make_run, monkeypatch):
    real = Rollout._graded

    def every_other(rollout, problems, completions):
        rows = real(rollout, problems, completions)
        verdicts = ("wrong", "correct")
        return [replace(row, correct=float(b % 2), verdict=verdicts[b % 2]) for b, row in enumerate(rows)]

    monkeypatch.setattr(Rollout, "_graded", every_other)
    run = {"steps": 2, "checkpoints": (2,)}
    one, first = train(make_run(algorithm(UniformSampler()), **run), "uniform")
    two, second = train(make_run(algorithm(DynamicSampling(factor=1)), **run), "dynamic")
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    assert all(torch.equal(weight, weights(two, 2)[name]) for name, weight in weights(one, 2).items())


class Killed(Exception):
    pass


def test_a_kept_surplus_trains_next_with_the_policy_that_drew_it_and_survives_a_kill(
    train, make_run, monkeypatch, tmp_path
):
    run = make_run(algorithm(DynamicSampling(factor=3, surplus="keep")), group_size=2, steps=4, save_every=2)
    seen = []
    real = ComposedTrainer._as_drawn

    def looks(trainer, out, rows):
        real(trainer, out, rows)
        now_BT, _ = trainer._score(out)
        for b, row in enumerate(rows):
            told_T, now_T = out["old_per_token_logps"][b, : row.tokens], now_BT[b, : row.tokens]
            seen.append(
                (
                    row.late,
                    torch.allclose(told_T, now_T, atol=1e-4),
                    told_T.tolist() == pytest.approx(row.logps, abs=1e-4),
                )
            )

    monkeypatch.setattr(ComposedTrainer, "_as_drawn", looks)
    whole, metrics = train(run, "whole")
    late = [value(metrics, step, "late_response_share") for step in (1, 2, 3, 4)]
    assert late[0] == 0 and max(late) > 0
    # rows of this rollout were drawn by the present policy, late ones by an earlier one and are told so
    assert all(present and drawn for was_late, present, drawn in seen if not was_late)
    assert all(drawn for was_late, _, drawn in seen if was_late)
    assert not all(present for was_late, present, _ in seen if was_late)

    end = story.Watch.on_step_end

    def dies(watch, args, state, control, **kwargs):
        end(watch, args, state, control, **kwargs)
        if state.global_step == 3:
            raise Killed

    monkeypatch.setattr(story.Watch, "on_step_end", dies)
    with pytest.raises(Killed):
        train(run, "killed")
    monkeypatch.setattr(story.Watch, "on_step_end", end)
    resumed, same = train(run, "killed")
    pd.testing.assert_frame_equal(metrics, same, check_exact=True)
    assert all(torch.equal(weight, weights(resumed, 4)[name]) for name, weight in weights(whole, 4).items())


def test_too_few_groups_with_a_difference_end_the_run_with_one_line(train, make_run):
    with pytest.raises(SamplerError, match="raise sampler.most, take harder or easier train_data"):
        train(make_run(algorithm(DynamicSampling(factor=1, most=1)), group_size=2))
