"""Two processes: the adapter ends with the bits of stock TRL on two, and with what it finds on one."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from safetensors.torch import load_file
from trained import largest_difference, make, run, weights
from transformers import Qwen2ForCausalLM
from two_processes import ALONE, CASES, GIVEN, STOCK, drawn

from seedwise.trainer import adapter


@pytest.fixture(scope="module")
def two(folder, tmp_path_factory):
    """Weights after every case on two processes, by case and process."""
    out = tmp_path_factory.mktemp("two")
    program = Path(__file__).with_name("two_processes.py")
    started = subprocess.Popen(
        [sys.executable, program, folder, out],
        env={**os.environ, "PYTHONPATH": str(Path(adapter.__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = started.communicate(timeout=240)
    finally:
        with suppress(ProcessLookupError):  # the forked two as well, should they hang
            os.killpg(started.pid, signal.SIGKILL)
    assert started.returncode == 0, said
    return {name: [load_file(out / f"{name}.{process}.safetensors") for process in (0, 1)] for name in CASES}


@pytest.fixture(scope="module")
def start(folder):
    return weights(Qwen2ForCausalLM.from_pretrained(folder))


@pytest.mark.parametrize("name", CASES)
def test_both_processes_end_with_the_same_weights(name, two, start):
    one, other = two[name]
    assert largest_difference(one, start) > 1e-3  # they learned something
    assert largest_difference(one, other) == 0


@pytest.mark.parametrize("name", STOCK)
def test_two_processes_equal_two_of_stock_trl(name, two):
    # gspo: sums are rounded in another order, see the losses
    assert largest_difference(two[f"ours {name}"][0], two[f"stock {name}"][0]) <= (1e-5 if name == "gspo" else 0.0)


def test_two_processes_equal_two_of_stock_trl_on_given_completions(two):
    assert largest_difference(two["given clip_higher"][0], two["given stock"][0]) == 0


@pytest.mark.parametrize("name", GIVEN)
def test_two_processes_find_what_one_finds(name, two, folder, tmp_path):
    settings, algorithm = GIVEN[name]
    alone = run(make(folder, tmp_path, algorithm, **{**settings, **ALONE}), drawn)
    # gradients are averaged over processes in another order; qae: also without leaving rows out
    assert largest_difference(two[f"given {name}"][0], alone.weights) <= 1e-5


def test_a_process_with_nothing_active_keeps_in_step_with_the_other(two):
    assert largest_difference(two["half silent, skipped"][0], two["half silent"][0]) <= 1e-5
