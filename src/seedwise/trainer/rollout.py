"""One rollout: draw problems, generate, grade, until the sampler has the groups it wants.

Dimension key:  P prompts, G samples of one prompt, B rows (samples) of this process; the rows of all
processes, in order, are the P x G samples with the G samples of a prompt side by side.

The order of problems comes from stream(seed, "prompts"), the tokens of a sample from
stream(seed, "rollout", step, problem, sample): methods of one seed see the same problems in the same
order, and the first rollout of all of them is the same.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import gather_object

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
    """One sample.  correct: the verdict, 0..1.  penalty: reward units, at most 0.

    ids, logps, entropies: of its T tokens, as the engine gave them: log-probabilities and entropies, nats, of the
    policy that drew them.  late: whether it trains a rollout after the one it was drawn in.
    """

    problem: int
    text: str
    ids: list[int]
    logps: list[float]
    entropies: list[float] | None
    stop: str
    verdict: str
    correct: float
    penalty: float
    late: bool = False

    @property
    def tokens(self) -> int:
        """T."""
        return len(self.ids)

    @property
    def entropy_nats(self) -> float | None:
        """Sum over its tokens."""
        return None if self.entropies is None else sum(self.entropies)


@dataclass(frozen=True)
class Samples:
    """The G samples of one problem."""

    rows: tuple[Row, ...]

    @property
    def problem(self) -> int:
        """Index of the problem."""
        return self.rows[0].problem

    @property
    def correct_G(self) -> tuple[float, ...]:
        """The verdict on each."""
        return tuple(row.correct for row in self.rows)

    def plain(self) -> list[dict]:
        """As plain values, for the memory."""
        return [asdict(row) for row in self.rows]

    @classmethod
    def late(cls, rows: Sequence[dict]) -> Samples:
        """From ``plain``, for a rollout after the one they were drawn in."""
        return cls(tuple(replace(Row(**row), late=True) for row in rows))


class Rollout:
    """TRL's ``rollout_func``: called once per rollout on every process with placeholder prompts.

    After a call ``rows`` holds the samples that train, of all processes; ``generated`` all that were drawn for
    them, flat groups and a surplus included; ``draws`` how often the stream of prompts was asked, and ``seconds``
    where the time went.  ``state`` is the sampler's memory.
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
        self.generated: list[Row] = []
        self.draws = 0
        self.seconds: dict[str, float] = {}
        self._order = torch.Generator().manual_seed(stream(seed, "prompts"))

    def __call__(self, placeholders: list[str], trainer: Any) -> dict[str, list]:
        """This process's share of the next rollout, as TRL wants it: prompt_ids, completion_ids, logprobs
        (None: the sampler is the policy itself), and correct and penalty for the reward functions.
        Raises SamplerError where the sampler cannot find enough groups."""
        accelerator, step = trainer.accelerator, trainer.state.global_step
        seen: Counter[int] = Counter()
        self.seconds = {"generation_seconds": 0.0, "grading_seconds": 0.0}

        def respond(problems: list[int]) -> list[Samples]:
            asked = []
            for problem in problems:
                asked.append((problem, seen[problem]))
                seen[problem] += 1
            return self._respond(asked, step, accelerator)

        sampler = self.algorithm.sampler
        held = [Samples.late(rows) for rows in self.state.get("held", [])]
        filled = sampler.fill(self.prompts, held, respond, self.state, self._order)
        if sampler.carries:
            self.state["held"] = [group.plain() for group in filled.surplus]
        self.rows = [row for group in filled.train for row in group.rows]
        self.generated = [row for group in filled.generated for row in group.rows]
        self.draws = filled.draws
        correct_PG = torch.tensor([group.correct_G for group in filled.train])
        sampler.observe([group.problem for group in filled.train], correct_PG, self.state, self._order)
        first = accelerator.process_index * len(placeholders)
        mine = self.rows[first : first + len(placeholders)]
        return {
            "prompt_ids": [self.prompt_ids[row.problem] for row in mine],
            "completion_ids": [row.ids for row in mine],
            "logprobs": None,
            "correct": [row.correct for row in mine],
            "penalty": [row.penalty for row in mine],
        }

    def _respond(self, asked: list[tuple[int, int]], step: int, accelerator: Any) -> list[Samples]:
        """The samples of problems, each with how often it was asked before in this rollout; of all processes."""
        G, processes = self.group_size, accelerator.num_processes
        wanted = [(problem, visit * G + sample) for problem, visit in asked for sample in range(G)]
        share = -(-len(wanted) // processes)
        mine = wanted[accelerator.process_index * share :][:share]
        started = time.perf_counter()
        completions = self._generate(mine, step)
        generated = time.perf_counter()
        rows = self._graded([problem for problem, _ in mine], completions)
        self.seconds["generation_seconds"] += generated - started
        self.seconds["grading_seconds"] += time.perf_counter() - generated
        rows = gather_object(rows) if processes > 1 else rows
        return [Samples(tuple(rows[i : i + G])) for i in range(0, len(rows), G)]

    def _generate(self, wanted: list[tuple[int, int]], step: int) -> list[Completion]:
        if not wanted:
            return []
        seeds = [
            stream(self.seed, "rollout", step, self.problems[problem]["problem"], sample) for problem, sample in wanted
        ]
        prompts = [self.prompt_ids[problem] for problem, _ in wanted]
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
                ids=completion.ids,
                logps=completion.logps,
                entropies=completion.entropies,
                stop=completion.stop,
                verdict=verdict.verdict,
                correct=verdict.credit,
                penalty=below,
            )
            for problem, completion, verdict, below in zip(problems_B, completions, verdicts, penalty_B, strict=True)
        ]


def correct(completions: list[str], correct: list[float], **_: Any) -> list[float]:
    """Reward function: the verifier's verdict, found during the rollout."""
    return correct


def penalty(completions: list[str], penalty: list[float], **_: Any) -> list[float]:
    """Reward function: what the algorithm's penalty adds to the verdict, at most 0."""
    return penalty
