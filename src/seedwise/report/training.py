"""What happened during training: one number of each curve, and scores at equal cost.

There is one number per run here, so the tests are about new seeds, on these problems (Welch, E1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pandas as pd

from seedwise import tables
from seedwise.report.analysis import ALPHA, frame
from seedwise.report.decisions import adjusted
from seedwise.report.events import Curves, event_rows
from seedwise.report.facts import BASE, Compare, Look
from seedwise.report.robustness import UNDEFINED, Place
from seedwise.report.scores import CellKey, model_scores
from seedwise.stats.cost import Run, equal_cost
from seedwise.stats.curves import curve, welch
from seedwise.stats.results import Contrast, StatsError
from seedwise.stats.scores import macro

TOTALS = {
    "generated_tokens": "generated_tokens_total",
    "trained_tokens": "trained_tokens_total",
    "flops": "flops_total",
}
SECONDS = "step_seconds"
NOT_RECORDED = "no curve of training was recorded"


def curve_rows(
    places: Collection[Place], runs: pd.DataFrame, metrics: pd.DataFrame, compare: Compare, look: Look | None
) -> pd.DataFrame:
    """CURVES: every declared number of a training curve, each trained member against the reference.

    metrics: METRICS columns and ``run``.  Holm over the methods, for each number; undefined steps are left out.
    """
    rows: list[dict] = []
    declared = bool(compare.curves or compare.crossover or compare.collapse)
    by_run = _by_run(runs, metrics) if declared else {}
    for place in places:
        for name in compare.curves:
            metric, _, summary = name.rpartition(".")
            numbers: dict[str, list[float]] = {}
            reasons: dict[str, str | None] = {}
            for method in (place.reference, *place.trained):
                numbers[method], reasons[method] = _summaries(by_run, place, method, metric, summary)
            tested = {m: _welch(numbers[m], numbers[place.reference]) for m in place.trained}
            keys = place.keys | {"curve": name}
            rows += _compared(keys, place, tested, numbers, reasons, compare, look)
    return frame(tables.CURVES, [*rows, *event_rows(places, by_run, compare, look)])


def _by_run(runs: pd.DataFrame, metrics: pd.DataFrame) -> Curves:
    """(model, setting, method) -> seed -> name of a metric -> its defined steps."""
    known = metrics[metrics["value"].notna()]
    frames: dict[str, dict[str, pd.DataFrame]] = {}
    for (run, name), part in known.groupby(["run", "name"], sort=False):
        frames.setdefault(str(run), {})[str(name)] = part.sort_values("step")
    found: dict[tuple[str, str, str], dict[int, dict[str, pd.DataFrame]]] = {}
    for row in runs[runs["method"] != BASE].to_dict("records"):
        cell = found.setdefault((row["model"], row["setting"], row["method"]), {})
        cell[row["seed"]] = frames.get(row["run"], {})
    return found


def _summaries(by_run: Curves, place: Place, method: str, metric: str, summary: str) -> tuple[list[float], str | None]:
    """One number per run that has it, and what the others lack."""
    numbers, lacking = [], []
    for curves in by_run.get((place.model, place.setting, method), {}).values():
        if metric not in curves:
            lacking.append(f"{metric} was not recorded")
            continue
        found = curve(curves[metric]["step"].to_numpy(), curves[metric]["value"].to_numpy())
        value = getattr(found, summary)
        if value is None:
            lacking.append(found.reasons[summary])
        else:
            numbers.append(value)
    reason = f"{len(lacking)} of {len(lacking) + len(numbers)} runs of {method}: {lacking[0]}" if lacking else None
    return numbers, reason


def _welch(a: list[float], b: list[float]) -> Contrast | None:
    return welch(a, b, ALPHA) if a and b else None


def _compared(
    keys: dict,
    place: Place,
    tested: Mapping[str, Contrast | None],
    numbers: Mapping[str, Collection[float]],
    reasons: Mapping[str, str | None],
    compare: Compare,
    look: Look | None,
) -> Iterator[dict]:
    """A row per method: means, Welch's test, p adjusted over the methods."""
    p_adjusted, _ = adjusted([None if c is None else c.p for c in tested.values()], compare, look)
    reference = numbers.get(place.reference, ())
    for (method, found), p in zip(tested.items(), p_adjusted, strict=True):
        own = numbers.get(method, ())
        why = "; ".join(filter(None, [reasons.get(method), reasons.get(place.reference)]))
        row = keys | UNDEFINED | {
            "method": method, "seeds": len(own), "seeds_reference": len(reference), "p_adjusted": p,
            "mean": float(np.mean(list(own))) if len(own) else None,
            "mean_reference": float(np.mean(list(reference))) if len(reference) else None,
            "reason": why or (None if found is not None else NOT_RECORDED),
        }  # fmt: skip
        if found is not None:
            row |= {"difference": found.d, "se": found.se, "df": found.df, "p": found.p, "low": found.lo}
            row |= {"high": found.hi, "reason": row["reason"] or found.reason}
        yield row


