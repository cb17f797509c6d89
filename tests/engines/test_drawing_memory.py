"""Drawing from a large vocabulary: a block of rows at a time, the same tokens, and no second copy of the logits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from seedwise.engines import drawing
from seedwise.engines.base import Sampling
from seedwise.engines.drawing import draw, entropies

B, V = 40, 50_000


def peak_bytes(call: Callable[[], object]) -> int:
    """The most bytes of tensors that a call holds at once."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        call()
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


@pytest.fixture
def logits_BV() -> torch.Tensor:
    return torch.randn(B, V, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def noise_B() -> torch.Tensor:
    return torch.rand(B, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize(
    "sampling",
    [Sampling(1), Sampling(1, top_k=50, top_p=0.9), Sampling(1, temperature=0)],
    ids=["plain", "truncated", "greedy"],
)
def test_blocks_give_the_bits_of_all_rows_at_once(sampling, logits_BV, noise_B, monkeypatch) -> None:
    whole = draw(logits_BV, noise_B, sampling, entropy=True)
    read_B = entropies(logits_BV, 0.7)
    for rows in (1, 7):  # 40 = 5 x 7 + 5
        monkeypatch.setattr(drawing, "_BLOCK", rows * V)
        found = draw(logits_BV, noise_B, sampling, entropy=True)
        assert all(one.equal(other) for one, other in zip(found, whole, strict=True))
        assert entropies(logits_BV.view(4, 10, V), 0.7).equal(read_B.view(4, 10))
    assert draw(logits_BV, noise_B, sampling).entropy_B is None


def test_the_memory_is_that_of_a_block(logits_BV, noise_B, monkeypatch) -> None:
    logits = 4 * B * V
    # on the way are a block's log-probabilities, probabilities and their doubles: 1 + 1 + 2
    assert peak_bytes(lambda: draw(logits_BV, noise_B, Sampling(1), entropy=True)) > 3 * logits  # all 40 rows a block
    monkeypatch.setattr(drawing, "_BLOCK", 2 * V)
    for call in (
        lambda: draw(logits_BV, noise_B, Sampling(1), entropy=True),
        lambda: entropies(logits_BV, 1.0),
    ):
        assert peak_bytes(call) < 4.1 * logits / 20  # blocks of 2 rows of 40
