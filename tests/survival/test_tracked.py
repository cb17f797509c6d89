"""A training that is killed and goes on is one run in MLflow, killed meanwhile, and no step stands twice."""

from __future__ import annotations

import pytest
from mlflow import MlflowClient

from seedwise.tracked import runs_table
from seedwise.trainer.journal import Metrics, Start, parse
from seedwise.trainer.mirror import sync

pytestmark = pytest.mark.timeout(600)


def test_a_run_that_is_killed_and_goes_on_is_one_run(fresh, nursery, run, study_file, layout_of):
    layout = layout_of(fresh)
    journal = layout.run(run) / "tracking.jsonl"
    store = f"sqlite:///{layout.root}/mlflow.db"

    def told() -> list[int]:
        """The steps of which the loss is told, in the order of the file."""
        events = parse(journal.read_bytes())[0] if journal.exists() else []
        return [event.step for event in events if isinstance(event, Metrics) and "loss" in event.values]

    def mirrored() -> tuple[str, list[int]]:
        """Status and steps of the only MLflow run of the training, after a sync."""
        report = sync(store, "survival", layout.root, wait_s=60, runs=runs_table(layout))
        assert report.killed == ([run] if len(told()) < 6 else [])
        client = MlflowClient(store)
        experiment = client.get_experiment_by_name("survival")
        (found,) = client.search_runs([experiment.experiment_id], "tags.`seedwise.kind` = 'run'")
        history = client.get_metric_history(found.info.run_id, "loss")
        return found.info.status, sorted(point.step for point in history)

    training = nursery.start(fresh, "train", run, "--study", str(study_file))
    assert training.until(lambda: len(told()) >= 3), training.log.read_text()  # a state of step 2 is there
    training.kill()
    before = told()
    assert mirrored() == ("KILLED", before)

    nursery.do(fresh, "train", run, "--study", str(study_file))
    starts = [event for event in parse(journal.read_bytes())[0] if isinstance(event, Start)]
    assert [start.after for start in starts] == [0, max(step for step in (2, 4) if step <= before[-1])]
    assert len(told()) > 6, "steps after the saved state were made twice"
    assert mirrored() == ("FINISHED", [1, 2, 3, 4, 5, 6])
    again = sync(store, "survival", layout.root, wait_s=60, runs=runs_table(layout))
    assert (again.created, again.updated, again.points) == (0, 0, 0)
