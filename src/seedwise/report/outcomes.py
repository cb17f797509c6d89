"""METRICS -> OUTCOMES: one number per run, its trends along an axis and its differences between method points.

There is one number per run here, so every test is about new seeds on these problems (E1).  An outcome is a family.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import floor
from typing import Literal

import numpy as np
import pandas as pd

from seedwise import tables
from seedwise.report.analysis import ALPHA, frame
from seedwise.report.decisions import adjusted
from seedwise.report.facts import BASE, Compare, Look, Outcome
from seedwise.report.results import POWER
from seedwise.report.trends import NATURAL
from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.detectable import detectable
from seedwise.stats.effects import effects
from seedwise.stats.results import Contrast
from seedwise.stats.tost import tost
from seedwise.stats.trends import trend

CONSTANT = "undefined (every run of an arm has the same value: no variance over seeds)"
CONSTANT_MEAN = "all runs have the same value: no interval"
_REDUCED = {"mean": np.mean, "min": np.min, "max": np.max}
_NUMBERS = ("estimate", "se", "df", "low", "high", "p", "p_adjusted", "level", "tost_p_adjusted", "hedges_g")
_NOTHING = dict.fromkeys((*_NUMBERS, "detectable", "verdict", "reason"))


@dataclass(frozen=True)
class Cell:
    """Runs of one method point.  values: seed -> its number.  lacking: why a run has none.  stopped: how many ended
    before their last step; they count with the values at their stop."""

    values: Mapping[int, float]
    lacking: tuple[str, ...] = ()
    stopped: int = 0


Cells = Mapping[str, Cell]


def outcome_rows(
    runs: pd.DataFrame, metrics: pd.DataFrame, stops: pd.DataFrame, compare: Compare, look: Look | None
) -> pd.DataFrame:
    """OUTCOMES: of every declared outcome the means of its method points, then its family.

    runs: RUNS.  metrics: METRICS columns and ``run``.  stops: STOPS.  Within each model and setting in which all
    method points of the outcome were planned.
    """
    rows: list[dict] = []
    trained = runs[runs["method"] != BASE]
    for (model, setting), part in trained.groupby(["model", "setting"], sort=False):
        for name, outcome in compare.outcomes.items():
            if not set(outcome.methods) <= set(part["method"]):
                continue
            cells = cells_of_outcome(part, metrics, stops, outcome)
            keys = {"model": model, "setting": setting, "outcome": name, "measure": outcome.measure}
            rows += (keys | row for row in _means(cells))
            rows += (keys | row for row in _family(cells, outcome, part, compare, look))
    return frame(tables.OUTCOMES, rows)


def cells_of_outcome(
    runs: pd.DataFrame, metrics: pd.DataFrame, stops: pd.DataFrame, outcome: Outcome
) -> dict[str, Cell]:
    """Method point -> its runs' numbers, in the order of the outcome; runs: of one model and setting."""
    recorded = metrics[metrics["run"].isin(runs["run"])]
    planned = _planned_steps(runs, recorded)
    curves = {str(run): curve for run, curve in recorded[recorded["name"] == outcome.measure].groupby("run")}
    ended = set(stops["run"])
    found = {}
    for method in outcome.methods:
        values, lacking, stopped = {}, [], 0
        for row in runs[runs["method"] == method].to_dict("records"):
            run = row["run"]
            value = _number(curves.get(run), planned[run], outcome, stopped=run in ended)
            stopped += run in ended
            if isinstance(value, str):
                lacking.append(value)
            else:
                values[row["seed"]] = value
        found[method] = Cell(values, tuple(lacking), stopped)
    return found


def _planned_steps(runs: pd.DataFrame, recorded: pd.DataFrame) -> dict[str, int]:
    """run -> steps it was to have: its axis train.steps, or the last step that any run without that axis has."""
    own = {row["run"]: json.loads(row["axes"]).get("train.steps") for row in runs.to_dict("records")}
    common = recorded.loc[recorded["run"].isin([run for run, steps in own.items() if steps is None]), "step"]
    last = int(common.max()) if len(common) else 0
    return {run: last if steps is None else int(steps) for run, steps in own.items()}


