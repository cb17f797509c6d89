"""Text generation: what is asked of an engine and what it gives back.

An engine is anything with ``name`` and ``generate``; the trainer and the evaluations know nothing
else about it.  Every completion has a random stream of its own, so what is drawn for it depends on
its seed, never on what else is in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Stop = Literal["stop", "length"]


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn.

    max_tokens: tokens of a completion at most, the stop token included.
    temperature: divides the logits; 0 takes the most likely token.
    top_p: smallest set of tokens with at least this probability (1: all), applied after top_k.
    top_k: that many most likely tokens (0: all).
    stop_token_ids: tokens that end a completion.

    Raises ValueError naming the setting and its value.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop_token_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens: {self.max_tokens}; a completion has at least 1 token")
        if not 0.0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature: {self.temperature}; give 0 (most likely token) or a positive number")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p: {self.top_p}; give a share above 0 and at most 1 (1: off)")
        if self.top_k < 0:
            raise ValueError(f"top_k: {self.top_k}; give a number of tokens (0: off)")


@dataclass(frozen=True)
class Completion:
    """One drawn completion of T tokens.

    ids: T token ids; the stop token is the last of them when ``stop`` is "stop", so that it is trained.
    text: the ids decoded without the stop token and other special tokens.
    logps: T natural log-probabilities of the drawn tokens at the sampling temperature, over the whole
        vocabulary (before top_k and top_p); at temperature 0 they are those of temperature 1.
    stop: "stop" ended by a stop token, "length" cut at ``max_tokens``.
    entropies: T entropies in nats of the same distributions; None when not asked for.
    """

    ids: list[int]
    text: str
    logps: list[float]
    stop: Stop
    entropies: list[float] | None = None


class Engine(Protocol):
    """name: the software and its version, written beside every sample."""

    @property
    def name(self) -> str:
        """Software and version."""
        ...

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
        """n completions of each of P prompts, in order: result[p][g] uses ``seeds[p * n + g]``.

        prompts: token ids without padding.  seeds: P * n integers in [0, 2**63).
        entropy: whether per-token entropies are wanted.
        budgets: tokens at most of each prompt's completions, in place of ``sampling.max_tokens``.
        Raises ValueError on an empty prompt, a wrong number of seeds or budgets, or a prompt too long for
        the model.
        """
        ...


class ReadingEngine(Engine, Protocol):
    """An engine that can also read a response it did not write."""

    def entropies(
        self, prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]], temperature: float
    ) -> list[list[float]]:
        """Per response, the entropy in nats of the distribution each of its T tokens was drawn from."""
        ...


def check_request(
    prompts: Sequence[Sequence[int]], n: int, seeds: Sequence[int], budgets: Sequence[int] | None = None
) -> None:
    """Refuse a request no engine can answer.  Raises ValueError naming the prompt or the two numbers."""
    if n < 1:
        raise ValueError(f"n: {n}; ask for at least 1 completion of a prompt")
    if len(seeds) != len(prompts) * n:
        raise ValueError(f"{len(prompts)} prompts x {n} completions need {len(prompts) * n} seeds, got {len(seeds)}")
    empty = [p for p, prompt in enumerate(prompts) if not len(prompt)]
    if empty:
        raise ValueError(f"prompt {empty[0]} has no tokens; a prompt needs at least one")
    if budgets is not None and (len(budgets) != len(prompts) or min(budgets, default=1) < 1):
        raise ValueError(f"budgets: {list(budgets)}; give each of the {len(prompts)} prompts at least 1 token")
