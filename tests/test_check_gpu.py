"""The check for GPUs, on a CPU: that it trains what it says and reckons as it says."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.gpu import CASES, SCALES, Dealt, Measured, lines, measure, peak_of, save_model
from seedwise.trainer.meter import NO_GPU


def test_skipping_trains_only_the_rows_with_advantage(tmp_path):
    scale = SCALES["cpu"]
    case = next(case for case in CASES if case.name == "qae, whole, skipping")
    found = measure(case, scale, save_model(tmp_path, scale), "cpu", 2)
    # of 8 responses 2 are correct: 6 >= 0.4 x 8 are wrong, so the group is hard and the 2 train
    assert 0.15 < found.trained_share < 0.4
    assert found.generated_tokens_per_s > 0 and found.trained_tokens_per_s > 0 and found.peak_memory_bytes > 50e6
    assert (found.utilisation, found.energy_joules, found.energy_reason) == (None, None, NO_GPU)


def test_verdicts_are_dealt_one_correct_in_four():
    with Dealt(1) as grader:
        verdicts = grader.grade([None] * 8)
    assert [verdict.credit for verdict in verdicts] == [1, 0, 0, 0, 1, 0, 0, 0]


def test_both_methods_are_trained_whole_and_with_an_adapter_with_and_without_skipping():
    assert {(case.name.partition(",")[0], case.lora) for case in CASES} == {
        ("grpo", False), ("grpo", True), ("qae", False), ("qae", True),
    }  # fmt: skip
    assert {case.skip for case in CASES if case.name.startswith("qae, whole")} == {True, False}
    assert (SCALES["cuda"].vocabulary, SCALES["cuda"].bf16) == (151_936, True)


def test_the_peak_is_that_of_the_device_by_its_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    assert peak_of("cuda") == 989e12
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA GeForce RTX 4090")
    assert peak_of("cuda") == 165e12
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "another")
    assert peak_of("cuda") is None and peak_of("cpu") is None


def test_ratios_of_update_phases():
    one = Measured("", 1000, 0.25, 10.0, 5.0, 1.0, 2.0, 1e9, 0.25, None, "none")
    found = [replace(one, case=case.name, update_s=1.0 if case.skip else 4.0) for case in CASES]
    text = list(lines(found, "cpu"))
    assert text[-3:] == [
        "update phase of qae skipping, whole: 0.25 of the time",
        "update phase of qae skipping, whole, against grpo: 0.25 of the time",
        "update phase of qae skipping, adapter, against grpo: 0.25 of the time",
    ]
    assert "of the peak rate 25.0%" in text[1] and "energy -" in text[1]
