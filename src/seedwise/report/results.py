"""What the tables and the page are made of: RUNS, COUNTS, the analysis tables and the design's reach."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from seedwise.report.analysis import CHECKPOINTS, cells_of, metric_names
from seedwise.report.facts import BASE, PRIMARY, Facts
from seedwise.report.scores import model_scores
from seedwise.stats import planner
from seedwise.stats.components import Components, components_from

POWER = 0.8


@dataclass(frozen=True)
class Results:
    """Everything the tables are made of: RUNS, COUNTS and the analysis tables."""

    runs: pd.DataFrame
    counts: pd.DataFrame
    means: pd.DataFrame
    contrasts: pd.DataFrame
    trends: pd.DataFrame
    resampling: pd.DataFrame
    look: pd.DataFrame = field(default_factory=pd.DataFrame)
    stops: pd.DataFrame = field(default_factory=pd.DataFrame)
    audit: pd.DataFrame = field(default_factory=pd.DataFrame)
    effects: pd.DataFrame = field(default_factory=pd.DataFrame)
    ranks: pd.DataFrame = field(default_factory=pd.DataFrame)
    multiverse: pd.DataFrame = field(default_factory=pd.DataFrame)
    strata: pd.DataFrame = field(default_factory=pd.DataFrame)
    curves: pd.DataFrame = field(default_factory=pd.DataFrame)
    costs: pd.DataFrame = field(default_factory=pd.DataFrame)
    grid: pd.DataFrame = field(default_factory=pd.DataFrame)
    by_benchmark: pd.DataFrame = field(default_factory=pd.DataFrame)
    course: pd.DataFrame = field(default_factory=pd.DataFrame)
    words: pd.DataFrame = field(default_factory=pd.DataFrame)
    forcing: pd.DataFrame = field(default_factory=pd.DataFrame)
    outcomes: pd.DataFrame = field(default_factory=pd.DataFrame)
    spent: pd.DataFrame = field(default_factory=pd.DataFrame)

    def places(self) -> list[tuple[str, str, list[str]]]:
        """(model, setting, methods) of every table: reference order is that of the study."""
        return self._places

    @cached_property
    def _places(self) -> list[tuple[str, str, list[str]]]:
        found: dict[tuple[str, str], list[str]] = {}
        for model, cells in cells_of(self.runs, self.counts).items():
            for setting, method in cells:
                found.setdefault((model, setting), []).append(method)
        return [(model, setting, methods) for (model, setting), methods in found.items()]

    @cached_property
    def seeds(self) -> dict[tuple[str, str, str], tuple[frozenset[int], frozenset[int]]]:
        """(model, setting, method) -> seeds that were planned or have scores, and those that have scores."""
        keys = ["model", "setting", "method"]
        scored, planned = (
            {key: frozenset(part) for key, part in frame.drop_duplicates(["model", "run"]).groupby(keys)["seed"]}
            for frame in (self.counts, self.runs)
        )
        none: frozenset[int] = frozenset()
        cells = dict.fromkeys([*planned, *scored])
        return {key: (planned.get(key, none) | scored.get(key, none), scored.get(key, none)) for key in cells}

    def primary(self, facts: Facts) -> str:
        """The primary metric's full name; ``avg@n`` where nothing was evaluated."""
        if facts.compare.metric != "avg@n":
            return facts.compare.metric
        names = [name for name in self.means["metric"] if name.startswith("avg@")]
        return names[0] if names else "avg@n"

    def benchmarks(self) -> list[str]:
        """Names of the benchmarks, in the order of the study."""
        return list(dict.fromkeys(self.counts["benchmark"]))


def ordered(methods: list[str], reference: str) -> list[str]:
    """The untrained model, the reference, then the others as the study has them."""
    return sorted(methods, key=lambda method: (method != BASE, method != reference))


@dataclass(frozen=True)
class Design:
    """What one model and setting could have found.

    seeds: S of each compared cell.  problems: P by benchmark.  samples: n by benchmark.
    tested: m of the primary family.  alone, in_family: smallest difference (score units) found with
    80 % power at alpha and at alpha/m; None where ``reason`` says why.  remedy: what an inconclusive
    verdict would take.
    """

    seeds: tuple[int, ...]
    problems: Mapping[str, int]
    samples: Mapping[str, tuple[int, ...]]
    tested: int
    alone: float | None = None
    in_family: float | None = None
    remedy: str | None = None
    reason: str | None = None


def design(results: Results, facts: Facts, model: str, setting: str) -> Design:
    """The design of one table, with the planner's smallest detectable effect."""
    checkpoints = CHECKPOINTS[facts.compare.checkpoint]
    scores = model_scores(results.counts[results.counts["model"] == model], checkpoints=checkpoints)
    cells = [cell for cell in scores.cells if cell[0] == setting and cell[1] != BASE]
    counts = results.counts[results.counts["model"] == model]
    rows = results.contrasts
    family = rows[(rows["model"] == model) & (rows["setting"] == setting) & (rows["family"] == PRIMARY)]
    tested = int(family["p_adjusted"].notna().sum())
    metric = metric_names(scores, None)[0] if facts.compare.metric == "avg@n" else facts.compare.metric
    sizes = {cell: scores.select([cell], metric, None).seeds(cell) for cell in cells}
    known = Design(
        tuple(sizes.values()),
        {str(name): part["problem"].nunique() for name, part in counts.groupby("benchmark", sort=False)},
        {str(name): tuple(sorted(set(part["samples"]))) for name, part in counts.groupby("benchmark", sort=False)},
        tested,
    )
    several = [cell for cell in cells if sizes[cell] > 1]
    if len(several) < 2:
        return replace(known, reason="a plan needs at least 2 methods with 2 seeds each")
    selection = scores.select(several, metric, None)
    if selection.reason is not None:
        return replace(known, reason=selection.reason)
    if min(y.shape[1] for y in selection.scores[several[0]].values()) < 2:
        return replace(known, reason="a plan needs at least 2 problems in every benchmark")
    n = selection.samples * checkpoints
    components = components_from(selection.scores, selection.drawn(metric))
    if components.var_seed + components.var_mp + components.residual(n) == 0:
        return replace(known, reason="no variance over seeds or problems: nothing to plan with")
    S = min(sizes[cell] for cell in several)
    return _reach(known, components, S, n, facts, f"{model}/{setting}/{metric}")


def _reach(known: Design, components: Components, S: int, n: int, facts: Facts, purpose: str) -> Design:
    alpha, P = facts.compare.alpha, components.problems or 0
    m = max(known.tested, 1)

    def rng() -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(f"planner/{purpose}".encode()))

    return replace(
        known,
        alone=planner.mde(components, S, P, n, alpha, POWER, rng=rng()),
        in_family=planner.mde(components, S, P, n, alpha / m, POWER, rng=rng()),
        remedy=planner.inconclusive(
            components, S=S, P=P, n=n, delta=facts.compare.smallest_effect, rng=rng(), alpha=alpha / m, power=POWER
        ),
    )
