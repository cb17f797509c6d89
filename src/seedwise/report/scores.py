"""From counts to score arrays: {cell: {benchmark: (S, P)}}, aligned over problems.

A cell is (setting, method).  The untrained model stands in every setting of its model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from seedwise.report.facts import BASE, ReportError
from seedwise.stats.scores import avg, passk

K_VALUES = (1, 2, 4, 8, 16)
CellKey = tuple[str, str]
Scores = dict[CellKey, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Block:
    """Counts of one cell on one benchmark.

    correct_SN, samples_SN: float, NaN where a seed has no answers to a problem.  steps: the
    checkpoint each seed is read at.
    """

    seeds: tuple[int, ...]
    correct_SN: np.ndarray
    samples_SN: np.ndarray
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Selection:
    """Aligned scores of some cells.

    scores: what ``stats.tw_contrast`` takes.  samples: the smallest n.  problems: P over all
    benchmarks.  dropped: problems left out because some seed has no answers to them.
    reason: why ``scores`` is empty.
    """

    scores: Scores = field(default_factory=dict)
    samples: int = 0
    problems: int = 0
    dropped: int = 0
    reason: str | None = None

    def seeds(self, cell: CellKey) -> int:
        """S of a cell; 0 where it is not among the scores."""
        return next(iter(self.scores[cell].values())).shape[0] if cell in self.scores else 0


@dataclass(frozen=True)
class ModelScores:
    """Every cell of one model at one checkpoint: {cell: {benchmark: Block}}.  samples: benchmark -> the n in use."""

    cells: Mapping[CellKey, Mapping[str, Block]]
    samples: Mapping[str, frozenset[int]]

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Names, in the order of the counts."""
        return tuple(self.samples)

    def samples_of(self, benchmarks: Iterable[str]) -> set[int]:
        """The distinct numbers of samples per problem, n."""
        return {n for name in benchmarks for n in self.samples[name]}

    def select(self, cells: Iterable[CellKey], metric: str, benchmark: str | None) -> Selection:
        """Scores of ``cells`` on one benchmark, or on all for the macro average (benchmark None).

        Problems are the intersection over the cells and their seeds; a seed without any answers on
        a wanted benchmark is left out of its cell.
        """
        names = self.benchmarks if benchmark is None else (benchmark,)
        if not names:
            return Selection(reason="nothing was evaluated")
        chosen: dict[CellKey, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
        for cell in cells:
            blocks = self.cells.get(cell, {})
            if absent := [name for name in names if name not in blocks]:
                return Selection(reason=f"{cell[1]} was not evaluated on {', '.join(absent)}")
            seeds = [seed for seed in blocks[names[0]].seeds if all(_answered(blocks[name], seed) for name in names)]
            if not seeds:
                return Selection(reason=f"no seed of {cell[1]} was evaluated on {', '.join(names)}")
            chosen[cell] = {name: _rows(blocks[name], seeds) for name in names}
        return _align(chosen, names, metric)


def _answered(block: Block, seed: int) -> bool:
    return seed in block.seeds and not np.isnan(block.samples_SN[block.seeds.index(seed)]).all()


def _rows(block: Block, seeds: list[int]) -> tuple[np.ndarray, np.ndarray]:
    rows = [block.seeds.index(seed) for seed in seeds]
    return block.correct_SN[rows], block.samples_SN[rows]


def _align(
    chosen: Mapping[CellKey, Mapping[str, tuple[np.ndarray, np.ndarray]]], names: Iterable[str], metric: str
) -> Selection:
    scores: Scores = {cell: {} for cell in chosen}
    fewest, problems, dropped = np.inf, 0, 0
    for name in names:
        samples = np.concatenate([arrays[name][1] for arrays in chosen.values()])
        common_N = ~np.isnan(samples).any(axis=0)
        if not common_N.any():
            return Selection(reason=f"no problem of {name} was answered in every seed compared")
        problems += int(common_N.sum())
        dropped += int((~common_N & ~np.isnan(samples).all(axis=0)).sum())
        fewest = min(fewest, samples[:, common_N].min())
        for cell, arrays in chosen.items():
            correct, drawn = (array[:, common_N] for array in arrays[name])
            scores[cell][name] = _metric(correct, drawn, metric)
    return Selection(scores, int(fewest), problems, dropped)


def _metric(correct_SN: np.ndarray, samples_SN: np.ndarray, metric: str) -> np.ndarray:
    if metric.startswith("avg@"):
        return avg(samples_SN, correct_SN)
    return passk(samples_SN, correct_SN, k_of(metric))


def k_of(metric: str) -> int:
    """k of ``pass@k``.  Raises ReportError on any other text."""
    found = re.fullmatch(r"pass@([1-9][0-9]*)", metric)
    if not found:
        raise ReportError(f"compare: primary.metric: {metric!r}: use avg@n or pass@ with a number")
    return int(found[1])


def metrics_of(samples: set[int]) -> list[str]:
    """``avg@16, pass@1, ...`` for k <= n; ``avg@n`` where benchmarks have different n."""
    average = f"avg@{next(iter(samples))}" if len(samples) == 1 else "avg@n"
    return [average, *(f"pass@{k}" for k in K_VALUES if samples and k <= min(samples))]


def model_scores(counts: pd.DataFrame, step: int | None = None) -> ModelScores:
    """Blocks of one model's COUNTS.

    Each run is read at its last checkpoint that is not after ``step`` (None: its last): a run that
    stopped early counts with the weights at its stop.  Raises ReportError on impossible counts and on
    a seed that occurs in two runs of a cell.
    """
    trained = counts.loc[counts["method"] != BASE, "setting"]
    settings = sorted(set(trained)) or sorted(set(counts["setting"]))
    rows = counts if step is None else counts[counts["step"] <= step]
    rows = rows[rows["step"] == rows.groupby("run")["step"].transform("max")]
    _check(rows)
    cells: dict[CellKey, dict[str, Block]] = {}
    samples: dict[str, frozenset[int]] = {}
    for benchmark, on_benchmark in rows.groupby("benchmark", sort=False):
        codes, problems = pd.factorize(on_benchmark["problem"], sort=True)
        samples[str(benchmark)] = frozenset(int(n) for n in on_benchmark["samples"].unique())
        for (setting, method), part in on_benchmark.assign(code=codes).groupby(["setting", "method"], sort=False):
            block = _block(part, len(problems))
            for place in settings if method == BASE else (setting,):
                cells.setdefault((place, method), {})[str(benchmark)] = block
    return ModelScores(cells, samples)


def _check(rows: pd.DataFrame) -> None:
    wrong = (rows["samples"] < 1) | (rows["correct"] > rows["samples"]) | (rows["correct"] < 0)
    if wrong.any():
        row = rows[wrong].iloc[0]
        share = f"{row['correct']} correct of {row['samples']}"
        raise ReportError(f"counts: {row['run']}, problem {row['problem']}: {share}: grade it again")
    twice = rows.duplicated(["setting", "method", "seed", "benchmark", "problem"])
    if twice.any():
        row = rows[twice].iloc[0]
        raise ReportError(
            f"counts: seed {row['seed']} of {row['method']} in {row['setting']} occurs in two runs: keep one of them"
        )


def _block(part: pd.DataFrame, problems: int) -> Block:
    seed_of, seeds = pd.factorize(part["seed"], sort=True)
    correct_SN, samples_SN = (np.full((len(seeds), problems), np.nan) for _ in range(2))
    place = (seed_of, part["code"].to_numpy())
    correct_SN[place], samples_SN[place] = part["correct"].to_numpy(), part["samples"].to_numpy()
    steps = np.zeros(len(seeds), dtype=int)
    steps[seed_of] = part["step"].to_numpy()
    return Block(tuple(map(int, seeds)), correct_SN, samples_SN, tuple(map(int, steps)))
