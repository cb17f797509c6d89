"""MEASURED -> the mean over training seeds of every metric, with its interval: descriptive, on these problems."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from seedwise.report.analysis import ALPHA, CHECKPOINTS
from seedwise.report.facts import BASE, Compare
from seedwise.report.results import Results, ordered
from seedwise.stats.contrasts import tw_contrast

COLUMNS = (
    "model", "setting", "method", "benchmark", "metric", "mean", "low", "high", "sd_seed", "seeds", "problems",
    "samples", "reason",
)  # fmt: skip
NO_SPREAD = "all seeds have the same value: no interval"
NO_SEEDS = "the untrained model has no training seeds"
_KEY = ["model", "run", "benchmark", "metric"]


def over_seeds(measured: pd.DataFrame, results: Results, compare: Compare) -> pd.DataFrame:
    """COLUMNS: a row per model, setting, method, benchmark and metric, at the checkpoint that is scored.

    measured: MEASURED.  mean: of the seeds with a value, ``seeds`` of them.  low, high: 95 % t interval over new
    seeds on these problems.  problems: the fewest a seed's value rests on.  samples: n of a problem.
    reason: why a value, its interval or a seed is missing.  The untrained model stands in every setting of its model,
    without an interval.
    """
    found = _by_cell(_scored(measured, CHECKPOINTS[compare.checkpoint]))
    rows: list[dict] = []
    for model, setting, methods in results.places():
        for method in ordered(methods, compare.reference):
            keys = {"model": model, "setting": setting, "method": method}
            cell = found.get((model, "" if method == BASE else setting, method), {})
            drawn = {benchmark: _samples(runs) for (benchmark, metric), runs in cell.items() if metric == "avg@n"}
            for (benchmark, metric), runs in cell.items():
                about = {"benchmark": benchmark, "metric": metric, "samples": drawn[benchmark]}
                rows.append(keys | about | _mean(runs, fixed=method == BASE))
    return pd.DataFrame(rows, columns=pd.Index(COLUMNS))


def _by_cell(at: pd.DataFrame) -> dict[tuple[str, str, str], dict[tuple[str, str], list[dict]]]:
    """(model, setting, method) -> (benchmark, metric) -> a row of each seed; the untrained model has no setting."""
    found: dict[tuple[str, str, str], dict[tuple[str, str], list[dict]]] = {}
    for row in at.to_dict("records"):
        cell = (row["model"], "" if row["method"] == BASE else row["setting"], row["method"])
        found.setdefault(cell, {}).setdefault((row["benchmark"], row["metric"]), []).append(row)
    return found


def _scored(measured: pd.DataFrame, checkpoints: int) -> pd.DataFrame:
    """One row per run, benchmark and metric: the mean of its last checkpoints; null where one of them is.

    The earliest stands in for checkpoints that a run lacks, as in the comparison.
    """
    steps = measured[["run", "step"]].drop_duplicates().sort_values(["run", "step"], ascending=[True, False])
    steps["back"] = steps.groupby("run", sort=False).cumcount()
    steps = steps[steps["back"] < checkpoints]
    earliest = steps["back"] == steps.groupby("run", sort=False)["back"].transform("max")
    steps["weight"] = np.where(earliest, checkpoints - steps["back"], 1) / checkpoints
    rows = measured.merge(steps, on=["run", "step"], how="inner").sort_values(["back"], kind="stable")
    rows["value"] = rows["value"].astype(float) * rows["weight"]
    groups = rows.groupby(_KEY, sort=False)
    found = groups[["method", "setting", "seed", "samples"]].first()
    found["value"] = groups["value"].sum(min_count=1).where(groups["value"].count() == groups.size())
    found["problems"], found["reason"] = groups["problems"].min(), groups["reason"].first()
    return found.reset_index()


def _samples(runs: list[dict]) -> int:
    """n of a problem, the fewest of these runs; rows of a metric that every problem has."""
    return min(row["samples"] // row["problems"] for row in runs)


def _mean(runs_S: list[dict], *, fixed: bool) -> dict:
    """What COLUMNS say of the values of S seeds; fixed: there is no training seed."""
    known = [row["value"] for row in runs_S if row["value"] == row["value"]]
    why = next((row["reason"] for row in runs_S if isinstance(row["reason"], str)), None)
    if why is not None and known:
        why = f"{len(runs_S) - len(known)} of {len(runs_S)} seeds have none: {why}"
    about = {"seeds": 0 if fixed else len(known), "problems": min(row["problems"] for row in runs_S)}
    none = about | {"mean": None, "low": None, "high": None, "sd_seed": None, "reason": why}
    if not known:
        return none
    if fixed:
        return none | {"mean": math.fsum(known) / len(known), "reason": why or NO_SEEDS}
    values_S = np.asarray(known)
    found = tw_contrast({"cell": {"run": values_S[:, None]}}, {"cell": 1.0}, target="E1", alpha=ALPHA)
    spread = float(np.std(values_S, ddof=1)) if len(known) > 1 else None
    reasons = [reason for reason in (why, NO_SPREAD if spread == 0 else found.reason) if reason]
    return about | {
        "mean": found.d, "low": found.lo, "high": found.hi, "sd_seed": spread, "reason": "; ".join(reasons) or None,
    }  # fmt: skip
