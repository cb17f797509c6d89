"""Study -> files.  Every path carries the id of what it holds, so a rule runs exactly when its file is missing."""

import os
import signal
import sys

from snakemake.exceptions import WorkflowError

from seedwise import layout as layouts
from seedwise import machine as machines
from seedwise.study import StudyError

try:
    LAYOUT = layouts.read(config.setdefault("study", "config/config.yaml"))
    if machine := config.get("machine", os.environ.get("SEEDWISE_MACHINE")):
        machines.read(machine)
except StudyError as error:
    raise WorkflowError(str(error)) from None

GRID = LAYOUT.grid
NAME = GRID.study.study
PROBLEMS = {name: str(LAYOUT.problems(name)) for name in GRID.problems}
WEIGHTS = {name: str(LAYOUT.weights(name)) for name in LAYOUT.subjects}
SCORES = [str(LAYOUT.scores(name)) for name in LAYOUT.subjects]
CONTINUED = [str(path) for name in LAYOUT.subjects if (path := LAYOUT.continuations(name))]
REPORTED = [str(LAYOUT.file(name, "metrics.parquet")) for name in GRID.runs]
MEASURED = [str(LAYOUT.measures(name)) for name in LAYOUT.subjects]
# Jobs find our commands and these files wherever they run, since every job reads this one.
os.environ.update(
    PATH=os.pathsep.join([os.path.dirname(sys.executable), *os.get_exec_path()]),
    SEEDWISE_STUDY=config["study"],
    SEEDWISE_MACHINE=machine or "",
)
# Slurm warns every process of a job ahead of its time limit.  A training listens; Snakemake and the shell around it,
# which inherits this, would end it before it has saved.
signal.signal(signal.SIGUSR1, signal.SIG_IGN)

if workflow.is_main_process:
    for note in GRID.notes:
        print(f"note: {note}", file=sys.stderr)


wildcard_constraints:
    problems="[A-Za-z0-9_]+-[0-9a-f]{8}",
    model="[A-Za-z0-9_.-]+-[0-9a-f]{8}",
    run="[A-Za-z0-9_.+-]+-[0-9a-f]{8}",
    id="[0-9a-f]{8}",


def excluded_problems(wildcards):
    """A benchmark leaves out the training problems, so they come first."""
    name = GRID.problems[wildcards.problems].exclude
    return PROBLEMS[name] if name else []


def of_base(patterns):
    """What jobs read, by base; as text where all bases read the same: it costs Snakemake a third of a function."""

    def pattern(wildcards):
        return patterns[LAYOUT.base(wildcards.run)]

    every = list(patterns.values())
    return every[0] if all(each == every[0] for each in every) else pattern


def of_run(path, base):
    return str(path).replace(base, "{run}")


TRAINING_DATA = of_base({name: PROBLEMS[base.data] for name, base in GRID.bases.items()})
BACKBONE = of_base({name: str(LAYOUT.backbone(base.folder)) for name, base in GRID.bases.items()})
ASKED = of_base({name: [PROBLEMS[each] for each in LAYOUT.benchmarks(name).values()] for name in GRID.bases})
RESAMPLED = of_base({name: PROBLEMS[LAYOUT.benchmarks(name)[LAYOUT.resampled]] for name in GRID.bases})
SAMPLED = of_base({name: of_run(LAYOUT.sampled(name), name) for name in GRID.bases})
SCORED = of_base({name: of_run(LAYOUT.scores(name), name) for name in GRID.bases})
BASE_SCORED = of_base({name: str(LAYOUT.scores(name)) for name in GRID.bases})


def weights(wildcards):
    """What says that the weights of what is evaluated are there."""
    return WEIGHTS[wildcards.run]


def origin(wildcards):
    """What a run starts from, where that is another run."""
    start = GRID.runs[wildcards.run].init_from
    return str(LAYOUT.weights(start)) if start else []


ORIGIN = origin if any(run.init_from for run in GRID.runs.values()) else []
