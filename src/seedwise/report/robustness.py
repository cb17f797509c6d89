"""How far a verdict hangs on the analysis: effect sizes, rank tests, and the same question asked in other ways.

None of these rows decides; the contrast of the declared analysis does.  Pure functions, COUNTS in, tables out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from seedwise import tables
from seedwise.report.analysis import ALPHA, CHECKPOINTS, ESTIMANDS, NOTHING, against, cells_of, frame, primary_metric
from seedwise.report.decisions import decide
from seedwise.report.facts import BASE, Compare, Look
from seedwise.report.scores import CellKey, ModelScores, Selection, model_scores
from seedwise.report.trends import trend_lines
from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.effects import effects
from seedwise.stats.mixed import Mixed, crossed_model
from seedwise.stats.ordered import jt_exact
from seedwise.stats.permutation import permutation_test
from seedwise.stats.results import Contrast, StatsError
from seedwise.stats.scores import macro

Scored = Mapping[str, ModelScores]
ENDLESS_DF = 1e9
UNDEFINED = dict.fromkeys(("difference", "se", "df", "p", "low", "high", "p_adjusted", "reason"))


@dataclass(frozen=True)
class Place:
    """A model and setting with the reference, and the declared methods that were planned there."""

    model: str
    setting: str
    reference: str
    members: tuple[str, ...]
    scores: ModelScores
    metric: str

    @property
    def keys(self) -> dict[str, str]:
        """The columns of a row that say where it belongs."""
        return {"model": self.model, "setting": self.setting, "reference": self.reference, "metric": self.metric}

    @property
    def trained(self) -> tuple[str, ...]:
        """Members with training seeds."""
        return tuple(name for name in self.members if name != BASE)

    def pair(self, method: str) -> tuple[CellKey, CellKey]:
        """The cells of a method and of the reference."""
        return (self.setting, method), (self.setting, self.reference)

    def select(self, method: str, **options: Mapping[CellKey, Collection[int]]) -> Selection:
        """Macro scores of a method and the reference."""
        return self.scores.select(self.pair(method), self.metric, None, **options)


def places_of(runs: pd.DataFrame, counts: pd.DataFrame, compare: Compare, scored: Scored) -> list[Place]:
    """Every model and setting in which the reference was planned."""
    found = []
    for model, cells in cells_of(runs, counts).items():
        scores = scored.get(model, NOTHING)
        for setting in dict.fromkeys(setting for setting, _ in cells):
            if (setting, compare.reference) in cells:
                members = tuple(name for name in compare.family if (setting, name) in cells)
                metric = primary_metric(scores, compare)
                found.append(Place(model, setting, compare.reference, members, scores, metric))
    return found


def effect_sizes(places: Collection[Place]) -> pd.DataFrame:
    """EFFECTS of every trained member of the primary family, on seeds' macro scores."""
    rows = []
    names = ("relative", "hedges_g", "superiority", "worst", "worst_reference")
    for place in places:
        for method in place.trained:
            selection, pair = place.select(method), place.pair(method)
            row = place.keys | {"method": method, **dict.fromkeys(names), "reason": selection.reason}
            row |= {"seeds": selection.seeds(pair[0]), "seeds_reference": selection.seeds(pair[1])}
            if selection.reason is None:
                found = effects(*(macro(selection.scores[cell]) for cell in pair))
                row |= {name: getattr(found, name) for name in names}
                row["reason"] = "; ".join(found.reasons.values()) or None
            rows.append(row)
    return frame(tables.EFFECTS, rows)


def rank_tests(places: Collection[Place], runs: pd.DataFrame, compare: Compare) -> pd.DataFrame:
    """RANKS: exact permutation of every trained member against the reference, Jonckheere-Terpstra of every axis.

    Seeds are the units, so both are about these problems only.  Each is read at alpha over the number of
    tests of its kind; the smallest p it could reach stands beside it.
    """
    rows = []
    for place in places:
        alpha = compare.alpha / max(len(place.trained), 1)
        for method in place.trained:
            selection = place.select(method)
            arms = [macro(selection.scores[cell]) for cell in place.pair(method) if cell in selection.scores]
            keys = place.keys | {"test": "permutation", "subject": method, "alpha": alpha}
            rows.append(keys | _permuted(arms, selection.reason, alpha))
    lines = [(axis, line) for axis in compare.trends for line in trend_lines(runs, axis)]
    scored = {place.model: place for place in places}
    for axis, line in lines:
        if (place := scored.get(line.model)) is None:
            continue
        selection = place.scores.select(line.cells, place.metric, None)
        keys = place.keys | {"setting": line.setting, "test": "Jonckheere-Terpstra", "alpha": compare.alpha}
        keys["subject"] = f"{axis}: {line.method}"
        rows.append(keys | _ordered([macro(scores) for scores in selection.scores.values()], selection.reason, compare))
    return frame(tables.RANKS, rows)


_NO_RANKS = {"statistic": None, "p": None, "smallest_p": None}


def _permuted(arms: list, reason: str | None, alpha: float) -> dict:
    seeds = {"seeds": json.dumps([len(arm) for arm in arms])}
    if reason is None:
        try:
            found = permutation_test(*arms, alpha=alpha)
        except StatsError as error:
            reason = str(error)
        else:
            known = {"statistic": found.difference, "p": found.p, "smallest_p": found.smallest_p}
            return seeds | known | {"reason": found.reason}
    return seeds | _NO_RANKS | {"reason": reason}


