"""Behaviour ids: a digest of the code a result rests on.

Code counts as its syntax tree without comments and docstrings, so touching a file or rewording a
comment changes nothing.  Training modules count whole; a part of an algorithm counts by its class and
by every name of our own code it reaches, so editing one credit rule makes new runs of that rule only.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from pathlib import Path

from seedwise.identity import digest

ROOT = Path(__file__).parent
PACKAGE = __name__.rpartition(".")[0]

TASKS = ("tasks/",)
MODELS = ("models/load.py", "models/prompts.py", "models/embedded.py")
GRADING = ("grading/",)
ENGINES = ("engines/",)
TRAINING = (
    "trainer/adapter.py",
    "trainer/records.py",
    "trainer/run.py",
    "algos/views.py",
    "algos/part.py",
    "identity.py",
    *MODELS,
    *GRADING,
    *ENGINES,
)
SAMPLING = ("evals/samples.py", "identity.py", *MODELS, *ENGINES)
SCORING = ("evals/scores.py", *GRADING)
RESAMPLING = ("evals/windows.py", "evals/continuations.py", *SAMPLING, *GRADING)
ANALYSIS = ("stats/", "report/analysis.py", "evals/scores.py", "evals/resampling.py", "tables.py")
RENDERING = ("report/", *ANALYSIS)


class _Strip(ast.NodeTransformer):
    """Remove docstrings: they say what code does and do none of it."""

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and body:
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
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
def of_modules(paths: tuple[str, ...], root: Path = ROOT) -> dict[str, str]:
    """file -> digest of its tree.  ``paths`` are relative to the package; one ending in / stands for every module in it.

    Computed once per process, as of_definition is.
    """
    files = []
    for path in paths:
        files += sorted((root / path).glob("*.py")) if path.endswith("/") else [root / path]
    return {str(file.relative_to(root)): digest(ast.dump(tree(file))) for file in files}


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
