"""Power of a comparison that looks at growing numbers of seeds and stops when it can (statistics, section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seedwise.stats.batched import ArmMargins, differences
from seedwise.stats.components import Components
from seedwise.stats.sequential import Kind, Look, spend, variance_information
from seedwise.stats.variances import Array

STUDIES = 2000
CHUNK = 2**18


@dataclass(frozen=True)
class Staged:
    """power: of finding the difference at any look.  seeds: mean number of seeds used per method.
    found: share found by each look.  looks: information, bound and level of each."""

    power: float
    seeds: float
    found: tuple[float, ...]
    looks: tuple[Look, ...]


def power_staged(
    components: Components,
    seeds: Sequence[int],
    P: float,
    n: int,
    delta: float,
    *,
    rng: np.random.Generator,
    alpha: float = 0.05,
    kind: Kind = "obf",
    studies: int = STUDIES,
) -> Staged:
    """Power at delta with looks at these numbers of seeds, by simulating normal scores (E2).

    seeds: rising, the last is S_max.  With m comparisons give alpha / m.  P is rounded to whole problems.
    Raises StatsError as ``Components.mean_squares``, ``variance_information`` and ``spend``.
    """
    squares = [components.mean_squares(S, P, n) for S in seeds]
    looks = spend(variance_information([seed + problem - rest for seed, problem, rest in squares]), alpha, kind)
    problems = round(P)
    chunk = max(1, CHUNK // (seeds[-1] * problems))
    first_R = np.concatenate(
        [
            _first_look(_arms(components, seeds[-1], problems, n, delta, min(chunk, studies - at), rng), seeds, looks)
            for at in range(0, studies, chunk)
        ]
    )
    found = tuple(float((first_R <= k).mean()) for k in range(len(seeds)))
    used = np.asarray([*seeds, seeds[-1]])[first_R]
    return Staged(found[-1], float(used.mean()), found, looks)


def _arms(
    components: Components, S: int, P: int, n: int, delta: float, R: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Scores [R, S, P] of two methods whose means differ by delta."""
    sd_seed, sd_mp, sd_rest = np.sqrt([components.var_seed, components.var_mp, components.residual(n)])

    def arm(mean: float) -> Array:
        y_RSP = sd_rest * rng.standard_normal((R, S, P))
        y_RSP += sd_seed * rng.standard_normal((R, S, 1))
        y_RSP += sd_mp * rng.standard_normal((R, 1, P)) + mean
        return y_RSP

    return arm(delta), arm(0.0)


def _first_look(arms: tuple[Array, Array], seeds: Sequence[int], looks: Sequence[Look]) -> np.ndarray:
    """[R] number of the first look that finds a difference; the number of looks where none does."""
    stopped = np.array(
        [
            differences(*(ArmMargins.of([y_RSP[:, :S]]) for y_RSP in arms)).p <= look.nominal_p
            for S, look in zip(seeds, looks, strict=True)
        ]
    )
    return np.where(stopped.any(axis=0), stopped.argmax(axis=0), len(looks))
