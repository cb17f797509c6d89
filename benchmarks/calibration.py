"""Type-I error and coverage of eight ways to compare two methods, on simulated studies without a difference.

Thirty designs: five variance scenarios x 3, 5 or 10 seeds x 30 or 130 problems, 16 samples each
(``seedwise.stats.simulate``).  Every candidate gives a 95 % interval; a false positive is an interval
without 0.  Coverage is of both truths: the difference for new problems and new seeds (0), and the one
for new seeds on exactly the problems drawn.

    python -m benchmarks.calibration --write docs/statistics.md

takes about 15 minutes of one core (slow candidates get fewer studies, as the table says) and fills the
part of the document between two ``<!-- calibration -->`` markers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from seedwise.stats.batched import ArmMargins, differences
from seedwise.stats.mixed import crossed_model
from seedwise.stats.results import Target
from seedwise.stats.simulate import SCENARIOS, Studies, studies

Array = NDArray[np.float64]
Bounds = tuple[Array, Array]
SEEDS, PROBLEMS = (3, 5, 10), (30, 130)
CHUNK = 2**19
SHARED = 50
"""Studies that share one set of bootstrap draws, so that resampling is one matrix product."""
MARKER = "<!-- calibration -->"
READING = """\
Simulated studies without a difference: two methods, 3, 5 or 10 seeds each, 30 or 130 problems, 16 samples, 30 designs.
The scenarios: *sharp*, the methods are alike on every problem; *base*, each has problems that suit it; *seedhi* and
*seedlo*, seeds differ more or less; *hetero*, one method's seeds differ three times as much as the other's. *New
problems* is the difference over all problems of this kind, *same problems* the one on exactly those drawn, over seeds.
A range is over designs, ± is the largest Monte-Carlo standard error; a bootstrap has {draws:,} draws.
"""


@dataclass(frozen=True)
class Candidate:
    """bounds: (studies, draws, generator) -> low [R] and high [R].  cost: which number of repetitions it gets."""

    bounds: Callable[[Studies, int, np.random.Generator], Bounds]
    cost: str = "closed form"


def _welch(target: Target) -> Callable[[Studies, int, np.random.Generator], Bounds]:
    def bounds(drawn: Studies, draws: int, rng: np.random.Generator) -> Bounds:
        result = differences(ArmMargins.of([drawn.first]), ArmMargins.of([drawn.second]), target=target)
        return result.d - result.half, result.d + result.half

    return bounds


def pooled_binomial(drawn: Studies, draws: int, rng: np.random.Generator) -> Bounds:
    """z interval that takes every sample of every seed for an independent trial."""
    share = [y.mean(axis=(1, 2)) for y in (drawn.first, drawn.second)]
    trials = [drawn.samples * y[0].size for y in (drawn.first, drawn.second)]
    d_R = share[0] - share[1]
    half_R = -ndtri(0.025) * np.sqrt(sum(p * (1 - p) / n for p, n in zip(share, trials, strict=True)))
    return d_R - half_R, d_R + half_R


def paired_problems(drawn: Studies, draws: int, rng: np.random.Generator) -> Bounds:
    """Paired t over problems of the means over seeds."""
    D_RP = drawn.first.mean(axis=1) - drawn.second.mean(axis=1)
    P = D_RP.shape[1]
    d_R, half_R = D_RP.mean(axis=1), -stdtrit(P - 1, 0.025) * D_RP.std(axis=1, ddof=1) / np.sqrt(P)
    return d_R - half_R, d_R + half_R


def problem_bootstrap(drawn: Studies, draws: int, rng: np.random.Generator) -> Bounds:
    """Percentile bootstrap that redraws problems; seeds are averaged first."""
    D_RP = drawn.first.mean(axis=1) - drawn.second.mean(axis=1)
    return _percentiles(D_RP @ _weights(D_RP.shape[1], draws, rng).T)


def hierarchical_bootstrap(drawn: Studies, draws: int, rng: np.random.Generator) -> Bounds:
    """Percentile bootstrap that redraws the seeds of each arm and the problems of both."""
    problems_KP = _weights(drawn.first.shape[2], draws, rng)
    d_RK = np.zeros((len(drawn.first), draws))
    for sign, y_RSP in ((1, drawn.first), (-1, drawn.second)):
        seeds_KS = _weights(y_RSP.shape[1], draws, rng)
        d_RK += sign * np.einsum("rkp,kp->rk", seeds_KS @ y_RSP, problems_KP)
    return _percentiles(d_RK)


def stratified_bootstrap(drawn: Studies, draws: int, rng: np.random.Generator) -> Bounds:
    """Percentile bootstrap of a runs x problems matrix that redraws the runs of every problem on its own."""
    d_RK = np.zeros((len(drawn.first), draws))
    for sign, y_RSP in ((1, drawn.first), (-1, drawn.second)):
        R, S, P = y_RSP.shape
        weights_KPS = rng.multinomial(S, np.full(S, 1 / S), (draws, P)) / (S * P)
        d_RK += sign * y_RSP.transpose(0, 2, 1).reshape(R, P * S) @ weights_KPS.reshape(draws, P * S).T
    return _percentiles(d_RK)


def mixed_model(drawn: Studies, draws: int, rng: np.random.Generator) -> Bounds:
    """Crossed mixed model by REML with a Wald z interval."""
    found = [
        crossed_model({"first": {"b": first}, "second": {"b": second}}, "first", "second")
        for first, second in zip(drawn.first, drawn.second, strict=True)
    ]
    low, high = (
        [np.nan if value is None else value for value in side]
        for side in zip(*((f.lo, f.hi) for f in found), strict=True)
    )
    return np.array(low), np.array(high)


CANDIDATES: Mapping[str, Candidate] = MappingProxyType(
    {
        "TW-Welch (seedwise)": Candidate(_welch("E2")),
        "Welch t on seed means": Candidate(_welch("E1")),
        "pooled binomial z": Candidate(pooled_binomial),
        "paired t over problems": Candidate(paired_problems),
        "problem bootstrap": Candidate(problem_bootstrap, "bootstrap"),
        "hierarchical bootstrap": Candidate(hierarchical_bootstrap, "bootstrap"),
        "stratified bootstrap of runs x problems": Candidate(stratified_bootstrap, "bootstrap"),
        "mixed model, Wald z": Candidate(mixed_model, "mixed model"),
    }
)


@dataclass(frozen=True)
class Measured:
    """One candidate in one design: shares of ``studies`` simulated studies."""

    candidate: str
    scenario: str
    S: int
    P: int
    studies: int
    type_one: float
    covers_new: float
    covers_same: float

    @property
    def se(self) -> float:
        """Monte-Carlo standard error of type_one."""
        return (self.type_one * (1 - self.type_one) / self.studies) ** 0.5


def measure(
    names: list[str], scenario: str, S: int, P: int, repetitions: int, *, rng: np.random.Generator, draws: int = 999
) -> list[Measured]:
    """Type-I error and coverage of some candidates on the same simulated studies of one design."""
    counts = {name: np.zeros(3) for name in names}
    bootstrap = any(CANDIDATES[name].cost == "bootstrap" for name in names)
    chunk = min(SHARED if bootstrap else repetitions, max(1, CHUNK // (S * P)))
    for at in range(0, repetitions, chunk):
        drawn = studies(SCENARIOS[scenario], (S, S), P, min(chunk, repetitions - at), rng=rng)
        for name in names:
            low_R, high_R = CANDIDATES[name].bounds(drawn, draws, rng)
            false_R = (low_R > 0) | (high_R < 0)
            new_R = (low_R <= drawn.difference) & (drawn.difference <= high_R)
            same_R = (low_R <= drawn.fixed_R) & (drawn.fixed_R <= high_R)
            counts[name] += [false_R.sum(), new_R.sum(), same_R.sum()]
    return [
        Measured(name, scenario, S, P, repetitions, *(count / repetitions).tolist()) for name, count in counts.items()
    ]


def designs() -> Iterator[tuple[str, int, int]]:
    """(scenario, S, P) of the thirty designs."""
    return ((scenario, S, P) for scenario in SCENARIOS for S in SEEDS for P in PROBLEMS)


def run(repetitions: Mapping[str, int], draws: int, seed: int) -> list[Measured]:
    """All candidates in all designs; repetitions by cost.  Every group of candidates has its own generator."""
    found = []
    for at, (scenario, S, P) in enumerate(designs()):
        for group, (cost, count) in enumerate(repetitions.items()):
            names = [name for name, candidate in CANDIDATES.items() if candidate.cost == cost]
            rng = np.random.default_rng([seed, at, group])
            found += measure(names, scenario, S, P, count, rng=rng, draws=draws)
        typer.echo(f"{scenario} S={S} P={P}", err=True)
    return found


def summary(found: list[Measured]) -> str:
    """Markdown: per candidate the range of type-I error and coverage over the designs."""
    lines = [
        "| candidate | type I, all 30 designs | equal arms | no interaction | covers new problems "
        "| covers same problems | studies per design |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in CANDIDATES:
        rows = [row for row in found if row.candidate == name]
        equal = [row.type_one for row in rows if row.scenario != "hetero"]
        sharp = [row.type_one for row in rows if row.scenario == "sharp"]
        cells = [
            f"{_range([row.type_one for row in rows])} (± {max(row.se for row in rows):.3f})",
            _range(equal), _range(sharp),
            _range([row.covers_new for row in rows]), _range([row.covers_same for row in rows]),
            f"{rows[0].studies:,}",
        ]  # fmt: skip
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def details(found: list[Measured]) -> str:
    """Markdown: the type-I error of every candidate in every design."""
    lines = [f"| scenario | S | P | {' | '.join(CANDIDATES)} |", "|---" * (3 + len(CANDIDATES)) + "|"]
    for scenario, S, P in designs():
        at = {row.candidate: row for row in found if (row.scenario, row.S, row.P) == (scenario, S, P)}
        lines.append(f"| {scenario} | {S} | {P} | {' | '.join(f'{at[name].type_one:.3f}' for name in CANDIDATES)} |")
    return "\n".join(lines)


def _range(values: list[float]) -> str:
    return f"{min(values):.3f} to {max(values):.3f}"


def _weights(count: int, draws: int, rng: np.random.Generator) -> Array:
    """[K, count] share of each of ``count`` units in K resamples."""
    return rng.multinomial(count, np.full(count, 1 / count), draws) / count


def _percentiles(d_RK: Array) -> Bounds:
    low_R, high_R = np.quantile(d_RK, (0.025, 0.975), axis=1)
    return low_R, high_R


def written(document: str, text: str, marker: str = MARKER) -> str:
    """The document with what stands between its two markers replaced.  Raises typer.BadParameter without them."""
    parts = document.split(marker)
    if len(parts) != 3:
        raise typer.BadParameter(f"{len(parts) - 1} markers {marker}: write two of them, the table goes in between")
    return f"{parts[0]}{marker}\n{text}\n{marker}{parts[2]}"


def main(
    repetitions: Annotated[int, typer.Option(help="studies per design of closed-form candidates")] = 60_000,
    bootstrap: Annotated[int, typer.Option(help="studies per design of the bootstraps")] = 4000,
    mixed: Annotated[int, typer.Option(help="studies per design of the mixed model")] = 4000,
    draws: Annotated[int, typer.Option(help="draws of a bootstrap")] = 999,
    seed: Annotated[int, typer.Option(help="of the generators")] = 0,
    write: Annotated[Path | None, typer.Option(help="document to fill between its markers")] = None,
) -> None:
    """Print both tables; with --write also put them into a document."""
    found = run({"closed form": repetitions, "bootstrap": bootstrap, "mixed model": mixed}, draws, seed)
    text = f"{READING.format(draws=draws)}\n{summary(found)}\n\nType-I error in each design:\n\n{details(found)}"
    typer.echo(text)
    if write is not None:
        write.write_text(written(write.read_text(), text))


if __name__ == "__main__":
    typer.run(main)
