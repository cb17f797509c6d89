"""One rollout: draw problems, generate, grade.

Dimension key:  P prompts, G samples of one prompt, B rows (samples) held by this process; the rows of
all processes, in order, are the P x G samples with the G samples of a prompt side by side.

The order of problems comes from stream(seed, "prompts"), the tokens of a sample from
stream(seed, "rollout", step, problem, sample): methods of one seed see the same problems in the same
order, and the first rollout of all of them is the same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import broadcast_object_list, gather_object

from seedwise.engines.base import Completion, Engine, Sampling
from seedwise.grading.pool import Item
from seedwise.identity import stream

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase

    from seedwise.algos.algorithm import Algorithm
    from seedwise.grading.pool import Grader


@dataclass(frozen=True)
class Row:
    """One sample.  correct: 1.0 or 0.0.  penalty: reward units, at most 0.  entropy_nats: sum over its tokens."""

    problem: int
    text: str
    tokens: int
    stop: str
    verdict: str
    correct: float
    penalty: float
    entropy_nats: float | None


class Rollout:
    """TRL's ``rollout_func``: called once per rollout on every process with placeholder prompts.

    After a call ``rows`` holds the samples of all processes and ``seconds`` where the time went.
    """

    def __init__(
        self,
        *,
        algorithm: Algorithm,
        engine: Engine,
        tokenizer: PreTrainedTokenizerBase,
        problems: pd.DataFrame,
        grader: Grader,
        sampling: Sampling,
        seed: int,
        prompts: int,
        group_size: int,
    ) -> None:
        self.algorithm, self.engine, self.grader, self.sampling = algorithm, engine, grader, sampling
        self.seed, self.prompts, self.group_size = seed, prompts, group_size
        self.problems = problems.to_dict("records")
        self.prompt_ids: list[list[int]] = tokenizer(problems["prompt"].tolist())["input_ids"]
        self.state: dict = {}
        self.rows: list[Row] = []
        self.seconds: dict[str, float] = {}
        self._order = torch.Generator().manual_seed(stream(seed, "prompts"))

    def __call__(self, placeholders: list[str], trainer: Any) -> dict[str, list]:
        """This process's share of the next rollout, as TRL wants it: prompt_ids, completion_ids, logprobs
        (None: the sampler is the policy itself), and correct and penalty for the reward functions."""
        accelerator, step, G = trainer.accelerator, trainer.state.global_step, self.group_size
        drawn = self._draw(accelerator)
        first = accelerator.process_index * len(placeholders)
        mine = range(first, first + len(placeholders))
        started = time.perf_counter()
        completions = self._generate([drawn[row // G] for row in mine], [row % G for row in mine], step)
        generated = time.perf_counter()
        rows = self._graded([drawn[row // G] for row in mine], completions)
        self.seconds = {"generation_seconds": generated - started, "grading_seconds": time.perf_counter() - generated}
        self.rows = gather_object(rows) if accelerator.num_processes > 1 else rows
        if accelerator.is_main_process:
            correct_PG = torch.tensor([row.correct for row in self.rows]).view(self.prompts, G)
            self.algorithm.sampler.observe(drawn, correct_PG, self.state, self._order)
        return {
            "prompt_ids": [self.prompt_ids[row.problem] for row in rows],
            "completion_ids": [completion.ids for completion in completions],
            "logprobs": None,
            "correct": [row.correct for row in rows],
            "penalty": [row.penalty for row in rows],
        }

    def _draw(self, accelerator: Any) -> list[int]:
        drawn: list[Any] = [None]
        if accelerator.is_main_process:
            drawn = [self.algorithm.sampler.draw(self.prompts, self.state, self._order)]
        if accelerator.num_processes > 1:
            broadcast_object_list(drawn)
        return drawn[0]

    def _generate(self, problems_B: list[int], samples_B: list[int], step: int) -> list[Completion]:
        seeds = [
            stream(self.seed, "rollout", step, self.problems[problem]["problem"], sample)
            for problem, sample in zip(problems_B, samples_B, strict=True)
        ]
        prompts = [self.prompt_ids[problem] for problem in problems_B]
        # n = 1: a process may hold part of a group, and the engine prefills equal prompts once anyway
        return [row[0] for row in self.engine.generate(prompts, 1, self.sampling, seeds, entropy=True)]

    def _graded(self, problems_B: list[int], completions: list[Completion]) -> list[Row]:
        asked = zip(problems_B, completions, strict=True)
        verdicts = self.grader.grade(
            [Item.of(self.problems[problem], completion.text) for problem, completion in asked]
        )
        penalty = self.algorithm.penalty
        lengths = torch.tensor([len(completion.ids) for completion in completions])
        penalty_B = [0.0] * len(completions) if penalty is None else penalty(lengths).tolist()
        return [
            Row(
                problem=problem,
                text=completion.text,
                tokens=len(completion.ids),
                stop=completion.stop,
                verdict=verdict.verdict,
                correct=float(verdict.correct),
                penalty=below,
                entropy_nats=None if completion.entropies is None else sum(completion.entropies),
            )
            for problem, completion, verdict, below in zip(problems_B, completions, verdicts, penalty_B, strict=True)
        ]


def correct(completions: list[str], correct: list[float], **_: Any) -> list[float]:
    """Reward function: the verifier's verdict, found during the rollout."""
    return correct


def penalty(completions: list[str], penalty: list[float], **_: Any) -> list[float]:
    """Reward function: what the algorithm's penalty adds to the verdict, at most 0."""
    return penalty
