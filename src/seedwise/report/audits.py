"""The self-audit of every table: how often its own rule would claim a difference where there is none."""

from __future__ import annotations

import zlib
from collections.abc import Collection

import numpy as np
import pandas as pd

from seedwise import tables
from seedwise.report.analysis import frame
from seedwise.report.decisions import nominal, sequential
from seedwise.report.facts import BASE, Compare, Look
from seedwise.report.robustness import Place
from seedwise.report.scores import Selection, k_of
from seedwise.stats.audit import SIMULATIONS, Audit, FamilyDesign, aa_audit
from seedwise.stats.components import Components, components_from
from seedwise.stats.results import StatsError

POWER = 0.8
AS_ESTIMATED, UNSTABLE = "as estimated", "one arm with 3 times the seed SD"
NOT_SIMULATED = "not simulated"


def audits(
    places: Collection[Place], compare: Compare, look: Look | None, simulations: int = SIMULATIONS
) -> pd.DataFrame:
    """AUDIT of the primary family of every place, as estimated and with one unstable arm.

    simulations: families simulated for each row; 0 for none.  The generator is derived from the place, so the
    same scores give the same numbers.
    """
    rows = []
    for place in places:
        keys = {"model": place.model, "setting": place.setting, "simulations": simulations}
        unknown = dict.fromkeys(("false_families", "rate", "low", "high", "coverage", "mde", "withheld", "reason"))
        try:
            found = _audit(place, compare, look, simulations)
        except StatsError as error:
            found = str(error)
        if isinstance(found, str):
            rows += (
                keys | unknown | {"design": design, "simulations": 0, "reason": found}
                for design in (AS_ESTIMATED, UNSTABLE)
            )
            continue
        for design, rate in ((AS_ESTIMATED, found.null), (UNSTABLE, found.unstable)):
            rated = {"false_families": round(rate.share * simulations), "rate": rate.share}
            rows.append(keys | unknown | rated | {"design": design, "low": rate.low, "high": rate.high})
            if design == AS_ESTIMATED:
                rows[-1] |= {"coverage": found.coverage.share, "mde": found.mde_family, "withheld": found.withheld}
    return frame(tables.AUDIT, rows)


def _audit(place: Place, compare: Compare, look: Look | None, simulations: int) -> Audit | str:
    if simulations == 0:
        return NOT_SIMULATED
    arms = (*place.members, place.reference)
    there = [name for name in arms if place.scores.select([(place.setting, name)], "avg@n", None).reason is None]
    k = 1 if place.metric.startswith("avg@") else k_of(place.metric)
    shares, metric = (
        place.scores.select([(place.setting, name) for name in there], name_of, None)
        for name_of in ("avg@n", place.metric)
    )
    if shares.reason is not None:
        return shares.reason
    checkpoints = place.scores.checkpoints
    samples = {bench: min(place.scores.samples[bench]) * checkpoints for bench in place.scores.benchmarks}
    fixed = frozenset({BASE} & set(there))
    by_name = {cell[1]: dict(blocks) for cell, blocks in shares.scores.items()}
    design = FamilyDesign.of(by_name, place.reference, samples, fixed=fixed, k=k)
    alpha = compare.alpha
    if look is not None and sequential(look) and look.reason is None:
        alpha = len(design.members) * nominal(compare, look, len(design.members))
    purpose = f"audit/{place.model}/{place.setting}/{place.metric}"
    return aa_audit(
        design,
        _components(shares, samples),
        rng=np.random.default_rng(zlib.crc32(purpose.encode())),
        alpha=alpha,
        power=POWER,
        simulations=simulations,
        metric_components=None if k == 1 else _components(metric, None),
    )


def _components(selection: Selection, samples: dict[str, int] | None) -> Components:
    trained = {
        cell: blocks for cell, blocks in selection.scores.items() if cell[1] != BASE and selection.seeds(cell) > 1
    }
    return components_from(trained, samples)
