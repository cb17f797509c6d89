"""A study with journals that a test writes, and a program that writes one and syncs."""

from __future__ import annotations

from pathlib import Path

import mlflow
from mlflow import MlflowClient

from seedwise import tables
from seedwise.trainer.journal import Metrics, append, started
from seedwise.trainer.mirror import Report, sync
from seedwise.trainer.passing import Passing

# Arguments: Study.order.  Prints how many runs it created.
EIGHT = """
import sys
from pathlib import Path
from seedwise.trainer.journal import append
from seedwise.trainer.mirror import sync
journal, store, root = sys.argv[1:]
for step in range(1, 6):
    append(journal, {"event": "metrics", "step": step, "values": {"reward": step}})
print(sync(store, "tiny", Path(root), wait_s=550).created)
"""


class Study:
    """Seeds of one method point and the untrained base, with journals to be written by the test."""

    study = "tiny"

    def __init__(self, root: Path, store: str, seeds: int = 2) -> None:
        self.root, self.store = root, store
        points = [("grpo", seed, "G8", 8) for seed in range(seeds)] + [("base", 0, "", 0)]
        rows = [
            {
                "run": f"{method}.s{seed}-0000000{seed}",
                "model": "embedded",
                "method": method,
                "setting": setting,
                "group_size": size,
                "seed": seed,
                "axes": '{"K": 0.4}' if size else "{}",
                "id": f"0000000{seed}",
            }
            for method, seed, setting, size in points
        ]
        self.runs = [row["run"] for row in rows]
        tables.write(tables.RUNS, rows, root / self.study / "runs.parquet")

    def journal(self, seed: int = 0) -> Path:
        return self.root / "runs" / self.runs[seed] / "tracking.jsonl"

    def train(self, seed: int = 0, steps: int = 3) -> None:
        append(self.journal(seed), started({"train": {"lr": 1e-4, "axes": [1, 2]}}, {"host.gpu": "none"}))
        for step in range(1, steps + 1):
            append(self.journal(seed), {"event": "metrics", "step": step, "values": {"reward": step / 10}})
        append(self.journal(seed), {"event": "end", "status": "FINISHED"})

    def order(self, seed: int) -> list[str]:
        """Arguments of EIGHT: journal to write, store, results folder."""
        return [str(self.journal(seed)), self.store, str(self.root)]

    def sync(self, scores: dict[str, list[Metrics]] | None = None) -> Report:
        return sync(self.store, self.study, self.root, wait_s=0, scores=scores)

    def passing(self, store: str | None = None, **limits: float) -> Passing:
        runs = tables.read(tables.RUNS, self.root / self.study / "runs.parquet")
        return Passing(store or self.store, self.study, self.root, runs, **limits)

    @property
    def client(self) -> MlflowClient:
        return MlflowClient(self.store)

    def mirrored(self) -> list[mlflow.entities.Run]:
        experiment = self.client.get_experiment_by_name(self.study)
        return list(self.client.search_runs([experiment.experiment_id]))

    def child(self, seed: int = 0) -> mlflow.entities.Run:
        (found,) = [run for run in self.mirrored() if run.data.tags.get("seedwise.run") == self.runs[seed]]
        return found

    def history(self, metric: str, seed: int = 0) -> list[tuple[int, float]]:
        points = self.client.get_metric_history(self.child(seed).info.run_id, metric)
        return sorted((point.step, point.value) for point in points)
