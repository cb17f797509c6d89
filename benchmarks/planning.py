"""Time and memory of planning a large study: 2,500 runs, about 12,500 jobs, none of them started.

``plan.ratio``: wall time of ``snakemake -n`` on the study over that of a bare Snakefile with the same rules, files
and jobs, whose names stand in a list.  Both are planned from nothing, in turns, each in a process of its own.
``plan.peak_mb``: the most memory that ours took.  ``plan.parse_seconds``: reading and expanding the study file.
``plan.why_seconds``: ``seedwise why`` for one of its runs.  ``plan.status_seconds``: ``seedwise status`` of 1,000
finished runs.

    python -m benchmarks.planning
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import yaml

from benchmarks.record import record
from seedwise import layout as layouts
from seedwise.layout import Layout

REPOSITORY = Path(__file__).parents[1]
LEVELS, SEEDS, ROUNDS = 50, 50, 2
FINISHED = 20
"""Seeds of the study whose runs are finished: 50 levels x 20 = 1,000 runs."""

BARE = """
import json
RUNS = {run["name"]: run for run in json.load(open("names.json"))}
PUBLISHED = ("spec.json", "metrics.parquet", "timing.parquet", "trained.json")
ASKED = ["results/data/same.parquet", "results/data/longer.parquet"]
RESAMPLED = (".parquet", ".chosen.parquet", ".along.parquet", ".words.parquet", ".example.parquet", ".json")

rule all:
    input: "report.html"

rule report:
    input:
        "analysis.json",
        [f"results/runs/{name}/metrics.parquet" for name, run in RUNS.items() if run["trained"]],
        [run["measures"] for run in RUNS.values()],
    output: "report.html"
    shell: "true"

rule analyse:
    input: [run[key] for run in RUNS.values() for key in ("scores", "resample")]
    output: "analysis.json"
    shell: "true"

rule data:
    output: "results/data/{problems}.parquet"
    shell: "true"

rule base:
    output: "results/models/{model}/files.json"
    shell: "true"

rule train:
    input: "results/data/train.parquet", "results/models/base/files.json"
    output: [f"results/runs/{{run}}/{name}" for name in PUBLISHED]
    params: id="{run}"
    log: "results/logs/train/{run}.log"
    shell: "true"

rule sample:
    input: lambda wildcards: RUNS[wildcards.run]["weights"], ASKED
    output: "results/runs/{run}/samples/{id}.json"
    params: id="{run}"
    log: "results/logs/sample/{run}.{id}.log"
    shell: "true"

rule score:
    input: lambda wildcards: RUNS[wildcards.run]["sampled"], ASKED
    output: "results/runs/{run}/evals/{id}/scores.parquet", "results/runs/{run}/evals/{id}/scores.json"
    params: id="{run}"
    log: "results/logs/score/{run}.{id}.log"
    shell: "true"

rule resample:
    input: lambda wildcards: [RUNS[wildcards.run][key] for key in ("weights", "scores", "sampled")], ASKED[0]
    output: [f"results/runs/{{run}}/resample/{{id}}{end}" for end in RESAMPLED]
    params: id="{run}"
    log: "results/logs/resample/{run}.{id}.log"
    shell: "true"

rule measure:
    input: lambda wildcards: RUNS[wildcards.run]["measured_from"]
    output: "results/runs/{run}/measures/{id}.parquet"
    params: id="{run}"
    log: "results/logs/measure/{run}.{id}.log"
    shell: "true"
"""


def study(seeds: int) -> dict:
    """The smoke study's settings over 50 levels of K and so many seeds."""
    written = yaml.safe_load((REPOSITORY / "config" / "smoke.yaml").read_text())
    levels = [round(0.01 + 0.019 * level, 3) for level in range(LEVELS)]
    written |= {
        "study": "large",
        "seeds": list(range(seeds)),
        "methods": {"qae": {"preset": "qae", "K": levels}},
        "blocks": [],
        "compare": {"reference": "qae.K0.01", "primary": {"metric": "avg@n", "family": ["base"]}, "trends": ["K"]},
    }
    written["resample"].pop("methods")
    return written


