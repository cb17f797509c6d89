"""What a row takes, by hand and by what the engine really holds; batches that fit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from seedwise.engines import transformers as engine
from seedwise.engines.base import Sampling
from seedwise.engines.decoding import _prefill
from seedwise.engines.sizing import Footprint, batches, room

TINY = Footprint(cache=128, prefill=768, logits=512)


def test_what_a_row_takes_follows_from_the_model(tiny_model: Callable[[], Qwen3ForCausalLM]):
    # keys and values x 2 layers x 1 head x 8 wide x 4 bytes; (6 x 16 + 3 x 32) x 4 bytes; 2 x 64 x 4 bytes
    assert Footprint.of(tiny_model()) == TINY
    assert Footprint.of(tiny_model().bfloat16()) == Footprint(64, 384, 256)
    # (10 + 30) x 128 x 1.25 + 10 x 768 + 512
    assert TINY.row(10, 30) == 6400 + 7680 + 512


def test_the_cache_is_never_larger_than_counted(model: Qwen3ForCausalLM):
    prompt, limit, rows = [5, 9, 33, 7], 100, 3
    with torch.inference_mode():
        held = _prefill(model, [prompt] * rows, [limit] * rows)
        for _ in range(limit - 1):
            held.advance(model, torch.zeros(rows, dtype=torch.long))
    layers = held.cache.layers
    taken = sum(room.untyped_storage().nbytes() for layer in layers for room in (layer._key_room, layer._value_room))
    counted = rows * (TINY.row(len(prompt), limit) - len(prompt) * TINY.prefill - TINY.logits)
    tokens = rows * (len(prompt) + limit - 1) * TINY.cache  # the last token drawn is not read
    assert tokens <= taken <= counted


def test_a_cpu_has_a_gibibyte():
    assert room(torch.device("cpu")) == 2**30


def test_a_real_vocabulary_and_depth_make_a_batch_smaller():
    # SmolLM2-135M in float32: 30 layers, 3 heads of keys and values 64 wide; 49,152 tokens
    real = Footprint(cache=2 * 30 * 3 * 64 * 4, prefill=(6 * 576 + 3 * 1536) * 4, logits=2 * 49152 * 4)
    # 102 x 46,080 x 1.25 + 70 x 32,256 + 393,216 = 8,526,336 bytes: 125 rows are 1 GiB less 8 MB
    assert [len(b) for b in batches(range(300), [70] * 300, [32] * 300, real, 2**30, 512)] == [125, 125, 50]
    # the tiny one: (70 + 32) x 160 + 70 x 768 + 512 = 70,592 bytes: 512 rows take 36 MB
    assert [len(b) for b in batches(range(600), [70] * 600, [32] * 600, TINY, 2**30, 512)] == [512, 88]


@given(
    sizes=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), max_size=40),
    room=st.integers(1, 300_000),
    most=st.integers(1, 10),
)
def test_batches_keep_the_order_and_fit(sizes: list[tuple[int, int]], room: int, most: int):
    prompts, limits = [size[0] for size in sizes], [size[1] for size in sizes]
    order = sorted(range(len(sizes)), key=lambda row: prompts[row])
    found = list(batches(order, prompts, limits, TINY, room, most))
    assert [row for batch in found for row in batch] == order
    for batch in found:
        takes = len(batch) * TINY.row(max(prompts[row] for row in batch), max(limits[row] for row in batch))
        assert len(batch) == 1 or (takes <= room and len(batch) <= most)
    for batch, following in pairwise(found):  # as many as fit
        more = [*batch, following[0]]
        takes = len(more) * TINY.row(max(prompts[row] for row in more), max(limits[row] for row in more))
        assert takes > room or len(more) > most


def test_the_engine_writes_the_same_in_batches_that_fit(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
):
    prompts, sampling, sizes = [[5, 9, 33], [17, 4], [40, 41, 42]], Sampling(16, stop_token_ids=(1,)), []
    whole = engine.Transformers(model, tokenizer).generate(prompts, 4, sampling, range(12))

    def decode(model, prompts_B, *args, **kwargs):
        sizes.append(len(prompts_B))
        return decoded(model, prompts_B, *args, **kwargs)

    decoded = engine.decode
    monkeypatch.setattr(engine, "decode", decode)
    # 3 + 16 tokens: 3,040 + 2,304 + 512 = 5,856 bytes a row, of the shorter prompt 4,928: three rows of either
    monkeypatch.setattr(engine, "room", lambda device: 3 * 5856)
    batched = engine.Transformers(model, tokenizer).generate(prompts, 4, sampling, range(12))
    assert sizes == [3, 3, 3, 3]
    assert [[c.ids for c in group] for group in batched] == [[c.ids for c in group] for group in whole]
