"""QAE's rule of thumb for K, read off a baseline run.

The paper (arXiv:2509.22611) takes K = 0.4 everywhere and advises, from the entropy that the baseline shows without
QAE: K = 0.4 where it is high, since a smaller K leaves fewer failures active and entropy grows mostly
in those; K = 0.6 where it is low, as under a weak clip (an upper bound of 0.20 in place of Clip-Higher's 0.28).

The paper gives no numbers for high and low.  Here entropy is *low* where a run ended (mean of its last tenth) below
``stability.low_share`` of where it began, or counts as collapsing; unless its peak passed the bound of an
explosion, for a spike that falls back is what the paper's figure 1 warns of.  It is *high* where its end or
its peak passed that bound.  Anything between gets the paper's default, 0.4.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from seedwise import tables
from seedwise.algos.algorithm import Algorithm
from seedwise.layout import Layout
from seedwise.stats.stability import Course
from seedwise.study import Run, Stability

SOURCE = "QAE, arXiv:2509.22611: K = 0.4 by default and where a baseline's entropy is high, 0.6 where it is low"
USUAL, LOW = 0.4, 0.6
# settings of a baseline that already holds back one side of a group
LEVELS = {"K", "K1", "tau", "schedule"}
SHOWN = 8


class SuggestError(ValueError):
    """A run that nothing can be read off; one line with its name and the remedy."""


@dataclass(frozen=True)
class Suggestion:
    """K for QAE after one baseline run.

    course: of its entropy.  low: the bound below which its end counts as low, nats.  K: None where the course has no
    label.  why: the reason, with its figures.
    """

    run: str
    method: str
    course: Course
    low: float | None
    K: float | None
    why: str

    def json(self) -> str:
        """One object; nats, null where undefined."""
        found = self.course
        bounds = {
            "collapsing_below": found.bounds.collapse if found.bounds else None,
            "low_below": self.low,
            "exploding_above": found.bounds.explode if found.bounds else None,
        }
        return json.dumps(
            {
                "run": self.run,
                "method": self.method,
                "steps": found.measured,
                "entropy_nats": {"start": found.start, "peak": found.peak, "end": found.end},
                "bounds_nats": bounds,
                "label": found.label,
                "K": self.K,
                "why": self.why,
                "rule": SOURCE,
            },
            allow_nan=False,
        )


def suggest(layout: Layout, name: str) -> Suggestion:
    """What the rule says after a run of the study, given by its name or by a prefix that no other run has.

    Raises SuggestError on an unknown or ambiguous name and on a run that already has a K, TableError where the run
    has no metrics yet.
    """
    from seedwise.report.stability import course_of

    run = _named(layout, name)
    if found := levels(run.algorithm):
        others = [key for key, other in layout.grid.runs.items() if not levels(other.algorithm)]
        raise SuggestError(
            f"{run.name}: its baseline already has {' and '.join(found)}, so its entropy is not a baseline's: "
            f"name a run without: {_listed(others) or 'this study has none'}"
        )
    thresholds = layout.grid.study.stability
    metrics = tables.read(tables.METRICS, layout.run(run.name) / "metrics.parquet")
    return rule(run.name, run.method, course_of(metrics, thresholds), thresholds)


def rule(run: str, method: str, found: Course, thresholds: Stability) -> Suggestion:
    """The rule of thumb, from the course of a run's entropy."""
    if found.bounds is None or found.start is None or found.peak is None or found.end is None:
        return Suggestion(run, method, found, None, None, f"{found.reason}; the paper's default is {USUAL}")
    low = max(found.bounds.collapse, thresholds.low_share * min(found.start, thresholds.usual_nats[1]))
    if found.label == "exploding":
        K, why = USUAL, f"entropy is high: it ended above {found.bounds.explode:.3f} nats"
    elif found.peak > found.bounds.explode:
        K, why = USUAL, f"entropy was high: its peak is above {found.bounds.explode:.3f} nats"
    elif found.end < low:
        K, why = LOW, f"entropy is low: it ended below {low:.3f} nats"
    else:
        K, why = USUAL, f"entropy is neither low (below {low:.3f} nats) nor high (above {found.bounds.explode:.3f})"
    return Suggestion(run, method, found, low, K, why)


def levels(algorithm: Algorithm) -> list[str]:
    """The settings by which a baseline chain, or a part within a part, already holds back one side of a group."""
    found: set[str] = set()
    waiting: list[Any] = [part.model_dump() for part in algorithm.baseline]
    for node in waiting:
        if isinstance(node, dict):
            found |= LEVELS & set(node)
            waiting += node.values()
    return sorted(found)


def _named(layout: Layout, name: str) -> Run:
    runs = layout.grid.runs
    if name in runs:
        return runs[name]
    matching = [key for key in runs if name and key.startswith(name)]
    if len(matching) == 1:
        return runs[matching[0]]
    study = layout.grid.study.study
    if not matching:
        raise SuggestError(f"{name or 'an empty name'}: no run of study {study}; they are {_listed(runs)}")
    raise SuggestError(f"{name}: {len(matching)} runs of study {study} begin so: name one of {_listed(matching)}")


def _listed(names: Iterable[str]) -> str:
    known = list(names)
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return ", ".join(known[:SHOWN]) + more


def show(suggestion: Suggestion) -> None:
    """Print a suggestion for people."""
    from rich.console import Console

    found = suggestion.course
    figures = {"start": found.start, "peak": found.peak, "end": found.end}
    shown = ", ".join(f"{name} {'undefined' if value is None else f'{value:.3f}'}" for name, value in figures.items())
    lines = (
        f"{suggestion.run} ({suggestion.method}), {found.measured} steps",
        f"entropy (nats): {shown}; start and end are means over stability.edge of the steps",
        f"label: {found.label or 'none'}",
        f"K = {'none' if suggestion.K is None else suggestion.K}: {suggestion.why}",
        f"rule: {SOURCE}",
    )
    console = Console()
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
