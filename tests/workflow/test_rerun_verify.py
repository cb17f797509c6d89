"""What is stored against what its records say."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from rerun_made import conclude, draw, finish, layout_of, record
from study_file import STUDY, changed
from typer.testing import CliRunner

from seedwise import cli, tables
from seedwise.layout import Layout, record_of
from seedwise.reruns.verifying import notes, verify


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = layout_of(STUDY, tmp_path)
    finish(made)
    return made


def faults(layout: Layout) -> list[tuple[str, str]]:
    """Kind and path below results/."""
    return [(fault.kind, Path(fault.path).relative_to(layout.root).as_posix()) for fault in verify(layout)]


def test_a_finished_study_has_no_fault_wherever_it_lies_and_whatever_its_time_stamps(layout, tmp_path) -> None:
    assert verify(layout) == []
    for path in layout.root.rglob("*"):
        os.utime(path, (1, 1))
    shutil.move(layout.root, tmp_path / "elsewhere" / "results")
    assert verify(Layout(layout.grid, tmp_path / "elsewhere" / "results")) == []


def test_what_is_not_made_yet_is_no_fault(tmp_path) -> None:
    assert verify(layout_of(STUDY, tmp_path)) == []


def test_every_edited_or_missing_file_is_named(layout) -> None:
    name = next(iter(layout.grid.runs))
    run, (sample, lost, *_) = layout.run(name), sorted(layout.run(name).glob("samples/*/*.parquet"))
    (run / "checkpoints/2/model.safetensors").write_bytes(b"other")
    (run / "checkpoints/4/model.safetensors").unlink()
    (run / "timing.parquet").unlink()
    sample.write_bytes(sample.read_bytes() + b"more")
    lost.unlink()
    edit(tables.SCORES, layout.scores(name), correct=0, verdict="wrong")
    continued = layout.continuations(name)
    assert continued is not None
    continued.write_bytes(continued.read_bytes()[:100])  # a copy that was cut off
    layout.measures(name).write_bytes(layout.measures(name).read_bytes()[:100])
    (model,) = layout.grid.models
    (layout.model(model) / "model.safetensors").write_bytes(b"")
    layout.report.unlink()
    resampled = layout.resampling(name)
    resampled["along"].write_bytes(b"")
    resampled["words"].unlink()
    place = f"runs/{name}"
    assert sorted(faults(layout)) == sorted(
        [
            ("edited", f"models/{model}/model.safetensors"),
            ("edited", f"{place}/checkpoints/2/model.safetensors"),
            ("missing", f"{place}/checkpoints/4/model.safetensors"),
            ("missing", f"{place}/timing.parquet"),
            ("edited", f"{place}/samples/{sample.parent.name}/{sample.name}"),
            ("missing", f"{place}/samples/{lost.parent.name}/{lost.name}"),
            ("edited", f"{place}/evals/{layout.scores(name).parent.name}/scores.parquet"),
            ("edited", f"{place}/resample/{continued.name}"),
            ("edited", f"{place}/resample/{resampled['along'].name}"),
            ("missing", f"{place}/resample/{resampled['words'].name}"),
            ("edited", f"{place}/measures/{layout.measures(name).name}"),
            ("missing", "tiny/report.html"),
        ]
    )


def edit(table: tables.Table, path: Path, **columns: object) -> None:
    """Another value in a table that stays a whole one."""
    tables.write(table, tables.read(table, path).assign(**columns), path)


@pytest.mark.parametrize("file", ["timing.parquet", "metrics.parquet"])
def test_a_number_in_a_run_that_was_edited_is_found_by_its_digest(file, layout) -> None:
    name = next(iter(layout.grid.runs))
    edit(tables.METRICS, layout.run(name) / file, value=7.0)
    (fault,) = verify(layout)
    assert (fault.kind, Path(fault.path).name, fault.why) == ("edited", file, "not the bytes that trained.json names")


def test_a_setting_that_no_name_rests_on_is_found_by_the_digest_of_the_spec(layout) -> None:
    name = next(iter(layout.grid.runs))
    path = layout.run(name) / "spec.json"
    record(path, json.loads(path.read_text()) | {"stack": {"device": "another"}})
    (fault,) = verify(layout)
    assert (fault.path, fault.why) == (str(path), "not the bytes that trained.json names")


def test_results_from_before_digests_are_told_once_per_kind_and_are_no_fault(layout) -> None:
    for name in layout.grid.runs:
        trained = layout.run(name) / "trained.json"
        content = json.loads(trained.read_text())
        for file in ("spec.json", "timing.parquet"):
            del content["sha256"][file]
        record(trained, content)
    for name in layout.subjects:
        record(layout.sampled(name), json.loads(layout.sampled(name).read_text())["sha256"])
        continued = layout.continuations(name)
        assert continued is not None
        for path in (layout.scores(name), continued):
            record_of(path).unlink()
    assert verify(layout) == []
    # six runs, and one base that is evaluated like them
    assert list(notes(layout)) == [
        "spec.json: no digest recorded for 6: checked by columns and keys alone",
        "timing.parquet: no digest recorded for 6: checked by columns and keys alone",
        "scores: no digest recorded for 7: checked by columns and keys alone",
        "continuations: no digest recorded for 7: checked by columns and keys alone",
    ]
    scores = layout.scores(next(iter(layout.grid.runs)))
    scores.write_bytes(scores.read_bytes()[:100])
    assert [kind for kind, _ in faults(layout)] == ["edited"]


def test_a_damaged_spec_hides_no_other_fault(layout) -> None:
    name = next(iter(layout.grid.runs))
    (layout.run(name) / "spec.json").write_text("{")
    assert faults(layout) == [("edited", f"runs/{name}/spec.json")]
    assert list(notes(layout)) == []


def test_a_record_that_names_too_few_samples_was_edited(layout) -> None:
    name = next(iter(layout.grid.runs))
    path = layout.sampled(name)
    content = json.loads(path.read_text())
    content["sha256"] = {file: digest for file, digest in content["sha256"].items() if "/2." not in file}
    record(path, content)
    assert faults(layout) == [("edited", f"runs/{name}/samples/{path.name}")]
    assert "no samples 0 to 3 of step 2" in verify(layout)[0].why


def test_samples_of_another_study_are_no_fault(layout, tmp_path) -> None:
    more = layout_of(changed(**{"evaluate.samples": 6}), tmp_path)
    for wanted in more.samples(next(iter(layout.grid.runs))).values():
        draw(wanted, 4, 6)
    assert faults(layout) == []


def test_weights_that_were_removed_on_purpose_are_not_missing(layout) -> None:
    name = next(iter(layout.grid.runs))
    file = "checkpoints/2/model.safetensors"
    (layout.run(name) / file).unlink()
    assert faults(layout) == [("missing", f"runs/{name}/{file}")]
    record(layout.run(name) / "retention.json", {"keep": "last", "removed": {file: "0"}})
    assert faults(layout) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("run", "train", "lr"), 1.0),
        (("run", "algorithm", "objective", "surrogate", "high"), 0.5),
        (("behaviour", "trainer.adapter"), "0" * 64),
    ],
)
def test_a_spec_that_is_not_that_of_its_name_was_edited(layout, place: tuple, value: object) -> None:
    name = next(iter(layout.grid.runs))
    path = layout.run(name) / "spec.json"
    spec = json.loads(path.read_text())
    node = spec
    for key in place[:-1]:
        node = node[key]
    assert place[-1] in node
    node[place[-1]] = value
    record(path, spec)
    (fault,) = verify(layout)
    assert (fault.kind, fault.path) == ("edited", str(path))
    assert ".".join(place[1:]) in fault.why


def test_a_record_that_is_no_json_is_one_fault(layout) -> None:
    name = next(iter(layout.grid.runs))
    (layout.run(name) / "trained.json").write_text("{")
    assert faults(layout) == [("edited", f"runs/{name}/trained.json")]


def test_runs_whose_problems_were_replaced_are_stale(layout) -> None:
    path = layout.problems(next(iter(layout.grid.runs.values())).data)
    frame = tables.read(tables.PROBLEMS, path)
    tables.write(tables.PROBLEMS, frame.assign(answer="3"), path)
    os.utime(path, (1, 1))  # older than everything made from it
    assert faults(layout) == [("stale", f"runs/{name}") for name in layout.grid.runs]


def test_tables_of_another_study_or_code_are_stale_and_so_are_their_runs(layout, tmp_path) -> None:
    now = layout_of(changed(**{"train.lr": 2e-4}), tmp_path)
    found = verify(now)
    marker = layout.marker("analysis")
    assert faults(now)[0] == ("stale", f"tiny/analysis/{marker.name}")
    assert {fault.kind for fault in found} == {"stale"}
    runs = [fault for fault in found if "/runs/" in fault.path]
    assert [Path(fault.path).name for fault in runs] == sorted(layout.grid.runs)
    assert runs[0].why.startswith("spec changed since: seedwise why ")
    conclude(now)
    assert verify(now) == []


def test_digests_in_a_marker_are_checked(layout) -> None:
    marker = layout.marker("report")
    record(marker, json.loads(marker.read_text()) | {"sha256": {"report.html": "0" * 64}})
    assert faults(layout) == [("edited", "tiny/report.html")]


def test_the_command_ends_with_1_when_there_is_a_fault(layout, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(json.dumps(STUDY))
    run = CliRunner()
    done = run.invoke(cli.app, ["verify", "--study", "study.yaml"])
    assert (done.exit_code, done.output) == (0, "study.yaml: every stored file is as recorded\n")
    layout.report.unlink()
    done = run.invoke(cli.app, ["verify", "--study", "study.yaml", "--json"])
    assert done.exit_code == 1
    content = json.loads(done.output)
    (fault,) = content["faults"]
    assert content["notes"] == []
    assert (fault["kind"], fault["path"]) == ("missing", "results/tiny/report.html")
