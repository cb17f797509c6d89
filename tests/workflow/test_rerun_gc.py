"""What no study refers to, and what is never deleted."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import psutil
import pytest
from rerun_made import WEIGHTS, draw, finish, layout_of, publish, record
from study_file import STUDY, changed
from typer.testing import CliRunner

from seedwise import cli
from seedwise.layout import Layout
from seedwise.reruns import RerunError
from seedwise.reruns.collecting import Leftover, collect, leftovers

OTHER = changed(**{"train.lr": 2e-4})


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A finished study."""
    made = layout_of(STUDY, tmp_path)
    finish(made)
    return made


def left(tmp_path: Path, *layouts: Layout) -> list[Leftover]:
    return leftovers(layouts, tmp_path / "results", tmp_path / "work")


def delete(tmp_path: Path, found: list[Leftover]) -> list[str]:
    return list(collect(found, tmp_path / "results", tmp_path / "work"))


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def names(found: list[Leftover]) -> list[str]:
    return [item.path.name for item in found]


def test_what_a_study_refers_to_is_none(layout, tmp_path) -> None:
    assert left(tmp_path, layout) == []


def test_results_of_no_study_are_listed_with_their_sizes(layout, tmp_path) -> None:
    now = layout_of(OTHER, tmp_path)
    found = left(tmp_path, now)
    # problems, model and base are those of both studies
    assert names(found) == sorted(layout.grid.runs)
    sizes = [sum(file.stat().st_size for file in files(item.path)) for item in found]
    assert [item.bytes for item in found] == sizes
    assert min(sizes) > 2 * WEIGHTS
    assert left(tmp_path, now, layout) == []  # named by either


def test_deleting_takes_these_and_nothing_else(layout, tmp_path) -> None:
    now = layout_of(OTHER, tmp_path)
    finish(now)
    kept = {file for file in files(tmp_path) if not any(name in file.parts for name in layout.grid.runs)}
    stopped = sorted(layout.grid.runs)[0]
    (tmp_path / "work" / stopped / "state-2").mkdir(parents=True)
    said = delete(tmp_path, left(tmp_path, now))
    runs = tmp_path / "results/runs"
    assert said == [
        f"deleted {runs / name}" + (f" and {tmp_path / 'work' / name}" if name == stopped else "")
        for name in sorted(layout.grid.runs)
    ]
    assert files(tmp_path) == kept
    assert list((tmp_path / "work").iterdir()) == []


def test_evaluations_under_other_ids_are_leftovers_of_a_run_that_stays(layout, tmp_path) -> None:
    now = layout_of(changed(**{"evaluate.temperature": 0.5}), tmp_path)
    found = left(tmp_path, now)
    subjects = layout.subjects
    # of each subject: samples, their record, folder of the scores, five files of resampling, their record, measures
    assert len(found) == 10 * len(subjects)
    delete(tmp_path, found)
    assert all((layout.run(name) / "trained.json").exists() for name in layout.grid.runs)
    assert not layout.scores(subjects[0]).exists()


def test_samples_that_no_study_asks_for_are_leftovers_of_a_store_that_stays(layout, tmp_path) -> None:
    subject = next(iter(layout.grid.runs))
    (wanted,) = layout.samples(subject).values()
    for first, stop in ((4, 6), (6, 9)):
        draw(wanted, first, stop)
    assert [item.path.relative_to(wanted.folder).name for item in left(tmp_path, layout)] == [
        f"{step}.{numbers}.parquet" for step in (2, 4) for numbers in ("4-6", "6-9")
    ]
    # one that asks for 5 reads samples 0 to 4, of two parts
    more = layout_of(changed(**{"evaluate.samples": 5}), tmp_path)
    found = [item for item in left(tmp_path, layout, more) if item.path.parent == wanted.folder]
    assert names(found) == ["2.6-9.parquet", "4.6-9.parquet"]
    lease(tmp_path / "work" / subject / "samples", os.getpid(), "elsewhere")
    assert all("held by process" in str(item.kept) for item in left(tmp_path, layout) if item.path in files(tmp_path))


def test_problems_and_models_of_no_study_are_leftovers(layout, tmp_path) -> None:
    now = layout_of(changed(**{"evaluate.benchmarks.same.size": 9}), tmp_path)
    benchmark = next(name for name in layout.grid.problems if name.startswith("same"))
    assert f"{benchmark}.parquet" in names(left(tmp_path, now))


def test_a_run_that_another_starts_from_stays(layout, tmp_path) -> None:
    origin = next(name for name in layout.grid.runs if name.startswith("clip_higher.G8.s0"))
    after = changed(**{"methods.after": {"preset": "qae", "K": 0.4, "init_from": origin}})
    del after["methods"]["qae"]
    after["methods"].pop("clip_higher")
    after["compare"] = {"reference": "after", "primary": {"metric": "avg@n", "family": ["base"]}}
    assert origin not in names(left(tmp_path, layout_of(after, tmp_path)))


def lease(work: Path, pid: int, host: str) -> None:
    record(work / "lease.json", {"host": host, "pid": pid, "started": psutil.Process().create_time(),
                                 "slurm_job": None, "fence": 3})  # fmt: skip


