"""A step whose loss or gradient is not finite changes nothing and is counted; too many in a row end the run."""

from __future__ import annotations

import json

import pandas as pd
import pytest
import torch
from outcome import skipped
from trainer.outputs import value, weights

from seedwise.trainer import run as story
from seedwise.trainer.adapter import ComposedTrainer

INF = float("inf")


@pytest.fixture
def explodes(monkeypatch):
    """Make the loss of some steps (0-based) infinite: times infinity also its gradient, plus infinity only itself."""

    def at(*steps, how="times"):
        real = ComposedTrainer._compute_loss

        def loss(trainer, model, inputs):
            found = real(trainer, model, inputs)
            if trainer.state.global_step not in steps:
                return found
            return found * INF if how == "times" else found + INF

        monkeypatch.setattr(ComposedTrainer, "_compute_loss", loss)
        if how == "plus":
            # the tally is of the loss before it was changed
            count = ComposedTrainer._count

            def counted(trainer, loss, *rest):
                count(trainer, loss + INF if trainer.state.global_step in steps else loss, *rest)

            monkeypatch.setattr(ComposedTrainer, "_count", counted)

    return at


@pytest.fixture
def moments(monkeypatch):
    """The optimizer's state before each step and after it: [(step, tensors)]."""
    seen, begin, end = [], story.Watch.on_step_begin, story.Watch.on_step_end

    def noted(real):
        def note(watch, args, state, control, **kwargs):
            tensors = [
                value.clone()
                for group in watch.trainer.optimizer.state.values()
                for value in group.values()
                if isinstance(value, torch.Tensor)
            ]
            seen.append((state.global_step, tensors))
            real(watch, args, state, control, **kwargs)

        return note

    monkeypatch.setattr(story.Watch, "on_step_begin", noted(begin))
    monkeypatch.setattr(story.Watch, "on_step_end", noted(end))
    return seen


@pytest.mark.parametrize("how", ["times", "plus"], ids=["gradient", "loss alone"])
def test_a_skipped_step_changes_neither_weights_nor_optimizer(how, explodes, moments, train, make_run):
    explodes(2, how=how)
    # weight decay would move the weights of a step that only had no gradient
    out, metrics = train(make_run(checkpoints=(2, 3, 4), save_every=1, weight_decay=0.5))
    assert json.loads((out / "trained.json").read_text())["stopped"] is None
    assert all(torch.equal(weight, weights(out, 3)[name]) for name, weight in weights(out, 2).items())
    assert any(not torch.equal(weight, weights(out, 4)[name]) for name, weight in weights(out, 3).items())
    before, after = ([tensors for step, tensors in moments if step == at][place] for at, place in ((2, -1), (3, 0)))
    assert before
    assert all(torch.equal(one, two) for one, two in zip(before, after, strict=True))
    assert [value(metrics, step, "skipped_steps_total") for step in (1, 2, 3, 4)] == [0, 0, 1, 1]
    row = metrics[(metrics.step == 3) & (metrics.name == ("gradient_norm" if how == "times" else "loss"))].iloc[0]
    assert pd.isna(row["value"]) and row["reason"].startswith("not finite: ")
    assert value(metrics, 4, "learning_rate") == value(metrics, 1, "learning_rate")


def test_too_many_in_a_row_end_the_run_with_the_weights_before_them(explodes, train, make_run):
    explodes(1, 2, 3)
    out, metrics = train(make_run(checkpoints=(1, 4), save_every=1, max_skipped=2))
    stopped = json.loads((out / "trained.json").read_text())["stopped"]
    assert stopped["step"] == 3
    assert stopped["reason"].startswith("step 4: the gradient is not finite (norm ")
    assert stopped["reason"].endswith("), after 2 skipped steps in a row")
    assert all(torch.equal(weight, weights(out, 4)[name]) for name, weight in weights(out, 1).items())
    assert sorted(metrics.step.unique()) == [1, 2, 3, 4]  # of step 4 what its rollout showed
    assert value(metrics, 3, "skipped_steps_total") == 2


def test_skipped_steps_that_are_not_in_a_row_end_nothing(explodes, train, make_run):
    explodes(0, 2)
    out, metrics = train(make_run(max_skipped=1))
    assert json.loads((out / "trained.json").read_text())["stopped"] is None
    assert value(metrics, 4, "skipped_steps_total") == 2


def test_the_count_survives_a_kill(explodes, train, make_run, monkeypatch, tmp_path):
    explodes(1, 2, 3)
    run = make_run(checkpoints=(1, 4), save_every=1, max_skipped=2)
    whole, metrics = train(run, "whole")

    class Killed(Exception):
        pass

    real = story.Watch.on_step_begin

    def dies(watch, args, state, control, **kwargs):
        real(watch, args, state, control, **kwargs)
        if state.global_step == 2:  # one step was skipped, the next one will be
            raise Killed

    monkeypatch.setattr(story.Watch, "on_step_begin", dies)
    with pytest.raises(Killed):
        train(run, "killed")
    assert skipped(tmp_path / "work" / "killed" / "state-2") == {"total": 1, "in_a_row": 1}
    monkeypatch.setattr(story.Watch, "on_step_begin", real)
    resumed, same = train(run, "killed")
    pd.testing.assert_frame_equal(metrics, same, check_exact=True)
    records = [json.loads((out / "trained.json").read_text()) for out in (whole, resumed)]
    for record in records:
        del record["sha256"]["timing.parquet"]  # of wall-clock times
    assert records[0] == records[1]
