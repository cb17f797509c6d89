"""Trainings of a few steps, with real generation and real grading."""

import json
import os
import signal

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from trainer.outputs import value, weights

from seedwise import tables
from seedwise.algos import presets
from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import GroupMean
from seedwise.algos.overlong import SoftOverlong
from seedwise.study import Lora
from seedwise.trainer import run as story
from seedwise.trainer.meter import NO_GPU


def test_a_run_is_published_whole_and_its_work_folder_removed(train, make_run, tmp_path, model_folder):
    out, metrics = train(make_run(presets.qae(K=0.4)))
    assert not (tmp_path / "work" / "run").exists()
    record = json.loads((out / "trained.json").read_text())
    assert record["steps"] == 4 and record["stopped"] is None and record["checkpoints"] == [2, 4]
    assert set(record["sha256"]) == {
        "checkpoints/2/model.safetensors", "checkpoints/4/model.safetensors", "metrics.parquet", "timing.parquet",
        "spec.json",
    }  # fmt: skip
    spec = json.loads((out / "spec.json").read_text())
    assert (
        spec["run"]["name"] == "tiny.s0-00000000"
        and spec["stack"]["trl"] == "1.16.0"
        and spec["stack"]["device"] == "cpu"
    )
    assert sorted(metrics.step.unique()) == [1, 2, 3, 4]
    timing = tables.read(tables.METRICS, out / "timing.parquet")
    assert (timing[timing.name == "step_seconds"].value > 0).all()
    assert (timing[timing.name == "peak_memory_bytes"].value > 50e6).all()
    assert set(timing[timing.name == "energy_joules"].reason) == {NO_GPU}
    spent = [value(metrics, 4, f"{name}_total") for name in ("generated_tokens", "trained_tokens", "flops")]
    weighed = sum(tensor.numel() for tensor in load_file(model_folder / "model.safetensors").values())
    assert spent[2] == pytest.approx(weighed * (2 * spent[0] + 6 * spent[1]), rel=0.2)  # tied weights stand once
    for folder in out.glob("checkpoints/*"):  # nothing pickled, nothing half-written
        assert not [path for path in folder.rglob("*") if path.suffix in (".bin", ".pt", ".pth", ".pkl")]
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == ["2", "4"]
    assert json.loads((out / "state" / "trainer_state.json").read_text())["global_step"] == 4
    assert not list((out / "state").rglob("training_args.bin"))
    start = load_file(model_folder / "model.safetensors")
    assert max((weights(out, 4)[name] - start[name]).abs().max().item() for name in start) > 1e-3


def test_metrics_of_a_rollout_agree_with_each_other(train, make_run):
    _, metrics = train(make_run(presets.qae(K=0.4)))
    for step in (1, 2, 3, 4):
        shares = [value(metrics, step, f"{sign}_advantage_share") for sign in ("positive", "zero", "negative")]
        assert sum(shares) == pytest.approx(1)
        assert shares[1] >= 0.5  # QAE silences at least half of every group of 8 at K = 0.4
        groups = [value(metrics, step, f"{kind}_group_share") for kind in ("flat", "hard", "easy")]
        assert sum(groups) == pytest.approx(1)
        histogram = [value(metrics, step, f"groups_with_{n1}_of_8_correct_share") for n1 in range(9)]
        assert sum(histogram) == pytest.approx(1)
        # the mean success rate, from the histogram and from the responses
        assert sum(n1 / 8 * share for n1, share in enumerate(histogram)) == pytest.approx(
            value(metrics, step, "reward")
        )
        assert 0 < value(metrics, step, "entropy_nats") < torch.tensor(8.0).log()
        # rows without advantage are not trained, but a micro-batch without any active row keeps one
        assert value(metrics, step, "trained_tokens") < value(metrics, step, "generated_tokens")
    total = sum(value(metrics, step, "generated_tokens") for step in (1, 2, 3, 4))
    assert value(metrics, 4, "generated_tokens_total") == total


