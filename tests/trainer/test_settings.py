"""How a run becomes settings of TRL."""

from pathlib import Path

import pytest

from seedwise.algos import presets
from seedwise.study import Lora
from seedwise.trainer.adapter import config
from seedwise.trainer.settings import BatchError, settings


def test_rows_are_divided_over_updates_processes_and_micro_batches(make_run, tmp_path):
    run = make_run(completions=64, updates_per_rollout=2, micro_batch=8)
    found = config(run, tmp_path, "cpu", processes=1)
    # 64 completions / 2 updates = 32 rows an update, in 4 passes of 8
    assert (found.per_device_train_batch_size, found.gradient_accumulation_steps) == (8, 4)
    assert (found.steps_per_generation, found.generation_batch_size) == (8, 64)
    # two processes have 16 rows of each update
    halved = settings(run, tmp_path, "cpu", processes=2)
    assert (halved["gradient_accumulation_steps"], halved["steps_per_generation"]) == (2, 4)
    # a micro-batch larger than an update is the update
    assert settings(make_run(micro_batch=64), tmp_path, "cpu", processes=1)["per_device_train_batch_size"] == 16


def test_rows_that_do_not_divide_are_refused_with_the_remedy(make_run, tmp_path):
    with pytest.raises(BatchError, match="16 in 1 updates over 3 processes .* change the number of processes"):
        settings(make_run(), tmp_path, "cpu", processes=3)


def test_a_reference_policy_is_kept_only_for_kl(make_run):
    assert settings(make_run(), Path("x"), "cpu", 1)["beta"] == 0
    assert settings(make_run(presets.grpo(kl=0.5)), Path("x"), "cpu", 1)["beta"] == 0.5


def test_dropout_is_off_unless_an_adapter_asks_for_it(make_run):
    assert settings(make_run(), Path("x"), "cpu", 1)["disable_dropout"]
    assert settings(make_run(lora=Lora(rank=2)), Path("x"), "cpu", 1)["disable_dropout"]
    assert not settings(make_run(lora=Lora(rank=2, dropout=0.1)), Path("x"), "cpu", 1)["disable_dropout"]


def test_a_constant_rate_may_warm_up(make_run):
    # transformers' "constant" would ignore warmup_steps
    assert settings(make_run(warmup_steps=2), Path("x"), "cpu", 1)["lr_scheduler_type"] == "constant_with_warmup"
    assert settings(make_run(schedule="cosine"), Path("x"), "cpu", 1)["lr_scheduler_type"] == "cosine"
