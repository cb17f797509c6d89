"""Samplers: which problems come next.

A sampler owns the stream of prompts: ``draw`` gives the problems of the next rollout, ``observe`` is
told how they went.  It is called on the main process only.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from seedwise.algos.part import Horizon, Part

if TYPE_CHECKING:
    from torch import Generator, Tensor


class UniformSampler(Part):
    """Every problem once per epoch, in an order of its own for each epoch.

    An order is a function of (the generator's seed, epoch) alone, not of how much was drawn from the
    generator, so methods of one seed see the same problems.  A draw that crosses the end of an epoch
    takes the rest from the next one.

    state: ``problems`` (how many there are), ``epoch`` (0-based) of the problems in ``rest``.
    """

    horizon: ClassVar[Horizon] = "rollout"
    kind: Literal["uniform"] = "uniform"

    def start(self, problems: int = 0) -> dict:
        """The state before the first draw from ``problems`` problems."""
        return {"problems": problems, "epoch": -1, "rest": []}

    def draw(self, n_prompts: int, state: dict, rng: Generator) -> list[int]:
        """The next n_prompts problems, as indices.  Raises ValueError when there are no problems."""
        if state["problems"] < 1:
            raise ValueError("no problems to draw from: start the sampler with the number of training problems")
        while len(state["rest"]) < n_prompts:
            state["epoch"] += 1
            state["rest"] = [*state["rest"], *_order(rng.initial_seed(), state["epoch"], state["problems"])]
        drawn, state["rest"] = state["rest"][:n_prompts], state["rest"][n_prompts:]
        return drawn

    def observe(self, prompts: Sequence[int], correct_PG: Tensor, state: dict, rng: Generator) -> None:
        """Nothing: the order does not depend on how problems went."""


def _order(seed: int, epoch: int, problems: int) -> list[int]:
    return random.Random(f"{seed} {epoch}").sample(range(problems), problems)


Sampler = Annotated[UniformSampler, Field()]