def _number(curve: pd.DataFrame | None, steps: int, outcome: Outcome, *, stopped: bool) -> float | str:
    """The run's number, or why it has none.

    The steps are those s of 1..steps with ``low steps < s <= high steps``.  A run that stopped has its last defined
    value at every later step.
    """
    if curve is None:
        return f"{outcome.measure} was not recorded"
    # the slack keeps 0.9 of 40 steps at exactly 36, whatever the rounding
    first, last = (floor(share * steps + 1e-9) for share in outcome.over)
    values = curve.set_index("step")["value"].astype(float).dropna().sort_index()
    inside = values[(values.index > first) & (values.index <= last)].tolist()
    if stopped and curve["step"].max() < last and len(before := values[values.index <= last]):
        after = last - max(first, int(curve["step"].max()))
        inside += [before.iloc[-1]] * after
    if not inside:
        return f"{outcome.measure} is undefined in steps {first + 1} to {last}"
    return float(_REDUCED[outcome.summary](inside))


def _means(cells: Cells) -> Iterator[dict]:
    """A row per method point: mean and 95 % interval over seeds; nothing is tested."""
    for method, cell in cells.items():
        row = _NOTHING | {"kind": "mean", "subject": method, "seeds": len(cell.values), "flags": _flags([cell])}
        if not cell.values:
            yield row | {"reason": _lacking({method: cell}) or "no run was planned"}
            continue
        found = tw_contrast({method: _column(cell.values.values())}, {method: 1.0}, target="E1", alpha=ALPHA)
        why = CONSTANT_MEAN if found.V == 0 else found.reason
        yield row | _columns(found) | {"p": None, "reason": _reasons(_lacking({method: cell}), why)}


def _family(cells: Cells, outcome: Outcome, runs: pd.DataFrame, compare: Compare, look: Look | None) -> Iterator[dict]:
    tested = [*_trends(cells, outcome, runs), *_pairs(cells, outcome)]
    p_adjusted, level = adjusted([row["p"] for row, _ in tested], compare, look)
    margin = outcome.smallest_effect
    within = [
        tost(found, margin).p if margin and found is not None and found.se and row["kind"] == "pair" else None
        for row, found in tested
    ]
    tost_adjusted, _ = adjusted(within, compare, look)
    m = sum(row["p"] is not None for row, _ in tested)
    for (row, found), p, tost_p in zip(tested, p_adjusted, tost_adjusted, strict=True):
        claim = {"p_adjusted": p, "level": level if p is not None else None, "tost_p_adjusted": tost_p}
        if found is not None and found.se and found.df is not None:
            claim["detectable"] = detectable(found.se, found.df, compare.alpha / max(m, 1), POWER)
        yield row | claim | {"verdict": _verdict(row, p, tost_p, level, outcome)}


Tested = tuple[dict, Contrast | None]


def _trends(cells: Cells, outcome: Outcome, runs: pd.DataFrame) -> Iterator[Tested]:
    for name, line in outcome.trends.items():
        chosen = {point: cells[point] for point in line.points}
        x = {point: NATURAL.get(line.axis, float)(_level(runs, point, line.axis)) for point in line.points}
        degrees = ("linear", "quadratic") if len(x) > 2 else ("linear",)
        scores, row = _scores(chosen, outcome.paired), _row(name, chosen)
        if isinstance(scores, str):
            yield from ((row | {"kind": kind, "reason": scores}, None) for kind in degrees)
            continue
        result = trend(scores, x, target="E1", pairing=_pairing(outcome), alpha=ALPHA)
        for kind, found in zip(degrees, (result.linear, result.quadratic), strict=False):
            if found is not None:
                yield _filled(row | {"kind": kind}, found, scores, chosen), found


