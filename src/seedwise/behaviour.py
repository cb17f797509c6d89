"""Behaviour ids: a digest of the code a result rests on.

Code counts as its syntax tree without comments and docstrings, so touching a file or rewording a comment
changes nothing.  The modules of a stage count whole, found by following imports.  A part of an algorithm
counts by its class and by every name of our own code it reaches, so editing one credit rule makes new runs
of that rule only.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from seedwise.identity import digest

ROOT = Path(__file__).parent
PACKAGE = __name__.rpartition(".")[0]

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


class _Strip(ast.NodeTransformer):
    """Remove docstrings: they say what code does and do none of it."""

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and body:
            first = body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
        return node


@functools.cache
def _tree(path: Path, stamp: tuple[int, int]) -> ast.Module:
    return _Strip().visit(ast.parse(path.read_text()))


def tree(path: Path) -> ast.Module:
    """The syntax tree of a file without docstrings; parsed once per process and state of the file."""
    status = path.stat()
    return _tree(path, (status.st_mtime_ns, status.st_size))


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
        node = tree(path) if not function else _names(f"{PACKAGE}.{module}", root)[0][function]
        found[entry] = digest(ast.dump(node))
        waiting += [name.removeprefix(PACKAGE + ".") for name in _imported(node, tree(path) if function else None)]
    return found


def _within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in packages)


def _file(module: str, root: Path) -> Path | None:
    """The file of a module (of a package: its __init__), or None for a name that is not a module."""
    place = root / module.replace(".", "/")
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.exists()), None)


def _imported(node: ast.AST, module: ast.Module | None) -> Iterator[str]:
    """Modules of ours that a tree imports; of a function's tree also the module's imports that it names."""
    used = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)} if module else None
    for item in _running(node) if module is None else [*_running(node), *_running(module)]:
        if isinstance(item, ast.ImportFrom) and item.module and f"{item.module}.".startswith(PACKAGE + "."):
            names = [alias for alias in item.names if used is None or (alias.asname or alias.name) in used]
            yield from [item.module, *(f"{item.module}.{alias.name}" for alias in names)] if names else []
        elif isinstance(item, ast.Import):
            yield from (alias.name for alias in item.names if alias.name.startswith(PACKAGE + "."))


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under ``if TYPE_CHECKING:``."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING"):
            yield from _running(child)


@functools.cache
def of_definition(module: str, name: str, root: Path = ROOT) -> dict[str, str]:
    """module:name -> digest, for a definition and every definition of our own code it reaches.

    Computed once per process: a process sees one state of the code.
    """
    found: dict[str, str] = {}
    waiting = [(module, name)]
    while waiting:
        module, name = waiting.pop()
        key = f"{module}:{name}"
        if key in found:
            continue
        definitions, imports = _names(module, root)
        if name in definitions:
            node = definitions[name]
            found[key] = digest(ast.dump(node))
            used = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
            waiting += [(module, other) for other in sorted(used) if other != name]
        elif name in imports:
            waiting.append(imports[name])
    return found


def _names(module: str, root: Path) -> tuple[dict[str, ast.stmt], dict[str, tuple[str, str]]]:
    """The top-level definitions of one of our modules, and its imports from our modules."""
    path = root / (module.removeprefix(PACKAGE + ".").replace(".", "/") + ".py")
    definitions: dict[str, ast.stmt] = {}
    imports: dict[str, tuple[str, str]] = {}
    if not path.exists():
        return definitions, imports
    for node in _statements(tree(path).body):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            definitions[node.name] = node
        elif isinstance(node, ast.Assign):
            definitions.update({target.id: node for target in node.targets if isinstance(target, ast.Name)})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            definitions[node.target.id] = node
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGE + "."):
            imports.update({alias.asname or alias.name: (node.module, alias.name) for alias in node.names})
    return definitions, imports


def _statements(body: list[ast.stmt]) -> Iterable[ast.stmt]:
    """Top-level statements, those under ``if TYPE_CHECKING:`` too: an annotation is part of a part's fields."""
    for node in body:
        if isinstance(node, ast.If):
            yield from _statements(node.body)
        else:
            yield node


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
