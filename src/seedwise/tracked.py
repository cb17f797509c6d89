"""What MLflow is shown of a study, and where: the part of tracking that knows studies."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from seedwise import tables
from seedwise.layout import Layout

if TYPE_CHECKING:
    import pandas as pd

    from seedwise.trainer.journal import Metrics
    from seedwise.trainer.live import Live

OFF = "off"
BEGIN_S = 120.0  # creating a store is 5 s of computing; a machine may have other things to do


def store(layout: Layout) -> str | None:
    """The MLflow store: MLFLOW_TRACKING_URI (``off``: None), or a SQLite file in results/."""
    address = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(layout.root / 'mlflow.db').absolute()}"
    return None if address == OFF else address


def runs_table(layout: Layout) -> pd.DataFrame:
    """tables.RUNS: one row per planned run, and one per base and model that rests on it."""
    import pandas as pd

    rows = [
        {
            "run": name,
            "model": run.model_name,
            "method": run.method,
            "setting": run.setting,
            "group_size": run.group_size,
            "seed": run.seed,
            "axes": json.dumps(run.axes, sort_keys=True),
            "id": run.id,
        }
        for name, run in layout.planned.runs.items()
    ]
    for model, name in layout.grid.base_of.items():
        row = {"run": name, "model": model, "method": "base", "setting": "", "group_size": 0, "seed": 0, "axes": "{}"}
        rows.append({**row, "id": name.rpartition("-")[2]})
    return pd.DataFrame(rows)


def begin(layout: Layout) -> None:
    """Create a SQLite store that is missing, with the method points of the study: once, before runs go on in parallel.

    Takes seconds, at most ``BEGIN_S``; a store that refuses is a warning.
    """
    from seedwise.trainer.passing import Passing, missing

    address = store(layout)
    if address is not None and missing(address):
        Passing(
            address, layout.grid.study.study, layout.root, runs_table(layout), every_s=0, delay_s=BEGIN_S, creates=True
        ).close()


def live(layout: Layout, name: str, spec: dict[str, Any]) -> Live:
    """What follows the training of a run: its journal, and the mirror in passing."""
    from seedwise.trainer.live import Live
    from seedwise.trainer.passing import Passing
    from seedwise.trainer.progress import described

    address, study = store(layout), layout.grid.study.study
    passing = None if address is None else Passing(address, study, layout.root, runs_table(layout))
    return Live(layout.run(name) / "tracking.jsonl", described(spec), {}, passing)


def scores(layout: Layout) -> dict[str, list[Metrics]]:
    """run -> ``<benchmark>/avg@n`` and ``<benchmark>/pass@k`` of each checkpoint, of all subjects that have scores.

    See ``shown``.
    """
    from seedwise.evals.scores import counts

    found = {}
    for row in runs_table(layout).to_dict("records"):
        path = layout.scores(row["run"])
        if path.exists() and row["run"] not in found:
            found[row["run"]] = shown(counts(tables.read(tables.SCORES, path), {**row}))
    return found


def shown(counted: pd.DataFrame) -> list[Metrics]:
    """Scores of a run at each checkpoint, of its COUNTS: means over the problems of a benchmark, 0..1.

    avg@n with the benchmark's own n (``avg@n`` where problems differ in it), pass@k for the k of the report up to n.
    """
    from seedwise.report.scores import k_of, metrics_of
    from seedwise.stats.scores import avg, passk
    from seedwise.trainer.journal import Metrics

    found: dict[int, dict[str, float | None]] = {}
    for (step, benchmark), rows in counted.groupby(["step", "benchmark"]):
        n, c = rows["samples"].to_numpy(), rows["correct"].to_numpy()
        average, *passing = metrics_of(set(n.tolist()))
        values = {average: avg(n, c)} | {name: passk(n, c, k_of(name)) for name in passing}
        named = {f"{benchmark}/{name}": float(score_N.mean()) for name, score_N in values.items()}
        found.setdefault(int(step), {}).update(named)
    return [Metrics(time=0.0, step=step, values=values) for step, values in sorted(found.items())]
