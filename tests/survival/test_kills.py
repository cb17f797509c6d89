"""Trainings and samplings that are killed at the worst moments end with the same bits as if nothing had happened."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from outcome import outcome

from seedwise.layout import Layout

pytestmark = pytest.mark.timeout(900)


def appears(folder: Path, pattern: str) -> Callable[[], bool]:
    """Whether a file of this pattern is there now that was not there when this was asked."""
    before = set(folder.glob(pattern))
    return lambda: any(path not in before for path in folder.glob(pattern))


def moments(layout: Layout, run: str) -> dict[str, Callable[[], bool]]:
    """The worst moments of a training, by what is on the disk then."""
    work, out = layout.root.parent / "work" / run, layout.run(run)
    return {
        "a state is being written": appears(work, "scratch-*/checkpoint-*/*.safetensors"),
        "a state is whole but not in its place": appears(work, "scratch-*/checkpoint-*/sizes.json"),
        "a checkpoint is being written": appears(out, "checkpoints/.*.new-*/*.safetensors"),
        "the last state is published": appears(out, "state"),
        "the tables are being published": appears(out, ".published.new/*.parquet"),
    }


def test_a_warning_and_three_kills_while_files_are_half_written(fresh, straight, nursery, run, study_file, layout_of):
    layout = layout_of(fresh)
    reached = appears(fresh / "work", "*/state-2")
    told = nursery.start(fresh, "train", run, "--study", str(study_file))
    assert told.until(reached), told.log.read_text()
    os.kill(told.pid, signal.SIGUSR1)  # as Slurm does ahead of a time limit
    assert told.wait() == 2
    assert "told to stop after step 3, state saved: start it again to go on" in told.log.read_text()
    for moment in ("a checkpoint is being written", "a state is being written"):
        reached = moments(layout, run)[moment]
        training = nursery.start(fresh, "train", run, "--study", str(study_file))
        assert training.until(reached), training.log.read_text()
        training.kill()
        assert not (layout.run(run) / "trained.json").exists()
    nursery.do(fresh, "train", run, "--study", str(study_file))
    assert not list(fresh.glob("work/*/*")), "what was half written is gone"

    reached = appears(layout.run(run), "samples/*/4.0-2.parquet")
    sampling = nursery.start(fresh, "sample", run, "--study", str(study_file))
    assert sampling.until(reached), sampling.log.read_text()
    sampling.kill()
    assert not layout.sampled(run).exists()
    parts = {path: path.stat().st_mtime_ns for path in layout.run(run).glob("samples/*/2.0-2.parquet")}
    assert len(parts) == 2, "a part that is there is whole"
    # drawing step 2 again would need its weights
    hidden = (layout.run(run) / "checkpoints" / "2").rename(fresh / "hidden")
    nursery.do(fresh, "sample", run, "--study", str(study_file))
    hidden.rename(layout.run(run) / "checkpoints" / "2")
    assert {path: path.stat().st_mtime_ns for path in parts} == parts
    assert outcome(layout, run) == outcome(layout_of(straight), run)


@pytest.mark.slow_survival
@pytest.mark.timeout(3600)
def test_twenty_kills_at_random_moments(tmp_path, prepared, straight, nursery, run, study_file, layout_of):
    chance, kills, folder = random.Random(20), 0, tmp_path / "0"
    began = time.monotonic()
    nursery.do(Path(shutil.copytree(prepared, tmp_path / "clock")), "train", run, "--study", str(study_file))
    seconds = time.monotonic() - began
    want = outcome(layout_of(straight), run)
    seen: set[str] = set()
    tried: Counter[str] = Counter()
    while kills < 20:
        if not folder.exists():
            shutil.copytree(prepared, folder)
        layout = layout_of(folder)
        now = moments(layout, run)
        watched = [name for name in now if name not in seen and tried[name] < 3]
        training = nursery.start(folder, "train", run, "--study", str(study_file))
        if watched and kills % 2:
            name = chance.choice(watched)
            tried[name] += 1
            reached = training.until(now[name])
            seen |= {name} if reached else set()
        else:
            end = time.monotonic() + chance.uniform(0, seconds)
            reached = training.until(lambda end=end: time.monotonic() >= end)
        if reached:
            training.kill()
            kills += 1
        else:
            assert training.wait() == 0, training.log.read_text()
        if (layout.run(run) / "trained.json").exists():
            nursery.do(folder, "sample", run, "--study", str(study_file))
            assert outcome(layout, run) == want
            folder = tmp_path / str(int(folder.name) + 1)
    if folder.exists():
        for command in ("train", "sample"):
            nursery.do(folder, command, run, "--study", str(study_file))
        assert outcome(layout_of(folder), run) == want
    # some last but a millisecond, which a busy machine may sleep through
    assert len(seen) >= 3, seen
