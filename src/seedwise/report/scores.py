"""From counts to score arrays: {cell: {benchmark: (S, P)}}, aligned over problems.

A cell is (setting, method).  The untrained model stands in every setting of its model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
import pandas as pd

from seedwise.report.facts import BASE, ReportError
from seedwise.stats.scores import avg, passk

K_VALUES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CellKey = tuple[str, str]
Scores = dict[CellKey, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Block:
    """Counts of one cell on one benchmark, at C checkpoints whose scores are averaged.

    correct_CSN, samples_CSN: float, NaN where a seed has no answers to a problem.  steps: the last
    checkpoint each seed is read at.
    """

    seeds: tuple[int, ...]
    correct_CSN: np.ndarray
    samples_CSN: np.ndarray
    steps: tuple[int, ...]
    _made: dict[str, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def answered_SN(self) -> np.ndarray:
        """Whether a seed has answers to a problem at every checkpoint."""
        return ~np.isnan(self.samples_CSN).any(axis=0)

    @cached_property
    def answered(self) -> frozenset[int]:
        """Seeds with any answers."""
        return frozenset(seed for seed, row in zip(self.seeds, self.answered_SN, strict=True) if row.any())

    def score_SN(self, metric: str) -> np.ndarray:
        """The metric of every seed and problem, mean over the checkpoints; NaN where there are no answers."""
        if metric not in self._made:
            there = self.answered_SN
            correct, samples = self.correct_CSN[:, there], self.samples_CSN[:, there]
            score = np.full(there.shape, np.nan)
            if there.any():
                score[there] = _metric(correct, samples, metric).mean(axis=0)
            self._made[metric] = score
        return self._made[metric]


@dataclass(frozen=True)
class Selection:
    """Aligned scores of some cells.

    scores: what ``stats.tw_contrast`` takes.  samples: the smallest n.  problems: P over all
    benchmarks.  dropped: problems left out because some seed has no answers to them.  names:
    benchmark -> the problems kept, in the order of the arrays.  checkpoints: how many a score is the mean of.
    reason: why ``scores`` is empty.
    """

    scores: Scores = field(default_factory=dict)
    samples: int = 0
    problems: int = 0
    dropped: int = 0
    checkpoints: int = 1
    names: Mapping[str, np.ndarray] = field(default_factory=dict)
    reason: str | None = None

    def seeds(self, cell: CellKey) -> int:
        """S of a cell; 0 where it is not among the scores."""
        return next(iter(self.scores[cell].values())).shape[0] if cell in self.scores else 0

    def drawn(self, metric: str) -> int | None:
        """n behind a share c/n, for the flag ``underdispersed``; None where the metric is no such share."""
        return self.samples * self.checkpoints if metric.startswith("avg@") and self.samples > 1 else None


@dataclass(frozen=True)
class ModelScores:
    """Every cell of one model: {cell: {benchmark: Block}}.  samples: benchmark -> the n in use.

    problems: benchmark -> names, in the order of the arrays.  checkpoints: how many a score is the mean of.
    """

    cells: Mapping[CellKey, Mapping[str, Block]]
    samples: Mapping[str, frozenset[int]]
    problems: Mapping[str, np.ndarray]
    checkpoints: int = 1

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Names, in the order of the counts."""
        return tuple(self.samples)

    def samples_of(self, benchmarks: Iterable[str]) -> set[int]:
        """The distinct numbers of samples per problem, n."""
        return {n for name in benchmarks for n in self.samples[name]}

    def select(
        self,
        cells: Iterable[CellKey],
        metric: str,
        benchmark: str | None,
        without: Mapping[CellKey, Collection[int]] | None = None,
    ) -> Selection:
        """Scores of ``cells`` on one benchmark, or on all for the macro average (benchmark None).

        Problems are the intersection over the cells and their seeds; a seed without any answers on
        a wanted benchmark is left out of its cell, as are those in ``without``.
        """
        names = self.benchmarks if benchmark is None else (benchmark,)
        if not names:
            return Selection(reason="nothing was evaluated")
        chosen: dict[CellKey, list[int]] = {}
        for cell in cells:
            blocks = self.cells.get(cell, {})
            if absent := [name for name in names if name not in blocks]:
                return Selection(reason=f"{cell[1]} was not evaluated on {', '.join(absent)}")
            left_out = (without or {}).get(cell, ())
            common = frozenset.intersection(*(blocks[name].answered for name in names))
            chosen[cell] = [seed for seed in blocks[names[0]].seeds if seed in common and seed not in left_out]
            if not chosen[cell]:
                return Selection(reason=f"no seed of {cell[1]} was evaluated on {', '.join(names)}")
        return self._aligned(chosen, names, metric)

    def _aligned(self, chosen: Mapping[CellKey, list[int]], names: Iterable[str], metric: str) -> Selection:
        scores: Scores = {cell: {} for cell in chosen}
        fewest, dropped, kept = np.inf, 0, {}
        for name in names:
            rows = {cell: _rows(self.cells[cell][name], seeds) for cell, seeds in chosen.items()}
            there = np.concatenate([self.cells[cell][name].answered_SN[at] for cell, at in rows.items()])
            common_N = there.all(axis=0)
            if not common_N.any():
                return Selection(reason=f"no problem of {name} was answered in every seed compared")
            dropped += int((~common_N & there.any(axis=0)).sum())
            fewest = min(fewest, *self.samples[name])
            whole = bool(common_N.all())
            for cell, at in rows.items():
                score = self.cells[cell][name].score_SN(metric)[at]
                scores[cell][name] = score if whole else np.ascontiguousarray(score[:, common_N])
            kept[name] = self.problems[name] if whole else self.problems[name][common_N]
        P = sum(map(len, kept.values()))
        return Selection(scores, int(fewest), P, dropped, self.checkpoints, kept)


