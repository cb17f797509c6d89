"""The stage that measures: what it reads, what it writes, what plans it, and that it loads no torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from study_file import changed

from seedwise import stages, tables
from seedwise.conclude import runs_table
from seedwise.evals import store
from seedwise.grid import expand
from seedwise.identity import file_digest
from seedwise.layout import Layout
from seedwise.reading import parse

ROOT = Path(__file__).parents[2]
TEXT = {"1": "Wait, 1", "0.5": "perhaps 0.5", "1/2": "1/2"}
# of 4 samples: the answers, of which "1" is right
ANSWERS = {
    "base": {"easy": ("1", "1", "1", "0.5"), "hard": ("0.5", "0.5", "1/2", "0.5")},
    "run": {"easy": ("1", "1", "1", "1"), "hard": ("1", "0.5", "0.5", "1/2")},
}


def layout_of(folder: Path, **changes: Any) -> Layout:
    return Layout(expand(parse(changed(**changes))), folder / "results")


def sampled(layout: Layout, subject: str) -> None:
    """Samples and scores of a subject, the same at each of its checkpoints."""
    samples, scores = [], []
    for step in layout.steps(subject):
        for problem, answers in ANSWERS["base" if subject in layout.grid.bases else "run"].items():
            for place, answer in enumerate(answers):
                key = {"step": step, "benchmark": "same", "problem": problem, "sample": place}
                length = {"tokens": 10, "stop": "stop"}
                right = answer == "1"
                samples.append(key | length | {"text": TEXT[answer], "seed": place, "engine": "e 1"})
                verdict = {"correct": int(right), "answer": answer, "verdict": "correct" if right else "wrong"}
                scores.append(key | length | verdict | {"verifier": "v"})
    wanted = layout.samples(subject)["same"]
    for step in wanted.steps:
        rows = pd.DataFrame([row for row in samples if row["step"] == step])
        store.write(wanted.folder, store.Part(step, 0, wanted.n), rows)
    stages.write_record(layout.sampled(subject), store.record([wanted]))
    tables.write(tables.SCORES, scores, layout.scores(subject))


def measured(layout: Layout, subject: str) -> dict[str, float]:
    """What was measured over the problems at the last checkpoint, undefined numbers left out."""
    found = tables.read(tables.MEASURES, layout.measures(subject))
    rows = found[found["problem"].isna() & (found["step"] == layout.steps(subject)[-1]) & found["value"].notna()]
    return dict(zip(rows["metric"], rows["value"], strict=True))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = layout_of(tmp_path)
    for subject in made.subjects:
        sampled(made, subject)
    return made


def test_a_run_is_measured_on_the_problems_that_its_base_chooses(layout: Layout) -> None:
    run, (base,) = next(iter(layout.grid.runs)), layout.grid.bases
    stages.measure(layout, run)
    found = measured(layout, run)
    assert found["avg@n"] == (1 + 1 / 4) / 2
    # the base solves no sample of hard and three of four of easy
    assert (found["accuracy_of_base_0-0.25"], found["accuracy_of_base_0.75-1"]) == (0.25, 1.0)
    # hard alone: 1, 0.5, 0.5, 1/2 as texts: one of 6 pairs agrees
    assert found["collision_rate"] == pytest.approx(1 / 6)
    # the longest response may have 96 tokens, and all have 10
    assert found["accuracy_within_24_tokens"] == found["avg@n"]
    # 5 times wait (4 + 1) and 2 perhaps in 8 x 10 tokens
    assert found["markers_per_1000_tokens"] == pytest.approx(1000 * 7 / 80)
    assert (found["correct_samples"], found["wrong_samples"]) == (5, 3)
    assert {"pass@4", "majority@4", "best@4_shortest", "best@4_most_frequent"} <= set(found)
    assert "pass@8" not in found
    stages.measure(layout, base)
    assert measured(layout, base)["accuracy_of_base_0-0.25"] == 0


def test_math_verify_may_hold_two_wrong_answers_equal(layout: Layout, tmp_path: Path) -> None:
    wanted = layout_of(tmp_path, **{"metrics.same_answer": "math_verify"})
    run = next(iter(layout.grid.runs))
    assert wanted.scores(run) == layout.scores(run)
    assert wanted.measures(run) != layout.measures(run)
    stages.measure(wanted, run)
    # 0.5, 0.5 and 1/2 are one: three of 6 pairs agree
    assert measured(wanted, run)["collision_rate"] == pytest.approx(3 / 6)


def test_settings_that_are_measured_by_name_the_file_and_others_do_not(layout: Layout, tmp_path: Path) -> None:
    run = next(iter(layout.grid.runs))
    other = layout_of(tmp_path, **{"metrics.markers": ["wait"]})
    assert other.measures(run) != layout.measures(run)
    assert other.scores(run) == layout.scores(run)
    assert (other.analysis_id, other.report_id) == (layout.analysis_id, other.report_id)
    assert other.report_id != layout.report_id
    # the budgets in use, written out
    assert layout_of(tmp_path, **{"metrics.budgets": [24, 48, 96]}).measures(run) == layout.measures(run)
    assert layout_of(tmp_path, **{"compare.smallest_effect": 0.1}).measures(run) == layout.measures(run)


def test_the_command_loads_no_torch_and_gives_the_same_bytes(layout: Layout, tmp_path: Path) -> None:
    import yaml

    (tmp_path / "study.yaml").write_text(yaml.safe_dump(changed()))
    run = next(iter(layout.grid.runs))
    code = (
        "import sys; from seedwise.cli import app\n"
        f"sys.argv = ['seedwise', 'measure', {run!r}, '--study', 'study.yaml']\n"
        "try: app()\n"
        "finally: print(sorted({'torch', 'transformers', 'scipy', 'matplotlib', 'math_verify'} & set(sys.modules)))\n"
    )
    digests = set()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
        digests.add(file_digest(layout.measures(run)))
        layout.measures(run).unlink()
    assert len(digests) == 1


def test_the_study_has_one_table_of_all(layout: Layout, tmp_path: Path) -> None:
    from seedwise.conclude import measured as gathered

    for subject in layout.subjects:
        stages.measure(layout, subject)
    runs = runs_table(layout)
    found = gathered(layout, runs)
    tables.write(tables.MEASURED, found, tmp_path / "measured.parquet")
    assert set(found["run"]) == set(layout.subjects)
    rows = found[(found["metric"] == "avg@n") & (found["method"] != "base")]
    assert len(rows) == len(layout.grid.runs) * 2  # two checkpoints
    assert set(rows["seed"]) == {0, 1}
    pd.testing.assert_series_equal(rows["value"], pd.Series(0.625, index=rows.index, name="value"))


def test_a_missing_file_is_one_line_with_the_stage(layout: Layout) -> None:
    from seedwise.conclude import measured as gathered

    with pytest.raises(tables.TableError, match="no such measures file; run the stage that makes it"):
        gathered(layout, runs_table(layout))