def cost_rows(
    places: Collection[Place],
    runs: pd.DataFrame,
    counts: pd.DataFrame,
    metrics: pd.DataFrame,
    compare: Compare,
    look: Look | None,
) -> pd.DataFrame:
    """COSTS: the macro score of every trained member and of the reference at one budget of each declared cost.

    A run's score lies on the line between its checkpoints; the untrained model, where it was evaluated, is
    the point at cost 0.  metrics: METRICS columns and ``run``; ``step_seconds`` of TIMING for device seconds.
    """
    rows: list[dict] = []
    if not compare.budget:
        return frame(tables.COSTS, rows)
    by_run = _by_run(runs, metrics)
    paths = {model: _scores_by_step(counts, model, places) for model in dict.fromkeys(p.model for p in places)}
    for place in places:
        for cost, budget in compare.budget.items():
            arms = {
                method: _paths(by_run, paths[place.model], place, method, cost)
                for method in (place.reference, *place.trained)
            }
            rows += _at_budget(
                place, {name: found for name, found in arms.items() if found}, cost, budget, compare, look
            )
    return frame(tables.COSTS, rows)


def _at_budget(
    place: Place, arms: Mapping[str, list[Run]], cost: str, budget: float | None, compare: Compare, look: Look | None
) -> list[dict]:
    keys, reason, found = place.keys | {"cost": cost, "budget": budget}, None, None
    try:
        found = equal_cost(arms, place.reference, budget=budget, alpha=ALPHA)
    except StatsError as error:
        reason = f"{place.reference} has no {cost} at its checkpoints" if place.reference not in arms else str(error)
    else:
        keys["budget"], reason = found.budget, found.reason
    tested = {method: found.contrasts.get(method) if found else None for method in place.trained}
    numbers = {name: [float(y) for y in scores] for name, scores in found.scores.items()} if found else {}
    reasons = {
        method: reason or (None if method in arms else f"{method} has no {cost} at its checkpoints")
        for method in place.trained
    }
    return list(_compared(keys, place, tested, numbers, reasons, compare, look))


Paths = dict[tuple[CellKey, int], dict[int, float]]
_UNTRAINED = ("", BASE), 0


def _scores_by_step(counts: pd.DataFrame, model: str, places: Collection[Place]) -> Paths:
    """((setting, method), seed) -> checkpoint -> macro score; the untrained model has one place for all settings."""
    wanted = {name for place in places for name in (BASE, place.reference, *place.members)}
    own = counts[(counts["model"] == model) & counts["method"].isin(wanted)]
    metric = next(place.metric for place in places if place.model == model)
    found: Paths = {}
    for step in sorted(set(own["step"])):
        scores = model_scores(own[own["step"] == step])
        for (setting, method), blocks in scores.cells.items():
            selection = scores.select([(setting, method)], metric, None)
            if selection.reason is not None:
                continue
            seeds = sorted(frozenset.intersection(*(block.answered for block in blocks.values())))
            for seed, value in zip(seeds, macro(selection.scores[setting, method]), strict=True):
                key = _UNTRAINED if method == BASE else ((setting, method), seed)
                found.setdefault(key, {})[step] = float(value)
    return found


def _paths(by_run: Curves, found: Paths, place: Place, method: str, cost: str) -> list[Run]:
    """(cumulative cost, macro score) at the checkpoints of every run of a method that has both."""
    arms: list[Run] = []
    for seed, curves in by_run.get((place.model, place.setting, method), {}).items():
        spent, scores = _spent(curves, cost), found.get(((place.setting, method), seed), {})
        if spent is not None and scores:
            untrained = found.get(_UNTRAINED, {})
            points = {0.0: max(untrained.items())[1]} if untrained else {}
            # a run that stopped costs nothing more: its later checkpoints are one point
            points |= {float(spent.asof(step)): score for step, score in sorted(scores.items())}
            arms.append((list(points), list(points.values())))
    return arms


def _spent(curves: Mapping[str, pd.DataFrame], cost: str) -> pd.Series | None:
    """Cumulative cost by optimizer step."""
    if cost in TOTALS and TOTALS[cost] in curves:
        return curves[TOTALS[cost]].set_index("step")["value"]
    if cost not in TOTALS and SECONDS in curves:
        return curves[SECONDS].set_index("step")["value"].cumsum()
    return None
