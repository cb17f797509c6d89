"""What Snakemake plans after a change: counted on real dry-runs over a study that is already complete.

Planning only asks which files exist, so the finished study is laid out as empty files.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from study_file import STUDY, changed

from seedwise import layout as layouts
from seedwise.grid import expand
from seedwise.layout import Layout
from seedwise.reading import parse

ROOT = Path(__file__).parents[2]
TABLES = ("main", "differences", "passk", "trends", "measures", "resampling", "runs")
FIGURES = ("forest", "learning", "entropy", "length", "pass_at_k", "pass_at_k_benchmarks", "sparsity")
EAPO = {"methods.eapo": {"preset": "eapo", "kappa": "log 4"}}


class Project:
    """A folder with a study, its finished results, and a copy of our code that may be edited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))

    def study(self, content: dict) -> None:
        (self.folder / "study.yaml").write_text(yaml.safe_dump(content))

    def finish(self, content: dict) -> None:
        """Lay out every file of the study, as empty files; later ones stay."""
        self.study(content)
        layout = Layout(expand(parse(content)), self.folder / "results")
        files = [layout.report, *(layout.marker(stage) for stage in ("analysis", "report", "tracking"))]
        files += [layout.folder / "tables" / f"{name}.{ending}" for name in TABLES for ending in ("md", "csv", "tex")]
        files += [layout.folder / "figures" / f"{name}.{ending}" for name in FIGURES for ending in ("svg", "pdf")]
        files += [layout.problems(name) for name in layout.grid.problems]
        files += [layout.model(name) / "files.json" for name in layout.grid.models]
        for name in layout.grid.runs:
            files += [
                layout.run(name) / file for file in ("spec.json", "metrics.parquet", "timing.parquet", "trained.json")
            ]
        for name in layout.subjects:
            found = [layout.sampled(name), layout.scores(name), layout.continuations(name), layout.measures(name)]
            files += [path for path in found if path]
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()

    def plan(self, **environment: str) -> dict[str, int]:
        """rule -> planned jobs of a dry-run."""
        command = [
            sys.executable,
            "-m",
            "snakemake",
            "-n",
            "-s",
            str(ROOT / "Snakefile"),
            "--directory",
            str(self.folder),
        ]
        shown = subprocess.run(
            [*command, "--config", f"study={self.folder / 'study.yaml'}"],
            env=os.environ | {"PYTHONPATH": str(self.folder / "src")} | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert shown.returncode == 0, shown.stdout + shown.stderr
        table = re.search(r"Job stats:\n(.*?)\n\n", shown.stdout + shown.stderr, re.S)
        if table is None:
            assert "Nothing to be done" in shown.stdout + shown.stderr
            return {}
        jobs = dict(re.findall(r"^(\w+)\s+(\d+)$", table[1], re.M))
        return {rule: int(count) for rule, count in jobs.items() if rule not in ("all", "total", "job")}

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.folder / "src/seedwise" / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.finish(changed(**EAPO))
    return made


# Three method points of STUDY and eapo, two seeds each.
DOWNSTREAM = {"analyse": 1, "report": 1, "track": 1}


def retrained(runs: int) -> dict[str, int]:
    return {"train": runs, "sample": runs, "score": runs, "resample": runs, "measure": runs, **DOWNSTREAM}


def test_a_finished_study_plans_nothing_whatever_the_hash_seed(project: Project) -> None:
    assert project.plan(PYTHONHASHSEED="1") == {}
    assert project.plan(PYTHONHASHSEED="2") == {}


def test_a_fresh_study_plans_every_stage(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.study(STUDY)
    # six runs and the base are sampled; the base is not trained
    expected = {"data": 2, "base": 1, "train": 6, "sample": 7, "score": 7, "resample": 7, "measure": 7, **DOWNSTREAM}
    assert project.plan() == expected


def test_one_changed_value_plans_that_method_also_without_metadata(project: Project) -> None:
    shutil.rmtree(project.folder / ".snakemake", ignore_errors=True)
    project.study(changed(**{"methods.eapo": {"preset": "eapo", "kappa": "log 8"}}))
    assert project.plan() == retrained(2)
    project.study(changed(**EAPO))  # going back finds everything in place
    assert project.plan() == {}


def test_an_edited_part_plans_its_runs_only(project: Project) -> None:
    project.edit("algos/credit.py", "class Entropic(", "# reworded\nclass Entropic(")
    assert project.plan() == {}
    text = (project.folder / "src/seedwise/algos/credit.py").read_text()
    call = entropic_call(text)
    project.edit(
        "algos/credit.py", call, call.replace("    def __call__", "    extra_limit: int = 3\n\n    def __call__")
    )
    assert project.plan() == retrained(2)


def entropic_call(text: str) -> str:
    """The line with which Entropic's own method begins, unique by what precedes it."""
    start = text.index("class Entropic(")
    return text[start : text.index("    def __call__", start) + len("    def __call__")]


def test_an_edited_figure_plans_the_report_only(project: Project) -> None:
    path = project.folder / "src/seedwise/report/figures.py"
    path.write_text(path.read_text() + "\nEXTRA = 1\n")
    assert project.plan() == {"report": 1, "track": 1}


def test_an_unknown_key_stops_before_any_job(project: Project) -> None:
    project.study(changed(sedes=[3]))
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "-n",
        "-s",
        str(ROOT / "Snakefile"),
        "--directory",
        str(project.folder),
    ]
    shown = subprocess.run(
        [*command, "--config", f"study={project.folder / 'study.yaml'}"], capture_output=True, text=True, check=False
    )
    assert shown.returncode != 0
    assert "sedes: unknown key; did you mean 'seeds'?" in shown.stdout + shown.stderr
    assert "Traceback" not in shown.stdout + shown.stderr


def test_a_job_of_another_study_is_refused_in_one_line(project: Project) -> None:
    command = [sys.executable, "-m", "seedwise.cli", "train", "qae.K0.4.G8.s0-00000000"]
    shown = subprocess.run(
        [*command, "--study", str(project.folder / "study.yaml")], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 2
    assert len(shown.stderr.splitlines()) == 1
    assert "not part of study tiny: the study or the code changed" in shown.stderr


def test_ids_do_not_depend_on_where_results_lie() -> None:
    grid = expand(parse(STUDY))
    assert (
        layouts.Layout(grid, Path("results")).analysis_id == layouts.Layout(grid, Path("elsewhere/results")).analysis_id
    )
