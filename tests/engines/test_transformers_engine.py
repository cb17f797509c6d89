"""The batched, cached engine against the literal loop, and what must not depend on the batch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from scipy import stats
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from seedwise.engines.base import Completion, Sampling
from seedwise.engines.drawing import draw, truncate
from seedwise.engines.streams import uniforms
from seedwise.engines.transformers import Transformers

PROMPTS = [[5, 9, 33], [17], [40, 41, 42, 43, 44, 45, 46, 7, 8, 9, 10], [5, 9, 33], [60, 2, 3, 11, 12]]
STOPS = (1, 2, 3, 4)


def replayed(
    model: Qwen3ForCausalLM, prompt: list[int], ids: list[int], seed: int, sampling: Sampling
) -> tuple[list[int], np.ndarray, np.ndarray]:
    """What is drawn after every prefix of ``ids``: no cache, padding or batch; tokens, log-probabilities, entropies."""
    tokens, logps, entropies = [], [], []
    with torch.no_grad():
        logits_TV = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].double().numpy()
    for logits, noise in zip(logits_TV / (sampling.temperature or 1.0), uniforms([seed], 0, len(ids))[0], strict=True):
        p = np.exp(logits - logits.max())
        p /= p.sum()
        kept = p.copy()
        if sampling.top_k:
            kept[np.argsort(-kept)[sampling.top_k :]] = 0
        if sampling.top_p < 1:
            order = np.argsort(-kept)
            inside = np.searchsorted(np.cumsum(kept[order]) / kept.sum(), sampling.top_p) + 1
            kept[order[inside:]] = 0
        cumulative = np.cumsum(kept)
        token = int(np.argmax(p)) if sampling.temperature == 0 else int((cumulative <= noise * cumulative[-1]).sum())
        tokens.append(token)
        logps.append(np.log(p[token]))
        entropies.append(-(p * np.log(p)).sum())
    return tokens, np.array(logps), np.array(entropies)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(24, stop_token_ids=STOPS),
        Sampling(24, temperature=0.6, stop_token_ids=STOPS),
        Sampling(24, temperature=1.3, top_p=0.8, stop_token_ids=STOPS),
        Sampling(24, top_k=5, stop_token_ids=STOPS),
        Sampling(24, top_k=9, top_p=0.7, stop_token_ids=STOPS),
        Sampling(70, temperature=1.5),
        Sampling(24, temperature=0.0, stop_token_ids=STOPS),
    ],
    ids=str,
)
@pytest.mark.parametrize("batch", [7, 64])
def test_equals_the_model_without_cache_padding_and_batch(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, sampling: Sampling, batch: int
) -> None:
    seeds = list(range(100, 100 + 3 * len(PROMPTS)))
    groups = Transformers(model, tokenizer, batch=batch).generate(PROMPTS, 3, sampling, seeds, entropy=True)
    assert [len(group) for group in groups] == [3] * len(PROMPTS)
    for row, completion in enumerate(c for group in groups for c in group):
        ids, logps, entropies = replayed(model, PROMPTS[row // 3], completion.ids, seeds[row], sampling)
        assert completion.ids == ids
        np.testing.assert_allclose(completion.logps, logps, atol=1e-4)
        np.testing.assert_allclose(completion.entropies, entropies, atol=1e-4)
        ended = ids[-1] in sampling.stop_token_ids
        assert completion.stop == ("stop" if ended else "length")
        assert ended or len(ids) == sampling.max_tokens
        assert not set(ids[:-1]) & set(sampling.stop_token_ids)


def test_padding_changes_nothing(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    engine, sampling = Transformers(model, tokenizer), Sampling(20)
    alone = engine.generate([PROMPTS[1]], 2, sampling, [3, 4])[0]
    beside_longer = engine.generate([PROMPTS[2], PROMPTS[1]], 2, sampling, [1, 2, 3, 4])[1]
    assert [c.ids for c in beside_longer] == [c.ids for c in alone]
    np.testing.assert_allclose([c.logps for c in beside_longer], [c.logps for c in alone], atol=1e-4)


def test_batches_of_1_and_16_agree_on_99_percent(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    prompts, sampling, seeds = PROMPTS * 4, Sampling(6, stop_token_ids=STOPS), list(range(200))
    one, sixteen = (
        [
            c.ids
            for group in Transformers(model, tokenizer, batch=b).generate(prompts, 10, sampling, seeds)
            for c in group
        ]
        for b in (1, 16)
    )
    assert sum(a == b for a, b in zip(one, sixteen, strict=True)) >= 0.99 * len(seeds)
    assert len({tuple(ids) for ids in one}) > 150  # and agreement is not repetition


def test_first_tokens_follow_the_model(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    n, temperature = 5000, 1.4
    with torch.no_grad():
        p = (model(torch.tensor([PROMPTS[0]])).logits[0, -1].double() / temperature).softmax(0).numpy()
    group = Transformers(model, tokenizer, batch=5000).generate(
        [PROMPTS[0]], n, Sampling(1, temperature=temperature), list(range(n))
    )[0]
    seen = np.bincount([c.ids[0] for c in group], minlength=64)
    common = n * p >= 5
    seen, expected = np.append(seen[common], seen[~common].sum()), np.append(n * p[common], n * p[~common].sum())
    assert stats.chisquare(seen, expected).pvalue > 1e-3


def test_stop_token_is_in_ids_and_not_in_text(tokenizer: PreTrainedTokenizerFast) -> None:
    model = _always([20, 21, 1])
    (completion,) = Transformers(model, tokenizer).generate([[10]], 1, Sampling(9, stop_token_ids=(1,)), [0])[0]
    assert (completion.ids, completion.stop) == ([20, 21, 1], "stop")
    assert completion.text == tokenizer.decode([20, 21])
    (cut,) = Transformers(model, tokenizer).generate([[10]], 1, Sampling(2, stop_token_ids=(1,)), [0])[0]
    assert (cut.ids, cut.stop, cut.entropies) == ([20, 21], "length", None)


def test_adapter_is_used(tokenizer: PreTrainedTokenizerFast, tiny_model: Callable[[], Qwen3ForCausalLM]) -> None:
    sampling = Sampling(10)
    before = Transformers(tiny_model(), tokenizer).generate(PROMPTS, 2, sampling, list(range(10)))
    adapted = get_peft_model(tiny_model(), LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
    during = Transformers(adapted, tokenizer).generate(PROMPTS, 2, sampling, list(range(10)))
    after = Transformers(adapted.merge_and_unload(), tokenizer).generate(PROMPTS, 2, sampling, list(range(10)))
    assert _ids(during) == _ids(after) != _ids(before)


def test_mode_is_restored_and_dropout_is_off(tokenizer: PreTrainedTokenizerFast, model: Qwen3ForCausalLM) -> None:
    evaluated = Transformers(model, tokenizer).generate(PROMPTS, 1, Sampling(8), list(range(5)))
    model.train()
    model.config.attention_dropout = 0.5
    trained = Transformers(model, tokenizer).generate(PROMPTS, 1, Sampling(8), list(range(5)))
    assert model.training
    model.eval()
    model.config.attention_dropout = 0.0
    assert _ids(trained) == _ids(evaluated)


def test_a_prompt_is_prefilled_once_and_ended_rows_leave(
    tokenizer: PreTrainedTokenizerFast, model: Qwen3ForCausalLM
) -> None:
    shapes: list[tuple[int, int]] = []
    hook = model.register_forward_pre_hook(
        lambda _, __, kw: shapes.append(tuple(kw["input_ids"].shape)), with_kwargs=True
    )
    groups = Transformers(model, tokenizer).generate(
        PROMPTS * 2, 8, Sampling(40, stop_token_ids=tuple(range(8))), list(range(80))
    )
    hook.remove()
    assert shapes[0] == (4, 11)  # ten prompts, four of them different, padded to the longest
    rows, lengths = [rows for rows, _ in shapes[1:]], [len(c.ids) for group in groups for c in group]
    assert rows == sorted(rows, reverse=True)
    live = [sum(length > t for length in lengths) for t in range(1, len(rows) + 1)]
    assert all(alive <= decoded <= max(alive / 0.85, alive + 1) for alive, decoded in zip(live, rows, strict=True))


def test_budgets_cut_and_do_not_change_what_is_drawn(
    tokenizer: PreTrainedTokenizerFast, model: Qwen3ForCausalLM
) -> None:
    engine, sampling, seeds = Transformers(model, tokenizer), Sampling(12, stop_token_ids=STOPS), list(range(10))
    whole = engine.generate(PROMPTS, 2, sampling, seeds, entropy=True)
    budgets = [3, 1, 12, 7, 5]
    cut = engine.generate(PROMPTS, 2, sampling, seeds, entropy=True, budgets=budgets)
    for p, budget in enumerate(budgets):
        for a, b in zip(whole[p], cut[p], strict=True):
            assert b.ids == a.ids[:budget]
            assert (len(b.logps), len(b.entropies)) == (len(b.ids), len(b.ids))
            assert b.stop == (a.stop if len(a.ids) <= budget else "length")
            assert b.text == tokenizer.decode(b.ids[:-1] if b.stop == "stop" else b.ids, skip_special_tokens=True)


def test_budgets_may_use_all_positions(tokenizer: PreTrainedTokenizerFast, model: Qwen3ForCausalLM) -> None:
    prompts, budgets = [[5] * 120, [6] * 2], [8, 100]  # 128 positions; the padded batch is 220 long
    long, short = Transformers(model, tokenizer).generate(prompts, 1, Sampling(100), [1, 2], budgets=budgets)
    assert [len(long[0].ids), len(short[0].ids)] == budgets
    (alone,) = Transformers(model, tokenizer).generate(prompts[1:], 1, Sampling(100), [2])
    assert alone[0].ids == short[0].ids


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_entropies_of_given_responses_are_those_of_generation(
    tokenizer: PreTrainedTokenizerFast, model: Qwen3ForCausalLM, batch: int
) -> None:
    engine, sampling = Transformers(model, tokenizer, batch=batch), Sampling(15, temperature=0.7, stop_token_ids=STOPS)
    drawn = [group[0] for group in engine.generate(PROMPTS, 1, sampling, list(range(5)), entropy=True)]
    found = engine.entropies(PROMPTS, [completion.ids for completion in drawn], 0.7)
    assert [len(row) for row in found] == [len(completion.ids) for completion in drawn]
    for row, completion in zip(found, drawn, strict=True):
        np.testing.assert_allclose(row, completion.entropies, atol=1e-4)


def test_no_prompts_no_completions(tokenizer: PreTrainedTokenizerFast, model: Qwen3ForCausalLM) -> None:
    assert Transformers(model, tokenizer).generate([], 4, Sampling(3), []) == []


def test_truncation_by_hand() -> None:
    logp = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).log()
    kept = lambda **settings: truncate(logp, Sampling(1, **settings)).isfinite()[0].tolist()  # noqa: E731
    assert kept() == [True] * 4
    assert kept(top_k=2) == [False, True, False, True]
    assert kept(top_p=0.4) == [False, True, False, False]  # 0.4 is reached by the first token alone
    assert kept(top_p=0.41) == [False, True, False, True]
    # among the two kept by top_k the first holds 0.4 / 0.7 = 0.571
    assert kept(top_k=2, top_p=0.57) == [False, True, False, False]
    assert kept(top_k=2, top_p=0.58) == [False, True, False, True]


def test_a_token_of_probability_zero_is_never_drawn() -> None:
    logits = torch.tensor([[-torch.inf, 1.0, -torch.inf, 0.3, -torch.inf]]).repeat(3, 1)
    noise_B = torch.tensor([0.0, 0.5, 1 - 2.0**-53], dtype=torch.float64)
    token_B, _, entropy_B = draw(logits, noise_B, Sampling(1), entropy=True)
    assert token_B.tolist() == [1, 1, 3]
    assert entropy_B is not None and entropy_B.isfinite().all()


@pytest.mark.parametrize(
    ("prompts", "seeds", "message"),
    [
        ([[1, 2]], [0], "need 2 seeds, got 1"),
        ([[1], []], [0, 1, 2, 3], "prompt 1 has no tokens"),
        ([[1] * 126], [0, 1], "lower max_tokens to at most 2"),
    ],
)
def test_refused(
    tokenizer: PreTrainedTokenizerFast,
    model: Qwen3ForCausalLM,
    prompts: list[list[int]],
    seeds: list[int],
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        Transformers(model, tokenizer).generate(prompts, 2, Sampling(3), seeds)


@pytest.mark.parametrize(
    "bad", [{"max_tokens": 0}, {"temperature": -1.0}, {"top_p": 0.0}, {"top_p": 1.1}, {"top_k": -1}]
)
def test_sampling_refuses(bad: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        Sampling(**({"max_tokens": 4} | bad))


def _ids(groups: list[list[Completion]]) -> list[list[int]]:
    return [c.ids for group in groups for c in group]


def _always(answer: list[int]) -> Qwen3ForCausalLM:
    """A model without attention that says ``answer`` after token 10: every token points to the next."""
    chain = [10, *answer]
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=64,
            hidden_size=64,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=8,
        )
    )
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_() if weight.dim() > 1 else weight.fill_(1.0)
        model.model.embed_tokens.weight.copy_(torch.eye(64))
        model.lm_head.weight.zero_()
        for token, following in pairwise(chain):
            model.lm_head.weight[following, token] = 20.0
    return model.eval()
