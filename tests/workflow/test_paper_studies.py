"""The two papers' studies: every arm is there by name, on the models it should be on, and what they would cost."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from study_file import changed
from typer.testing import CliRunner

from seedwise import layout as layouts
from seedwise import machine
from seedwise.cli import app
from seedwise.grid import expand
from seedwise.layout import Layout
from seedwise.models.sizes import HUB, Size, flops, size
from seedwise.reading import parse
from seedwise.reruns import RerunError, stated
from seedwise.reruns.jobs import planned
from seedwise.reruns.stated import Assumed
from seedwise.study import StudyError

CONFIG = Path(__file__).parents[2] / "config"
B4, B8, B14, B17, A3 = ("qwen3_4b_base", "qwen3_8b_base", "qwen3_14b_base", "qwen3_1_7b_base", "qwen3_30b_a3b_base")
THINKING = ("qwen3_4b", "olmo3_7b_think_dpo")
LEVELS = ("K0.2", "K0.4", "K0.6", "K0.8")
HIGH = ("0.2", "0.22", "0.24", "0.26")
MATHS = {"aime24": 30, "aime25": 30, "aime26": 30, "hmmt26": 33, "amc23": 40, "level5": 134}


@cache
def study(name: str) -> Layout:
    return layouts.read(CONFIG / f"{name}.yaml")


def arms(name: str) -> Counter[str]:
    """``model method setting`` -> seeds."""
    return Counter(f"{run.model_name} {run.method} {run.setting}" for run in study(name).grid.runs.values())


def of(models: tuple[str, ...], methods: tuple[str, ...], settings: tuple[str, ...] = ("G16",)) -> set[str]:
    return {" ".join(arm) for arm in product(models, methods, settings)}


EAPO = {
    "table 2": of((B4, B8, *THINKING), ("grpo", "entropy_adv", "hapo", "forking", "eapo.log4"), ("G8",)),
    "table 2, rlrt": of((B4, B8), ("rlrt",), ("G8",)) | of(THINKING, ("rlrt_thinking",), ("G8",)),
    "table 5 and 9, beside (1, -1)": {
        f"{model} signs.b_plus{plus}.b_minus{minus} G8"
        for model, plus, minus in product((B4, B8), (-1, 0, 1), (-1, 0, 1))
        if (plus, minus) != (1, -1)
    },
    "table 6": of((B4,), ("eapo.log2", "eapo.log4", "eapo.log8", "eapo.log16"), ("G8",)),
    "figure 5": of((B4,), ("surprisal",), ("G8",)),
    "figure 7": of((B17, B14), ("grpo", "entropy_adv", "hapo", "forking", "rlrt", "eapo.log4"), ("G8",)),
    "table 10": of(
        (B4,), ("grpo", "entropy_adv", "hapo", "forking", "rlrt", "eapo.log4"), ("G8.full.lr1e-06",)
    ),
}  # fmt: skip
QAE = {
    "table 2": of((B8,), ("clip_higher", "qae.K0.4", "clip_cov", "qae_clip_cov.K0.4", "kl_cov", "qae_kl_cov.K0.4")),
    "figure 6a": of((B14,), ("clip_higher", "qae.K0.4")),
    "figure 9": of((B8, B14), tuple(f"qae.{level}" for level in LEVELS)),
    "K of Clip-Cov and KL-Cov": of((B8,), tuple(f"qae_{o}.{k}" for o, k in product(("clip_cov", "kl_cov"), LEVELS))),
    "table 1": of((B8,), ("clip_higher", "qae.K0.4"), ("G16", *(f"G16.high{high}" for high in HIGH))),
    "figures 6b and 6c": of((B8,), ("pos_mask", "neg_mask"), ("G16", "G16.high0.2")),
    "random sparsity": of((B8,), ("random_sparsity", *(f"random_matched.match{m}" for m in ("rate", "mass", "sign")))),
    "fixed and learned": of((B8,), ("fixed.b0", "fixed.b0.5", "fixed.b1", "historical", "learned_gate")),
    "group size": of((B8,), ("clip_higher", "qae_half"), ("G4", "G8", "G16", "G32")),
    "std and sampling": of((B8,), ("clip_higher_no_std", "qae_no_std", "clip_higher_static", "qae_static")),
    "rewards": of((B8,), ("clip_higher_binary", "qae_binary", "qae_channels", "qae_dead_zone")),
    "K over time": of((B8,), ("qae_adaptive", "qae_falling")),
}  # fmt: skip
GSPO = {
    "table 2": of((A3,), ("gspo", "qae_gspo.K0.4")),
    "K of GSPO": of((B8,), ("gspo", *(f"qae_gspo.{level}" for level in LEVELS))),
}


@pytest.mark.parametrize(
    ("name", "item"),
    [(name, item) for name, items in (("eapo", EAPO), ("qae", QAE), ("qae_gspo", GSPO)) for item in items],
)
def test_every_arm_of_the_papers_is_there_with_five_seeds(name, item):
    wanted = {"eapo": EAPO, "qae": QAE, "qae_gspo": GSPO}[name][item]
    assert {arm: arms(name)[arm] for arm in wanted} == dict.fromkeys(wanted, 5)


@pytest.mark.parametrize(("name", "items"), [("eapo", EAPO), ("qae", QAE), ("qae_gspo", GSPO)])
def test_nothing_else_is_trained(name, items):
    # eapo: 20 + 4 + 16 + 3 more of kappa + 1 + 12 + 6 arms = 62; qae: 58; five seeds each
    assert set(arms(name)) == set.union(*items.values())
    assert len(study(name).grid.runs) == {"eapo": 310, "qae": 290, "qae_gspo": 35}[name]


def test_the_one_pair_of_signs_that_is_eapo_is_one_run():
    assert study("eapo").grid.notes == ("signs.b_plus1.b_minus-1 at G8 is the run of eapo.log4 at G8: one run",)


@pytest.mark.parametrize(
    ("name", "whole"), [("qae_clip_cov", "qae"), ("qae_kl_cov", "qae"), ("eapo_gym", "eapo")]
)  # fmt: skip
def test_companions_train_nothing_of_their_own(name, whole):
    assert study(name).grid.runs.keys() < study(whole).grid.runs.keys()


def test_the_long_study_goes_on_from_the_other():
    shorter = {run.lineage for run in study("qae").grid.runs.values()}
    assert {run.lineage for run in study("qae_long").grid.runs.values()} < shorter
    assert study("qae_long").grid.study.train.steps == 16 * 2000


def test_benchmarks_samples_and_resampling_of_eapo():
    file = study("eapo").grid.study
    assert {name: stated.problems_of(task) for name, task in file.evaluate.benchmarks.items()} == MATHS
    assert {name: file.evaluate.samples_of(name) for name in MATHS} == {**dict.fromkeys(MATHS, 32), "aime26": 256}
    assert len(study("eapo_gym").grid.study.evaluate.benchmarks) == 8
    assert {task.name[:4] for task in study("eapo_gym").grid.study.evaluate.benchmarks.values()} == {"gym_"}
    chosen = file.resample
    # 6 and 14 of 32
    assert (chosen.band, chosen.problems, chosen.responses) == ((6 / 32, 14 / 32), 20, 2)
    assert (chosen.window, chosen.continuations, chosen.edge, chosen.apart) == (32, 64, 0.2, 0.2)
    assert file.evaluate.forcing.continuations == 4 and file.evaluate.forcing.budget == 32768


def test_a_fresh_study_plans_every_stage():
    jobs = Counter(job.stage for job in planned(study("eapo")))
    # 310 runs and 6 bases are sampled; two templates of six benchmarks, and the training problems, are files
    assert jobs["train"] == 310 and jobs["sample"] == jobs["score"] == jobs["measure"] == 316
    # base, grpo and eapo.log4: 6 bases, and 6 + 6 models' worth of 5 seeds, and the full fine-tunings of both
    assert jobs["resample"] == 6 + 2 * 6 * 5 + 2 * 5


# models of known size, as their cards state them
@pytest.mark.parametrize(
    ("id", "total"),
    [
        ("Qwen/Qwen3-0.6B", 596_049_920),
        ("Qwen/Qwen3-4B-Base", 4_022_468_096),
        ("Qwen/Qwen3-8B-Base", 8_190_735_360),
        ("Qwen/Qwen3-14B-Base", 14_768_307_200),
        ("Qwen/Qwen3-30B-A3B-Base", 30_532_122_624),
    ],
)
def test_parameters_of_a_model_follow_from_its_dimensions(id, total):
    assert HUB[id].total == total


def test_of_a_mixture_of_experts_eight_of_128_meet_a_token():
    # 48 layers leave out 120 experts of three 2048 x 768 matrices each
    found = HUB["Qwen/Qwen3-30B-A3B"]
    assert found.total - found.active == 48 * 120 * 3 * 2048 * 768


@pytest.mark.parametrize("name", ["eapo", "qae", "qae_gspo"])
def test_every_model_of_the_studies_has_a_known_size(name):
    assert all(size(spec) for spec in study(name).grid.study.models.values())


def test_a_local_model_is_counted_from_its_headers():
    from safetensors import safe_open

    from seedwise.models.fingerprint import EMBEDDED

    total = 0
    for file in EMBEDDED.glob("*.safetensors"):
        with safe_open(file, "pt") as tensors:
            total += sum(tensors.get_tensor(name).numel() for name in tensors.keys())  # noqa: SIM118 - no mapping
    assert size(study("eapo").grid.study.models[B4].model_copy(update={"kind": "embedded"})) == Size(total, total)


def test_operations_of_tokens():
    # 2 x 10 generated, 6 x 3 trained, 2 x 4 scored: 46 for each of 5 active parameters
    assert flops(Size(100, 5), generated=10, trained=3, scored=4) == 230
    # an adapter has no gradient of the weights: 4 x 3
    assert flops(Size(100, 5), generated=10, trained=3, scored=4, adapter=True) == 200


TINY = Size(1e9, 1e9)
ASSUMED = Assumed("a100", mfu=0.5, mfu_generation=0.25, length=0.5, discarded=0.5, active=0.3)


def made(**changes) -> Layout:
    hub = {"models": {"mine": {"kind": "hub", "id": "a/b", "revision": "main"}}, "train.max_tokens": 100}
    return Layout(expand(parse(changed(**hub, **changes))), Path("nowhere"))


def hours(layout: Layout, method: str) -> float:
    run = next(run for run in layout.grid.runs.values() if run.method == method)
    return stated.training_hours(run, TINY, ASSUMED)


def test_the_hours_of_a_training_by_hand():
    # 4 steps x 16 responses x half of 100 tokens = 3,200 tokens of 1e9 parameters
    # generated: 2 x 3.2e12 / (312e12 x 0.25) s; trained: 6 x 3.2e12 / (312e12 x 0.5) s
    generated, trained = 6.4e12 / 78e12, 19.2e12 / 156e12
    assert hours(made(), "clip_higher") == pytest.approx((generated + trained) / 3600, rel=1e-12)
    # a quantile trains 0.3 of the tokens where rows are skipped, all of them where not
    assert hours(made(), "qae.K0.4") == pytest.approx((generated + 0.3 * trained) / 3600, rel=1e-12)
    kept = made(**{"train.skip_zero_advantage": False})
    assert hours(kept, "qae.K0.4") == pytest.approx((generated + trained) / 3600, rel=1e-12)


def test_a_second_update_scores_and_dynamic_sampling_draws_twice():
    dynamic = {"preset": "clip_higher", "sampler": {"kind": "dynamic"}}
    layout = made(**{"train.updates_per_rollout": 2, "methods.clip_higher": dynamic})
    # half as many rollouts: 1,600 tokens kept, 3,200 drawn; scored: 2 x 1.6e12 / (312e12 x 0.5) s
    seconds = 6.4e12 / 78e12 + 9.6e12 / 156e12 + 3.2e12 / 156e12
    assert hours(layout, "clip_higher") == pytest.approx(seconds / 3600, rel=1e-12)


def test_the_hours_of_an_evaluation_by_hand():
    layout = made()
    # 8 problems x 4 samples x 2 checkpoints x half of 96 tokens = 3,072 tokens
    run = next(iter(layout.grid.runs))
    assert stated.evaluation_hours(layout, run, TINY, ASSUMED) == pytest.approx(6.144e12 / 78e12 / 3600, rel=1e-12)
    forced = made(**{"evaluate.forcing": {"benchmarks": ["same"], "budget": 200}})
    # and, at the last checkpoint, 8 x 4 responses of half of 200 tokens = 3,200 tokens
    more = stated.evaluation_hours(forced, next(iter(forced.grid.runs)), TINY, ASSUMED)
    assert more == pytest.approx((6.144e12 + 6.4e12) / 78e12 / 3600, rel=1e-12)


def test_rows_take_measured_times_where_there_are_any_and_say_what_is_unknown():
    layout = made()
    jobs = planned(layout)
    unknown = stated.rows(layout, jobs, {}, ASSUMED)
    assert {row.total for row in unknown} == {None}
    assert "a/b" in unknown[0].reason and "--parameters mine=8e9" in unknown[0].reason
    measured = {run.name: 3600.0 for run in layout.grid.runs.values() if run.method == "clip_higher"}
    known = Assumed(parameters={"mine": 1e9})
    rows = {row.method: row for row in stated.rows(layout, jobs, measured, known)}
    # two seeds of an hour each
    assert (rows["clip_higher"].training, rows["clip_higher"].measured, rows["clip_higher"].runs) == (2.0, 2, 2)
    assert rows["qae.K0.4"].measured == 0 and rows["base"].training == 0
    assert any("training hours of 2 runs" in line for line in stated.lines(rows.values(), known))


def test_a_study_for_cpus_has_no_gpu_hours():
    layout = Layout(expand(parse(changed())), Path("nowhere"))
    assert stated.rows(layout, planned(layout), {}, ASSUMED) == []
    assert list(stated.lines([], ASSUMED)) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device": "tpu"}, "--device tpu: unknown: take one of a100, b200, h100, h200, l40s, rtx4090"),
        ({"mfu": 0}, "--mfu 0: a share above 0 and at most 1"),
        ({"mfu_generation": 1.5}, "--mfu-generation 1.5: a share above 0 and at most 1"),
        ({"discarded": 1}, "--discarded 1: a share of at least 0 and below 1"),
    ],
)
def test_assumptions_outside_their_range_are_refused(given, message):
    with pytest.raises(RerunError, match=re.escape(message)):
        Assumed(**given)


def test_the_machine_file_for_gpus_is_read_and_a_training_engine_is_refused(tmp_path):
    file = CONFIG.parent / "workflow" / "machines" / "vllm-gpu.yaml"
    found = machine.read(file)
    assert (found.sample.engine, found.sample.tensor_parallel, found.resample.dtype) == ("vllm", 2, "bfloat16")
    other = tmp_path / "machine.yaml"
    other.write_text(file.read_text() + "train: {engine: vllm}\n")
    with pytest.raises(StudyError, match="train: unknown key"):
        machine.read(other)


def test_parameters_of_an_unknown_model_are_refused():
    with pytest.raises(RerunError, match="--parameters other: no model of this study; they are mine"):
        stated.rows(made(), [], {}, Assumed(parameters={"other": 1e9}))
    with pytest.raises(RerunError, match="--parameters mine: write model=number"):
        stated.parameter("mine")


def test_the_command_prints_the_table_and_its_assumptions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ["plan", "--study", str(CONFIG / "qae_gspo.yaml"), "--device", "h100", "--mfu", "0.4"]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    assert "h100 at 989 TFLOP/s" in shown.output and "training reaches 40%" in shown.output
    assert re.search(r"qwen3_30b_a3b_base\s+gspo\s+G16\s+5\s+[\d,.]+\s+[\d,.]+\s+[\d,.]+\n", shown.output)
    content = SimpleNamespace(**json.loads(CliRunner().invoke(app, [*asked, "--json"]).output))
    assert content.gpu_hours["assumed"]["mfu"] == 0.4
    assert len(content.gpu_hours["rows"]) == 9
