"""Errors of the machine as they really read, and the one line that is made of them."""

from __future__ import annotations

import errno

import pytest
from safetensors import SafetensorError

from seedwise.faults import MachineError, explained, in_one_line

# as they were seen: a file system of 100 kB, a limit on the size of files, a limit on memory
SEEN = {
    "python": (OSError(errno.ENOSPC, "No space left on device", "a.json"), "a.json: no room to write ("),
    "quota": (OSError(errno.EDQUOT, "Disk quota exceeded"), "no room to write ("),
    "parquet": (
        OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device"),
        "no room to write (",
    ),
    "safetensors": (
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        "no room to write (",
    ),
    "optimizer": (
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534"),
        "no room to write (",
    ),
    "read-only": (OSError(errno.EROFS, "Read-only file system", "results/x"), "results/x: may not be written ("),
    "permission": (PermissionError(errno.EACCES, "Permission denied", "results/x"), "results/x: may not be written ("),
    "memory": (MemoryError(), "out of memory: "),
    "cpu": (
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: 12"),
        "out of memory: ",
    ),
    "cuda": (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."), "out of memory: "),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_the_machine_refused_is_told_with_its_remedy(name):
    error, beginning = SEEN[name]

    @in_one_line
    def score(layout, subject):
        raise error

    with pytest.raises(MachineError) as told:
        score(None, "run-1")
    text = str(told.value)
    assert text.startswith(f"score run-1: {beginning}")
    assert "start the same command again" in text
    assert "\n" not in text


def test_only_a_training_can_be_given_up():
    @in_one_line
    def train(layout, name):
        raise MemoryError

    with pytest.raises(MachineError, match="counts with the weights it has: seedwise train RUN --give-up"):
        train(None, "run-1")


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), OSError(errno.ENOENT, "No such file", "x")])
def test_other_errors_pass_as_they_are(error):
    assert explained(error) is None

    @in_one_line
    def score(layout):
        raise error

    with pytest.raises(type(error)) as passed:
        score(None)
    assert passed.value is error
