"""What parts remember survives a save with the same bits and types."""

import pytest
import torch

from seedwise.algos import presets
from seedwise.trainer import memory


def test_a_memory_comes_back_as_it_was(tmp_path):
    before = {
        "baseline": [{7: 0.1 + 0.2, 8: None}, {}],
        "credit": {"table_QT": torch.tensor([[0.1, 2.0]], dtype=torch.float64), "seen": [1, 2]},
        "sampler": {"rest": [3, 1], "epoch": -1, "on": True},
    }
    memory.save(before, tmp_path / "memory")
    after = memory.load(tmp_path / "memory")
    table = after["credit"].pop("table_QT")
    assert torch.equal(table, before["credit"].pop("table_QT")) and table.dtype == torch.float64
    assert after == before
    assert after["baseline"][0].keys() == {7, 8}  # integers, not text


def test_what_cannot_be_kept_is_refused(tmp_path):
    with pytest.raises(TypeError, match="a part remembers set"):
        memory.save({"credit": {"seen": {1}}}, tmp_path / "memory")


def test_the_sampler_starts_with_the_number_of_problems():
    assert memory.start(presets.qae(K=0.4), 12)["sampler"]["problems"] == 12
