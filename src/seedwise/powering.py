"""``seedwise power``: what designs would detect, given variance components.

A comparison of two trained methods for new seeds and new problems (``stats.planner``).  Problems are counted as one
number: with benchmarks of equal size their total, otherwise less, since a macro average is as noisy as its smallest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf

import numpy as np

from seedwise.identity import stream
from seedwise.pilot import Pilot, PowerError
from seedwise.stats import planner
from seedwise.stats.components import Components
from seedwise.stats.results import StatsError
from seedwise.stats.sequential import Kind
from seedwise.stats.staged import power_staged

SEEDS, PROBLEMS, SAMPLES = (3, 5, 8, 10, 16), (30, 130, 300), (16,)


@dataclass(frozen=True)
class Question:
    """What is to be detected: a difference (score units) with this power, one of m comparisons that share alpha.

    looks: seeds per method at each look, none for a single look; spending: how alpha is spent over them.
    """

    effect: float = 0.03
    power: float = 0.8
    alpha: float = 0.05
    comparisons: int = 1
    looks: tuple[int, ...] = ()
    spending: Kind = "obf"

    @property
    def level(self) -> float:
        """alpha/m, what the smallest p of a family is compared with."""
        return self.alpha / self.comparisons


@dataclass(frozen=True)
class Costs:
    """Cost of training one seed of one method, and of one sample of one problem, in the same unit."""

    train: float
    sample: float


@dataclass(frozen=True)
class Design:
    """One design.  power_cautious: with the seed variance at its upper 75 % limit; None where components were typed.
    smallest: the difference detected with the power asked for, score units.  cost: of one method; None without costs.
    """

    seeds: int
    problems: float
    samples: int
    power: float
    power_cautious: float | None
    smallest: float
    cost: float | None


@dataclass(frozen=True)
class Needed:
    """What a number of problems and samples allows.

    seeds, seeds_cautious: per method, with the power asked for, cautious as in Design; None where ``reason`` says why.
    ceiling: power with endless seeds and samples.  best_samples: cost-optimal samples of a problem, None without costs.
    staged_power, staged_seeds: with the looks asked for, of finding the difference at any, and seeds used on average.
    """

    problems: float
    samples: int
    seeds: int | None
    seeds_cautious: int | None
    ceiling: float
    best_samples: int | None
    staged_power: float | None
    staged_seeds: float | None
    reason: str | None


@dataclass(frozen=True)
class Power:
    """The answer.  Variances are those of ``stats.components``."""

    pilot: Pilot
    question: Question
    designs: tuple[Design, ...]
    needed: tuple[Needed, ...]

    def json(self) -> str:
        """One object: origin, components, question, and the lists designs and needed."""
        shown = {"origin": self.pilot.origin, "components": asdict(self.pilot.components)}
        shown |= {"question": asdict(self.question)}
        shown |= {"designs": [asdict(d) for d in self.designs], "needed": [asdict(each) for each in self.needed]}
        return json.dumps(shown, ensure_ascii=False, allow_nan=False, indent=1)


def numbers(option: str, text: str) -> tuple[int, ...]:
    """``3,5,8`` as numbers in rising order; none for an empty text.  Raises PowerError naming the option."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    for part in parts:
        if not re.fullmatch(r"[1-9][0-9]{0,4}", part):
            raise PowerError(f"{option}: {part!r}: give whole numbers from 1 to 99999 joined by commas")
    return tuple(sorted({int(part) for part in parts}))


def costs(train: float | None, sample: float | None) -> Costs | None:
    """Both costs, or None without them.  Raises PowerError when one is missing or not above 0."""
    if train is None and sample is None:
        return None
    for option, cost in (("--train-cost", train), ("--sample-cost", sample)):
        if cost is None or not 0 < cost < inf:
            raise PowerError(f"{option}: {cost}: give both costs above 0, in one unit")
    assert train is not None and sample is not None
    return Costs(train, sample)


def power(
    pilot: Pilot,
    question: Question,
    *,
    seeds: Sequence[int] = (),
    problems: Sequence[int] = (),
    samples: Sequence[int] = (),
    costs: Costs | None = None,
) -> Power:
    """Every design of seeds x problems x samples, and what each number of problems and samples allows.

    What is not given is that of the pilot, or a usual range.  Raises PowerError.
    """
    _check(question)
    P = tuple(problems) or ((pilot.problems,) if pilot.problems else PROBLEMS)
    n = tuple(samples) or ((pilot.samples,) if pilot.samples else SAMPLES)
    S = tuple(seeds) or SEEDS
    try:
        needed = tuple(_needed(pilot.components, question, p, k, costs) for p in P for k in n)
        designs = tuple(_design(pilot.components, question, s, p, k, costs) for p in P for k in n for s in S)
    except StatsError as error:
        raise PowerError(str(error)) from None
    return Power(pilot, question, designs, needed)


def _check(question: Question) -> None:
    if not 0 < question.effect < 1:
        raise PowerError(f"--effect: {question.effect:g}: give score units between 0 and 1, 0.03 is 3 points")
    if question.comparisons < 1:
        raise PowerError(f"--comparisons: {question.comparisons}: give at least 1")
    if not 0 < question.alpha < 0.5:
        raise PowerError(f"--alpha: {question.alpha:g}: give a number between 0 and 0.5")
    if not question.alpha < question.power < 1:
        raise PowerError(f"--power: {question.power:g}: give a number between alpha and 1, such as 0.8")


def _rng(*identity: str | int) -> np.random.Generator:
    return np.random.default_rng(stream("power", *identity))


def _design(components: Components, question: Question, S: int, P: float, n: int, costs: Costs | None) -> Design:
    def detected(chosen: Components) -> float:
        rng = _rng("design", S, f"{P:g}", n)
        return planner.power_mc(chosen, S, P, n, question.effect, rng=rng, alpha=question.level)

    cautious = None if components.var_seed_upper is None else detected(components.cautious())
    rng = _rng("smallest", S, f"{P:g}", n)
    smallest = planner.mde(components, S, P, n, question.level, question.power, rng=rng)
    cost = None if costs is None else S * (costs.train + P * n * costs.sample)
    return Design(S, P, n, detected(components), cautious, smallest, cost)


def _needed(components: Components, question: Question, P: float, n: int, costs: Costs | None) -> Needed:
    def seeds(chosen: Components) -> planner.Seeds:
        rng = _rng("seeds", f"{P:g}", n)
        return planner.seeds_needed(chosen, P, n, question.effect, rng=rng, alpha=question.level, power=question.power)

    likely = seeds(components)
    cautious = None if components.var_seed_upper is None else seeds(components.cautious())
    reason = likely.reason or (cautious.reason if cautious else "components were typed: no upper limit of the seed SD")
    many = cautious.seeds if cautious else None
    best = (
        None if costs is None else planner.best_samples(components, P, cost_seed=costs.train, cost_sample=costs.sample)
    )
    return Needed(P, n, likely.seeds, many, likely.ceiling, best, *_staged(components, question, P, n), reason)


def _staged(components: Components, question: Question, P: float, n: int) -> tuple[float | None, float | None]:
    if not question.looks:
        return None, None
    rng = _rng("staged", f"{P:g}", n)
    found = power_staged(
        components, question.looks, P, n, question.effect, rng=rng, alpha=question.level, kind=question.spending
    )
    return found.power, found.seeds
