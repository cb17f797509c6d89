"""COUNTS and the declared comparison -> MEANS, CONTRASTS, TRENDS.  Pure functions.

Comparisons are made within a model and a setting.  The untrained model stands in every setting of
its model as a cell without training seeds.  Intervals in the columns low and high are 95 % ones;
decisions are taken at the declared alpha, with Holm inside a family.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pandas as pd

from seedwise import tables
from seedwise.report.facts import BASE, PRIMARY, Compare
from seedwise.report.scores import CellKey, ModelScores, Selection, metrics_of, model_scores
from seedwise.report.trends import TrendLine, trend_lines
from seedwise.stats.contrasts import mean_interval, tw_contrast
from seedwise.stats.families import family
from seedwise.stats.results import Contrast, Target
from seedwise.stats.scores import macro
from seedwise.stats.trends import trend

ALPHA = 0.05
ESTIMANDS: Mapping[str, Target] = {"new_problems": "E2", "fixed_problems": "E1"}


def cells_of(runs: pd.DataFrame, counts: pd.DataFrame) -> dict[str, list[CellKey]]:
    """model -> its (setting, method) cells: the untrained model first, then in the order of RUNS.

    Cells that were planned but have no counts are among them.
    """
    columns = ["model", "setting", "method"]
    rows = pd.concat([runs[columns], counts[columns]]).drop_duplicates()
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


def means(runs: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """MEANS: every cell, metric, benchmark and macro average, at every checkpoint of the cell."""
    rows: list[dict] = []
    for model, cells in cells_of(runs, counts).items():
        own = counts[counts["model"] == model]
        for step in sorted(set(own["step"])):
            scores = model_scores(own, step)
            for setting, method in cells:
                mine = own[(own["method"] == method) & ((own["setting"] == setting) | (method == BASE))]
                if step in set(mine["step"]):
                    keys = {"model": model, "setting": setting, "method": method, "step": step}
                    rows += (keys | row for row in _means_of(scores, (setting, method)))
    return _frame(tables.MEANS, rows)


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


def contrasts(runs: pd.DataFrame, counts: pd.DataFrame, compare: Compare) -> pd.DataFrame:
    """CONTRASTS at the final checkpoint: every method against the reference of its model and setting.

    A setting without the reference has none.  The primary family (macro of the declared metric, new
    problems) and the secondary one (macro of the largest pass@k with n >= 2k) get Holm, equivalence
    and verdicts, within each model and setting; every other row is descriptive.
    """
    rows: list[dict] = []
    for model, cells in cells_of(runs, counts).items():
        scores = model_scores(counts[counts["model"] == model])
        families = {primary_metric(scores, compare): PRIMARY}
        if (second := secondary_metric(scores)) is not None:
            families.setdefault(second, f"secondary: {second}")
        for setting in dict.fromkeys(setting for setting, _ in cells):
            if (setting, compare.reference) not in cells:
                continue
            methods = [method for place, method in cells if place == setting and method != compare.reference]
            tested = [pair for method in methods for pair in _against(scores, setting, method, compare.reference)]
            for metric, name in families.items():
                _decide(tested, metric, name, compare)
            rows += ({"model": model} | row for row, _ in tested)
    return _frame(tables.CONTRASTS, rows)


Tested = tuple[dict, Contrast | None]


def _against(scores: ModelScores, setting: str, method: str, reference: str) -> Iterator[Tested]:
    pair = ((setting, method), (setting, reference))
    for benchmark in (None, *scores.benchmarks):
        for metric in metric_names(scores, benchmark):
            selection = scores.select(pair, metric, benchmark)
            for estimand, target in ESTIMANDS.items():
                keys = {
                    "setting": setting, "metric": metric, "benchmark": benchmark, "method": method,
                    "reference": reference, "estimand": estimand,
                    "seeds": selection.seeds(pair[0]), "seeds_reference": selection.seeds(pair[1]),
                    "problems": selection.problems, "samples": selection.samples,
                }  # fmt: skip
                if selection.reason is not None:
                    yield keys | _UNTESTED | {"reason": selection.reason}, None
                    continue
                contrast = tw_contrast(
                    selection.scores, {pair[0]: 1.0, pair[1]: -1.0}, target=target, alpha=ALPHA,
                    samples=_drawn(selection, metric), fixed=frozenset(cell for cell in pair if cell[1] == BASE),
                )  # fmt: skip
                yield keys | _UNTESTED | _columns(contrast, _cautions(selection, pair, scores)), contrast


def _decide(tested: Iterable[Tested], metric: str, name: str, compare: Compare) -> None:
    """Fill the family columns of the declared methods' macro rows."""
    wanted = {"metric": metric, "benchmark": None, "estimand": "new_problems"}
    rows = {
        row["method"]: (row, contrast)
        for row, contrast in tested
        if row["method"] in compare.family and all(row[key] == value for key, value in wanted.items())
    }
    decided = family(
        {method: contrast for method, (_, contrast) in rows.items() if contrast is not None},
        alpha=compare.alpha,
        smallest_effect=compare.smallest_effect,
    )
    for method, (row, _) in rows.items():
        row["family"] = name
        if (member := decided.members.get(method)) is not None:
            row |= {
                "p_adjusted": member.p_adjusted, "family_low": member.lo, "family_high": member.hi,
                "tost_p": member.tost_p, "tost_p_adjusted": member.tost_p_adjusted, "verdict": member.verdict,
            }  # fmt: skip


