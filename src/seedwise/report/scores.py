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
    """Every cell of one model at one checkpoint: {cell: {benchmark: Block}}, and all benchmarks in order."""

    cells: Mapping[CellKey, Mapping[str, Block]]
    benchmarks: tuple[str, ...]

    def samples_of(self, benchmarks: Iterable[str]) -> set[int]:
        """The distinct numbers of samples per problem, n."""
        wanted = set(benchmarks)
        arrays = [
            block.samples_SN for blocks in self.cells.values() for name, block in blocks.items() if name in wanted
        ]
        return {int(n) for array in arrays for n in np.unique(array[~np.isnan(array)])}

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
    stopped early counts with the weights at its stop.
    """
    if step is not None:
        counts = counts[counts["step"] <= step]
    last = counts.groupby("run")["step"].transform("max")
    rows = counts[counts["step"] == last]
    settings = sorted(set(rows.loc[rows["method"] != BASE, "setting"])) or sorted(set(rows["setting"]))
    problems = {name: sorted(set(part["problem"])) for name, part in rows.groupby("benchmark", sort=False)}
    cells: dict[CellKey, dict[str, Block]] = {}
    for (setting, method, benchmark), part in rows.groupby(["setting", "method", "benchmark"], sort=False):
        block = _block(part, problems[benchmark])
        for place in settings if method == BASE else (setting,):
            cells.setdefault((place, method), {})[benchmark] = block
    return ModelScores(cells, tuple(problems))


def _block(part: pd.DataFrame, problems: list[str]) -> Block:
    if part.duplicated(["seed", "problem"]).any():
        row = part[part.duplicated(["seed", "problem"])].iloc[0]
        raise ReportError(
            f"counts: seed {row['seed']} of {row['method']} in {row['setting']} occurs in two runs: keep one of them"
        )
    wide = part.pivot(index="seed", columns="problem", values=["correct", "samples"])
    correct, samples = (wide[name].reindex(columns=problems).to_numpy(dtype=float) for name in ("correct", "samples"))
    if (np.nan_to_num(samples, nan=1) < 1).any() or (correct > samples).any() or (correct < 0).any():
        row = part[(part["samples"] < 1) | (part["correct"] > part["samples"]) | (part["correct"] < 0)].iloc[0]
        share = f"{row['correct']} correct of {row['samples']}"
        raise ReportError(f"counts: {row['run']}, problem {row['problem']}: {share}: grade it again")
    steps = part.groupby("seed")["step"].first()
    return Block(tuple(int(seed) for seed in wide.index), correct, samples, tuple(int(s) for s in steps))
