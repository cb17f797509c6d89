"""Study -> runs.  Lists expand to a grid; the same run twice is one run, with a note.

A *method point* is a method at one value of each of its listed parameters: ``qae.K0.4``.
A *setting* holds the other axes: ``G8`` or ``G8.lr2e-05``; comparisons are made within a model and a setting.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from seedwise import behaviour, checks
from seedwise.algos import algorithm as algos
from seedwise.algos.algorithm import Algorithm
from seedwise.grading.verify import declared_version
from seedwise.identity import canonical, digest
from seedwise.models import fingerprint as backbones
from seedwise.points import AXES, Point, label
from seedwise.points import points as points_of
from seedwise.reruns import ledger
from seedwise.study import Block, ModelSpec, Run, Study, StudyError, Train, number
from seedwise.tasks import Task, TaskError, fingerprint

RUN_NAME = re.compile(r"(?P<slug>[A-Za-z0-9_.+-]+)\.G(?P<group_size>\d+)\.s(?P<seed>\d+)-(?P<id>[0-9a-f]{8})")
# Decides when a run is saved and what is kept of it, never what it computes.
NOT_IN_IDENTITY = {"save_every", "keep_state", "keep"}


@dataclass(frozen=True)
class Problems:
    """One file of problems: results/data/<name>.parquet.  exclude: the training problems it must not share."""

    name: str
    label: str
    task: Task
    template: str
    exclude: str | None


@dataclass(frozen=True)
class Base:
    """An untrained backbone as it is spoken to; evaluated once, a row of every table.

    data: its training problems.  rewards: their verifier -> its declared version.
    """

    name: str
    folder: str
    model: ModelSpec
    data: str
    rewards: dict[str, str]


@dataclass(frozen=True)
class Grid:
    """Everything a study consists of, by name."""

    study: Study
    runs: dict[str, Run]
    bases: dict[str, Base]
    models: dict[str, ModelSpec]
    problems: dict[str, Problems]
    base_of: dict[str, str]
    notes: tuple[str, ...] = field(default=())

    def model_of(self, subject: str) -> ModelSpec:
        """The model spec of a run or a base."""
        return self.runs[subject].model if subject in self.runs else self.bases[subject].model


def expand(study: Study, path: str = "study") -> Grid:
    """All runs of a study.  Raises StudyError naming ``path``, key, value and remedy."""
    points, origins = _points(study, path)
    models, problems, bases, base_of, notes = {}, {}, {}, {}, []
    for name, spec in study.models.items():
        base = _base(study, spec, path, name)
        models[base.folder], bases[base.name], base_of[name] = spec, base, base.name
        try:
            problems |= {item.name: item for item in _problems(study, spec)}
        except TaskError as error:
            raise StudyError(f"{path}: evaluate.benchmarks: {error}") from None
    runs: dict[str, Run] = {}
    cells: dict[tuple[str, str, int, str], _Cell] = {}

    def run_of(model_name: str, point: Point, group_size: int, axes: dict[str, Any], seed: int) -> Run:
        origin = origins[point.name]
        if origin in points:
            origin = run_of(model_name, points[origin], group_size, axes, seed).name
        key = model_name, point.name, group_size, repr(axes)
        if key not in cells:
            cells[key] = _cell(study, path, model_name, bases[base_of[model_name]], point, group_size, axes)
        return cells[key].run(seed, origin)

    for place in _places(study, points, path):
        run = run_of(*place)
        if run.name in runs:
            other = runs[run.name]
            if (other.method, other.setting, other.model_name) != (run.method, run.setting, run.model_name):
                notes.append(f"{run.method} at {run.setting} is the run of {other.method} at {other.setting}: one run")
            continue
        runs[run.name] = run
    checks.origins_trained(runs, origins, points, path)
    checks.names(study, list(dict.fromkeys(run.method for run in runs.values())), path)
    checks.ordered(study, {key for run in runs.values() for key in run.axes}, path)
    checks.lines(study, runs.values(), path)
    return Grid(study, runs, bases, models, problems, base_of, tuple(dict.fromkeys(notes)))


def _points(study: Study, path: str) -> tuple[dict[str, Point], dict[str, str | None]]:
    """The method points by name, and what each starts from: another point, a run by name, or None."""
    points: dict[str, Point] = {}
    origins: dict[str, str | None] = {}
    for name, entry in study.methods.items():
        origin = entry.get("init_from")
        if origin is not None and not isinstance(origin, str):
            raise StudyError(f"{path}: methods.{name}.init_from: {origin!r}: name one method point, or one run")
        own = {key: value for key, value in entry.items() if key != "init_from"}
        for point in points_of(name, own, path):
            points[point.name], origins[point.name] = point, origin
    for name, origin in origins.items():
        where, passed = f"{path}: methods.{name}.init_from", [name]
        while origin is not None:
            if origin in passed:
                raise StudyError(f"{where}: {' starts from '.join([*passed, origin])}: a circle has no beginning")
            if origin not in points and not RUN_NAME.fullmatch(origin):
                known = ", ".join(point for point in points if point != name)
                raise StudyError(f"{where}: {origin!r} is neither a run's name nor a method point; they are {known}")
            passed.append(origin)
            origin = origins.get(origin)
    return points, origins


def _places(study: Study, points: dict[str, Point], path: str) -> Iterator[tuple[str, Point, int, dict[str, Any], int]]:
    whole = study.grid or Block(methods=tuple(points))
    for position, block in enumerate((whole, *study.blocks)):
        where = f"blocks.{position - 1}" if position else "grid"
        chosen = [name for stem in block.methods for name in _stand_for(stem, study, points, f"{path}: {where}")]
        for name in block.models or ():
            if name not in study.models:
                raise StudyError(f"{path}: {where}.models: {name!r} is none of {', '.join(study.models)}")
        settings = study.axes | block.axes
        for key, values in settings.items():
            if not values:
                raise StudyError(f"{path}: axes.{key}: []: an axis needs at least one value")
        sizes = _several(study.group_size if block.group_size is None else block.group_size)
        if not sizes:
            raise StudyError(f"{path}: group_size: []: give at least one group size")
        combinations = [dict(zip(settings, values, strict=True)) for values in itertools.product(*settings.values())]
        yield from itertools.product(
            block.models or study.models,
            [points[name] for name in dict.fromkeys(chosen)],
            sizes,
            combinations,
            study.seeds if block.seeds is None else block.seeds,
        )


def _stand_for(stem: str, study: Study, points: dict[str, Point], where: str) -> list[str]:
    """The points a block means by a name: that point, or all those of the method.  Raises StudyError."""
    if stem in points:
        return [stem]
    if stem in study.methods:
        return [name for name in points if name.startswith(f"{stem}.")]
    raise StudyError(f"{where}.methods: {stem!r} is no method point; they are {', '.join(points)}")


def _several(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


@dataclass(frozen=True)
class _Cell:
    """Runs that differ in their seed, and in the run they start from, alone.

    settings: what they share.  slugs: of their names.  spec: what their names are made from, each as canonical JSON;
    lineage: the same of what their lineage is made from, None where they have none.
    """

    settings: dict[str, Any]
    slugs: tuple[str, ...]
    spec: dict[str, str]
    lineage: dict[str, str] | None

    def run(self, seed: int, origin: str | None) -> Run:
        """The run of a seed that starts from the run ``origin``; None: from the untrained model."""
        own = {"seed": canonical(seed), **({"init_from": canonical(origin)} if origin else {})}
        after = [f"after-{origin.rpartition('-')[2]}"] if origin else []
        parts = [*self.slugs, *after, f"G{self.settings['group_size']}", f"s{seed}"]
        return Run(
            name=f"{'.'.join(parts)}-{_digest(self.spec | own)[:8]}",
            seed=seed,
            init_from=origin,
            lineage=None if self.lineage is None else _digest(self.lineage | own),
            **self.settings,
        )


def _cell(
    study: Study, path: str, model_name: str, base: Base, point: Point, group_size: int, axes: dict[str, Any]
) -> _Cell:
    model, train, algorithm = study.models[model_name], study.train, point.algorithm
    for key, value in axes.items():
        try:
            model, train, algorithm = _with_axis(key, number(value), model, train, algorithm)
        except (ValidationError, ValueError) as error:
            message = (
                error.errors()[0]["msg"].removeprefix("Value error, ") if isinstance(error, ValidationError) else error
            )
            raise StudyError(f"{path}: axes.{key}: {value!r}: {message}") from None
    checks.cell(path, point, algorithm, train, group_size)
    labels = {key: label(key.rpartition(".")[2], number(value)) for key, value in axes.items()}
    across, cell = study.compare.across, {"group_size": f"G{group_size}", **labels}
    spec = {
        "model": model.model_dump(mode="json", exclude={"template"}),
        "base": base.folder,
        "algorithm": algorithm.model_dump(mode="json"),
        "group_size": group_size,
        "train": train.model_dump(mode="json", exclude=NOT_IN_IDENTITY),
        "grading": study.grading.model_dump(mode="json"),
        "data": base.data,
        "rewards": base.rewards,
        "behaviour": training_behaviour(algorithm),
    }
    settings = {
        "method": ".".join([point.name, *(text for key, text in cell.items() if key in across)]),
        "model_name": model_name,
        "model": model,
        "algorithm": algorithm,
        "group_size": group_size,
        "setting": ".".join(text for key, text in cell.items() if key not in across) or "all",
        "axes": {**point.values, "group_size": group_size, **{key: number(value) for key, value in axes.items()}},
        "train": train,
        "grading": study.grading,
        "data": base.data,
        "base": base.folder,
        "rewards": base.rewards,
    }
    texts = {key: canonical(value) for key, value in spec.items()}
    return _Cell(settings, (point.slug, *labels.values()), texts, _lineage(texts, train, algorithm))


def _lineage(spec: dict[str, str], train: Train, algorithm: Algorithm) -> dict[str, str] | None:
    """What runs share that differ in the number of steps alone; None where a step depends on that number."""
    if train.schedule != "constant" or algorithm.paced:
        return None
    shared = train.model_dump(mode="json", exclude={*NOT_IN_IDENTITY, "steps", "checkpoints"})
    return spec | {"train": canonical(shared)}


def _digest(spec: dict[str, str]) -> str:
    """``identity.digest`` of a mapping from plain words to what is canonical JSON already."""
    text = ",".join([f'"{key}":{spec[key]}' for key in sorted(spec)])
    return hashlib.sha256(f"{{{text}}}".encode()).hexdigest()


def training_behaviour(algorithm: Algorithm) -> dict[str, str]:
    """Digests of the code a training rests on: the training modules, and the parts in use with what they reach."""
    return ledger.equated(ledger.training(algorithm))


def _with_axis(
    key: str, value: Any, model: ModelSpec, train: Train, algorithm: Algorithm
) -> tuple[ModelSpec, Train, Algorithm]:
    group, _, name = key.partition(".")
    if group == "train" and name in Train.model_fields:
        return model, Train.model_validate(train.model_dump() | {name: value}), algorithm
    if key == "model.lora":
        lora = {"rank": value} if isinstance(value, (int, float)) else value
        return ModelSpec.model_validate(model.model_dump() | {"lora": lora}), train, algorithm
    if group in AXES:
        return model, train, algos.with_value(algorithm, key, value)
    names = ", ".join(f"train.{name}" for name in Train.model_fields)
    raise ValueError(f"no such setting; there are model.lora, {names}, and the fields of {', '.join(AXES)}")


def _base(study: Study, spec: ModelSpec, path: str, name: str) -> Base:
    try:
        backbone = backbones.backbone(spec)
    except OSError as error:
        raise StudyError(f"{path}: models.{name}: {error.filename}: {error.strerror}: mend path or file") from None
    folder = f"{backbones.slug(spec)}-{digest([backbone, behaviour.of_modules(behaviour.MODELS)])[:8]}"
    try:
        data = data_name(study, spec, None)
    except TaskError as error:
        raise StudyError(f"{path}: train_data: {error}") from None
    spoken = spec.model_dump(mode="json", include={"template", "chat_template", "thinking", "stop"})
    verifier = study.train_data.verified_by
    name = f"base.{backbones.slug(spec)}-{digest([folder, spoken, data])[:8]}"
    return Base(name, folder, spec, data, {verifier: declared_version(verifier)})


def data_name(study: Study, spec: ModelSpec, benchmark: str | None) -> str:
    """Name with id of a file of problems: the training problems, or a benchmark."""
    task = study.train_data if benchmark is None else study.evaluate.benchmarks[benchmark]
    content = [fingerprint(task), spec.template, _data_behaviour()]
    if benchmark is not None:  # a benchmark leaves out every training problem
        content.append(data_name(study, spec, None))
    return f"{benchmark or 'train'}-{digest(content)[:8]}"


def _data_behaviour() -> dict[str, str]:
    return behaviour.of_modules(behaviour.TASKS, apart=(*behaviour.APART, *behaviour.APART_FROM_DATA))


def _problems(study: Study, spec: ModelSpec) -> Iterator[Problems]:
    train = data_name(study, spec, None)
    yield Problems(train, "train", study.train_data, spec.template, None)
    for name, task in study.evaluate.benchmarks.items():
        yield Problems(data_name(study, spec, name), name, task, spec.template, train)


def parse_run_name(name: str) -> dict[str, Any]:
    """slug, group_size, seed and id of a run name.  Raises ValueError on anything else."""
    if not (match := RUN_NAME.fullmatch(name)):
        raise ValueError(f"{name!r} is no run name: expected <method>.G<size>.s<seed>-<8 hex digits>")
    return {**match.groupdict(), "group_size": int(match["group_size"]), "seed": int(match["seed"])}
