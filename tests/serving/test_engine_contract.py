"""One contract, two engines: transformers in this process and a real vLLM, on the embedded model, whole and with LoRA.

`make test-vllm` runs it in an environment that has vLLM.  What is expected comes from the model itself: one forward
pass without cache, padding or batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import PreTrainedTokenizerBase

from seedwise.engines.base import Completion, ReadingEngine, Sampling
from seedwise.engines.distinct import IdenticalSamples, SeedIgnored, check_distinct, check_seeds
from seedwise.engines.serving import Host, Weights, opened
from seedwise.engines.settings import EngineSettings, OnTransformers, OnVllm
from seedwise.models.embedded import WEIGHTS
from seedwise.models.load import load, lora_config
from seedwise.study import Lora

pytestmark = [
    pytest.mark.service,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("default"),  # importing vLLM warns of its own future, and that is not ours to mend
]

EOS = 1
ENGINES: dict[str, EngineSettings] = {
    "transformers": OnTransformers(),
    "vllm": OnVllm(engine="vllm", memory_share=0.15, enforce_eager=True),
}
ASKED = ["1+2+3+4=", "9-5=", "7+8-2+1+3=", "3*4="]


@dataclass(frozen=True)
class Models:
    """The embedded model, another with the same shapes, and two adapters on the embedded one."""

    whole: Weights
    other: Weights
    adapted: Weights
    adapted_too: Weights


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Models:
    folder = tmp_path_factory.mktemp("models")
    model, tokenizer = load(WEIGHTS)
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.03 * torch.randn(parameter.shape, generator=rng)
    model.save_pretrained(str(folder / "other"))
    tokenizer.save_pretrained(folder / "other")
    for seed, name in enumerate(("adapter", "adapter_too")):
        adapt(folder / name, seed)
    whole = Weights(WEIGHTS)
    return Models(
        whole,
        Weights(folder / "other"),
        Weights(WEIGHTS, folder / "adapter"),
        Weights(WEIGHTS, folder / "adapter_too"),
    )


def adapt(folder: Path, seed: int) -> None:
    """Write an adapter of rank 4 on all linear layers, far from doing nothing."""
    from peft import get_peft_model

    model, _ = load(WEIGHTS)
    adapted = get_peft_model(model, lora_config(Lora(rank=4, alpha=8)))
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.normal_(0.0, 0.1, generator=rng)
    adapted.save_pretrained(str(folder))


@pytest.fixture(scope="module", params=ENGINES)
def host(request) -> Iterator[Host]:
    """One engine for all tests of its kind."""
    with opened(ENGINES[request.param]) as found:
        yield found


@pytest.fixture
def held(host: Host, models: Models) -> tuple[ReadingEngine, PreTrainedTokenizerBase]:
    return host.hold(models.whole)


@pytest.fixture
def engine(held) -> ReadingEngine:
    return held[0]


@pytest.fixture
def tokenizer(held) -> PreTrainedTokenizerBase:
    return held[1]


@pytest.fixture
def prompts(tokenizer) -> list[list[int]]:
    return tokenizer(ASKED)["input_ids"]


@cache
def model_of(weights: Weights) -> torch.nn.Module:
    return load(weights.folder, adapter=weights.adapter)[0]


def distributions(weights: Weights, prompt: Sequence[int], ids: Sequence[int], temperature: float) -> torch.Tensor:
    """Log-probabilities [T, V] that each of T tokens was drawn from, by one forward pass."""
    with torch.no_grad():
        logits_TV = model_of(weights)(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
    return (logits_TV / (temperature or 1.0)).log_softmax(-1)


def furthest(
    weights: Weights, prompts: list[list[int]], groups: list[list[Completion]], temperature: float = 1.0
) -> float:
    """The largest distance of a reported log-probability from the model's own."""
    gaps = []
    for prompt, group in zip(prompts, groups, strict=True):
        for completion in group:
            logp_TV = distributions(weights, prompt, completion.ids, temperature)
            own_T = logp_TV.gather(1, torch.tensor(completion.ids)[:, None])[:, 0].numpy()
            gaps.append(float(np.abs(own_T - np.array(completion.logps)).max()))
    return max(gaps)


def ids(groups: list[list[Completion]]) -> list[list[int]]:
    return [completion.ids for group in groups for completion in group]


def test_its_name_has_a_version(engine):
    assert engine.name.split()[:2] in (["transformers", "5.17.0"], ["vllm", "0.31.0"])


def test_samples_are_distinct_draws(engine, prompts):
    check_seeds(engine, prompts[0])
    groups = engine.generate(prompts, 16, Sampling(16, temperature=1.3, stop_token_ids=(EOS,)), list(range(64)))
    check_distinct(groups, Sampling(16, temperature=1.3))
    assert min(len({tuple(completion.ids) for completion in group}) for group in groups) >= 8


