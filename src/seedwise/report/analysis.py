"""COUNTS and the declared comparison -> MEANS, CONTRASTS.  Pure functions.

Comparisons are made within a model and a setting.  The untrained model stands in every setting of
its model as a cell without training seeds.  Intervals in the columns low and high are 95 % ones;
decisions are taken at the declared alpha, with Holm inside a family.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from seedwise import tables
from seedwise.report.decisions import CLAIMS, decide
from seedwise.report.facts import BASE, PRIMARY, Compare, Look
from seedwise.report.scores import CellKey, ModelScores, Selection, metrics_of, model_scores
from seedwise.stats.contrasts import mean_interval, tw_contrast, tw_contrasts
from seedwise.stats.results import Contrast, Target
from seedwise.stats.scores import macro

ALPHA = 0.05
CHECKPOINTS = {"last": 1, "mean_of_last_3": 3}
ESTIMANDS: Mapping[str, Target] = {"new_problems": "E2", "fixed_problems": "E1"}


def cells_of(runs: pd.DataFrame, counts: pd.DataFrame) -> dict[str, list[CellKey]]:
    """model -> its (setting, method) cells: the untrained model first, then in the order of RUNS.

    Cells that were planned but have no counts are among them.
    """
    columns = ["model", "setting", "method"]
    rows = pd.concat([runs[columns], counts.drop_duplicates(["model", "run"])[columns]]).drop_duplicates()
    cells: dict[str, list[CellKey]] = {}
    for model, part in rows.groupby("model", sort=False):
        trained = part[part["method"] != BASE]
        settings = list(dict.fromkeys(trained["setting"])) or list(dict.fromkeys(part["setting"]))
        base = [BASE] * bool((part["method"] == BASE).any())
        cells[str(model)] = [
            (setting, method)
            for setting in settings
            for method in [*base, *trained.loc[trained["setting"] == setting, "method"]]
        ]
    return cells


def metric_names(scores: ModelScores, benchmark: str | None) -> list[str]:
    """``avg@n`` and the ``pass@k`` that a benchmark (None: the macro average) has samples for."""
    average, *_ = metrics_of(scores.samples_of(scores.benchmarks))
    names = scores.benchmarks if benchmark is None else (benchmark,)
    fewest = min(scores.samples_of(names), default=0)
    return [average, *metrics_of({fewest})[1:]]


def primary_metric(scores: ModelScores, compare: Compare) -> str:
    """The declared metric by its full name, ``avg@16`` for ``avg@n``."""
    return metric_names(scores, None)[0] if compare.metric == "avg@n" else compare.metric


def secondary_metric(scores: ModelScores) -> str | None:
    """The largest pass@k with n >= 2k (below that it is 0/1 noise); None if that is pass@1."""
    fewest = min(scores.samples_of(scores.benchmarks), default=0)
    names = [name for name in metrics_of({fewest})[2:] if 2 * int(name[5:]) <= fewest]
    return names[-1] if names else None


def final_scores(counts: pd.DataFrame, compare: Compare | None) -> dict[str, ModelScores]:
    """model -> scores at what is declared to be scored: the last checkpoint, or the mean of the last three."""
    checkpoints = 1 if compare is None else CHECKPOINTS[compare.checkpoint]
    return {
        str(model): model_scores(part, checkpoints=checkpoints) for model, part in counts.groupby("model", sort=False)
    }


NOTHING = ModelScores({}, {}, {})


def means(runs: pd.DataFrame, counts: pd.DataFrame, scored: Mapping[str, ModelScores] | None = None) -> pd.DataFrame:
    """MEANS: every cell, metric, benchmark and macro average, at every checkpoint of the cell.

    scored: of ``final_scores``; the rows of the final checkpoint hold what is declared to be scored.
    """
    rows: list[dict] = []
    final = final_scores(counts, None) if scored is None else scored
    for model, cells in cells_of(runs, counts).items():
        own = counts[counts["model"] == model]
        found = {key: set(steps) for key, steps in own.groupby(["setting", "method"])["step"].unique().items()}
        based = {step for (_, method), steps in found.items() if method == BASE for step in steps}
        for step in sorted(set(own["step"])):
            scores = None
            for setting, method in cells:
                steps = based if method == BASE else found.get((setting, method), set())
                if step not in steps:
                    continue
                if step < max(steps):
                    scores = model_scores(own, step) if scores is None else scores
                keys = {"model": model, "setting": setting, "method": method, "step": step}
                at = final[model] if step == max(steps) or scores is None else scores
                rows += (keys | row for row in _means_of(at, (setting, method)))
    return frame(tables.MEANS, rows)


def _means_of(scores: ModelScores, cell: CellKey) -> Iterator[dict]:
    for benchmark in (None, *scores.benchmarks):
        for metric in metric_names(scores, benchmark):
            selection = scores.select([cell], metric, benchmark)
            yield {"metric": metric, "benchmark": benchmark} | _mean(selection, cell)


def _mean(selection: Selection, cell: CellKey) -> dict:
    sizes = {"seeds": selection.seeds(cell), "problems": selection.problems, "samples": selection.samples}
    if selection.reason is not None:
        return sizes | {"mean": None, "low": None, "high": None, "sd_seed": None, "reason": selection.reason}
    result = mean_interval(selection.scores[cell], ALPHA, fixed=cell[1] == BASE)
    own_S = macro(selection.scores[cell])
    spread = float(np.std(own_S, ddof=1)) if len(own_S) > 1 else None
    return sizes | {
        "mean": result.d, "low": result.lo, "high": result.hi, "sd_seed": spread, "reason": result.reason,
    }  # fmt: skip


def families_of(scores: ModelScores, compare: Compare) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Name -> (metric, methods) of every family: the primary one, and those declared or else implied beside it."""
    found = {PRIMARY: (primary_metric(scores, compare), tuple(compare.family))}
    if compare.secondary:
        for name, each in compare.secondary.items():
            metric = metric_names(scores, None)[0] if each.metric == "avg@n" else each.metric
            found[f"secondary: {name}"] = (metric, tuple(each.family))
    elif (second := secondary_metric(scores)) is not None and second != found[PRIMARY][0]:
        found[f"secondary: {second}"] = (second, tuple(compare.family))
    return found


