"""Runs that start from other runs: rounds of self-improvement, and more steps of a finished run."""

import json

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from trainer.outputs import value, weights

from seedwise.algos import presets
from seedwise.study import Lora
from seedwise.trainer.lineage import OriginError
from seedwise.trainer.rollout import Rollout

SHORT = {"steps": 4, "checkpoints": (2, 4), "save_every": 2}
LONG = {"steps": 6, "checkpoints": (2, 4, 6), "save_every": 2}


def named(run, name, **also):
    return run.model_copy(update={"name": name, **also})


@pytest.fixture
def rollouts(monkeypatch):
    """The steps at which responses were generated."""
    steps, real = [], Rollout.__call__

    def counted(rollout, placeholders, trainer):
        steps.append(trainer.state.global_step)
        return real(rollout, placeholders, trainer)

    monkeypatch.setattr(Rollout, "__call__", counted)
    return steps


def test_a_longer_run_goes_on_where_the_shorter_one_ended_with_the_same_bits(train, make_run, rollouts, capsys):
    # momentum, memory of the parts, order of the prompts and the metrics of the first steps must all come along
    whole, metrics = train(named(make_run(presets.qae(), **LONG), "whole"), "whole")
    short, _ = train(named(make_run(presets.qae(), **SHORT), "short", lineage="line"), "short")
    rollouts.clear()
    long, same = train(named(make_run(presets.qae(), **LONG), "long", lineage="line"), "long")
    assert rollouts == [4, 5], "nothing that was there is generated again"
    assert "goes on from short" in capsys.readouterr().out
    pd.testing.assert_frame_equal(metrics, same, check_exact=True)
    for step in (2, 4, 6):
        assert all(torch.equal(weight, weights(long, step)[name]) for name, weight in weights(whole, step).items())
    assert (short / "state").is_dir(), "the shorter run stays as it was"
    assert json.loads((long / "trained.json").read_text())["lineage"] == "line"


@pytest.mark.parametrize(
    "other",
    [
        {"lineage": "another"},
        {"lineage": None},
        {"train": {**SHORT, "keep_state": False}},
        {"train": {**SHORT, "checkpoints": (4,)}},  # step 2 is wanted and its weights are gone
    ],
    ids=["another line", "no line", "state not kept", "a checkpoint missing"],
)
def test_a_run_that_cannot_be_gone_on_from_is_left_alone(other, train, make_run, rollouts):
    settings = other.get("train", SHORT)
    train(named(make_run(presets.qae(), **settings), "short", lineage=other.get("lineage", "line")), "short")
    rollouts.clear()
    train(named(make_run(presets.qae(), **LONG), "long", lineage="line"), "long")
    assert rollouts == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("lora", [None, Lora(rank=2, alpha=4)], ids=["full", "lora"])
def test_a_round_starts_from_the_last_checkpoint_of_the_one_before(lora, train, make_run):
    first, before = train(make_run(presets.qae(K=0.6), lora=lora, **SHORT), "first")
    second = make_run(presets.qae(K=0.4), lora=lora, steps=1, checkpoints=(1,), save_every=1, lr=1e-12)
    out, metrics = train(second.model_copy(update={"init_from": "first"}), "second")
    file = "adapter_model.safetensors" if lora else "model.safetensors"
    then, now = (load_file(folder / "checkpoints" / step / file) for folder, step in ((first, "4"), (out, "1")))
    assert then.keys() == now.keys()
    for name, weight in then.items():  # a step of next to no length
        torch.testing.assert_close(now[name], weight, rtol=0, atol=1e-9)
    assert metrics.step.min() == 1
    # it generates with those weights and the untrained model's prompts, so its first rollout differs from theirs
    assert value(metrics, 1, "entropy_nats") != value(before, 1, "entropy_nats")


def test_a_round_whose_beginning_is_missing_or_of_another_kind_is_refused(train, make_run):
    with pytest.raises(OriginError, match="init_from: nowhere: not trained yet: train it first"):
        train(make_run().model_copy(update={"init_from": "nowhere"}))
    train(make_run(steps=1, checkpoints=(1,), save_every=1), "first")
    with pytest.raises(OriginError, match="it trained with lora None and this run has .*give both the same"):
        train(make_run(lora=Lora(rank=2)).model_copy(update={"init_from": "first"}))