def names(layout: Layout) -> Iterator[dict]:
    """What the bare Snakefile is told of every subject."""
    for name in layout.subjects:
        resampled = layout.continuations(name)
        assert resampled is not None, "the study leaves no subject out of its resampling"
        trained = name in layout.grid.runs
        weights = f"results/runs/{name}/trained.json" if trained else "results/models/base/files.json"
        paths = {"sampled": layout.sampled(name), "scores": layout.scores(name), "resample": resampled}
        paths["measures"] = layout.measures(name)
        read = {"measured_from": [str(path) for path in layout.measured_from(name)]}
        about = {"name": name, "trained": trained, "weights": weights, **read}
        yield about | {key: str(path) for key, path in paths.items()}


def finished(layout: Layout) -> None:
    """The files by which a run counts as finished, empty but for the record."""
    for name in layout.subjects:
        resampled = layout.continuations(name)
        made = (layout.sampled(name), layout.scores(name), layout.measures(name), *((resampled,) if resampled else ()))
        for path in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    for name, run in layout.grid.runs.items():
        content = {"run": name, "steps": run.train.steps, "stopped": None, "checkpoints": list(run.train.checkpoints)}
        (layout.run(name) / "trained.json").write_text(json.dumps(content))


def measured(folder: Path, *command: str) -> tuple[float, float]:
    """(wall seconds, peak MB) of a command.  Raises CalledProcessError when it fails."""
    begun = perf_counter()
    with (folder / "output.txt").open("w") as output:
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "src"), "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, (folder / "output.txt").read_text()[-2000:])
    return perf_counter() - begun, usage.ru_maxrss / 1024


def jobs(folder: Path) -> int:
    """How many jobs the last plan has."""
    lines = (folder / "output.txt").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("total"))


def seedwise(*arguments: str) -> Sequence[str]:
    """A command line of ours."""
    return (sys.executable, "-m", "seedwise.cli", *arguments)


def main() -> None:
    """Measure, print, and add to results.json."""
    profile = str(REPOSITORY / "workflow" / "profiles" / "default")
    snakemake = (sys.executable, "-m", "snakemake", "-n", "--quiet", "rules", "--profile", profile)
    with tempfile.TemporaryDirectory() as place:
        ours, bare, done = (Path(place) / name for name in ("ours", "bare", "done"))
        for folder, seeds in ((ours, SEEDS), (bare, SEEDS), (done, FINISHED)):
            folder.mkdir()
            (folder / "study.yaml").write_text(yaml.safe_dump(study(seeds)))
        begun = perf_counter()
        layout = layouts.read(ours / "study.yaml")
        parsed = perf_counter() - begun
        (bare / "names.json").write_text(json.dumps(list(names(layout))))
        (bare / "Snakefile").write_text(BARE)
        plans, bares = [], []
        for _ in range(ROUNDS):
            snakefile = ("-s", str(REPOSITORY / "Snakefile"), "--config", "study=study.yaml")
            plans.append(measured(ours, *snakemake, *snakefile))
            bares.append(measured(bare, *snakemake, "-s", "Snakefile"))
        why = measured(ours, *seedwise("why", next(iter(layout.grid.runs)), "--study", "study.yaml"))
        large = layouts.read(done / "study.yaml")
        finished(Layout(large.grid, done / "results"))
        status = measured(done, *seedwise("status", "--study", "study.yaml", "--json"))
        record(
            {
                "plan.jobs": jobs(bare),
                "plan.ratio": median(a / b for (a, _), (b, _) in zip(plans, bares, strict=True)),
                "plan.seconds": median(seconds for seconds, _ in plans),
                "plan.bare_seconds": median(seconds for seconds, _ in bares),
                "plan.peak_mb": max(megabytes for _, megabytes in plans),
                "plan.parse_seconds": parsed,
                "plan.why_seconds": why[0],
                "plan.status_seconds": status[0],
            }
        )


if __name__ == "__main__":
    main()
