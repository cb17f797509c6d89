"""Going on from where responses were cut: many completions of every prefix, graded as whole responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seedwise.engines.distinct import check_distinct
from seedwise.evals.chosen import Response
from seedwise.identity import stream

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from seedwise.engines.base import Completion, ReadingEngine, Sampling
    from seedwise.grading.pool import Grader
    from seedwise.grading.verify import Verdict

ROWS = 1024  # continuations of a batch: enough to keep an engine busy, few enough for a log to show progress


@dataclass(frozen=True)
class Policy:
    """What continues and who judges it.

    sampling: as the samples were drawn; a continuation may use the tokens its response had left.
    problems: name -> its row of ``tables.PROBLEMS``.  where: run, step and benchmark, for the random streams.
    """

    engine: ReadingEngine
    tokenizer: PreTrainedTokenizerBase
    sampling: Sampling
    grader: Grader
    problems: Mapping[str, dict[str, Any]]
    where: tuple[str | int, ...]


@dataclass(frozen=True)
class Cut:
    """A response cut after its first ``start`` tokens.  name: tells it from the response's other cuts."""

    response: Response
    name: str
    start: int

    @property
    def kept(self) -> list[int]:
        """Tokens of the response that stay."""
        return self.response.ids[: self.start]


@dataclass(frozen=True)
class Continued:
    """One continuation.  ids, text: what was drawn after the cut.  verdict: on the whole response."""

    ids: list[int]
    text: str
    verdict: Verdict


def continued(policy: Policy, cuts: Sequence[Cut], n: int, purpose: str, *, rows: int = ROWS) -> list[list[Continued]]:
    """n continuations of each cut, in order; how far it is is printed after each batch.

    purpose: of the random streams, and what the log calls them.  rows: continuations of a batch; cuts at similar
    depths share one.
    Raises IdenticalSamples where the engine repeats itself.
    """
    depth = [len(cut.response.prompt) + cut.start for cut in cuts]
    order = sorted(range(len(cuts)), key=depth.__getitem__)
    size = max(1, rows // n)
    batches = [order[first : first + size] for first in range(0, len(order), size)]
    found: dict[int, list[Continued]] = {}
    for number, batch in enumerate(batches, 1):
        these = [cuts[place] for place in batch]
        groups = policy.engine.generate(
            [cut.response.prompt + cut.kept for cut in these],
            n,
            policy.sampling,
            [_stream(policy, purpose, cut, m) for cut in these for m in range(n)],
            budgets=[policy.sampling.max_tokens - cut.start for cut in these],
        )
        check_distinct(groups, policy.sampling)
        found |= dict(zip(batch, _graded(policy, these, groups), strict=True))
        print(f"{purpose}: {number} of {len(batches)} batches", flush=True)
    return [found[place] for place in range(len(cuts))]


def _stream(policy: Policy, purpose: str, cut: Cut, m: int) -> int:
    return stream(*policy.where, purpose, cut.response.problem, cut.response.sample, cut.name, m)


def _graded(policy: Policy, cuts: list[Cut], groups: list[list[Completion]]) -> list[list[Continued]]:
    """Verdicts of the whole responses: what was kept and its continuation, decoded together."""
    from seedwise.grading.pool import Item

    whole = [
        cut.kept + (completion.ids[:-1] if completion.stop == "stop" else completion.ids)
        for cut, group in zip(cuts, groups, strict=True)
        for completion in group
    ]
    texts = iter(policy.tokenizer.batch_decode(whole, skip_special_tokens=True, clean_up_tokenization_spaces=False))
    asked = [policy.problems[cut.response.problem] for cut, group in zip(cuts, groups, strict=True) for _ in group]
    verdicts = iter(policy.grader.grade([Item.of(problem, next(texts)) for problem in asked]))
    return [[Continued(one.ids, one.text, next(verdicts)) for one in group] for group in groups]
