"""``seedwise plan`` and ``seedwise why``: what will run, why, and what it will cost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seedwise.evals.store import cover, listed
from seedwise.layout import WORK, Layout
from seedwise.reruns import RerunError, graders, ledger, stated
from seedwise.reruns.estimates import Costs, Estimate, of_bytes, total
from seedwise.reruns.jobs import STAGES, Job, planned
from seedwise.reruns.published import Archive
from seedwise.reruns.reasons import Reason, reasons
from seedwise.reruns.running import saved_step
from seedwise.reruns.stated import Assumed

SHOWN = 8


@dataclass(frozen=True)
class Plan:
    """What will run.

    jobs, why: every planned job and its reasons, by (stage, subject).  draws: of one run or base, what the store of its
    samples lacks.  seconds, disk: of each run to be trained.
    study_disk: of all runs of the study.  saved: step a stopped training goes on from.  accepted: entry of the
    ledger -> its reason, for the entries that results of this study rest on.  hours: GPU hours by model, method and
    setting, by the stated model of ``assumed`` where no published run tells.  rewards: what is to be said of runs
    whose rewards came from an earlier code of the grader.
    """

    study: str
    jobs: tuple[Job, ...]
    why: dict[tuple[str, str], tuple[Reason, ...]]
    draws: tuple[str, ...]
    seconds: dict[str, Estimate]
    disk: dict[str, Estimate]
    study_disk: Estimate
    saved: dict[str, int]
    accepted: dict[str, str]
    notes: tuple[str, ...]
    hours: tuple[stated.Row, ...]
    assumed: Assumed
    rewards: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """stage -> jobs, in the order of the stages; those without are left out."""
        found = Counter(job.stage for job in self.jobs)
        return {stage: found[stage] for stage in STAGES if found[stage]}

    def json(self) -> str:
        """One object: study, jobs, total, runs (name, reasons, ...), others, device_seconds, disk_bytes, gpu_hours,
        accepted, rewards, notes."""
        training = [job.subject for job in self.jobs if job.stage == "train"]
        runs = [
            {
                "run": name,
                "reasons": [asdict(reason) for reason in self.why["train", name]],
                "from_step": self.saved[name],
                "device_seconds": asdict(self.seconds[name]),
                "disk_bytes": asdict(self.disk[name]),
            }
            for name in training
        ]
        others = [
            {"stage": stage, "subject": subject, "reasons": [asdict(reason) for reason in found]}
            for (stage, subject), found in self.why.items()
            if stage != "train"
        ]
        content: dict[str, Any] = {
            "study": self.study,
            "jobs": self.counts,
            "total": len(self.jobs),
            "runs": runs,
            "others": others,
            "device_seconds": asdict(total(self.seconds.values())),
            "disk_bytes": {"planned": asdict(total(self.disk.values())), "study": asdict(self.study_disk)},
            "gpu_hours": stated.plain(self.hours, self.assumed),
            "accepted": self.accepted,
            "rewards": list(self.rewards),
            "notes": list(self.notes),
        }
        return json.dumps(content, allow_nan=False)


def plan(layout: Layout, work: Path = WORK, only: str | None = None, assumed: Assumed | None = None) -> Plan:
    """The plan of a study; with ``only``, of the jobs of one run or base.  Reads files and changes none.

    assumed: of the estimate in GPU hours; None: its defaults.  Raises RerunError where it fits no model of the study.
    """
    assumed = assumed or Assumed()
    jobs, archive = planned(layout, only), Archive(layout.root / "runs")
    costs = Costs(layout, archive, work)
    runs = [layout.grid.runs[job.subject] for job in jobs if job.stage == "train"]
    of_study = [run for name, run in layout.grid.runs.items() if only in (None, name)]
    seconds = {run.name: costs.seconds(run) for run in runs}
    known = {name: estimate.value for name, estimate in seconds.items()}
    return Plan(
        study=layout.grid.study.study,
        jobs=tuple(jobs),
        why=reasons(layout, archive, jobs),
        draws=tuple(_draws(layout, only)) if only and any(job.stage == "sample" for job in jobs) else (),
        seconds=seconds,
        disk={run.name: costs.disk(run) for run in runs},
        study_disk=total(costs.disk(run) for run in of_study),
        saved={run.name: saved_step(work / run.name) for run in runs},
        accepted=ledger.accepted(of_study),
        notes=(*layout.grid.notes, *_without_weights(layout, jobs)),
        hours=tuple(stated.rows(layout, jobs, known, assumed)),
        assumed=assumed,
        rewards=tuple(graders.told(layout, archive, only)),
    )


def _without_weights(layout: Layout, jobs: list[Job]) -> Iterator[str]:
    """A warning for every planned evaluation of a trained run whose weights were let go."""
    for job in jobs:
        folder = layout.run(job.subject)
        if job.stage not in ("sample", "resample") or not (folder / "trained.json").exists():
            continue
        steps = layout.steps(job.subject)[-1:] if job.stage == "resample" else _to_draw(layout, job.subject)
        if gone := [str(step) for step in steps if not (folder / "checkpoints" / str(step)).is_dir()]:
            yield (
                f"{job.subject}: {job.stage} needs the weights of step {', '.join(gone)}, which are gone: "
                f"remove {folder / 'trained.json'} to train it again"
            )


def _to_draw(layout: Layout, subject: str) -> list[int]:
    """The steps at which the store lacks samples, by the names of its parts."""
    return sorted({step for steps in _gaps(layout, subject).values() for step in steps})


def _draws(layout: Layout, subject: str) -> Iterator[str]:
    """``same: samples 16 to 31 of every problem at step 20, 40``, for everything that the store lacks."""
    for (label, numbers), steps in _gaps(layout, subject).items():
        which = f"sample{'s' if len(numbers) > 1 else ''} {' to '.join(map(str, sorted({numbers[0], numbers[-1]})))}"
        yield f"{label}: {which} of every problem at step {', '.join(map(str, steps))}"


def _gaps(layout: Layout, subject: str) -> dict[tuple[str, range], list[int]]:
    """(label, samples) -> steps at which no part of this name holds them."""
    found: dict[tuple[str, range], list[int]] = {}
    for label, wanted in layout.samples(subject).items():
        parts = listed(wanted.folder)
        for step in wanted.steps:
            for numbers in cover(parts, step, wanted.n)[1]:
                found.setdefault((label, numbers), []).append(step)
    return found


def subject(layout: Layout, name: str) -> str:
    """The run or base of a study with this name, or the only one that begins so.  Raises RerunError otherwise."""
    known = layout.subjects
    if name in known:
        return name
    found = [other for other in known if name and other.startswith(name)]
    if len(found) == 1:
        return found[0]
    shown = ", ".join((found or known)[:SHOWN]) + (", ..." if len(found or known) > SHOWN else "")
    what = f"{len(found)} runs of study {layout.grid.study.study} begin so" if found else "no run of this study"
    raise RerunError(f"{name or 'an empty name'}: {what}: name one of {shown}")


def lines(plan: Plan) -> Iterator[str]:
    """The plan for people: runs with the same reasons stand together."""
    if not plan.jobs:
        yield f"{plan.study}: nothing to be done"
    else:
        jobs = ", ".join(f"{stage} {count}" for stage, count in plan.counts.items())
        yield f"{plan.study}: {len(plan.jobs)} jobs: {jobs}"
    alike: dict[tuple[str, str], list[str]] = {}
    for (stage, name), found in plan.why.items():
        if not (stage != "train" and found[0].kind == "input"):
            alike.setdefault((stage, "; ".join(f"{reason.kind}: {reason.text}" for reason in found)), []).append(name)
    for (stage, why), names in alike.items():
        yield f"{stage} {len(names)}: {why}"
        yield from (f"  {name}{_from(plan, stage, name)}" for name in names)
    if plan.seconds:
        yield f"device time of training: {shown_seconds(total(plan.seconds.values()))}"
        yield f"disk of the runs to be trained: {shown_bytes(total(plan.disk.values()))}"
    yield f"disk of all runs of the study: {shown_bytes(plan.study_disk)}"
    yield from stated.lines(plan.hours, plan.assumed)
    yield from (f"accepted edit {entry}: {reason}" for entry, reason in plan.accepted.items())
    yield from plan.rewards
    yield from (f"note: {note}" for note in plan.notes)


def _from(plan: Plan, stage: str, name: str) -> str:
    step = plan.saved.get(name, 0) if stage == "train" else 0
    return f" (goes on from step {step})" if step else ""


def told(plan: Plan, name: str) -> Iterator[str]:
    """Everything about one run, for people."""
    if not plan.jobs:
        yield f"{name}: nothing to be done: every stage is there"
    for job in plan.jobs:
        for reason in plan.why[job.stage, job.subject]:
            against = f", against {reason.nearest}" if reason.nearest else ""
            yield f"{job.stage}: {reason.kind}{against}" + ("" if reason.changes else f": {reason.text}")
            yield from (f"  {change}" for change in reason.changes)
        yield from (f"  missing: {path}" for path in job.missing)
        yield from (f"  draws {each}" for each in (plan.draws if job.stage == "sample" else ()))
        if job.stage == "train":
            yield f"  device time: {shown_seconds(plan.seconds[name])}"
            yield f"  disk: {shown_bytes(plan.disk[name])}"
            if plan.saved[name]:
                yield f"  goes on from step {plan.saved[name]}"
    yield from (f"accepted edit {entry}: {reason}" for entry, reason in plan.accepted.items())
    yield from plan.rewards


def shown_seconds(estimate: Estimate) -> str:
    """``about 1 h 05 min, from the times of 6 runs``, or why there is no figure."""
    if estimate.value is None:
        return f"unknown: {estimate.reason}"
    minutes, seconds = divmod(round(estimate.value), 60)
    hours, minutes = divmod(minutes, 60)
    time = f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"
    return f"about {time}, from the times of {estimate.runs} run{'' if estimate.runs == 1 else 's'}"


def shown_bytes(estimate: Estimate) -> str:
    """``1.4 GB``, or why there is no figure."""
    return f"unknown: {estimate.reason}" if estimate.value is None else of_bytes(estimate.value)
