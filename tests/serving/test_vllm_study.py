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
from seedwise import stages, tables
from seedwise.layout import Layout

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "config" / "smoke.yaml"
VLLM = "vllm 0.31.0 cpu float32"
MACHINE = f"""
sample: {{engine: vllm, python: {sys.executable}, memory_share: 0.15, enforce_eager: true}}
resample: {{engine: vllm, python: {sys.executable}, memory_share: 0.15, enforce_eager: true}}
"""

pytestmark = [pytest.mark.service, pytest.mark.timeout(1500)]


def snakemake(study: Layout, *config: str) -> str:
    """What Snakemake printed on being asked for the continuations of a run, which rest on its samples and scores."""
    folder, wanted = study.root.parent, study.continuations(run_of(study))
    assert wanted is not None
    target = str(wanted.relative_to(folder))
    command = [sys.executable, "-m", "snakemake", target, "-s", str(ROOT / "Snakefile"), "--directory", str(folder)]
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
    """One run of it: trained, sampled at both checkpoints, scored, continued."""
    folder = tmp_path_factory.mktemp("vllm")
    (folder / "machine.yaml").write_text(MACHINE)
    found = Layout(layouts.read(STUDY).grid, folder / "results")
    snakemake(found, "machine=machine.yaml")
    return found


def run_of(study: Layout) -> str:
    """A run that trains the whole model, so that its checkpoints take each other's place in the engine."""
    runs = study.grid.runs.items()
    return next(name for name, run in runs if run.method == "clip_higher" and run.model.lora is None)


def test_every_sample_names_the_engine(study: Layout):
    name = run_of(study)
    for label in study.samples(name):
        samples = stages.samples_of(study, name, label)
        assert set(samples["engine"]) == {VLLM}
        # 8 problems x 8 samples, or 6 x 4, at each of two checkpoints
        assert len(samples) == 2 * {"same": 64, "longer": 24}[label]
        assert set(samples["step"]) == {2, 4}


def test_one_engine_served_both_checkpoints(study: Layout):
    (log,) = (study.root / "logs" / "sample").glob(f"{run_of(study)}.*.log")
    assert log.read_text().count(f"{VLLM}: started with") == 1


def test_it_answers_about_as_well_as_the_untrained_model_by_the_other_engine(study: Layout):
    # the smoke study's own test finds between 0.2 and 0.8 for the untrained model; four steps change little
    scores = tables.read(tables.SCORES, study.scores(run_of(study)))
    assert 0.2 < scores.loc[scores["benchmark"] == "same", "correct"].mean() < 0.8


def test_continuations_are_there(study: Layout):
    path = study.continuations(run_of(study))
    assert path is not None
    assert len(tables.read(tables.CONTINUATIONS, path)) > 0


def test_another_machine_file_makes_nothing_anew(study: Layout):
    assert "Nothing to be done" in snakemake(study)
