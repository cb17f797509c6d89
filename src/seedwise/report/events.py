"""Things that happen to a run during training: it stays above a declared level, or it collapses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from seedwise.report.decisions import adjusted
from seedwise.report.facts import Compare, Look
from seedwise.report.robustness import UNDEFINED, Place
from seedwise.stats.collapse import collapse_test, collapsed
from seedwise.stats.curves import Crossover, crossover, crossover_test

Curves = Mapping[tuple[str, str, str], Mapping[int, Mapping[str, pd.DataFrame]]]


def event_rows(places: Collection[Place], by_run: Curves, compare: Compare, look: Look | None) -> Iterator[dict]:
    """Rows of CURVES for every declared crossover (exact rank test) and collapse (Fisher's exact test).

    by_run: (model, setting, method) -> seed -> metric -> its defined steps.  A run without the metric is left
    out, and the reason says so.  p is adjusted over the methods of the primary family.
    """
    for place in places:
        for metric, level in compare.crossover.items():
            runs = {m: _each(by_run, place, m, metric, _crossing(level)) for m in (place.reference, *place.trained)}
            yield from _rows(place, f"{metric}.crossover", runs, _by_ranks, compare, look)
        for metric, bound in compare.collapse.items():
            rule = {"floor": bound.floor, "drop": bound.drop, "evaluations": bound.evaluations}
            runs = {m: _each(by_run, place, m, metric, _collapse(rule)) for m in (place.reference, *place.trained)}
            yield from _rows(place, f"{metric}.collapse", runs, _by_counts, compare, look)


def _crossing(level: float) -> Callable[[pd.DataFrame], Crossover]:
    return lambda curve: crossover(curve["step"].to_numpy(), curve["value"].to_numpy(), level)


def _collapse(rule: Mapping[str, Any]) -> Callable[[pd.DataFrame], bool]:
    return lambda curve: collapsed(curve["value"].to_numpy(), **rule)


def _each(by_run: Curves, place: Place, method: str, metric: str, event: Callable[[pd.DataFrame], Any]) -> list:
    curves = by_run.get((place.model, place.setting, method), {}).values()
    return [event(found[metric]) for found in curves if metric in found]


def _by_ranks(a: Sequence[Crossover], b: Sequence[Crossover], alpha: float) -> dict:
    """Mean step of the runs that crossed, where all did."""
    test = crossover_test(a, b, alpha)
    means = [
        None if any(run.step is None for run in arm) else float(np.mean([run.step for run in arm])) for arm in (a, b)
    ]
    missing = sum(run.step is None for run in (*a, *b))
    never = f"{missing} of {len(a) + len(b)} runs never did" if missing else None
    return {"mean": means[0], "mean_reference": means[1], "p": test.p, "reason": never or test.reason}


def _by_counts(a: Sequence[bool], b: Sequence[bool], alpha: float) -> dict:
    """Share of the runs that collapsed."""
    test = collapse_test(a, b, alpha=alpha)
    shares = [count / runs for count, runs in zip(test.collapsed, test.runs, strict=True)]
    return {"mean": shares[0], "mean_reference": shares[1], "p": test.p, "reason": test.reason}


def _rows(
    place: Place,
    name: str,
    runs: Mapping[str, list],
    test: Callable[[Any, Any, float], dict],
    compare: Compare,
    look: Look | None,
) -> Iterator[dict]:
    reference = runs[place.reference]
    alpha = compare.alpha / max(len(place.trained), 1)
    found = {m: test(runs[m], reference, alpha) if runs[m] and reference else None for m in place.trained}
    p_adjusted, _ = adjusted([None if each is None else each["p"] for each in found.values()], compare, look)
    for (method, each), p in zip(found.items(), p_adjusted, strict=True):
        sizes = {"seeds": len(runs[method]), "seeds_reference": len(reference)}
        row = place.keys | UNDEFINED | {"method": method, "curve": name, "mean": None, "mean_reference": None} | sizes
        if each is None:
            yield row | {"reason": f"{name.rpartition('.')[0]} was not recorded"}
            continue
        known = None not in (each["mean"], each["mean_reference"])
        difference = each["mean"] - each["mean_reference"] if known else None
        yield row | each | {"difference": difference, "p_adjusted": p}
