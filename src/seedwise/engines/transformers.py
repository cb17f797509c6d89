"""Generation with a transformers model: batched, cached, one random stream per completion.

Rows are sorted by prompt length and cut into batches.  A token is drawn by inverting the cumulative
distribution at the row's own uniform number, so it changes with the batch only where a rounding error
of the forward pass crosses a boundary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
import transformers

from seedwise.engines.base import Completion, Sampling, check_request
from seedwise.engines.decoding import Drawn, decode
from seedwise.engines.drawing import entropies
from seedwise.engines.sizing import Footprint, batches, room

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_LOGITS = 2**27  # numbers of a logits tensor at most when whole responses are read, 0.5 GB in float32


class Transformers:
    """An engine on a causal language model held in memory, with or without peft adapters.

    model: read at every call, so a model in training is sampled with its present weights; its train/eval
        mode is restored.
    batch: rows decoded at once at most; fewer where their cache and logits would not fit (sizing.py).  It affects
        speed and memory only.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, batch: int = 256) -> None:
        if batch < 1:
            raise ValueError(f"batch: {batch}; decode at least 1 row at a time")
        self.model, self.tokenizer, self.batch = model, tokenizer, batch
        self.name = f"transformers {transformers.__version__}"

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
        """n completions of each of P prompts: result[p][g] is drawn with ``seeds[p * n + g]``.  See ``Engine``."""
        check_request(prompts, n, seeds, budgets)
        limits = [sampling.max_tokens] * len(prompts) if budgets is None else list(budgets)
        self._check_lengths(prompts, limits)
        rows = sorted(range(len(seeds)), key=lambda row: (len(prompts[row // n]), tuple(prompts[row // n])))
        found: list[Completion | None] = [None] * len(seeds)
        with torch.inference_mode(), _evaluating(self.model):
            for some in self._batches(rows, prompts, limits, n):
                limits_B = [limits[row // n] for row in some]
                prompts_B, seeds_B = [prompts[row // n] for row in some], [seeds[row] for row in some]
                drawn = decode(self.model, prompts_B, seeds_B, limits_B, sampling, entropy=entropy)
                for row, completion in zip(some, self._completions(drawn, limits_B, sampling), strict=True):
                    found[row] = completion
        done = [completion for completion in found if completion is not None]
        return [done[p * n : (p + 1) * n] for p in range(len(prompts))]

    def entropies(
        self, prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]], temperature: float
    ) -> list[list[float]]:
        """Entropy in nats of the distribution that each response token was drawn from, one list of T per response.

        prompts, responses: token ids, row by row.  temperature: as in ``Sampling``; 0 stands for 1.
        One forward pass without cache; rows of similar length share a batch, padded at the right, where no
        real token can see.
        """
        whole = [[*prompt, *response] for prompt, response in zip(prompts, responses, strict=True)]
        order = sorted(range(len(whole)), key=lambda row: len(whole[row]))
        found: list[list[float]] = [[] for _ in whole]
        with torch.inference_mode(), _evaluating(self.model):
            while order:
                rows = max(1, _LOGITS // (len(whole[order[-1]]) * self.model.config.vocab_size))
                some, order = order[-min(rows, self.batch) :], order[: -min(rows, self.batch)]
                longest = len(whole[some[-1]])
                ids_BL = torch.tensor([whole[row] + [0] * (longest - len(whole[row])) for row in some])
                logits_BLV = self.model(input_ids=ids_BL.to(self.model.device), use_cache=False).logits
                entropy_BL = entropies(logits_BLV, temperature).tolist()
                for row, entropy_L in zip(some, entropy_BL, strict=True):
                    found[row] = entropy_L[len(prompts[row]) - 1 : len(whole[row]) - 1]
        return found

    def _batches(
        self, rows: Sequence[int], prompts: Sequence[Sequence[int]], limits: Sequence[int], n: int
    ) -> Iterator[list[int]]:
        of_rows = [row // n for row in range(len(rows))]
        lengths = [len(prompts[p]) for p in of_rows]
        footprint, fits = Footprint.of(self.model), room(self.model.device)
        return batches(rows, lengths, [limits[p] for p in of_rows], footprint, fits, self.batch)

    def _check_lengths(self, prompts: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        most = getattr(self.model.config, "max_position_embeddings", None)
        for prompt, limit in zip(prompts, limits, strict=True):
            if most is not None and len(prompt) + limit > most:
                raise ValueError(
                    f"a prompt of {len(prompt)} tokens and max_tokens {limit} exceed the {most} positions"
                    f" of the model; lower max_tokens to at most {most - len(prompt)}"
                )

    def _completions(self, drawn: Drawn, limits_B: Sequence[int], sampling: Sampling) -> Iterator[Completion]:
        ids_BT = [ids[:limit] for ids, limit in zip(drawn.ids_BT.tolist(), limits_B, strict=True)]
        logp_BT = drawn.logp_BT.tolist()
        entropy_BT = None if drawn.entropy_BT is None else drawn.entropy_BT.tolist()
        stops = frozenset(sampling.stop_token_ids)
        ends = [next((t for t, token in enumerate(row) if token in stops), None) for row in ids_BT]
        spoken = [row if end is None else row[:end] for row, end in zip(ids_BT, ends, strict=True)]
        texts = self.tokenizer.batch_decode(spoken, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        for b, end in enumerate(ends):
            length = len(ids_BT[b]) if end is None else end + 1
            yield Completion(
                ids=ids_BT[b][:length],
                text=texts[b],
                logps=logp_BT[b][:length],
                stop="length" if end is None else "stop",
                entropies=None if entropy_BT is None else entropy_BT[b][:length],
            )


@contextmanager
def _evaluating(model: PreTrainedModel) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