def contrasts(
    runs: pd.DataFrame,
    counts: pd.DataFrame,
    compare: Compare,
    look: Look | None = None,
    scored: Mapping[str, ModelScores] | None = None,
    stopped: Collection[str] = (),
) -> pd.DataFrame:
    """CONTRASTS at what is scored: every method against the reference of its model and setting.

    A setting without the reference has none.  The primary family (macro of the declared metric, new
    problems) and the secondary ones get adjusted p, equivalence and verdicts, within each model and
    setting; every other row is descriptive.  look: None stands for one declared look.  stopped: runs that
    ended before their last step; they count with the weights at their stop and are flagged.
    """
    rows: list[dict] = []
    final = final_scores(counts, compare) if scored is None else scored
    stops = stops_of(runs, stopped)
    for model, cells in cells_of(runs, counts).items():
        scores = final.get(model, NOTHING)
        for setting in dict.fromkeys(setting for setting, _ in cells):
            if (setting, compare.reference) not in cells:
                continue
            methods = [method for place, method in cells if place == setting and method != compare.reference]
            tested = [
                pair
                for method in methods
                for pair in _against(scores, setting, method, compare.reference, stops.get(model, {}))
            ]
            for name, (metric, members) in families_of(scores, compare).items():
                _decide(tested, name, metric, members, compare, look)
            rows += ({"model": model} | row for row, _ in tested)
    return frame(tables.CONTRASTS, rows)


def stops_of(runs: pd.DataFrame, stopped: Collection[str]) -> dict[str, dict[CellKey, list[int]]]:
    """model -> cell -> seeds of the runs in ``stopped``."""
    found: dict[str, dict[CellKey, list[int]]] = {}
    for row in runs[runs["run"].isin(list(stopped))].itertuples():
        found.setdefault(row.model, {}).setdefault((row.setting, row.method), []).append(row.seed)
    return found


Tested = tuple[dict, Contrast | None]


