from __future__ import annotations

import pytest
import torch

from seedwise.trainer import meter
from seedwise.trainer.meter import NO_GPU, Meter


def test_on_a_cpu_memory_is_the_process_own_and_energy_is_null_with_the_reason():
    found = Meter("cpu")
    found.begin()
    read = found.read()
    peak, why = read["peak_memory_bytes"]
    # torch is loaded: more than 50 MB, and no more than this machine could have
    assert why is None and 50e6 < peak < 1e13
    assert read["energy_joules"] == (None, NO_GPU)


def test_energy_is_that_of_the_step_alone(monkeypatch: pytest.MonkeyPatch):
    counts = iter([5_000, 7_500, 9_000, 9_000])  # mJ
    monkeypatch.setattr(meter, "_counter", lambda: (lambda: next(counts), None))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3)
    found = Meter("cuda")
    found.begin()
    # 7,500 - 5,000 mJ
    assert found.read() == {"peak_memory_bytes": (3.0, None), "energy_joules": (2.5, None)}
    found.begin()
    assert found.read()["energy_joules"] == (0.0, None)


def test_a_gpu_without_nvml_says_why_there_is_no_energy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(meter.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3)
    found = Meter("cuda")
    found.begin()
    assert found.read()["energy_joules"] == (None, "pynvml (package nvidia-ml-py) is not installed")