def _pairs(cells: Cells, outcome: Outcome) -> Iterator[Tested]:
    for a, b in outcome.pairs:
        chosen = {a: cells[a], b: cells[b]}
        scores, row = _scores(chosen, outcome.paired), _row(f"{a} \N{MINUS SIGN} {b}", chosen) | {"kind": "pair"}
        if isinstance(scores, str):
            yield row | {"reason": scores}, None
            continue
        found = tw_contrast(scores, {a: 1.0, b: -1.0}, target="E1", pairing=_pairing(outcome), alpha=ALPHA)
        size = effects(scores[a]["run"][:, 0], scores[b]["run"][:, 0]).hedges_g
        yield _filled(row | {"hedges_g": size}, found, scores, chosen), found


def _row(subject: str, chosen: Cells) -> dict:
    S = min(len(cell.values) for cell in chosen.values())
    return _NOTHING | {"subject": subject, "seeds": S, "flags": _flags(chosen.values())}


def _filled(row: dict, found: Contrast, scores: Mapping[str, Mapping[str, np.ndarray]], chosen: Cells) -> dict:
    """The row with its test; without variance over seeds no p, which is then no member of the family."""
    S = min(len(arms["run"]) for arms in scores.values())
    why = CONSTANT if found.V == 0 else found.reason
    return row | _columns(found) | {"seeds": S, "reason": _reasons(_lacking(chosen), why)}


def _columns(found: Contrast) -> dict:
    numbers = {"estimate": found.d, "se": found.se, "df": found.df, "low": found.lo, "high": found.hi, "p": found.p}
    return numbers | ({"p": None} if found.V == 0 else {})


def _pairing(outcome: Outcome) -> Literal["seed"] | None:
    return "seed" if outcome.paired else None


def _level(runs: pd.DataFrame, point: str, axis: str) -> float:
    row = runs[runs["method"] == point].iloc[0]
    return float({"group_size": row["group_size"], **json.loads(row["axes"])}[axis])


def _scores(cells: Cells, paired: bool) -> dict[str, dict[str, np.ndarray]] | str:
    """[S, 1] of every cell; where runs are paired, of the seeds that all have, in one order.  Or why there is none."""
    seeds = {method: sorted(cell.values) for method, cell in cells.items()}
    if paired:
        common = set.intersection(*(set(each) for each in seeds.values()))
        seeds = {method: sorted(common) for method in cells}
    if empty := [method for method, each in seeds.items() if not each]:
        return _lacking(cells) or f"{empty[0]} has no seed that all have"
    return {method: _column(cell.values[seed] for seed in seeds[method]) for method, cell in cells.items()}


def _column(values: Iterable[float]) -> dict[str, np.ndarray]:
    return {"run": np.asarray(list(values), dtype=np.float64)[:, None]}


def _lacking(cells: Cells) -> str:
    return "; ".join(
        f"{len(cell.lacking)} of {len(cell.lacking) + len(cell.values)} runs of {method}: {cell.lacking[0]}"
        for method, cell in cells.items()
        if cell.lacking
    )


def _flags(cells: Iterable[Cell]) -> str:
    stopped = sum(cell.stopped for cell in cells)
    return f"stopped_early={stopped}" if stopped else ""


def _reasons(*reasons: str | None) -> str | None:
    return "; ".join(filter(None, reasons)) or None


def _verdict(row: Mapping, p: float | None, tost_p: float | None, level: float | None, outcome: Outcome) -> str | None:
    """What may be said of a member of the family; None where it was not tested or the look was not declared."""
    if p is None or level is None:
        return None
    small = tost_p is not None and tost_p <= level
    if p > level:
        return "equivalent" if small else "undecided"
    higher = row["estimate"] > 0
    word = "higher" if higher else "lower"
    if outcome.direction is not None and row["kind"] != "quadratic":
        word = "as claimed" if higher == (outcome.direction == "rises") else "opposite"
    return f"{word}, but small" if small else word
