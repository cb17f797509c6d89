"""Study -> files.  Every path carries the id of what it holds, so a rule runs exactly when its file is missing."""

import os
import sys

from snakemake.exceptions import WorkflowError

from seedwise import layout as layouts
from seedwise.study import StudyError

try:
    LAYOUT = layouts.read(config.setdefault("study", "config/config.yaml"))
except StudyError as error:
    raise WorkflowError(str(error)) from None

GRID = LAYOUT.grid
NAME = GRID.study.study
ANALYSED = [LAYOUT.scores(name) for name in LAYOUT.subjects]
ANALYSED += [path for name in LAYOUT.subjects if (path := LAYOUT.continuations(name))]
REPORTED = [LAYOUT.run(name) / "metrics.parquet" for name in GRID.runs]
REPORTED += [LAYOUT.measures(name) for name in LAYOUT.subjects]
# Jobs find our commands and the study file wherever they run, since every job reads this file.
os.environ.update(
    PATH=os.pathsep.join([os.path.dirname(sys.executable), *os.get_exec_path()]),
    SEEDWISE_STUDY=config["study"],
)

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
    return LAYOUT.problems(name) if name else []


def training_inputs(wildcards):
    run = GRID.runs[wildcards.run]
    origin = [LAYOUT.run(run.init_from) / "trained.json"] if run.init_from else []
    return [LAYOUT.problems(run.data), LAYOUT.model(run.base) / "files.json", *origin]


def weights(subject):
    """What says that the subject's weights are there."""
    if subject in GRID.bases:
        return LAYOUT.model(GRID.bases[subject].folder) / "files.json"
    return LAYOUT.run(subject) / "trained.json"


def sampling_inputs(wildcards):
    problems = [LAYOUT.problems(name) for name in LAYOUT.benchmarks(wildcards.run).values()]
    return [weights(wildcards.run), *problems]


def scoring_inputs(wildcards):
    problems = [LAYOUT.problems(name) for name in LAYOUT.benchmarks(wildcards.run).values()]
    return [LAYOUT.sampled(wildcards.run), *problems]


def measuring_inputs(wildcards):
    return LAYOUT.measured_from(wildcards.run)


def resampling_inputs(wildcards):
    return [weights(wildcards.run), LAYOUT.scores(wildcards.run), *scoring_inputs(wildcards)]