def _against(
    scores: ModelScores, setting: str, method: str, reference: str, stops: Mapping[CellKey, list[int]]
) -> Iterator[Tested]:
    pair = ((setting, method), (setting, reference))
    for benchmark in (None, *scores.benchmarks):
        for metric in metric_names(scores, benchmark):
            selection = scores.select(pair, metric, benchmark)
            keys = {
                "setting": setting, "metric": metric, "benchmark": benchmark, "method": method,
                "reference": reference, "seeds": selection.seeds(pair[0]), "seeds_reference": selection.seeds(pair[1]),
                "problems": selection.problems, "samples": selection.samples,
            }  # fmt: skip
            tested = {} if selection.reason else both(selection, pair, metric)
            for estimand, target in ESTIMANDS.items():
                keys["estimand"] = estimand
                if not tested:
                    yield keys | UNTESTED | {"reason": selection.reason}, None
                    continue
                found = columns(tested[target], cautions(selection, pair, scores, stops))
                yield keys | UNTESTED | found, tested[target]


def both(selection: Selection, pair: tuple[CellKey, CellKey], metric: str) -> dict[Target, Contrast]:
    """The contrast of two cells for both estimands."""
    weights = {pair[0]: 1.0, pair[1]: -1.0}
    return tw_contrasts(selection.scores, weights, alpha=ALPHA, samples=selection.drawn(metric), fixed=seedless(pair))


def against(
    selection: Selection, pair: tuple[CellKey, CellKey], metric: str, target: Target, **options: Any
) -> Contrast:
    """The contrast of two cells; ``options`` are those of ``tw_contrast``."""
    weights = {pair[0]: 1.0, pair[1]: -1.0}
    return tw_contrast(
        selection.scores, weights, target=target, alpha=ALPHA, samples=selection.drawn(metric), fixed=seedless(pair),
        **options,
    )  # fmt: skip


def seedless(cells: Iterable[CellKey]) -> frozenset[CellKey]:
    """The untrained model among them: it has no training seeds."""
    return frozenset(cell for cell in cells if cell[1] == BASE)


def _decide(
    tested: Iterable[Tested], name: str, metric: str, members: Collection[str], compare: Compare, look: Look | None
) -> None:
    """Fill the family columns of the declared methods' macro rows."""
    wanted = {"metric": metric, "benchmark": None, "estimand": "new_problems"}
    rows = {
        row["method"]: (row, contrast)
        for row, contrast in tested
        if row["method"] in members and all(row[key] == value for key, value in wanted.items())
    }
    decided = decide({method: c for method, (_, c) in rows.items() if c is not None}, compare, look)
    for method, (row, _) in rows.items():
        row["family"] = name
        row |= decided.get(method, {})
        if look is not None and look.reason is not None and method in decided:
            row |= dict.fromkeys(CLAIMS) | {"withheld": f"look {look.number} was not declared"}


def cautions(
    selection: Selection, cells: Iterable[CellKey], scores: ModelScores, stops: Mapping[CellKey, Collection[int]]
) -> list[str]:
    """Flags about the data: problems left out, runs that stopped early."""
    flags = [f"dropped_problems={selection.dropped}"] if selection.dropped else []
    trained = [cell for cell in cells if cell[1] != BASE]
    count = sum(len(stops.get(cell, ())) for cell in trained)
    steps = {step for cell in trained for block in scores.cells[cell].values() for step in block.steps}
    if count:
        return [*flags, f"stopped_early={count}"]
    return flags + (["stopped_early"] if len(steps) > 1 else [])


_TEST = (
    "difference", "se", "df", "t", "p", "p_adjusted", "level", "low", "high", "V_seed", "V_prob", "V_res", "branch",
    "reason",
)  # fmt: skip
_FAMILY = ("family", "family_low", "family_high", "tost_p", "tost_p_adjusted", "verdict", "withheld")
UNTESTED = dict.fromkeys((*_TEST, *_FAMILY)) | {"flags": ""}


def columns(contrast: Contrast, flags: Iterable[str] = ()) -> dict:
    """The columns of a test that a contrast fills."""
    return {
        "difference": contrast.d, "se": contrast.se, "df": contrast.df, "t": contrast.t, "p": contrast.p,
        "low": contrast.lo, "high": contrast.hi, "V_seed": contrast.V_seed, "V_prob": contrast.V_prob,
        "V_res": contrast.V_res, "branch": contrast.branch, "reason": contrast.reason,
        "flags": ",".join([*contrast.flags, *flags]),
    }  # fmt: skip


def frame(table: tables.Table, rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table's columns; what a row has beside them is left out."""
    names = [column[0] for column in table.columns]
    return pd.DataFrame([{name: row[name] for name in names} for row in rows], columns=names)
