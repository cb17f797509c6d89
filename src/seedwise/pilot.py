"""Variance components for a plan: from a pilot's scores, from an analysed study, or typed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from seedwise import layout as layouts
from seedwise import tables
from seedwise.external import read, runs_and_counts
from seedwise.stats.components import Components, components_from
from seedwise.stats.results import StatsError
from seedwise.study import number

if TYPE_CHECKING:
    import pandas as pd

TYPED = {"seed": "var_seed", "interaction": "var_mp", "residual": "var_seed_problem", "sample": "theta_var"}

KEY = ("model", "setting", "method")


class PowerError(ValueError):
    """A plan that cannot be made: one line with the option, its value and the remedy."""


@dataclass(frozen=True)
class Pilot:
    """Where the variances come from.  problems, samples: of the pilot; None where components were typed."""

    components: Components
    origin: str
    problems: float | None = None
    samples: int | None = None


def only(scores: Path | None, study: Path | None, components: str | None) -> Pilot:
    """The pilot of the one source that is given: a file of scores, a study file, or typed components.

    Raises PowerError unless it is exactly one, and what reading that one raises.
    """
    if sum(source is not None for source in (scores, study, components)) != 1:
        raise PowerError(
            "power: give one source of variances: a file of scores, --study FILE, or --components seed=0.02"
        )
    if scores is not None:
        return from_scores(runs_and_counts(read(scores))[1], scores.name)
    return from_study(study) if study is not None else typed(components or "")


def typed(text: str) -> Pilot:
    """A pilot of ``seed=0.019,interaction=0.073,residual=0.093,sample=0.36``: standard deviations in score units.

    seed: between training seeds.  interaction: method by problem.  residual: seed by problem.  sample: one answer
    around its problem's solve rate (0: samples play no part).  Those left out are 0.  Raises PowerError.
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key not in TYPED:
            raise PowerError(f"--components: {key!r}: write {', '.join(f'{name}=' for name in TYPED)} joined by commas")
        if key in found:
            raise PowerError(f"--components: {key}: stands twice: give it once")
        sd = number(value)
        if not isinstance(sd, float) or not 0 <= sd <= 0.5:
            raise PowerError(f"--components: {key}={value}: give a standard deviation from 0 to 0.5, 0.02 is 2 points")
        found[key] = sd
    variances = {name: found.get(key, 0.0) ** 2 for key, name in TYPED.items()}
    return Pilot(Components(**variances), "typed components")


def from_scores(counts: pd.DataFrame, origin: str) -> Pilot:
    """The pilot in COUNTS at the last checkpoint: the model and setting with the most trained methods of 2 seeds.

    Raises PowerError where no place has two such methods, or the scores leave nothing to plan with.
    """
    from seedwise.report.facts import BASE
    from seedwise.report.scores import metrics_of, model_scores

    places: dict[tuple[str, str], list[str]] = {}
    trained = counts.loc[counts["method"] != BASE, ["model", "setting", "method", "seed"]].drop_duplicates()
    for (model, setting, method), S in Counter(zip(*(trained[key] for key in KEY), strict=True)).items():
        places.setdefault((model, setting), []).extend([method] if S > 1 else [])
    (model, setting), methods = max(places.items(), key=lambda item: len(item[1]), default=(("", ""), []))
    if len(methods) < 2:
        raise PowerError(f"{origin}: a plan needs at least 2 methods with 2 seeds each: give --components instead")
    scores = model_scores(counts.loc[counts["model"] == model])
    average = metrics_of(scores.samples_of(scores.benchmarks))[0]
    selection = scores.select([(setting, method) for method in methods], average, None)
    if selection.reason is not None:
        raise PowerError(f"{origin}: {selection.reason}: leave that method or benchmark out")
    n = selection.samples
    try:
        components = components_from(selection.scores, n if n > 1 else None)
    except StatsError as error:
        raise PowerError(f"{origin}: {error}") from None
    S = [selection.seeds((setting, method)) for method in methods]
    seeds = f"{min(S)} seeds" if min(S) == max(S) else f"{min(S)} to {max(S)} seeds"
    return Pilot(components, f"{origin}, {model}, {setting}: {len(methods)} methods, {seeds}", components.problems, n)


def from_study(study: Path, root: Path = layouts.RESULTS) -> Pilot:
    """The pilot in the analysed scores of a study.  Raises StudyError, TableError, PowerError."""
    folder = root / layouts.read(study).grid.study.study
    return from_scores(tables.read(tables.COUNTS, folder / "analysis" / "scores.parquet"), str(study))
