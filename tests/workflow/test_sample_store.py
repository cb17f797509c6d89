"""The store of samples on real Snakemake: every change of a study draws only what is missing.

The untrained model is a subject like any other, so nothing is trained here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from study_file import CHAIN, changed

from seedwise import tables
from seedwise.grid import expand
from seedwise.layout import Layout
from seedwise.reading import parse
from seedwise.reruns.verifying import verify

ROOT = Path(__file__).parents[2]
TASK = {**CHAIN, "answer": {"rule": "marker", "marker": "#"}}
SAME, MORE = {**TASK, "size": 4, "seed": 2}, {**TASK, "size": 3, "seed": 3}
SHORT = {"train_data.size": 20, "evaluate.max_tokens": 24, "evaluate.benchmarks": {"same": SAME}}

pytestmark = pytest.mark.timeout(900)


class Project:
    """A folder in which the base of a study is evaluated by Snakemake."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def layout(self, **changes: Any) -> Layout:
        return Layout(expand(parse(changed(**(SHORT | changes)))), self.folder / "results")

    def scored(self, **changes: Any) -> tuple[pd.DataFrame, dict[str, int]]:
        """Scores of the base once Snakemake has made them, and the completions that were drawn for them, by label."""
        layout = self.layout(**changes)
        (base,) = layout.grid.bases
        (self.folder / "study.yaml").write_text(yaml.safe_dump(changed(**(SHORT | changes)), sort_keys=False))
        log = self.folder / "results/logs/sample" / f"{base}.{layout.sampled(base).stem}.log"
        log.unlink(missing_ok=True)
        target = layout.scores(base).relative_to(self.folder).as_posix()
        command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--directory", str(self.folder)]
        done = subprocess.run(
            [*command, "--cores", "1", target, "--config", f"study={self.folder / 'study.yaml'}"],
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
        said = log.read_text() if log.exists() else ""
        drawn = re.findall(r": (\S+), step 0: (\d+) completions drawn", said)
        return tables.read(tables.SCORES, layout.scores(base)), {label: int(count) for label, count in drawn}

    def parts(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.folder.glob("results/runs/*/samples/*/*.parquet")}


def test_each_change_draws_what_is_missing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    few, drawn = project.scored(**{"evaluate.samples": 4})
    assert drawn == {"same": 4 * 4}  # problems x samples
    first = project.parts()

    # 4 -> 8 samples
    many, drawn = project.scored(**{"evaluate.samples": 8})
    assert drawn == {"same": 4 * 4}
    assert many[many["sample"] < 4].reset_index(drop=True).equals(few)
    assert len(project.parts()) == 2 and first.items() <= project.parts().items()

    # one more benchmark, with its own number of samples, and forced continuations 0 and 1
    both = {"evaluate.benchmarks": {"same": SAME, "more": MORE}, "evaluate.samples": {"same": 8, "more": 2}}
    forcing = {"benchmarks": ["same"], "continuations": 1, "word": "+", "budget": 40, "samples": 2}
    scores, drawn = project.scored(**both, **{"evaluate.forcing": forcing})
    assert drawn == {"more": 3 * 2, "same+forced0": 4 * 2, "same+forced1": 4 * 2}
    assert scores.groupby("benchmark").size().to_dict() == {"same": 4 * 8, **drawn}

    # back to 4: nothing runs
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("results/runs/*/*/**/*") if path.is_file()}
    again, drawn = project.scored(**{"evaluate.samples": 4})
    assert again.equals(few) and drawn == {}
    assert {path: path.stat().st_mtime_ns for path in made} == made
    layout = project.layout(**{"evaluate.samples": 8})
    assert verify(layout) == []

    # one part gone: it is named; once its record is gone too it is drawn again, and nothing else
    (base,) = layout.grid.bases
    (lost,) = [path for path in project.parts() if path.name == "0.4-8.parquet"]
    before = project.parts()
    lost.unlink()
    assert [(fault.kind, fault.path) for fault in verify(layout)] == [("missing", str(lost))]
    for path in (layout.sampled(base), layout.scores(base)):
        path.unlink()
    back, drawn = project.scored(**{"evaluate.samples": 8})
    assert drawn == {"same": 4 * 4}
    assert back.equals(many) and project.parts() == before
    assert json.loads(layout.sampled(base).read_text())["sha256"].keys() == {
        f"{lost.parent.name}/0.{numbers}.parquet" for numbers in ("0-4", "4-8")
    }
