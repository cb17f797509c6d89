"""Samplers: which problems come next, and which of their groups train.

A sampler owns the stream of prompts: ``fill`` draws from it and asks for the responses until it has the
groups of one rollout; ``observe`` is told how they went.  Both see the groups of all processes, and every
process calls them alike.

Dimension key:  P prompts, G samples of one prompt.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Generic, Literal, Protocol, TypeVar

from pydantic import Field

from seedwise.algos.part import Horizon, Part

if TYPE_CHECKING:
    from torch import Generator, Tensor


class SamplerError(ValueError):
    """The stream of prompts cannot give what a step needs; one line with the remedy."""


class Group(Protocol):
    """The responses to one problem.  correct_G: the verdict on each, 0..1."""

    @property
    def correct_G(self) -> Sequence[float]:
        """The verdict on each response."""
        ...


AnyGroup = TypeVar("AnyGroup", bound=Group)
Respond = Callable[[list[int]], list[AnyGroup]]


@dataclass(frozen=True)
class Filled(Generic[AnyGroup]):
    """The groups of one rollout.

    train: those that train, as many as were asked for.  generated: all that were generated for it, in order;
    they need not contain one that trains (carried from the rollout before).  surplus: generated, fit to train,
    and more than was asked for.  draws: how often the stream was asked.
    """

    train: list[AnyGroup]
    generated: list[AnyGroup]
    surplus: list[AnyGroup]
    draws: int


class UniformSampler(Part):
    """Every problem once per epoch, in an order of its own for each epoch.

    An order is a function of (the generator's seed, epoch) alone, not of how much was drawn from the
    generator, so methods of one seed see the same problems.  A draw that crosses the end of an epoch
    takes the rest from the next one.

    state: ``problems`` (how many there are), ``epoch`` (0-based) of the problems in ``rest``.
    """

    horizon: ClassVar[Horizon] = "rollout"
    kind: Literal["uniform"] = "uniform"

    @property
    def carries(self) -> bool:
        """Whether groups may train a rollout later than they were generated."""
        return False

    def start(self, problems: int = 0) -> dict:
        """The state before the first draw from ``problems`` problems."""
        return beginning(problems)

    def fill(
        self, n_prompts: int, held: list[AnyGroup], respond: Respond[AnyGroup], state: dict, rng: Generator
    ) -> Filled[AnyGroup]:
        """The groups of the next n_prompts problems.  Raises SamplerError when there are no problems."""
        groups = respond(take(n_prompts, state, rng))
        return Filled(groups, groups, [], 1)

    def observe(self, prompts: Sequence[int], correct_PG: Tensor, state: dict, rng: Generator) -> None:
        """Nothing: the order does not depend on how problems went."""


class DynamicSampling(Part):
    """DAPO's dynamic sampling (arXiv:2503.14476, equation 11): groups without a difference in verdicts do not train.

    Draws from the uniform stream until n_prompts groups have ``0 < n1 < G``; for graded verdicts, until not all of
    a group's are equal.  The verdict counts, not the reward with its penalties.

    factor: problems of a draw, as a multiple of the groups that are still missing; DAPO's recipe draws three times
        what it trains on.  1 never has a surplus and generates the fewest tokens, in more draws.
    surplus: ``discard`` throws fit groups beyond n_prompts away, as DAPO does; ``keep`` lets them train first in the
        next rollout, with the log-probabilities they were drawn with.
    most: problems drawn for one rollout at most, as a multiple of n_prompts; the recipe's ten draws of three
        times as many are 30.
    state: that of the uniform stream, and ``held``, the groups kept.
    """

    horizon: ClassVar[Horizon] = "rollout"
    kind: Literal["dynamic"] = "dynamic"
    factor: float = Field(default=3.0, ge=1)
    surplus: Literal["discard", "keep"] = "discard"
    most: int = Field(default=30, ge=1)

    @property
    def carries(self) -> bool:
        """Whether groups may train a rollout later than they were generated."""
        return self.surplus == "keep"

    def start(self, problems: int = 0) -> dict:
        """The state before the first draw from ``problems`` problems."""
        return beginning(problems)

    def fill(
        self, n_prompts: int, held: list[AnyGroup], respond: Respond[AnyGroup], state: dict, rng: Generator
    ) -> Filled[AnyGroup]:
        """The held groups and as many more as are missing.

        Raises SamplerError when there are no problems, or when ``most`` times n_prompts of them left some missing.
        """
        fit, generated, draws = list(held), [], 0
        while len(fit) < n_prompts:
            missing = n_prompts - len(fit)
            ahead = min(math.ceil(self.factor * missing), self.most * n_prompts - len(generated))
            if ahead < 1:
                raise SamplerError(
                    f"dynamic sampling drew {len(generated)} problems for {n_prompts} groups and {missing} are missing:"
                    " all answers to the others are right or all are wrong: raise sampler.most, take harder or easier"
                    " train_data, or {kind: uniform}"
                )
            groups = respond(take(ahead, state, rng))
            generated += groups
            fit += [group for group in groups if min(group.correct_G) < max(group.correct_G)]
            draws += 1
        return Filled(fit[:n_prompts], generated, fit[n_prompts:], draws)

    def observe(self, prompts: Sequence[int], correct_PG: Tensor, state: dict, rng: Generator) -> None:
        """Nothing: what is drawn does not depend on how problems went before."""


def beginning(problems: int) -> dict:
    """The state of a uniform stream before the first draw."""
    return {"problems": problems, "epoch": -1, "rest": []}


def take(n_prompts: int, state: dict, rng: Generator) -> list[int]:
    """The next n_prompts problems of a uniform stream, as indices.  Raises SamplerError when there are none."""
    if state["problems"] < 1:
        raise SamplerError("no problems to draw from: start the sampler with the number of training problems")
    while len(state["rest"]) < n_prompts:
        state["epoch"] += 1
        state["rest"] = [*state["rest"], *_order(rng.initial_seed(), state["epoch"], state["problems"])]
    drawn, state["rest"] = state["rest"][:n_prompts], state["rest"][n_prompts:]
    return drawn


def _order(seed: int, epoch: int, problems: int) -> list[int]:
    return random.Random(f"{seed} {epoch}").sample(range(problems), problems)


Sampler = Annotated[UniformSampler | DynamicSampling, Field(discriminator="kind")]
