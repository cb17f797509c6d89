"""Behaviour ids: a digest of the code a result rests on.

Code counts as its syntax tree without comments and docstrings, so touching a file or rewording a comment
changes nothing.  The modules of a stage count whole, found by following imports.  A part of an algorithm
counts by its class and by every name of our own code it reaches, so editing one credit rule makes new runs
of that rule only.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from seedwise import syntax
from seedwise.syntax import PACKAGE

ROOT = Path(__file__).parent

# Where each stage's code begins; every module of ours that it imports counts with it.
TASKS = ("tasks",)
MODELS = ("models.load", "models.prompts")
GRADER = ("grading.pool", "grading.worker")  # the worker is started by name
TRAINING = ("trainer.run", *MODELS)
SAMPLING = ("evals.samples", "engines.transformers", *MODELS)
FORCING = ("evals.budget", *SAMPLING)
SCORING = ("evals.scores", *GRADER)
MEASURING = ("evals.metrics", "evals.scorers")
COMPARING_ANSWERS = ("evals.metrics_same", *GRADER)  # asked only where a study wants math-verify to compare answers
RESAMPLING = ("evals.continuations", *SAMPLING, *SCORING)
ANALYSIS = ("report.build:analyse", "evals.resampling")
RENDERING = ("report.build",)

# Not followed: parts count one by one (of_parts); a study's values and the declared versions of verifiers are in the
# identity themselves; tables checks what is written and computes nothing; the tracker only mirrors, the lease only
# guards.
APART = (
    "algos",
    "study",
    "reading",
    "points",
    "grid",
    "layout",
    "tables",
    "grading.versions",
    "trainer.tracking",
    "trainer.mirror",
    "trainer.live",
    "trainer.passing",
    "trainer.journal",
    "trainer.lease",
)
# Building problems asks the grader only whether a gold answer can be read; a training's rewards count by the declared
# version of their verifier, and the grader's code is recorded beside the run (of_rewards).
APART_FROM_DATA = APART_FROM_TRAINING = ("grading",)
# What only math-verify takes.
MATHS = ("grading.maths", "grading.notation", "grading.plain", "grading.spelling")


@functools.cache
def of_modules(entries: tuple[str, ...], root: Path = ROOT, apart: tuple[str, ...] = APART) -> dict[str, str]:
    """module -> digest of its tree, for the entry modules and all of ours that they import, inside functions too.

    Modules in ``apart`` are not followed.  An entry ``module:function`` follows that function only.
    Imports for type checking alone do not count.
    Computed once per process, as of_definition is.
    """
    found: dict[str, str] = {}
    waiting = list(entries)
    while waiting:
        entry = waiting.pop()
        module, _, function = entry.partition(":")
        path = _file(module, root)
        if entry in found or path is None or (entry not in entries and _within(module, apart)):
            continue
        said = syntax.definitions(path).own[function] if function else syntax.module(path)
        found[entry] = said.digest
        waiting += [name.removeprefix(PACKAGE + ".") for name in said.imports]
    syntax.save()
    return found


def _within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in packages)


def _file(module: str, root: Path) -> Path | None:
    """The file of a module (of a package: its __init__), or None for a name that is not a module."""
    place = root / module.replace(".", "/")
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.exists()), None)


@functools.cache
def of_definition(module: str, name: str, root: Path = ROOT) -> dict[str, str]:
    """module:name -> digest, for a definition and every definition of our own code it reaches.

    Computed once per process: a process sees one state of the code.
    """
    found: dict[str, str] = {}
    waiting = [(module, name)]
    while waiting:
        module, name = waiting.pop()
        key, path = f"{module}:{name}", root / (module.removeprefix(PACKAGE + ".").replace(".", "/") + ".py")
        if key in found or not path.exists():
            continue
        said = syntax.definitions(path)
        if name in said.own:
            found[key] = said.own[name].digest
            waiting += [(module, other) for other in said.own[name].names if other != name]
        elif name in said.imported:
            waiting.append(said.imported[name])
    syntax.save()
    return found


def of_parts(parts: Iterable[object], root: Path = ROOT) -> dict[str, str]:
    """Behaviour of the parts in use, by their classes."""
    found: dict[str, str] = {}
    for part in parts:
        found |= of_definition(type(part).__module__, type(part).__name__, root)
    return found


def of_training() -> dict[str, str]:
    """Behaviour of the training modules."""
    return of_modules(TRAINING, apart=(*APART, *APART_FROM_TRAINING))


def of_rewards(verifier: str) -> dict[str, str]:
    """Behaviour of the grader as far as it judges with this verifier."""
    return of_modules(GRADER, apart=APART if verifier == "math_verify" else (*APART, *MATHS))