def _drawn(selection: Selection, metric: str) -> int | None:
    # the binomial floor behind the flag `underdispersed` holds for a share c/n only
    return selection.samples if metric.startswith("avg@") and selection.samples > 1 else None


def _cautions(selection: Selection, cells: Iterable[CellKey], scores: ModelScores) -> list[str]:
    flags = [f"dropped_problems={selection.dropped}"] if selection.dropped else []
    trained = [cell for cell in cells if cell[1] != BASE]
    steps = {step for cell in trained for block in scores.cells[cell].values() for step in block.steps}
    return flags + (["stopped_early"] if len(steps) > 1 else [])


_TEST = (
    "difference", "se", "df", "t", "p", "p_adjusted", "low", "high", "V_seed", "V_prob", "V_res", "branch", "reason",
)  # fmt: skip
_FAMILY = ("family", "family_low", "family_high", "tost_p", "tost_p_adjusted", "verdict")
_UNTESTED = dict.fromkeys((*_TEST, *_FAMILY)) | {"flags": ""}


def _columns(contrast: Contrast, cautions: list[str]) -> dict:
    return {
        "difference": contrast.d, "se": contrast.se, "df": contrast.df, "t": contrast.t, "p": contrast.p,
        "low": contrast.lo, "high": contrast.hi, "V_seed": contrast.V_seed, "V_prob": contrast.V_prob,
        "V_res": contrast.V_res, "branch": contrast.branch, "reason": contrast.reason,
        "flags": ",".join([*contrast.flags, *cautions]),
    }  # fmt: skip


def trends(runs: pd.DataFrame, counts: pd.DataFrame, compare: Compare) -> pd.DataFrame:
    """TRENDS: linear and quadratic contrast of the macro primary metric along each declared axis.

    Holm over the two; a line of 2 points has the linear one only.
    """
    rows: list[dict] = []
    for line, scores, metric in _lines(runs, counts, compare):
        selection = scores.select(line.cells, metric, None)
        keys = {
            "model": line.model, "setting": line.setting, "metric": metric, "axis": line.axis,
            "method": line.method, "x": json.dumps(line.xs),
        }  # fmt: skip
        if selection.reason is not None:
            degrees = (1, 2) if len(line.xs) > 2 else (1,)
            rows += (keys | _UNTESTED | {"degree": degree, "reason": selection.reason} for degree in degrees)
            continue
        x = dict(zip(line.cells, line.xs, strict=True))
        result = trend(selection.scores, x, alpha=ALPHA, samples=_drawn(selection, metric))
        cautions = _cautions(selection, line.cells, scores)
        for degree, contrast, p in ((1, result.linear, result.p_linear), (2, result.quadratic, result.p_quadratic)):
            if contrast is not None:
                rows.append(keys | _UNTESTED | _columns(contrast, cautions) | {"degree": degree, "p_adjusted": p})
    return _frame(tables.TRENDS, rows)


def trend_positions(runs: pd.DataFrame, counts: pd.DataFrame, compare: Compare) -> pd.DataFrame:
    """Each seed's macro score along the declared axes, for drawing.

    Columns: model, setting, axis, method (of the line), x (natural axis), cell_setting, point (method
    point), seed (position in the cell), score (0..1).
    """
    columns = ["model", "setting", "axis", "method", "x", "cell_setting", "point", "seed", "score"]
    rows = []
    for line, scores, metric in _lines(runs, counts, compare):
        selection = scores.select(line.cells, metric, None)
        for x, cell in zip(line.xs, line.cells, strict=True):
            if cell in selection.scores:
                rows += (
                    (line.model, line.setting, line.axis, line.method, x, *cell, seed, float(score))
                    for seed, score in enumerate(macro(selection.scores[cell]))
                )
    return pd.DataFrame(rows, columns=columns)


def _lines(runs: pd.DataFrame, counts: pd.DataFrame, compare: Compare) -> Iterator[tuple[TrendLine, ModelScores, str]]:
    by_model = {model: model_scores(counts[counts["model"] == model]) for model in dict.fromkeys(runs["model"])}
    for axis in compare.trends:
        for line in trend_lines(runs, axis):
            yield line, by_model[line.model], primary_metric(by_model[line.model], compare)


def _frame(table: tables.Table, rows: Iterable[dict]) -> pd.DataFrame:
    names = [column[0] for column in table.columns]
    return pd.DataFrame([{name: row[name] for name in names} for row in rows], columns=names)