def _rows(block: Block, seeds: list[int]) -> slice | list[int]:
    return slice(None) if list(block.seeds) == seeds else [block.seeds.index(seed) for seed in seeds]


def _metric(correct: np.ndarray, samples: np.ndarray, metric: str) -> np.ndarray:
    if metric.startswith("avg@"):
        return avg(samples, correct)
    n = int(samples.flat[0])
    if (samples != n).any():
        return passk(samples, correct, k_of(metric))
    return _passk_of(n, k_of(metric))[correct.astype(np.int64)]


@cache
def _passk_of(n: int, k: int) -> np.ndarray:
    """pass@k of 0..n correct answers out of n."""
    return passk(n, np.arange(n + 1), k)


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


def model_scores(counts: pd.DataFrame, step: int | None = None, checkpoints: int = 1) -> ModelScores:
    """Blocks of one model's COUNTS.

    Each run is read at its last checkpoint that is not after ``step`` (None: its last), or at the mean of
    the ``checkpoints`` before and at it, the earliest standing in for those it lacks: a run that stopped
    early counts with the weights at its stop.  Raises ReportError on impossible counts and on a seed that
    occurs in two runs of a cell.
    """
    trained = counts.loc[counts["method"] != BASE, "setting"]
    settings = sorted(set(trained)) or sorted(set(counts["setting"]))
    rows = _read_at(counts if step is None else counts[counts["step"] <= step], checkpoints)
    _check(rows)
    cells: dict[CellKey, dict[str, Block]] = {}
    samples: dict[str, frozenset[int]] = {}
    names: dict[str, np.ndarray] = {}
    for benchmark, on_benchmark in rows.groupby("benchmark", sort=False):
        codes, problems = pd.factorize(on_benchmark["problem"], sort=True)
        names[str(benchmark)] = np.asarray(problems)
        samples[str(benchmark)] = frozenset(int(n) for n in on_benchmark["samples"].unique())
        columns = {name: on_benchmark[name].to_numpy() for name in ("seed", "step", "back", "correct", "samples")}
        columns["code"] = np.asarray(codes)
        for (setting, method), at in on_benchmark.groupby(["setting", "method"], sort=False).indices.items():
            block = _block({name: column[at] for name, column in columns.items()}, len(problems), checkpoints)
            for place in settings if method == BASE else (setting,):
                cells.setdefault((place, method), {})[str(benchmark)] = block
    return ModelScores(cells, samples, names, checkpoints)


def _read_at(rows: pd.DataFrame, checkpoints: int) -> pd.DataFrame:
    """The rows of every run's last checkpoints; column ``back``: 0 for the last, 1 for the one before it."""
    steps = rows[["run", "step"]].drop_duplicates().sort_values(["run", "step"], ascending=[True, False])
    steps["back"] = steps.groupby("run", sort=False).cumcount()
    return rows.merge(steps[steps["back"] < checkpoints], on=["run", "step"], how="inner")


def _check(rows: pd.DataFrame) -> None:
    wrong = (rows["samples"] < 1) | (rows["correct"] > rows["samples"]) | (rows["correct"] < 0)
    if wrong.any():
        row = rows[wrong].iloc[0]
        share = f"{row['correct']} correct of {row['samples']}"
        raise ReportError(f"counts: {row['run']}, problem {row['problem']}: {share}: grade it again")
    twice = rows.duplicated(["setting", "method", "seed", "benchmark", "problem", "back"])
    if twice.any():
        row = rows[twice].iloc[0]
        raise ReportError(
            f"counts: seed {row['seed']} of {row['method']} in {row['setting']} occurs in two runs: keep one of them"
        )


def _block(part: Mapping[str, np.ndarray], problems: int, checkpoints: int) -> Block:
    seeds, seed_of = np.unique(part["seed"], return_inverse=True)
    back = part["back"]
    correct_CSN, samples_CSN = (np.full((checkpoints, len(seeds), problems), np.nan) for _ in range(2))
    place = (back, seed_of, part["code"])
    correct_CSN[place], samples_CSN[place] = part["correct"], part["samples"]
    oldest_S, steps = np.zeros(len(seeds), dtype=int), np.zeros(len(seeds), dtype=int)
    np.maximum.at(oldest_S, seed_of, back)
    np.maximum.at(steps, seed_of, part["step"])
    # a run with fewer checkpoints: its earliest stands in for the missing ones
    for S, oldest in enumerate(oldest_S):
        correct_CSN[oldest + 1 :, S], samples_CSN[oldest + 1 :, S] = correct_CSN[oldest, S], samples_CSN[oldest, S]
    return Block(tuple(map(int, seeds)), correct_CSN, samples_CSN, tuple(map(int, steps)))
