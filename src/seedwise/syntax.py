"""What one file of our code says: a digest of it, the modules of ours it imports, its top-level definitions.

Code counts as its syntax tree without comments and docstrings.  Reading the trees of all modules takes about a second,
and every job of a study needs them, so what was found is kept in the user's cache folder (XDG_CACHE_HOME) under the
digest of the file's bytes: the same bytes read by the same code say the same.  A folder that cannot be written, or a
file there that is damaged, costs that second and nothing else.
"""

from __future__ import annotations

import ast
import functools
import platform
import tempfile
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from platformdirs import user_cache_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from seedwise.identity import digest

PACKAGE = __name__.rpartition(".")[0]
KEPT = 2000
"""Files of which the cache keeps what it knows, about eight states of all our code; beyond, those in use."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Module(_Frozen):
    """A file as a whole.  digest: of its tree.  imports: modules of ours, and names from them, that it imports."""

    digest: str
    imports: tuple[str, ...]


class Definition(_Frozen):
    """A top-level class, function or value.  names: all it mentions, sorted.  imports: as a module's, of what it
    mentions."""

    digest: str
    names: tuple[str, ...]
    imports: tuple[str, ...]


class Definitions(_Frozen):
    """The top-level definitions of a file, and its names from other modules of ours: name -> (module, name there)."""

    own: dict[str, Definition]
    imported: dict[str, tuple[str, str]]


class _Known(BaseModel):
    """What is known of files, by the digest of their bytes."""

    modules: dict[str, Module] = Field(default_factory=dict)
    definitions: dict[str, Definitions] = Field(default_factory=dict)


class _Store:
    """What is known, on disk and in this process; ``used``: what this process asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.used = _Known()
        self.stale = False
        try:
            self.known = _Known.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            self.known = _Known()

    def module(self, path: Path) -> Module:
        content = path.read_bytes()
        key = sha256(content).hexdigest()
        if key not in self.known.modules:
            self.known.modules[key], self.stale = _module(tree(content)), True
        return self.used.modules.setdefault(key, self.known.modules[key])

    def definitions(self, path: Path) -> Definitions:
        content = path.read_bytes()
        key = sha256(content).hexdigest()
        if key not in self.known.definitions:
            self.known.definitions[key], self.stale = _definitions(tree(content)), True
        return self.used.definitions.setdefault(key, self.known.definitions[key])

    def save(self) -> None:
        """Keep what is new, by rename; whoever else writes meanwhile costs a later process some reading."""
        if not self.stale:
            return
        self.stale = False
        small = len(self.known.modules) + len(self.known.definitions) <= KEPT
        text = (self.known if small else self.used).model_dump_json()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self.path.parent, delete=False) as file:
                file.write(text)
            Path(file.name).replace(self.path)
        except OSError:
            return  # no home, or a full disk: the next process reads the trees again


@functools.cache
def _store() -> _Store:
    reader = digest([platform.python_version(), sha256(Path(__file__).read_bytes()).hexdigest()])[:16]
    return _Store(user_cache_path("seedwise") / f"code-{reader}.json")


@functools.cache
def _module_of(path: Path, stamp: tuple[int, int]) -> Module:
    return _store().module(path)


@functools.cache
def _definitions_of(path: Path, stamp: tuple[int, int]) -> Definitions:
    return _store().definitions(path)


def module(path: Path) -> Module:
    """What a file says as a whole; read once per process and state of the file."""
    return _module_of(path, _stamp(path))


def definitions(path: Path) -> Definitions:
    """The definitions of a file; read once per process and state of the file."""
    return _definitions_of(path, _stamp(path))


def save() -> None:
    """Keep what this process has read of files that nobody had read before."""
    _store().save()


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


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
                node.body = body[1:] or [ast.Pass()]
        return node


def tree(content: bytes) -> ast.Module:
    """The syntax tree of a file without docstrings."""
    whole = ast.parse(content)
    _Strip().visit(whole)
    return whole


def _module(node: ast.Module) -> Module:
    return Module(digest=digest(ast.dump(node)), imports=tuple(_imported(list(_running(node)), None)))


def _definitions(module: ast.Module) -> Definitions:
    found: dict[str, ast.stmt] = {}
    imported: dict[str, tuple[str, str]] = {}
    for node in _statements(module.body):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found.update({target.id: node for target in node.targets if isinstance(target, ast.Name)})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGE + "."):
            imported.update({alias.asname or alias.name: (node.module, alias.name) for alias in node.names})
    whole = list(_running(module))
    own = {}
    for name, node in found.items():
        names = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
        imports = _imported([*_running(node), *whole], names)
        own[name] = Definition(digest=digest(ast.dump(node)), names=tuple(sorted(names)), imports=tuple(imports))
    return Definitions(own=own, imported=imported)


def _imported(nodes: Iterable[ast.AST], used: set[str] | None) -> Iterator[str]:
    """Modules of ours that these statements import; only for the names in ``used`` where it is given."""
    for item in nodes:
        if isinstance(item, ast.ImportFrom) and item.module and f"{item.module}.".startswith(PACKAGE + "."):
            names = [alias for alias in item.names if used is None or (alias.asname or alias.name) in used]
            yield from [item.module, *(f"{item.module}.{alias.name}" for alias in names)] if names else []
        elif isinstance(item, ast.Import):
            yield from (alias.name for alias in item.names if alias.name.startswith(PACKAGE + "."))


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under ``if TYPE_CHECKING:``."""
    waiting = [node]
    for item in waiting:
        yield item
        waiting += (
            child
            for child in ast.iter_child_nodes(item)
            if not (isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING")
        )


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Top-level statements, those under ``if TYPE_CHECKING:`` too: an annotation is part of a part's fields."""
    for node in body:
        if isinstance(node, ast.If):
            yield from _statements(node.body)
        else:
            yield node
