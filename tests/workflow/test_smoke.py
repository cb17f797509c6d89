"""The smoke study from end to end by real Snakemake: every stage, every axis, no stub.

One run of the study serves all tests of this file; it takes about three minutes on two cores.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from seedwise import layout as layouts
from seedwise import tables
from seedwise.identity import file_digest
from seedwise.layout import Layout, record_of
from seedwise.reruns import verifying

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "config" / "smoke.yaml"

pytestmark = pytest.mark.timeout(1500)


def snakemake(folder: Path, *arguments: str) -> str:
    """What Snakemake printed; fails the test unless it ended with exit code 0."""
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--directory", str(folder), *arguments]
    done = subprocess.run(
        [*command, "--config", f"study={STUDY}"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Layout:
    """The finished study."""
    folder = tmp_path_factory.mktemp("smoke")
    snakemake(folder, "--cores", "2")
    return Layout(layouts.read(STUDY).grid, folder / "results")


def test_every_run_left_whole_tables(study: Layout) -> None:
    for name, run in study.grid.runs.items():
        metrics = tables.read(tables.METRICS, study.run(name) / "metrics.parquet")
        assert sorted(set(metrics["step"])) == [1, 2, 3, 4]
        assert {"reward", "entropy_nats", "zero_advantage_share", "gradient_norm"} <= set(metrics["name"])
        assert metrics.loc[metrics["value"].isna(), "reason"].notna().all()
        scores = tables.read(tables.SCORES, study.scores(name))
        # 8 problems x 8 samples and 6 x 4, at each checkpoint
        assert len(scores) == len(run.train.checkpoints) * (8 * 8 + 6 * 4)
        assert set(scores["verdict"]) <= {"correct", "wrong", "unparsed", "timeout"}
        measures = tables.read(tables.MEASURES, study.measures(name))
        assert measures.loc[measures["value"].isna(), "reason"].notna().all()
        whole = measures[measures["problem"].isna()]
        # every sample has one verdict, and the shares of correct ones are those of the scores
        assert whole.loc[whole["metric"].str.endswith("_samples"), "value"].sum() == len(scores)
        shares = whole[whole["metric"] == "avg@n"].set_index(["step", "benchmark"])["value"]
        expected = scores.groupby(["step", "benchmark"])["correct"].mean()
        pd.testing.assert_series_equal(shares.sort_index(), expected, check_names=False)


def test_the_base_is_evaluated_once(study: Layout) -> None:
    (base,) = study.grid.bases
    scores = tables.read(tables.SCORES, study.scores(base))
    assert set(scores["step"]) == {0}
    assert 0.2 < scores["correct"].mean() < 0.8


def test_a_lora_run_publishes_an_adapter_alone(study: Layout) -> None:
    (name,) = [name for name, run in study.grid.runs.items() if run.model.lora]
    files = {path.name for path in (study.run(name) / "checkpoints" / "4").iterdir()}
    assert "adapter_model.safetensors" in files
    assert "model.safetensors" not in files


def test_the_record_says_what_a_run_rests_on(study: Layout) -> None:
    name = next(iter(study.grid.runs))
    spec = json.loads((study.run(name) / "spec.json").read_text())
    assert spec["run"]["name"] == name
    assert spec["stack"]["trl"] == "1.16.0"
    assert "trainer.adapter" in spec["behaviour"]
    assert spec["data_sha256"] == file_digest(study.problems(study.grid.runs[name].data))
    (code,) = spec["reward_code"]
    assert "grading.verify" in code and "grading.verify" not in spec["behaviour"]


def test_every_file_has_a_digest_and_is_what_it_says(study: Layout) -> None:
    assert verifying.verify(study) == []
    assert list(verifying.notes(study)) == []
    scores = study.scores(next(iter(study.grid.runs)))
    record = json.loads(record_of(scores).read_text())
    assert record["sha256"] == {"scores.parquet": file_digest(scores)}
    assert {"evals.scores", "grading.verify"} <= set(record["behaviour"])
    assert record["accepted"] == []


def test_tables_say_what_the_analysis_says(study: Layout) -> None:
    contrasts = tables.read(tables.CONTRASTS, study.folder / "analysis" / "contrasts.parquet")
    primary = contrasts[(contrasts["family"] == "primary") & (contrasts["setting"] == "G8")]
    assert sorted(primary["method"]) == ["base", "qae.K0.4", "qae.K0.8"]
    assert primary["p_adjusted"].between(0, 1).all()
    one_seed = contrasts[contrasts["setting"] == "G8.lora8"]
    assert one_seed["p"].isna().all()
    assert one_seed["reason"].str.contains("needs at least 2, got 1").all()
    main = pd.read_csv(study.folder / "tables" / "main.csv")
    assert {"clip_higher", "qae.K0.4", "base"} <= set(main["method"])
    measures = pd.read_csv(study.folder / "tables" / "measures.csv")
    one_seed = measures[(measures["setting"] == "G8.lora8") & (measures["method"] != "base")]
    assert one_seed["low"].isna().all()
    assert one_seed["reason"].notna().all()
    assert (one_seed.loc[one_seed["mean"].notna(), "reason"] == "an interval over seeds needs at least 2, got 1").all()
    assert set(tables.read(tables.MEASURED, study.folder / "measures.parquet")["run"]) == set(study.subjects)


def test_the_report_is_one_file_that_loads_nothing(study: Layout) -> None:
    page = study.report.read_text()
    assert "<script" not in page
    assert 'src="http' not in page
    assert 'href="http' not in page
    assert "qae.K0.8" in page


def test_the_mirror_holds_study_method_and_seed(study: Layout) -> None:
    store = sqlite3.connect(study.root / "mlflow.db")
    experiments = [name for (name,) in store.execute("select name from experiments")]
    assert "smoke" in experiments
    parents = dict(store.execute("select run_uuid, value from tags where key = 'mlflow.parentRunId'").fetchall())
    children = {value for (value,) in store.execute("select value from tags where key = 'seedwise.run'")}
    assert set(study.grid.runs) <= children
    assert len(parents) >= len(study.grid.runs)


def test_a_finished_study_plans_nothing(study: Layout) -> None:
    assert "Nothing to be done" in snakemake(study.root.parent, "-n")


def test_snakemake_makes_its_own_report(study: Layout) -> None:
    folder = study.root.parent
    snakemake(folder, "--report", str(folder / "report.zip"))
    assert (folder / "report.zip").stat().st_size > 100_000


def test_the_same_run_trained_again_gives_the_same_bits(study: Layout) -> None:
    name = next(name for name, run in study.grid.runs.items() if run.method == "qae.K0.4" and run.group_size == 4)
    folder, files = study.run(name), ["metrics.parquet", "checkpoints/4/model.safetensors"]
    before = {file: file_digest(folder / file) for file in files}
    main = file_digest(study.folder / "tables" / "main.csv")
    shutil.rmtree(folder)
    shutil.rmtree(study.folder)  # a report that is there asks for nothing that it was made from
    snakemake(study.root.parent, "--cores", "2")
    assert {file: file_digest(folder / file) for file in files} == before
    assert file_digest(study.folder / "tables" / "main.csv") == main
