"""Where every run stands, from files alone."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from rerun_made import finish, layout_of, record, rows
from rich.console import Console
from study_file import STUDY

from seedwise import tables
from seedwise.layout import Layout
from seedwise.reruns import status as standing
from seedwise.reruns.running import JOURNAL, holder
from seedwise.reruns.status import Look, last_lines
from seedwise.trainer import journal


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = layout_of(STUDY, tmp_path)
    finish(made)
    return made


def look(layout: Layout) -> standing.Status:
    return Look(layout, layout.root.parent / "work").status()


def row(status: standing.Status, name: str) -> standing.Row:
    return next(row for row in status.rows if row.subject == name)


def untrained(layout: Layout) -> str:
    """A run whose training and all after it are not there."""
    name = next(iter(layout.grid.runs))
    for file in sorted(layout.run(name).rglob("*")):
        if file.is_file():
            file.unlink()
    return name


def log(layout: Layout, name: str, text: str) -> Path:
    path = layout.root / "logs" / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def owner(pid: int, started: float, host: str = socket.gethostname()) -> dict:
    return {"host": host, "pid": pid, "started": started, "slurm_job": None, "fence": 1}


def test_a_finished_study_is_done_and_says_where_its_rewards_are(layout) -> None:
    found = look(layout)
    assert {state for row in found.rows for state in row.stages.values()} == {"done"}
    assert set(found.stages.values()) == {"done"}
    name = next(iter(layout.grid.runs))
    progress = row(found, name).progress
    assert progress == standing.Progress(4, 4, None, "finished: its metrics.parquet has every step")
    base = next(iter(layout.grid.bases))
    assert (row(found, base).progress, "train" in row(found, base).stages) == (None, False)


def test_a_finished_run_opens_no_table(layout, monkeypatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError(f"read {arguments}")

    monkeypatch.setattr(tables, "read", refuse)
    assert look(layout).rows[0].stages["train"] == "done"


def test_a_diverged_run_says_so(layout) -> None:
    name = next(iter(layout.grid.runs))
    path = layout.run(name) / "trained.json"
    record(
        path, json.loads(path.read_text()) | {"steps": 3, "stopped": {"step": 3, "reason": "the loss is not finite"}}
    )
    progress = row(look(layout), name).progress
    assert progress is not None
    assert (progress.step, progress.stopped) == (3, "the loss is not finite")


def test_a_running_training_tells_step_reward_and_time_left(layout) -> None:
    name = untrained(layout)
    work = layout.root.parent / "work" / name
    record(work / "lease.json", owner(os.getpid(), psutil.Process().create_time()))
    tables.write(tables.METRICS, rows("reward", [0.25, 0.5]), work / "state-2" / "metrics.parquet")
    log(
        layout,
        f"train/{name}",
        f"{name}: step 2 of 4, 9.00 s\nWriting: 0%\rWriting: 100%\n{name}: step 3 of 4, 1.50 s\n",
    )
    found = row(look(layout), name)
    later = ("sample", "score", "resample", "measure")
    assert found.stages == {"train": "running", **dict.fromkeys(later, "missing")}
    # one of 4 steps is left, at 1.5 s; the saved state is of step 2
    assert found.progress == standing.Progress(3, 4, 0.5, None, eta_s=1.5)


def test_the_journal_tells_the_last_step_before_a_state_is_saved(layout) -> None:
    name = untrained(layout)
    record(layout.root.parent / "work" / name / "lease.json", owner(os.getpid(), psutil.Process().create_time()))
    file = layout.file(name, "tracking.jsonl")
    journal.append(file, journal.started({"seed": 0}))
    assert progress_of(layout, name) == (0, None, None)
    # a rollout serves two steps, so only the first of them has a reward; the machine is told of beside it
    journal.append(file, journal.Metrics(step=1, values={"reward": 0.25, "step_seconds": 8.0}))
    journal.append(file, journal.Metrics(step=1, values={"system/process_cpu_percentage": 99.0}))
    journal.append(file, journal.Metrics(step=2, values={"loss": 0.1, "step_seconds": 3.0}))
    assert progress_of(layout, name) == (2, 0.25, 2 * 5.5)  # two of 4 steps are left, at (8 + 3) / 2 s each
    journal.append(file, journal.Metrics(step=3, values={"reward": 0.75, "step_seconds": 2.0}))
    with file.open("ab") as torn:
        torn.write(b'{"event":"metr')
    assert progress_of(layout, name) == (3, 0.75, 1 * 3.0)  # the median of 8, 3 and 2


def test_a_training_that_goes_on_is_at_its_saved_step_until_it_tells_one(layout) -> None:
    name = untrained(layout)
    work = layout.root.parent / "work" / name
    record(work / "lease.json", owner(os.getpid(), psutil.Process().create_time()))
    tables.write(tables.METRICS, rows("reward", [0.25, 0.5]), work / "state-2" / "metrics.parquet")
    file = layout.file(name, "tracking.jsonl")
    for step in (1, 2, 3):  # it was killed after step 3, and its last state is of step 2
        journal.append(file, journal.Metrics(step=step, values={"reward": step / 4, "step_seconds": 1.0}))
    journal.append(file, journal.started({"seed": 0}))
    assert progress_of(layout, name) == (2, 0.75, 2.0)
    journal.append(file, journal.Metrics(step=3, values={"reward": 1.0, "step_seconds": 1.0}))
    assert progress_of(layout, name) == (3, 1.0, 1.0)


def test_of_a_long_journal_the_end_is_read(layout) -> None:
    name = untrained(layout)
    record(layout.root.parent / "work" / name / "lease.json", owner(os.getpid(), psutil.Process().create_time()))
    file = layout.file(name, "tracking.jsonl")
    line = journal.lines([journal.Metrics(step=1, values={f"metric_{place}": 0.5 for place in range(100)})])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(line * (2 * JOURNAL // len(line)))
    journal.append(file, journal.Metrics(step=3, values={"reward": 0.5, "step_seconds": 60.0}))
    assert progress_of(layout, name) == (3, 0.5, 60.0)
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(standing.table(look(layout)))
    line = next(line for line in console.export_text().splitlines() if name in line)
    assert line.split()[1:] == ["running", "missing", "missing", "missing", "missing", "3/4", "0.500", "1", "min"]


def progress_of(layout: Layout, name: str) -> tuple[int, float | None, float | None]:
    """Step, reward and time left, s."""
    progress = row(look(layout), name).progress
    assert progress is not None
    return progress.step, progress.reward, progress.eta_s


def test_a_sampling_that_holds_its_lease_is_running(layout) -> None:
    name = next(iter(layout.grid.runs))
    layout.sampled(name).unlink()
    record(layout.root.parent / "work" / name / "samples" / "lease.json", owner(1, 1.0, "elsewhere"))
    assert row(look(layout), name).stages["sample"] == "running"


def test_a_failed_training_shows_the_end_of_its_log(layout) -> None:
    name = untrained(layout)
    log(layout, f"train/{name}", "one\ntwo\n\nthree\nseedwise: no space left\n")
    found = row(look(layout), name)
    assert found.stages["train"] == "failed"
    assert found.failures == {"train": ("two", "three", "seedwise: no space left")}
    progress = found.progress
    assert progress is not None and (progress.step, progress.reward, progress.eta_s) == (0, None, None)


def test_a_stage_whose_input_is_missing_has_not_failed(layout) -> None:
    name = untrained(layout)
    log(layout, f"sample/{name}.{layout.sampled(name).stem}", "seedwise: of an earlier attempt\n")
    assert row(look(layout), name).stages["sample"] == "missing"


def test_while_snakemake_is_at_work_a_log_without_an_error_is_work_going_on(layout) -> None:
    name = next(iter(layout.grid.runs))
    layout.scores(name).unlink()
    path = log(layout, f"score/{name}.{layout.scores(name).parent.name}", "")
    found = row(look(layout), name)
    assert found.stages["score"] == "failed"
    assert found.failures["score"] == ("it ended without a word: killed, or out of memory",)
    record(layout.root.parent / ".snakemake" / "locks" / "0.output.lock", {})
    assert row(look(layout), name).stages["score"] == "running"
    path.write_text("seedwise: broken\n")
    assert row(look(layout), name).stages["score"] == "failed"


def test_measuring_and_resampling_wait_for_scores_and_not_for_each_other(layout) -> None:
    name = next(iter(layout.grid.runs))
    for stage, path in (("resample", layout.continuations(name)), ("measure", layout.measures(name))):
        path.unlink()
        log(layout, f"{stage}/{name}.{path.stem}", "seedwise: broken\n")
    found = row(look(layout), name)
    assert (found.stages["resample"], found.stages["measure"]) == ("failed", "failed")
    layout.scores(name).unlink()
    found = row(look(layout), name)
    assert (found.stages["score"], found.stages["resample"], found.stages["measure"]) == ("missing",) * 3


def test_the_log_of_an_earlier_report_is_no_failure_of_this_one(layout) -> None:
    layout.marker("report").unlink()
    log(layout, "tiny.report", "report: results/tiny/report.html\n")
    assert look(layout).stages["report tiny"] == "missing"
    log(layout, "tiny.report", "Traceback (most recent call last):\nValueError: no\n")
    found = look(layout)
    assert found.failures == {"report tiny": ("Traceback (most recent call last):", "ValueError: no")}


def test_a_command_of_this_host_is_seen_at_work(layout, tmp_path) -> None:
    name = next(iter(layout.grid.runs))
    layout.scores(name).unlink()
    script = tmp_path / "seedwise"
    script.write_text("import sys; print('up', flush=True); sys.stdin.read()")
    command = [sys.executable, str(script), "score", name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        assert row(look(layout), name).stages["score"] == "running"
    assert row(look(layout), name).stages["score"] == "missing"


@pytest.mark.parametrize(
    ("lease", "held"),
    [
        (owner(os.getpid(), psutil.Process().create_time()), True),
        (owner(os.getpid(), 1.0), False),  # the process id was given to another
        (owner(0, 0.0), False),  # given back
        (owner(os.getpid(), 1.0, "elsewhere"), True),  # cannot be seen from here
    ],
)
def test_who_holds_a_run(lease: dict, held: bool, tmp_path) -> None:
    assert holder(tmp_path) is None
    record(tmp_path / "lease.json", lease)
    found = holder(tmp_path)
    assert (found is not None) == held
    if found:
        assert found.owner.pid == lease["pid"]


def test_the_table_names_runs_and_failures_as_they_are(layout) -> None:
    name = untrained(layout)
    log(layout, f"train/{name}", "seedwise: [red]markup[/red] from a log\n")
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(standing.table(look(layout)))
    text = console.export_text()
    assert "tiny: 5 of 6 runs trained" in text
    assert name in text
    assert f"{name} train failed:\n  seedwise: [red]markup[/red] from a log" in text


def test_of_a_large_study_the_finished_runs_are_counted(layout, monkeypatch) -> None:
    name = untrained(layout)
    monkeypatch.setattr(standing, "MOST", 2)
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(standing.table(look(layout)))
    text = console.export_text()
    assert name in text
    assert sum(other in text for other in layout.subjects) == 1
    assert "6 more, of which every stage is done" in text  # 5 runs and the base


def test_the_last_lines_of_a_long_log_are_read_from_its_end(tmp_path) -> None:
    path = tmp_path / "log"
    path.write_text("x" * 100_000 + "\nlast\n")
    assert last_lines(path)[-1] == "last"
