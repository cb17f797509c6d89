"""What a study will cost in GPU hours, from a stated model: for planning, before anything of its kind ran.

Training: every rollout generates, scores where a second pass needs the old policy, and updates; evaluation and forced
continuations generate.  Tokens times parameters give floating-point operations (`seedwise.models.sizes.flops`), peak
rate times utilisation gives time.  Every figure that is assumed is an option of ``seedwise plan`` and printed with
the result.  Continuation resampling, grading, loading and waiting are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from seedwise.layout import Layout
from seedwise.models.sizes import Size, flops, size
from seedwise.reruns import RerunError
from seedwise.reruns.jobs import Job
from seedwise.study import ModelSpec, Run
from seedwise.tasks import Task
from seedwise.tasks.jsonl import Jsonl
from seedwise.tasks.reasoning_gym import ReasoningGym
from seedwise.tasks.sources import source

# dense bf16, operations per second, as the vendor states them
PEAK = {"a100": 312e12, "l40s": 362e12, "h100": 989e12, "h200": 989e12, "b200": 2250e12, "rtx4090": 165e12}
SPARSE = (
    "quantile", "scheduled_quantile", "dithered_quantile", "pos_mask", "neg_mask", "hard_gate", "learned_gate",
    "random_sparsity", "matched_sparsity", "dead_zone",
)  # fmt: skip
"""Baselines under which many responses have an advantage of exactly 0."""
OLD_POLICY = frozenset({"entropy", "old_logp", "entropy_quantiles", "surprisal_quantiles"})


@dataclass(frozen=True)
class Assumed:
    """What the estimate assumes.

    device: a name in PEAK.  mfu, mfu_generation: share of its peak that training and generation reach.  length: of a
    response, as a share of the longest allowed.  discarded: share of groups that dynamic sampling draws in vain.
    active: share of tokens that a sparse baseline trains where the others are skipped.  parameters: name of a model in
    the study -> its parameters, in place of what is known of its id.
    Raises RerunError on a share outside its range or an unknown device.
    """

    device: str = "h200"
    mfu: float = 0.35
    mfu_generation: float = 0.1
    length: float = 0.4
    discarded: float = 0.5
    active: float = 0.3
    parameters: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.device not in PEAK:
            raise RerunError(f"--device {self.device}: unknown: take one of {', '.join(sorted(PEAK))}")
        for name in ("mfu", "mfu_generation", "length", "active"):
            if not 0 < getattr(self, name) <= 1:
                raise RerunError(f"--{name.replace('_', '-')} {getattr(self, name)}: a share above 0 and at most 1")
        if not 0 <= self.discarded < 1:
            raise RerunError(f"--discarded {self.discarded}: a share of at least 0 and below 1")

    def size(self, name: str, spec: ModelSpec) -> Size | None:
        """The size of a model of the study."""
        given = self.parameters.get(name)
        return Size(given, given) if given else size(spec)

    def hours(self, operations: float, utilisation: float) -> float:
        """GPU hours of so many floating-point operations."""
        return operations / (PEAK[self.device] * utilisation) / 3600

    def told(self) -> str:
        """The assumptions in one line."""
        return (
            f"{self.device} at {PEAK[self.device] / 1e12:g} TFLOP/s (--device), of which training reaches "
            f"{self.mfu:.0%} (--mfu) and generation {self.mfu_generation:.0%} (--mfu-generation); responses of "
            f"{self.length:.0%} of max_tokens (--length); dynamic sampling discards {self.discarded:.0%} of its groups "
            f"(--discarded); sparse baselines train {self.active:.0%} of the tokens where skipping is exact "
            "(--active); 2 operations per active parameter and generated or scored token, 6 per trained one, 4 with an "
            "adapter; without attention over the context, resampling, grading, loading and waiting"
        )


def parameter(text: str) -> tuple[str, float]:
    """``mine=8e9`` as name and number.  Raises RerunError."""
    name, equals, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not (name and equals and 0 < value < float("inf")):
        raise RerunError(f"--parameters {text}: write model=number, e.g. mine=8e9")
    return name, value


@dataclass(frozen=True)
class Row:
    """GPU hours of the runs of one method on one model in one setting, all seeds together.

    runs: trainings.  measured: of them, those whose training hours come from times of published runs.
    hours are None with the reason.
    """

    model: str
    method: str
    setting: str
    runs: int
    measured: int
    training: float | None
    evaluation: float | None
    reason: str | None

    @property
    def total(self) -> float | None:
        """Training and evaluation."""
        return None if self.training is None or self.evaluation is None else self.training + self.evaluation


def rows(layout: Layout, jobs: Iterable[Job], seconds: Mapping[str, float | None], assumed: Assumed) -> list[Row]:
    """A row for each model, method and setting that is to be trained or sampled, in the order of the jobs.

    seconds: run -> device seconds of its training by the times of published runs, where there are any.
    Models for CPUs (kind embedded) have no row.  Raises RerunError where ``parameters`` names no model of the study.
    """
    if unknown := sorted(set(assumed.parameters) - set(layout.grid.study.models)):
        known = ", ".join(layout.grid.study.models)
        raise RerunError(f"--parameters {unknown[0]}: no model of this study; they are {known}")
    cells: dict[tuple[str, str, str], dict[str, set[str]]] = {}
    for job in jobs:
        if job.stage in ("train", "sample"):
            stages = cells.setdefault(_cell(layout, job.subject), {"train": set(), "sample": set()})
            stages[job.stage].add(job.subject)
    return [
        _row(layout, cell, stages, seconds, assumed)
        for cell, stages in cells.items()
        if layout.grid.study.models[cell[0]].kind != "embedded"
    ]


def _cell(layout: Layout, subject: str) -> tuple[str, str, str]:
    if subject in layout.grid.runs:
        run = layout.grid.runs[subject]
        return run.model_name, run.method, run.setting
    return next(name for name, base in layout.grid.base_of.items() if base == subject), "base", ""


def _row(
    layout: Layout,
    cell: tuple[str, str, str],
    stages: Mapping[str, set[str]],
    seconds: Mapping[str, float | None],
    assumed: Assumed,
) -> Row:
    known = [name for name in stages["train"] if seconds.get(name) is not None]
    found = assumed.size(cell[0], layout.grid.study.models[cell[0]])
    if found is None:
        spec = layout.grid.study.models[cell[0]]
        why = f"how many parameters {spec.id or spec.path} has is not known offline: give --parameters {cell[0]}=8e9"
        return Row(*cell, len(stages["train"]), len(known), None, None, why)
    training = 0.0
    for name in sorted(stages["train"]):
        measured = seconds.get(name)
        run = layout.grid.runs[name]
        training += training_hours(run, found, assumed) if measured is None else measured / 3600
    evaluation = sum(evaluation_hours(layout, name, found, assumed) for name in sorted(stages["sample"]))
    return Row(*cell, len(stages["train"]), len(known), training, evaluation, None)


def training_hours(run: Run, found: Size, assumed: Assumed) -> float:
    """GPU hours of one training."""
    train, algorithm = run.train, run.algorithm
    reuse = train.updates_per_rollout * train.iterations
    kept = train.steps / reuse * train.completions * assumed.length * train.max_tokens
    drawn = kept / (1 - assumed.discarded) if algorithm.sampler.kind == "dynamic" else kept
    sparse = any(getattr(part, "kind", None) in SPARSE for part in algorithm.baseline)
    skipped = sparse and train.skip_zero_advantage is not False and algorithm.may_skip() is None
    trained = kept * train.iterations * (assumed.active if skipped else 1)
    scored = kept if reuse > 1 or algorithm.needs & OLD_POLICY else 0.0
    adapter = run.model.lora is not None
    update = flops(found, generated=0, trained=trained, scored=scored, adapter=adapter)
    return assumed.hours(flops(found, generated=drawn, trained=0), assumed.mfu_generation) + assumed.hours(
        update, assumed.mfu
    )


def evaluation_hours(layout: Layout, subject: str, found: Size, assumed: Assumed) -> float:
    """GPU hours of sampling every benchmark at every evaluated checkpoint of a run or base, and of forcing."""
    evaluate, tokens = layout.grid.study.evaluate, 0.0
    for name, task in evaluate.benchmarks.items():
        drawn = problems_of(task) * evaluate.samples_of(name)
        tokens += len(layout.steps(subject)) * drawn * assumed.length * evaluate.max_tokens
    if forcing := evaluate.forcing:
        steps = len(layout.steps(subject)) if forcing.checkpoints == "all" else 1
        for name in forcing.benchmarks:
            drawn = problems_of(evaluate.benchmarks[name]) * (forcing.samples or evaluate.samples_of(name))
            tokens += steps * drawn * assumed.length * (forcing.budget or evaluate.max_tokens)
    return assumed.hours(flops(found, generated=tokens, trained=0), assumed.mfu_generation)


def problems_of(task: Task) -> int:
    """Problems of a benchmark, as its task declares them; of a local file, its lines."""
    if isinstance(task, ReasoningGym):
        return task.size
    if isinstance(task, Jsonl):
        own = sum(bool(line.strip()) for line in Path(task.path).read_text(encoding="utf-8").splitlines())
    else:
        own = task.size or source(task.name).size
    return min(task.limit or own, own)


def lines(found: Iterable[Row], assumed: Assumed) -> Iterator[str]:
    """The table for people, with what it assumes."""
    every = list(found)
    if not every:
        return
    yield "GPU hours, estimated before anything ran (not measured):"
    head = ("model", "method", "setting", "runs", "training", "evaluation", "total")
    texts = [head, *(_texts(row) for row in every), _total(every)]
    wide = [max(len(text[column]) for text in texts) for column in range(len(head))]
    for text in texts:
        left = [cell.ljust(width) for cell, width in zip(text[:3], wide[:3], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(text[3:], wide[3:], strict=True)]
        yield "  " + "  ".join([*left, *right])
    yield from dict.fromkeys(f"  unknown: {row.reason}" for row in every if row.reason)
    if measured := sum(row.measured for row in every):
        yield f"  training hours of {measured} runs come from the times of published ones"
    yield f"  assumed: {assumed.told()}"


def _texts(row: Row) -> tuple[str, ...]:
    return (row.model, row.method, row.setting, str(row.runs), *map(_hours, (row.training, row.evaluation, row.total)))


def _total(every: list[Row]) -> tuple[str, ...]:
    sums = []
    for values in ([row.training for row in every], [row.evaluation for row in every], [row.total for row in every]):
        known = [value for value in values if value is not None]
        sums.append(_hours(sum(known) if len(known) == len(values) else None))
    return ("all", "", "", str(sum(row.runs for row in every)), *sums)


def _hours(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def plain(found: Iterable[Row], assumed: Assumed) -> dict:
    """The table as one object: assumed, rows."""
    return {"assumed": {**asdict(assumed), "parameters": dict(assumed.parameters)}, "rows": [asdict(r) for r in found]}
