"""A finished run stays finished whatever became of its record, and one that is given up counts with what it has."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file
from trainer.outputs import weights

from seedwise import tables
from seedwise.trainer import run as story
from seedwise.trainer.rollout import Rollout

DECLARED = ("spec.json", "metrics.parquet", "timing.parquet", "trained.json")


@pytest.fixture
def rollouts(monkeypatch):
    """The steps at which responses were generated."""
    steps, real = [], Rollout.__call__

    def counted(rollout, placeholders, trainer):
        steps.append(trainer.state.global_step)
        return real(rollout, placeholders, trainer)

    monkeypatch.setattr(Rollout, "__call__", counted)
    return steps


@pytest.fixture
def short(make_run):
    """A run of 2 steps."""
    return make_run(steps=2, checkpoints=(1, 2), save_every=1)


def test_a_run_whose_declared_outputs_were_deleted_is_not_trained_again(train, short, rollouts, capsys):
    out, _ = train(short)
    before = {name: (out / name).read_bytes() for name in DECLARED}
    for name in DECLARED:
        (out / name).unlink()
    rollouts.clear()
    train(short)
    assert rollouts == []
    assert {name: (out / name).read_bytes() for name in DECLARED} == before
    assert "published already" in capsys.readouterr().out


def test_a_run_whose_weights_are_not_those_of_its_record_is_trained_again(train, short, rollouts):
    out, _ = train(short)
    file = out / "checkpoints" / "1" / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-4] + b"lost")
    (out / "trained.json").unlink()
    rollouts.clear()
    train(short)
    assert rollouts == [0, 1]
    assert file.read_bytes() == whole


def test_a_run_that_is_given_up_before_its_first_step_counts_with_the_untrained_weights(
    model_folder, problems, short, rollouts, tmp_path
):
    out = tmp_path / "runs" / "run"
    story.train(
        short, model_folder=model_folder, problems=problems, out=out, work=tmp_path / "work", spec={}, give_up="no time"
    )
    assert rollouts == []
    assert json.loads((out / "trained.json").read_text())["stopped"] == {"step": 0, "reason": "no time"}
    start = load_file(model_folder / "model.safetensors")
    for step in (1, 2):
        assert all(torch.equal(weight, start[name]) for name, weight in weights(out, step).items())
    assert tables.read(tables.METRICS, out / "metrics.parquet").empty
