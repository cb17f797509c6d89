"""What a machine does to a job: one clear line, nothing else lost, and the next start goes on."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from outcome import outcome

pytestmark = [pytest.mark.slow_survival, pytest.mark.timeout(900)]

SMALL_DISK = "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (300_000,) * 2)"
# root may write everywhere unless it gives up its capabilities (capset of version 3, all sets empty)
PLAIN_USER = "import ctypes; ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())"
# on the way into step 6, after the state of step 4
FILLING = """
import psutil, torch
real = story.Watch.on_step_begin
def fills(watch, args, state, control, **kwargs):
    if state.global_step == 5:
        {fault}
    real(watch, args, state, control, **kwargs)
story.Watch.on_step_begin = fills
"""
NO_MEMORY = {
    # what torch says of a GPU; and a real allocation of 1 GiB in a process that may have 64 MiB more
    "gpu": """raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")""",
    "host": """
        resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + 2**26,) * 2)
        torch.zeros(2**28)
""".strip(),
}


@pytest.fixture
def finished(tmp_path, straight) -> Path:
    """A folder of its own in which the run is trained and sampled."""
    return Path(shutil.copytree(straight, tmp_path / "finished"))


@pytest.fixture
def command(run, study_file):
    return lambda stage: (stage, run, "--study", str(study_file))


@pytest.fixture
def trained(layout_of, run, straight):
    """Digests of what an undisturbed training left."""
    found = outcome(layout_of(straight), run)
    return {file: digest for file, digest in found.items() if not file.startswith("samples/")}


def test_a_full_disk_then_a_state_cut_short(fresh, nursery, run, command, layout_of, trained):
    said = nursery.refused(fresh, *command("train"), before=SMALL_DISK)
    assert f"train {run}: " in said
    assert "no room to write (" in said and "start the same command again: nothing finished is lost" in said
    assert not list(fresh.glob("results/runs/*/checkpoints/[0-9]*")), "nothing half written is published"

    training = nursery.start(fresh, *command("train"))
    state = fresh / "work" / run / "state-4"
    assert training.until(state.exists), training.log.read_text()
    training.kill()
    # two of them where the kill came before the older one was removed
    state = max((fresh / "work" / run).glob("state-*"), key=lambda path: int(path.name.removeprefix("state-")))
    size = (state / "optimizer.pt").stat().st_size
    os.truncate(state / "optimizer.pt", size // 2)
    again = nursery.start(fresh, *command("train"))
    assert again.wait() == 0
    assert f"{state.name}: not gone on from: optimizer.pt has {size // 2} of {size} bytes" in again.log.read_text()
    assert outcome(layout_of(fresh), run) == trained


def test_out_of_memory_is_gone_on_from_and_counts_when_it_is_given_up(
    fresh, nursery, run, command, study_file, layout_of, trained
):
    for fault in NO_MEMORY.values():
        said = nursery.refused(fresh, *command("train"), before=FILLING.format(fault=fault))
        told = f"seedwise: train {run}: out of memory: ask for more, or lower train.micro_batch, and start"
        assert said.startswith(told)
    assert "seedwise train RUN --give-up 'out of memory'" in said
    other = Path(shutil.copytree(fresh, fresh.with_name("other")))

    nursery.do(fresh, *command("train"))  # with room it goes on, from step 4
    assert outcome(layout_of(fresh), run) == trained

    give_up = f"""
from seedwise import layout
stages.train(layout.read({str(study_file)!r}), {run!r}, give_up="out of memory")
sys.exit(0)
"""
    nursery.do(other, *command("train"), before=give_up)
    folder = layout_of(other).run(run)
    record = json.loads((folder / "trained.json").read_text())
    assert record["stopped"] == {"step": 4, "reason": "out of memory"}
    digests = {step: record["sha256"][f"checkpoints/{step}/model.safetensors"] for step in (2, 4, 6)}
    assert digests[2] == trained["checkpoints/2/model.safetensors"]
    assert {digests[step] for step in (4, 6)} == {trained["checkpoints/4/model.safetensors"]}
    assert not (folder / "state").exists(), "a longer run must not go on from here as if it were whole"


def test_results_that_may_not_be_written(finished, nursery, run, command, layout_of):
    folder = layout_of(finished).scores(run).parent
    folder.mkdir(parents=True)
    folder.chmod(0o555)
    said = nursery.refused(finished, *command("score"), before=PLAIN_USER)
    assert f"score {run}: " in said and "may not be written (" in said and "make it writable" in said
    folder.chmod(0o755)
    nursery.do(finished, *command("score"), before=PLAIN_USER)
    assert layout_of(finished).scores(run).exists()


def test_a_damaged_part_is_named_and_drawn_again_alone(finished, nursery, run, command, layout_of, straight):
    layout = layout_of(finished)
    damaged, *whole = sorted(layout.run(run).glob("samples/*/*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:1000])
    before = {path: path.stat().st_mtime_ns for path in whole}
    said = nursery.refused(finished, *command("score"))
    assert f"{damaged.relative_to(finished)}: not a readable samples table" in said
    assert f"remove {layout.sampled(run).relative_to(finished)} with it" in said
    layout.sampled(run).unlink()
    again = nursery.start(finished, *command("sample"))
    assert again.wait() == 0
    log = again.log.read_text()
    assert f"{damaged.name}: not a readable samples table" in log and log.count("completions drawn") == 1
    assert {path: path.stat().st_mtime_ns for path in whole} == before, "only what is missing is drawn"
    assert outcome(layout, run) == outcome(layout_of(straight), run)


def test_a_checkpoint_cut_short_says_how_to_get_it_back(finished, nursery, run, command, layout_of, straight):
    layout = layout_of(finished)
    shutil.rmtree(layout.run(run) / "samples")
    weights = layout.run(run) / "checkpoints" / "4" / "model.safetensors"
    os.truncate(weights, 1000)
    said = nursery.refused(finished, *command("sample"))
    assert "checkpoints/4: cut short or damaged (" in said
    assert f"remove {(layout.run(run) / 'trained.json').relative_to(finished)} and its checkpoints folder" in said
    (layout.run(run) / "trained.json").unlink()
    shutil.rmtree(layout.run(run) / "checkpoints")
    for stage in ("train", "sample"):
        nursery.do(finished, *command(stage))
    assert outcome(layout, run) == outcome(layout_of(straight), run)