def test_the_same_run_gives_the_same_bits_and_another_seed_does_not(train, make_run):
    one, first = train(make_run(presets.eapo()), "one")
    two, second = train(make_run(presets.eapo()), "two")
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    assert (one / "metrics.parquet").read_bytes() == (two / "metrics.parquet").read_bytes()
    for step in (2, 4):
        assert all(torch.equal(weight, weights(two, step)[name]) for name, weight in weights(one, step).items())
    _, third = train(make_run(presets.eapo(), seed=1), "other")
    assert value(third, 1, "generated_tokens") != value(first, 1, "generated_tokens")


def test_methods_of_one_seed_share_their_first_rollout(train, make_run):
    _, qae = train(make_run(presets.qae(K=0.4), steps=2, checkpoints=(2,)), "qae")
    _, grpo = train(make_run(presets.grpo(), steps=2, checkpoints=(2,)), "grpo")
    for name in ("reward", "entropy_nats", "length_tokens", "generated_tokens"):
        assert value(qae, 1, name) == value(grpo, 1, name)
    assert value(qae, 1, "advantage_mass") != value(grpo, 1, "advantage_mass")


class Killed(Exception):
    pass


@pytest.mark.parametrize("lora", [None, Lora(rank=2, alpha=4)], ids=["full", "lora"])
def test_a_killed_run_goes_on_from_its_state_and_ends_with_the_same_bits(lora, train, make_run, monkeypatch, tmp_path):
    # two updates and two passes per rollout: a rollout is 4 steps; momentum, schedule and prompt order must survive
    run = make_run(
        presets.clip_higher(), lora=lora, steps=12, checkpoints=(4, 8, 12), save_every=4, updates_per_rollout=2,
        iterations=2, schedule="cosine", weight_decay=0.1, micro_batch=4,
    )  # fmt: skip
    whole, metrics = train(run, "whole")

    real = story.Watch.on_step_end

    def dies(watch, args, state, control, **kwargs):
        real(watch, args, state, control, **kwargs)
        if state.global_step == 10:  # in the middle of a rollout, after the state of step 8
            raise Killed

    monkeypatch.setattr(story.Watch, "on_step_end", dies)
    with pytest.raises(Killed):
        train(run, "killed")
    work = tmp_path / "work" / "killed"
    assert [path.name for path in work.glob("state-*")] == ["state-8"]
    assert not list(work.rglob("training_args.bin"))
    monkeypatch.setattr(story.Watch, "on_step_end", real)
    resumed, same = train(run, "killed")
    pd.testing.assert_frame_equal(metrics, same, check_exact=True)
    file = "adapter_model.safetensors" if lora else "model.safetensors"
    for step in (4, 8, 12):
        one, two = (load_file(out / "checkpoints" / str(step) / file) for out in (whole, resumed))
        assert one.keys() == two.keys()
        assert all(torch.equal(one[name], two[name]) for name in one)
    assert not work.exists()


def test_sigterm_saves_a_state_and_says_so(train, make_run, monkeypatch, tmp_path):
    run = make_run(save_every=4)
    real = story.Watch.on_step_begin

    def terminated(watch, args, state, control, **kwargs):
        real(watch, args, state, control, **kwargs)
        if state.global_step == 2:  # during step 3, which no save_every would save
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(story.Watch, "on_step_begin", terminated)
    with pytest.raises(story.Interrupted, match="told to stop after step 3, state saved: start it again"):
        train(run)
    assert (tmp_path / "work" / "run" / "state-3").is_dir()
    assert not (tmp_path / "runs" / "run" / "trained.json").exists()
    monkeypatch.setattr(story.Watch, "on_step_begin", real)
    out, metrics = train(run)
    assert sorted(metrics.step.unique()) == [1, 2, 3, 4]
    straight, same = train(run, "straight")
    pd.testing.assert_frame_equal(metrics, same, check_exact=True)
    assert all(torch.equal(weight, weights(straight, 4)[name]) for name, weight in weights(out, 4).items())