@pytest.mark.parametrize("host", [socket.gethostname(), "elsewhere"])
def test_a_run_with_a_live_writer_stays_and_so_do_problems_and_models(layout, tmp_path, host: str) -> None:
    now = layout_of(changed(**{"train_data.size": 30}), tmp_path)
    held = next(iter(layout.grid.runs))
    lease(tmp_path / "work" / held, os.getpid(), host)
    found = left(tmp_path, now)
    stays = {item.path for item in found if item.kept}
    assert {tmp_path / "results/runs" / held, tmp_path / "work" / held} <= stays
    assert all(item.kept == f"{held} may use it" for item in found if item.path.parent.name == "data")
    before = files(tmp_path / "results/data") | files(tmp_path / "results/runs" / held)
    said = delete(tmp_path, found)
    assert before <= files(tmp_path)
    assert any(line.startswith(f"kept {tmp_path / 'results/runs' / held}: held by process") for line in said)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_subject_that_is_being_sampled_stays(layout, tmp_path, when: str) -> None:
    now = layout_of(changed(**{"models.embedded.template": "{question}"}), tmp_path)
    base = next(iter(layout.grid.bases))
    assert base not in now.grid.bases
    work = tmp_path / "work" / base / "samples"
    if when == "before":
        lease(work, os.getpid(), "elsewhere")
    found = [item for item in left(tmp_path, now) if item.path.name == base]
    lease(work, os.getpid(), "elsewhere")
    said = delete(tmp_path, found)
    assert said and all(line.startswith("kept ") and "held by process" in line for line in said)
    assert layout.scores(base).exists()


def test_a_writer_that_came_after_the_list_was_made_is_respected(layout, tmp_path) -> None:
    now = layout_of(OTHER, tmp_path)
    held = next(iter(layout.grid.runs))
    found = left(tmp_path, now)
    lease(tmp_path / "work" / held, os.getpid(), "elsewhere")
    said = delete(tmp_path, found)
    assert (tmp_path / "results/runs" / held / "trained.json").exists()
    assert any(line.startswith(f"kept {tmp_path / 'results/runs' / held}: ") and "held by" in line for line in said)


def test_no_link_is_followed(layout, tmp_path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("p")
    now = layout_of(STUDY, tmp_path)
    linked = tmp_path / "results/runs/qae.K0.1.G8.s0-00000000"
    linked.symlink_to(outside)
    inner = tmp_path / "results/runs/qae.K0.1.G8.s1-00000000"
    inner.mkdir()
    (inner / "link").symlink_to(outside)
    (tmp_path / "results/data").rename(tmp_path / "data")
    (tmp_path / "results/data").symlink_to(tmp_path / "data")
    (tmp_path / "data/train-00000000.parquet").write_text("")
    work = tmp_path / "work" / "qae.K0.1.G8.s2-00000000"
    work.parent.mkdir(exist_ok=True)
    work.symlink_to(outside)
    (tmp_path / "results/runs" / work.name).mkdir()
    found = left(tmp_path, now)
    assert names(found) == [linked.name, inner.name, work.name, work.name]
    said = delete(tmp_path, found)
    assert (outside / "precious").exists() and list(outside.iterdir()) == [outside / "precious"]
    assert (tmp_path / "data/train-00000000.parquet").exists()
    assert not inner.exists()
    assert f"kept {linked}: a link: remove it by hand" in said
    assert f"kept {tmp_path / 'results/runs' / work.name}: {work} is a link: remove it by hand" in said


@pytest.mark.parametrize("place", ["results/tiny", "results/logs/x", "elsewhere/x", "results/runs/../../elsewhere"])
def test_what_lies_elsewhere_is_never_deleted(layout, tmp_path, place: str) -> None:
    path = tmp_path / place
    path.mkdir(parents=True, exist_ok=True)
    assert delete(tmp_path, [Leftover(path, 0)]) == [f"kept {path}: not inside the results"]
    assert path.exists()


def test_a_run_that_is_half_deleted_does_not_look_finished(layout, tmp_path, monkeypatch) -> None:
    name = next(iter(layout.grid.runs))
    monkeypatch.setattr("shutil.rmtree", lambda path: None)  # as if it were killed there
    delete(tmp_path, [Leftover(layout.run(name), 0)])
    assert not (layout.run(name) / "trained.json").exists()
    assert (layout.run(name) / "spec.json").exists()


def test_what_is_being_written_stays(layout, tmp_path) -> None:
    new = layout.run(next(iter(layout.grid.runs))) / "samples" / ".same-1.parquet.x"
    new.write_text("")
    assert left(tmp_path, layout) == []


def test_without_a_study_nothing_is_listed(tmp_path) -> None:
    with pytest.raises(RerunError, match="no study file: name those whose results are to be kept"):
        left(tmp_path)


def test_the_command_deletes_only_with_yes(layout, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config").mkdir()
    Path("config/other.yaml").write_text(json.dumps(OTHER))
    name = next(iter(layout.grid.runs))
    publish(layout_of(OTHER, tmp_path), next(iter(layout_of(OTHER, tmp_path).grid.runs)))
    listed = CliRunner().invoke(cli.app, ["gc"])
    assert listed.exit_code == 0
    assert f"results/runs/{name}" in listed.output
    assert "6 leftovers" in listed.output
    assert layout.run(name).exists()
    done = CliRunner().invoke(cli.app, ["gc", "--yes"])
    assert done.exit_code == 0
    assert not layout.run(name).exists()
