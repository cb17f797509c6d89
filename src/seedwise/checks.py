"""What a study must keep to beyond each of its values: that every name it uses is one of its own."""

from __future__ import annotations

from collections.abc import Iterable

from seedwise.algos.algorithm import Algorithm
from seedwise.points import Point
from seedwise.study import Run, Study, StudyError, Train


def names(study: Study, methods: list[str], path: str) -> None:
    """Raise StudyError where the comparison names a method point or an axis that the study does not have."""
    known = [*methods, "base"]
    compare = study.compare
    axes = {"group_size", *study.axes, *(key for block in study.blocks for key in block.axes)}
    for key in compare.across:
        if key not in axes:
            raise StudyError(
                f"{path}: compare.across: {key!r} is no axis of this study; they are {', '.join(sorted(axes))}"
            )
    families = {"compare.primary.family": compare.primary.family}
    families |= {f"compare.secondary.{name}.family": each.family for name, each in compare.secondary.items()}
    outcomes = {f"compare.outcomes.{name}": each.methods for name, each in compare.outcomes.items()}
    wanted: list[tuple[str, Iterable[str]]] = [
        ("compare.reference", [compare.reference]),
        *families.items(),
        *outcomes.items(),
        ("resample.methods", study.resample.methods or ()),
    ]
    if "base" in study.methods or "train" in study.evaluate.benchmarks:
        raise StudyError(
            f"{path}: methods.base: the untrained model and the training data own the names base and train: rename"
        )
    for key, names in wanted:
        for name in names:
            if name not in known:
                raise StudyError(f"{path}: {key}: {name!r} is no method point; they are {', '.join(known)}")
    for key, names in outcomes.items():
        if "base" in names:
            raise StudyError(f"{path}: {key}: 'base': the untrained model has no training to measure: remove it")
    for key, names in families.items():
        if compare.reference in names:
            raise StudyError(f"{path}: {key}: {compare.reference!r} is the reference: remove it from the family")


def ordered(study: Study, axes: set[str], path: str) -> None:
    """Raise StudyError where a declared trend or interaction is along an axis that no run has."""
    declared = [("compare.trends", axis) for axis in study.compare.trends]
    declared += [("compare.interactions", axis) for pair in study.compare.interactions for axis in pair]
    for key, axis in declared:
        if axis not in axes:
            raise StudyError(f"{path}: {key}: {axis!r} is no axis of this study; they are {', '.join(sorted(axes))}")


def lines(study: Study, runs: Iterable[Run], path: str) -> None:
    """Raise StudyError where the points of a declared line do not each stand at another number of its axis."""
    axes = {run.method: run.axes for run in runs}
    for name, outcome in study.compare.outcomes.items():
        for trend, line in outcome.trends.items():
            values = [axes[point].get(line.axis) for point in line.points]
            odd = [point for point, value in zip(line.points, values, strict=True) if type(value) not in (int, float)]
            where = f"{path}: compare.outcomes.{name}.trends.{trend}"
            if odd:
                raise StudyError(f"{where}: {odd[0]!r} has no {line.axis}: name points that have one")
            if len(set(values)) < len(values):
                raise StudyError(f"{where}: {line.axis} is {values}: name one point for each value")


def origins_trained(runs: dict[str, Run], origins: dict[str, str | None], points: dict[str, Point], path: str) -> None:
    """Raise StudyError where a run starts from a method point that the study does not train at its place."""
    if not any(origins.values()):
        return
    longest = sorted(points, key=len, reverse=True)
    for run in runs.values():
        stem = next((name for name in longest if _belongs(run.method, name)), run.method)
        origin = origins.get(stem)
        if origin in points and run.init_from not in runs:
            raise StudyError(
                f"{path}: methods.{stem}.init_from: {origin} is not trained at {run.setting}, seed {run.seed}: "
                f"give {origin} the blocks that {stem} has"
            )


def _belongs(method: str, point: str) -> bool:
    return method == point or method.startswith(f"{point}.")


def cell(path: str, point: Point, algorithm: Algorithm, train: Train, group_size: int) -> None:
    """Raise StudyError where no group can be formed, or rows are to be skipped that a part looks at."""
    where = f"{path}: methods.{point.name}"
    if group_size < 2:
        raise StudyError(f"{path}: group_size: {group_size}: a group needs at least 2 samples")
    if train.completions % group_size:
        raise StudyError(
            f"{path}: group_size: {group_size}: train.completions {train.completions} is not a multiple of it"
        )
    if train.skip_zero_advantage is True and (reason := algorithm.may_skip()):
        raise StudyError(f"{where}: {reason}")
