"""The smoke study sampled by a real vLLM, through a machine file, by real Snakemake.

Run by ``make test-vllm`` in the environment with vLLM.  Two stages change hands: samples and continuations.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seedwise import layout as layouts
from seedwise import tables
from seedwise.layout import Layout

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "config" / "smoke.yaml"
VLLM = "vllm 0.31.0 cpu float32"
MACHINE = f"""
sample: {{engine: vllm, python: {sys.executable}, memory_share: 0.15, enforce_eager: true}}
resample: {{engine: vllm, memory_share: 0.15, enforce_eager: true}}
"""

pytestmark = [pytest.mark.service, pytest.mark.timeout(1500)]


def snakemake(study: Layout, *config: str) -> str:
    """What Snakemake printed on being asked for scores, and the continuations of the untrained model."""
    folder = study.root.parent
    (base,) = study.grid.bases
    wanted = [study.continuations(base), *(study.scores(name) for name in (base, *chosen(study)))]
    targets = [str(path.relative_to(folder)) for path in wanted if path]
    command = [sys.executable, "-m", "snakemake", *targets, "-s", str(ROOT / "Snakefile"), "--directory", str(folder)]
    done = subprocess.run(
        [*command, "--cores", "1", "--config", f"study={STUDY}", *config],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Layout:
    """The untrained model, a whole one and an adapter: trained, sampled at every checkpoint, scored, continued."""
    folder = tmp_path_factory.mktemp("vllm")
    (folder / "machine.yaml").write_text(MACHINE)
    found = Layout(layouts.read(STUDY).grid, folder / "results")
    snakemake(found, "machine=machine.yaml")
    return found


def chosen(layout: Layout) -> list[str]:
    """A run that trains the whole model and one that trains an adapter."""
    runs = layout.grid.runs
    lora = next(name for name, run in runs.items() if run.model.lora)
    whole = next(name for name, run in runs.items() if run.method == "clip_higher" and not run.model.lora)
    return [whole, lora]


def test_every_sample_names_the_engine(study: Layout):
    for name in (*study.grid.bases, *chosen(study)):
        for benchmark, path in study.samples(name).items():
            samples = tables.read(tables.SAMPLES, path)
            assert set(samples["engine"]) == {VLLM}
            assert set(samples["step"]) == set(study.steps(name))
            # 8 problems x 8 samples, or 6 x 4, at each checkpoint
            assert len(samples) == len(study.steps(name)) * {"same": 64, "longer": 24}[benchmark]


def test_one_engine_served_all_checkpoints(study: Layout):
    for name in chosen(study):
        assert study.steps(name) == (2, 4)
        (log,) = (study.root / "logs" / "sample").glob(f"{name}.*.log")
        assert log.read_text().count(f"{VLLM}: started with") == 1


def test_the_untrained_model_answers_as_well_as_by_the_other_engine(study: Layout):
    # the smoke study's own test holds transformers to the same range
    (base,) = study.grid.bases
    assert 0.2 < tables.read(tables.SCORES, study.scores(base))["correct"].mean() < 0.8


def test_continuations_are_there(study: Layout):
    (base,) = study.grid.bases
    path = study.continuations(base)
    assert path is not None
    assert len(tables.read(tables.CONTINUATIONS, path)) > 0


def test_another_machine_file_makes_nothing_anew(study: Layout):
    assert "Nothing to be done" in snakemake(study)