def test_a_seed_gives_its_tokens_again(engine, prompts):
    sampling = Sampling(16, stop_token_ids=(EOS,))
    first = engine.generate(prompts, 4, sampling, list(range(16)))
    assert ids(engine.generate(prompts, 4, sampling, list(range(16)))) == ids(first)
    assert ids(engine.generate(prompts, 4, sampling, list(range(100, 116)))) != ids(first)


def test_a_completion_does_not_depend_on_its_neighbours(engine, prompts):
    # 160 of 160 agree in a quiet float32; a rounding error that crosses a boundary may turn one
    sampling, seeds = Sampling(12, stop_token_ids=(EOS,)), list(range(160))
    together = ids(engine.generate(prompts, 40, sampling, seeds))
    apart = [
        completion
        for p, prompt in enumerate(prompts)
        for first in range(0, 40, 10)
        for completion in ids(engine.generate([prompt], 10, sampling, seeds[p * 40 + first : p * 40 + first + 10]))
    ]
    assert sum(a == b for a, b in zip(together, apart, strict=True)) >= 0.99 * len(seeds)
    assert len({tuple(completion) for completion in together}) > 60  # and agreement is not repetition


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(24, stop_token_ids=(EOS,)),
        Sampling(24, temperature=0.7, stop_token_ids=(EOS,)),
        Sampling(24, temperature=1.4, top_p=0.8, stop_token_ids=(EOS,)),
        Sampling(24, temperature=0.6, top_k=3, top_p=0.9, stop_token_ids=(EOS,)),
        Sampling(24, temperature=0.0, stop_token_ids=(EOS,)),
    ],
    ids=str,
)
def test_log_probabilities_are_the_models_own_before_truncation(engine, prompts, models, sampling):
    groups = engine.generate(prompts, 4, sampling, list(range(16)))
    assert furthest(models.whole, prompts, groups, sampling.temperature) < 1e-3
    for prompt, group in zip(prompts, groups, strict=True):
        for completion in group:
            logp_TV = distributions(models.whole, prompt, completion.ids, sampling.temperature)
            rank_T = (logp_TV > logp_TV.gather(1, torch.tensor(completion.ids)[:, None])).sum(1)
            above_T = (logp_TV.exp() * (logp_TV > logp_TV.gather(1, torch.tensor(completion.ids)[:, None]))).sum(1)
            assert not sampling.top_k or int(rank_T.max()) < sampling.top_k
            assert float(above_T.max()) < sampling.top_p + 1e-4 or sampling.top_p == 1
            assert sampling.temperature or int(rank_T.max()) == 0


def test_first_tokens_follow_the_model(engine, prompts, models):
    n, temperature = 2000, 2.0
    p_V = distributions(models.whole, prompts[0], [0], temperature)[0].double().exp().numpy()
    (group,) = engine.generate(prompts[:1], n, Sampling(1, temperature=temperature), list(range(n)))
    seen_V = np.bincount([completion.ids[0] for completion in group], minlength=len(p_V))
    common = n * p_V >= 5
    seen = np.append(seen_V[common], seen_V[~common].sum())
    expected = np.append(n * p_V[common], n * p_V[~common].sum())
    assert len(seen) > 5
    assert stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > 1e-3


def test_it_ends_at_the_tokens_it_is_told_and_at_no_other(engine, tokenizer, prompts):
    stops = tuple(tokenizer.convert_tokens_to_ids(list("=+")))
    groups = engine.generate(prompts, 8, Sampling(40, temperature=1.2, stop_token_ids=stops), list(range(32)))
    for completion in (completion for group in groups for completion in group):
        ended = completion.ids[-1] in stops
        assert completion.stop == ("stop" if ended else "length")
        assert ended or len(completion.ids) == 40
        assert not set(completion.ids[:-1]) & set(stops)
        assert len(completion.logps) == len(completion.ids)
        spoken = completion.ids[:-1] if ended else completion.ids
        assert completion.text == tokenizer.decode(spoken, skip_special_tokens=True)
    assert {completion.stop for group in groups for completion in group} >= {"stop"}
    past = engine.generate(prompts, 4, Sampling(40, temperature=1.2), list(range(16)))
    assert {len(completion) for completion in ids(past)} == {40}  # the model's own end token among them ends nothing
    assert any(EOS in completion[:-1] for completion in ids(past))


def test_budgets_take_the_place_of_the_limit(engine, prompts):
    groups = engine.generate(prompts, 2, Sampling(30), list(range(8)), budgets=[1, 5, 12, 40])
    assert [[len(completion.ids) for completion in group] for group in groups] == [[1, 1], [5, 5], [12, 12], [40, 40]]