def test_every_grader_that_gave_a_run_its_rewards_is_in_its_record(
    model_folder, problems, make_run, tmp_path, monkeypatch
):
    def train(name, run, code):
        out, work = (tmp_path / folder / name for folder in ("runs", "work"))
        spec = {"run": run.model_dump(mode="json"), "reward_code": code}
        story.train(run, model_folder=model_folder, problems=problems, out=out, work=work, spec=spec)
        return json.loads((out / "spec.json").read_text())["reward_code"]

    old, new, newer = ({"grading.verify": digit * 64} for digit in "abc")
    real = story.Watch.on_step_end

    def dies(watch, args, state, control, **kwargs):
        real(watch, args, state, control, **kwargs)
        if state.global_step == 3:  # after the state of step 2
            raise Killed

    short = make_run(save_every=1, lineage="one")
    monkeypatch.setattr(story.Watch, "on_step_end", dies)
    with pytest.raises(Killed):
        train("short", short, old)
    monkeypatch.setattr(story.Watch, "on_step_end", real)
    assert train("short", short, new) == [old, new]
    # the longer run goes on from the shorter one's state, so their rewards are its own
    assert train("long", make_run(lineage="one", steps=6, checkpoints=(2, 4, 6)), newer) == [old, new, newer]
    assert train("again", make_run(lineage="two"), newer) == [newer]


def test_a_published_run_is_left_alone(train, make_run, capsys):
    out, _ = train(make_run(steps=1, checkpoints=(1,), save_every=1))
    before = (out / "trained.json").stat().st_mtime_ns
    train(make_run(steps=1, checkpoints=(1,), save_every=1))
    assert (out / "trained.json").stat().st_mtime_ns == before
    assert "nothing to do" in capsys.readouterr().out


def test_a_run_that_diverges_counts_with_the_weights_at_its_stop(train, make_run, monkeypatch):
    from seedwise.trainer.adapter import ComposedTrainer

    real = ComposedTrainer._compute_loss

    def explodes(trainer, model, inputs):
        return real(trainer, model, inputs) * (float("inf") if trainer.state.global_step == 2 else 1.0)

    monkeypatch.setattr(ComposedTrainer, "_compute_loss", explodes)
    out, _ = train(make_run(max_skipped=0))
    record = json.loads((out / "trained.json").read_text())
    assert record["stopped"]["step"] == 2 and "gradient is not finite" in record["stopped"]["reason"]
    assert all(torch.equal(weight, weights(out, 4)[name]) for name, weight in weights(out, 2).items())
    assert all(weight.isfinite().all() for weight in weights(out, 4).values())


def test_skipping_is_refused_where_it_is_not_exact(train, make_run):
    with pytest.raises(story.TrainError, match="train.skip_zero_advantage: true: .* zero advantage"):
        train(make_run(presets.grpo(kl=0.1), skip_zero_advantage=True))


def test_a_rollout_of_no_whole_groups_is_refused(train, make_run):
    with pytest.raises(story.TrainError, match="train.completions: 16 is not a multiple of group_size 3"):
        train(make_run(group_size=3))


def test_words_and_penalty_reach_records_and_reward(train, make_run):
    overlong = Algorithm(baseline=(GroupMean(),), penalty=SoftOverlong(max_length=6, cache=3))
    _, metrics = train(make_run(overlong, steps=1, checkpoints=(1,), save_every=1, schedule="linear"))
    # most random completions run into the limit of 6 tokens, where the penalty is -1
    assert value(metrics, 1, "reward") < value(metrics, 1, "correct_share") - 0.1
    assert value(metrics, 1, "truncated_share") > 0
    assert value(metrics, 1, "words_per_1000_tokens") == pytest.approx(
        value(metrics, 1, "0_per_1000_tokens") + value(metrics, 1, "wait_per_1000_tokens")
    )


def test_kl_needs_the_reference_policy_and_changes_the_weights(train, make_run):
    plain, _ = train(make_run(presets.grpo()), "plain")
    pulled, _ = train(make_run(presets.grpo(kl=1.0)), "pulled")
    assert any(not torch.equal(weight, weights(pulled, 4)[name]) for name, weight in weights(plain, 4).items())