def _ordered(levels: list, reason: str | None, compare: Compare) -> dict:
    seeds = {"seeds": json.dumps([len(level) for level in levels])}
    if reason is not None:
        return seeds | _NO_RANKS | {"reason": reason}
    found = jt_exact(levels, compare.alpha)
    return seeds | {"statistic": found.J, "p": found.p, "smallest_p": found.smallest_p, "reason": found.reason}


def multiverse(
    places: Collection[Place],
    counts: pd.DataFrame,
    compare: Compare,
    look: Look | None,
    stops: Mapping[str, Mapping[CellKey, Collection[int]]],
) -> pd.DataFrame:
    """MULTIVERSE: each comparison of the primary family under both estimands, seed variances and checkpoint rules.

    Beside them the crossed mixed model, and, where runs stopped early, the comparison without those (another
    question: what the method gives when it does not break).  Every analysis has a family of its own.
    """
    rows = []
    several = counts[counts["method"] != BASE].groupby("run")["step"].nunique().max() > 1 if len(counts) else False
    for model in dict.fromkeys(place.model for place in places):
        own = counts[counts["model"] == model]
        for checkpoint, number in CHECKPOINTS.items() if several else [(compare.checkpoint, 1)]:
            here = [place for place in places if place.model == model]
            scores = here[0].scores if checkpoint == compare.checkpoint else model_scores(own, checkpoints=number)
            for place in here:
                if scores.cells:
                    at = replace(place, scores=scores)
                    without = stops.get(model, {}) if checkpoint == compare.checkpoint else {}
                    for keys, tested in _analyses(at, without):
                        rows += _verdicts(at.keys | keys | {"checkpoint": checkpoint}, tested, compare, look)
    return frame(tables.MULTIVERSE, rows)


Tested = dict[str, Contrast | str]


def _analyses(place: Place, stopped: Mapping[CellKey, Collection[int]]) -> Iterator[tuple[dict[str, str], Tested]]:
    chosen = {method: place.select(method) for method in place.members}
    grid = place.scores.select(_grid(place), place.metric, None)
    for estimand, target in ESTIMANDS.items():
        welch = {
            method: selection.reason or against(selection, place.pair(method), place.metric, target)
            for method, selection in chosen.items()
        }
        yield {"estimand": estimand, "analysis": "welch"}, welch
        pooled = {
            method: selection.reason or grid.reason or _pooled(grid, place, method, estimand)
            for method, selection in chosen.items()
        }
        yield {"estimand": estimand, "analysis": "pooled"}, pooled
    mixed = {method: selection.reason or _mixed(selection, place, method) for method, selection in chosen.items()}
    yield {"estimand": "new_problems", "analysis": "mixed model"}, mixed
    if any(stopped.get((place.setting, method)) for method in (*place.members, place.reference)):
        rest = {method: place.select(method, without=stopped) for method in place.members}
        kept = {
            method: selection.reason or against(selection, place.pair(method), place.metric, "E2")
            for method, selection in rest.items()
        }
        yield {"estimand": "new_problems", "analysis": "without stopped runs"}, kept


def _grid(place: Place) -> list[CellKey]:
    return [cell for cell in place.scores.cells if cell[0] == place.setting]


def _pooled(grid: Selection, place: Place, method: str, estimand: str) -> Contrast:
    weights = dict(zip(place.pair(method), (1.0, -1.0), strict=True))
    fixed = {cell for cell in grid.scores if cell[1] == BASE}
    return tw_contrast(
        grid.scores, weights, target=ESTIMANDS[estimand], seed_variance="pooled", alpha=ALPHA, fixed=fixed
    )


def _mixed(selection: Selection, place: Place, method: str) -> Contrast | str:
    if method == BASE:
        return "the untrained model has no seeds"
    found: Mixed = crossed_model(selection.scores, *place.pair(method), alpha=ALPHA)
    # a Wald z is a t with endless df
    df = None if found.se is None else ENDLESS_DF
    unknown = (None,) * 7
    flags = tuple(found.flags)
    return Contrast(found.d, found.se, df, found.z, found.p, found.lo, found.hi, *unknown, None, flags, found.reason)


def _verdicts(keys: dict, tested: Tested, compare: Compare, look: Look | None) -> Iterator[dict]:
    contrasts = {method: found for method, found in tested.items() if isinstance(found, Contrast)}
    withheld = look is not None and look.reason is not None
    decided = {} if withheld else decide(contrasts, compare, look, ESTIMANDS[keys["estimand"]])
    for method, found in tested.items():
        row = keys | UNDEFINED | {"method": method, "verdict": None, "flags": ""}
        if isinstance(found, str):
            yield row | {"reason": found}
            continue
        claim = {name: decided.get(method, {}).get(name) for name in ("p_adjusted", "verdict")}
        test = {"difference": found.d, "se": found.se, "df": found.df, "p": found.p, "low": found.lo, "high": found.hi}
        if keys["analysis"] == "mixed model":
            test["df"] = None
        yield row | test | claim | {"flags": ",".join(found.flags), "reason": found.reason}