def test_entropies_are_the_models_own_or_none(engine, prompts, models):
    groups = engine.generate(prompts, 1, Sampling(16, temperature=0.7), list(range(4)), entropy=True)
    responses = [group[0].ids for group in groups]
    read = engine.entropies(prompts, responses, 0.7)
    for prompt, (completion,), entropy_T in zip(prompts, groups, read, strict=True):
        logp_TV = distributions(models.whole, prompt, completion.ids, 0.7)
        own_T = torch.special.entr(logp_TV.exp()).sum(-1).numpy()
        np.testing.assert_allclose(entropy_T, own_T, atol=1e-4)
        if completion.entropies is not None:
            np.testing.assert_allclose(completion.entropies, own_T, atol=1e-3)
    assert (groups[0][0].entropies is None) == engine.name.startswith("vllm")


def test_what_cannot_be_answered_is_refused(engine, prompts):
    with pytest.raises(ValueError, match="exceed the 256 positions .* lower max_tokens to at most 248"):
        engine.generate(prompts[:1], 1, Sampling(249), [0])
    with pytest.raises(ValueError, match="prompt 0 has no tokens"):
        engine.generate([[]], 1, Sampling(1), [0])
    with pytest.raises(ValueError, match="1 prompts x 2 completions need 2 seeds, got 1"):
        engine.generate(prompts[:1], 2, Sampling(1), [0])


class Reseeded:
    """An engine whose seeds are replaced before they are used."""

    def __init__(self, engine: ReadingEngine, replace: Callable[[Sequence[int]], list[int]]) -> None:
        self.engine, self.replace, self.name = engine, replace, engine.name

    def generate(self, prompts, n, sampling, seeds, **more):
        return self.engine.generate(prompts, n, sampling, self.replace(seeds), **more)


def test_one_text_for_every_sample_is_detected_and_named(engine, prompts):
    same = Reseeded(engine, lambda seeds: [7] * len(seeds))
    with pytest.raises(SeedIgnored, match=f"{engine.name}: different seeds give the same tokens"):
        check_seeds(same, prompts[0])
    sampling = Sampling(16, temperature=1.5)
    with pytest.raises(IdenticalSamples, match="prompt 0: 16 of 16 samples are the same text"):
        check_distinct(same.generate(prompts, 16, sampling, list(range(64))), sampling)


def test_an_ignored_seed_is_detected_and_named(engine, prompts):
    with pytest.raises(SeedIgnored, match=f"{engine.name}: one seed gives different tokens"):
        check_seeds(Reseeded(engine, lambda seeds: list(range(len(seeds)))), prompts[0])


def test_two_checkpoints_through_one_engine(host, models, prompts, capfd):
    sampling, seeds = Sampling(16, stop_token_ids=(EOS,)), list(range(16))
    first, _ = host.hold(models.whole)
    before = first.generate(prompts, 4, sampling, seeds)
    second, _ = host.hold(models.other)
    after = second.generate(prompts, 4, sampling, seeds)
    assert furthest(models.other, prompts, after) < 1e-3
    assert furthest(models.whole, prompts, after) > 0.1  # the test can tell the two apart
    # the first engine still stands for the first weights
    again = first.generate(prompts, 4, sampling, seeds)
    assert ids(again) == ids(before)
    assert furthest(models.whole, prompts, again) < 1e-3
    assert "a new engine is needed" not in capfd.readouterr().out


def test_adapters_and_their_base_from_one_engine(host, models, prompts, capfd):
    sampling, seeds = Sampling(16, stop_token_ids=(EOS,)), list(range(16))
    for weights in (models.adapted, models.whole, models.adapted_too, models.adapted):
        engine, _ = host.hold(weights)
        groups = engine.generate(prompts, 4, sampling, seeds)
        assert furthest(weights, prompts, groups) < 1e-3
        others = {models.adapted, models.whole, models.adapted_too} - {weights}
        assert min(furthest(other, prompts, groups) for other in others) > 0.1
    # once, for the first adapter: the engine was started for a whole model
    notes = capfd.readouterr().out.count(f"note: {engine.name}: a new engine is needed: adapters of rank 4 need")
    assert notes == (1 if engine.name.startswith("vllm") else 0)
    read = engine.entropies(prompts[:1], [groups[0][0].ids], 1.0)[0]
    logp_TV = distributions(models.adapted, prompts[0], groups[0][0].ids, 1.0)
    np.testing.assert_allclose(read, torch.special.entr(logp_TV.exp()).sum(-1).numpy(), atol=1e-4)


def test_a_damaged_checkpoint_is_the_files_own_error(host, models, tmp_path):
    from safetensors import SafetensorError

    for path in models.other.folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(SafetensorError):
        host.hold(Weights(tmp_path))
