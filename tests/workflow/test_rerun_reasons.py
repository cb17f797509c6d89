"""Why a job is planned, and what it will cost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from rerun_made import STEP_SECONDS, WEIGHTS, conclude, evaluate, finish, layout_of, publish, sources
from study_file import STUDY, changed

from seedwise.reruns import RerunError, jobs, ledger, planning
from seedwise.reruns.estimates import Estimate, of_bytes, total

EAPO = {"methods.eapo": {"preset": "eapo", "kappa": "log 4"}}
QAE = "qae.K0.4.G8.s0"
MODULE = "trainer.adapter"


def plan_after(tmp_path: Path, **changes: object) -> planning.Plan:
    """The plan after the study that is finished under ``tmp_path`` was changed."""
    return planning.plan(layout_of(changed(**changes), tmp_path), tmp_path / "work")


def run_named(plan: planning.Plan, beginning: str) -> str:
    (name,) = [name for stage, name in plan.why if stage == "train" and name.startswith(beginning)]
    return name


def test_a_finished_study_plans_nothing(tmp_path) -> None:
    finish(layout_of(STUDY, tmp_path))
    found = plan_after(tmp_path)
    assert found.jobs == ()
    assert next(planning.lines(found)) == "tiny: nothing to be done"


def test_a_first_study_is_new(tmp_path) -> None:
    found = plan_after(tmp_path)
    # six runs and one base are evaluated
    assert found.counts == {
        "data": 2, "base": 1, "train": 6, "sample": 7, "score": 7, "resample": 7, "measure": 7, "analyse": 1,
        "report": 1, "track": 1,
    }  # fmt: skip
    reason = found.why["train", run_named(found, QAE)][0]
    assert (reason.kind, reason.nearest) == ("new", None)
    assert reason.text == "no run of qae.K0.4 at G8, seed 0, is published"


def test_a_changed_setting_is_named_with_both_values(tmp_path) -> None:
    finish(layout_of(STUDY, tmp_path))
    found = plan_after(tmp_path, **{"train.lr": 2e-4})
    (reason,) = found.why["train", run_named(found, QAE)]
    assert (reason.kind, reason.text) == ("spec", "train.lr: 0.0001 -> 0.0002")
    assert str(reason.nearest).startswith(QAE)


def test_a_parameter_that_renames_the_run_is_found_by_its_method_point(tmp_path) -> None:
    finish(layout_of(changed(**EAPO), tmp_path))
    found = plan_after(tmp_path, **{"methods.eapo": {"preset": "eapo", "kappa": 2.0}})
    assert found.counts["train"] == 2
    (reason,) = found.why["train", run_named(found, "eapo.kappa2.G8.s0")]
    assert reason.kind == "spec"
    assert reason.nearest is not None and reason.nearest.startswith("eapo.log4.G8.s0")
    assert [change.key for change in reason.changes] == ["algorithm.credit.kappa"]


def test_of_several_published_runs_the_one_that_differs_least_is_compared(tmp_path) -> None:
    far, near = changed(**{"train.lr": 1e-3, "train.top_k": 5}), changed(**{"train.lr": 1e-3})
    finish(layout_of(far, tmp_path))
    finish(layout_of(near, tmp_path))
    found = plan_after(tmp_path)
    (reason,) = found.why["train", run_named(found, QAE)]
    assert reason.text == "train.lr: 0.001 -> 0.0001"


def test_changed_code_names_its_module(tmp_path) -> None:
    layout = layout_of(STUDY, tmp_path)
    sources(layout)
    name = next(name for name in layout.grid.runs if name.startswith(QAE))
    code = ledger.training(layout.grid.runs[name].algorithm)
    publish(layout, name, {**code, MODULE: "0" * 64, "trainer.gone": "1" * 64})
    # as if it had been trained by that code, its name is another
    layout.run(name).rename(layout.run(f"{QAE}-00000000"))
    found = planning.plan(layout, tmp_path / "work")
    (reason,) = found.why["train", name]
    assert (reason.kind, reason.text) == ("code", f"changed {MODULE}; gone trainer.gone")
    assert f"behaviour.{MODULE}: 00000000 -> {code[MODULE][:8]}" in map(str, reason.changes)


def test_changed_data_and_changed_settings_are_told_apart(tmp_path) -> None:
    finish(layout_of(STUDY, tmp_path))
    found = plan_after(tmp_path, **{"train_data.size": 30, "train.lr": 2e-4})
    reasons = found.why["train", run_named(found, QAE)]
    assert [reason.kind for reason in reasons] == ["spec", "data"]
    data = found.why["data", next(name for stage, name in found.why if stage == "data" and name.startswith("train"))]
    assert data[0].text == "train_data.size: 20 -> 30"


def test_evaluation_is_planned_for_its_own_settings(tmp_path) -> None:
    finish(layout_of(STUDY, tmp_path))
    found = plan_after(tmp_path, **{"evaluate.temperature": 0.5})
    assert "train" not in found.counts
    subject = next(subject for stage, subject in found.why if stage == "sample")
    assert found.why["sample", subject][0].text == "evaluate.temperature: 0.7 -> 0.5"
    assert found.why["score", subject][0].text == "what it is made from is planned: sample"


def test_a_lost_file_is_neither_new_nor_changed(tmp_path) -> None:
    layout = layout_of(STUDY, tmp_path)
    finish(layout)
    name = next(iter(layout.grid.runs))
    (layout.run(name) / "metrics.parquet").unlink()
    layout.report.unlink()
    found = planning.plan(layout, tmp_path / "work")
    assert found.counts == {"train": 1, "report": 1}
    assert found.why["train", name][0].kind == "missing"


def test_device_time_and_disk_rest_on_published_runs(tmp_path) -> None:
    finish(layout_of(STUDY, tmp_path))
    steps = {"train.steps": 8, "train.checkpoints": [4, 8]}
    found = plan_after(tmp_path, **steps)
    name = run_named(found, QAE)
    # 8 steps of 2 s, from the two seeds of this method; 2 checkpoints, and a state of 3 times the weights
    assert found.seconds[name] == Estimate(8 * STEP_SECONDS, 2)
    assert found.disk[name] == Estimate(2 * WEIGHTS + 3 * WEIGHTS, 1)
    assert total(found.seconds.values()) == Estimate(6 * 8 * STEP_SECONDS, 2)
    # what stays of them: the last, or none
    last = plan_after(tmp_path, **steps, **{"train.keep": "last", "train.keep_state": False})
    none = plan_after(tmp_path, **steps, **{"train.keep": "none"})
    assert (last.disk[name].value, none.disk[name].value) == (WEIGHTS, 3 * WEIGHTS)
    # a stopped training has the rest to do
    (tmp_path / "work" / name / "state-6").mkdir(parents=True)
    assert plan_after(tmp_path, **steps).seconds[name].value == 2 * STEP_SECONDS


def test_without_runs_alike_the_time_is_unknown_and_the_weights_are_those_of_the_model(tmp_path) -> None:
    sources(layout_of(STUDY, tmp_path))
    found = plan_after(tmp_path)
    name = run_named(found, QAE)
    assert found.seconds[name].value is None
    assert found.disk[name] == Estimate(2 * WEIGHTS + 3 * WEIGHTS, 0)
    assert total(found.seconds.values()).reason == f"{found.seconds[name].reason} (6 of 6 runs)"
    shown = json.loads(found.json())
    assert shown["device_seconds"]["value"] is None
    assert shown["total"] == len(found.jobs)


def test_samples_that_are_there_need_no_weights(tmp_path) -> None:
    layout = layout_of(STUDY, tmp_path)
    finish(layout)
    name = next(iter(layout.grid.runs))
    shutil.rmtree(layout.run(name) / "checkpoints" / "2")
    fewer = plan_after(tmp_path, **{"evaluate.samples": 3})  # another record, of the first 3 of 4
    assert ("sample", name) in fewer.why and fewer.notes == ()
    more = layout_of(changed(**{"evaluate.samples": 6}), tmp_path)
    said = list(planning.told(planning.plan(more, tmp_path / "work", only=name), name))
    assert "  draws same: samples 4 to 5 of every problem at step 2, 4" in said
    (note,) = plan_after(tmp_path, **{"evaluate.samples": 5}).notes
    assert note.startswith(f"{name}: sample needs the weights of step 2, which are gone: ")


def test_an_evaluation_without_weights_is_warned_of(tmp_path) -> None:
    layout = layout_of(STUDY, tmp_path)
    finish(layout)
    name = next(iter(layout.grid.runs))
    shutil.rmtree(layout.run(name) / "checkpoints" / "2")
    found = plan_after(tmp_path, **{"evaluate.temperature": 0.5})
    # resampling reads the last checkpoint alone
    assert found.notes == (
        f"{name}: sample needs the weights of step 2, which are gone: "
        f"remove {layout.run(name) / 'trained.json'} to train it again",
    )


def test_a_run_that_shares_a_longer_name_is_asked_for_in_full(tmp_path) -> None:
    layout = layout_of(STUDY, tmp_path)
    assert planning.subject(layout, QAE).startswith(QAE)
    with pytest.raises(RerunError, match=r"qae: 4 runs of study tiny begin so: name one of qae\.K0\.4"):
        planning.subject(layout, "qae")
    with pytest.raises(RerunError, match="nothing: no run of this study"):
        planning.subject(layout, "nothing")


def test_one_run_is_told_in_full(tmp_path) -> None:
    finish(layout_of(STUDY, tmp_path))
    layout = layout_of(changed(**{"train.lr": 2e-4}), tmp_path)
    name = planning.subject(layout, QAE)
    found = planning.plan(layout, tmp_path / "work", only=name)
    assert {job.stage for job in found.jobs} == {"train", "sample", "score", "resample", "measure"}
    told = list(planning.told(found, name))
    assert told[0].startswith(f"train: spec, against {QAE}-")
    assert "  train.lr: 0.0001 -> 0.0002" in told


def test_what_is_there_asks_for_nothing_it_was_made_from(tmp_path) -> None:
    layout = layout_of(STUDY, tmp_path)
    for subject in layout.subjects:
        evaluate(layout, subject)
    # neither problems, models nor weights: the scores are there, and only the report reads the metrics
    assert {job.stage for job in jobs.planned(layout)} == {"data", "base", "train", "analyse", "report", "track"}
    conclude(layout)
    assert jobs.planned(layout) == []


@pytest.mark.parametrize(("size", "shown"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2.5e12, "2.5 TB")])
def test_bytes_in_the_unit_that_fits(size: float, shown: str) -> None:
    assert of_bytes(size) == shown
