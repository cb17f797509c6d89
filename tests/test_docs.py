"""Documents name only what exists: modules, `seedwise` commands and their options, make targets, paths.

Checked are code spans and shell blocks of README.md and docs/*.md.  A span with <...> or {...} is a pattern
and left alone, as is what a study writes (results/, work/).
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from seedwise.cli import app

REPOSITORY = Path(__file__).parents[1]
DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
SOURCE = REPOSITORY / "src" / "seedwise"
COMMANDS = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
TARGETS = set(re.findall(r"^([a-z][\w-]*):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
WRITTEN = {"results", "work", ".venv", ".snakemake"}
TRACKED = {".py", ".smk", ".md", ".lock", ".toml", ".yaml", ".yml", ".rst"}
SHELL = {"", "sh", "bash", "shell", "console"}


def snippets(text: str) -> Iterator[str]:
    """Code spans, and the commands of shell blocks with continued lines joined."""
    fence = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
    for language, block in fence.findall(text):
        if language in SHELL:
            for line in block.replace("\\\n", " ").splitlines():
                yield line.removeprefix("$ ").partition(" #")[0].strip()
    yield from re.findall(r"`([^`\n]+)`", fence.sub("", text))


def commands(snippet: str) -> list[str]:
    return re.split(r"\s*(?:&&|\|\||[;|])\s*", snippet)


def problems(text: str) -> list[str]:
    """What the document names and does not exist."""
    parts = [(snippet, part) for snippet in snippets(text) for part in commands(snippet)]
    return [f"`{snippet}`: {wrong}" for snippet, part in parts for wrong in wrongs(part)]


def wrongs(command: str) -> Iterator[str]:
    try:
        words = shlex.split(command)
    except ValueError:  # prose with an apostrophe
        words = command.split()
    match words:
        case ["make", *targets]:
            yield from (
                f"no make target {t}" for t in targets if "=" not in t and t[0] not in "-<" and t not in TARGETS
            )
        case ["seedwise", *arguments]:
            yield from command_wrongs(arguments)
    for word in words:
        for part in word.split("="):
            yield from name_wrongs(part.rstrip(",.;:"))


def command_wrongs(arguments: list[str]) -> Iterator[str]:
    if not arguments or arguments[0].startswith(("-", "<")):
        return
    command = COMMANDS.get(arguments[0])
    if command is None:
        yield f"no command seedwise {arguments[0]}"
        return
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    given = {argument.partition("=")[0] for argument in arguments if argument.startswith("-")}
    yield from (f"seedwise {arguments[0]} has no option {option}" for option in sorted(given - options - {"--help"}))


def name_wrongs(name: str) -> Iterator[str]:
    if re.fullmatch(r"seedwise(\.\w+)+", name):
        if not module_or_member(name.split(".")[1:]):
            yield f"no module or member {name}"
    elif looks_like_path(name) and not any(list(base.glob(name.rstrip("/"))) for base in places(name)):
        yield f"no path {name}"


def module_or_member(parts: list[str]) -> bool:
    """Whether the dotted name is a module below the package, or a top-level name of one."""
    path = SOURCE.joinpath(*parts)
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    parent = SOURCE.joinpath(*parts[:-1])
    file = parent / "__init__.py" if parent.is_dir() else parent.with_suffix(".py")
    return file.exists() and parts[-1] in top_level(file)


def top_level(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.ImportFrom(names=imported) | ast.Import(names=imported):
                names |= {alias.asname or alias.name for alias in imported}
    return names


def looks_like_path(name: str) -> bool:
    """A file or folder of the repository; not a model id, a fraction, or a file that a study writes."""
    if not re.fullmatch(r"\.?[\w*-][\w.*-]*(/[\w.*-]+)*/?", name) or name.split("/")[0] in WRITTEN:
        return False
    if Path(name).suffix in TRACKED:
        return True
    first = name.split("/")[0]
    return "/" in name and any((base / first).is_dir() for base in (REPOSITORY, SOURCE))


def places(name: str) -> list[Path]:
    """Where a path may start: the repository or the package; a bare file name, anywhere in them."""
    if "/" in name:
        return [REPOSITORY, SOURCE]
    tops = ("src", "tests", "config", "workflow", "envs", "docs", "benchmarks")
    folders = [folder for top in tops for folder in (REPOSITORY / top).rglob("*") if folder.is_dir()]
    return [REPOSITORY, *(REPOSITORY / top for top in tops), *folders]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_document_names_only_what_exists(document: Path):
    assert problems(document.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("run `make studdy` now", "no make target studdy"),
        ("```sh\nmake env test\nmake bentch\n```", "no make target bentch"),
        ("`make env && seedwise trian`", "no command seedwise trian"),
        ("`seedwise train run --stdy x`", "seedwise train has no option --stdy"),
        ("```\n$ seedwise train \\\n    --stdy x\n```", "seedwise train has no option --stdy"),
        ("see `seedwise.tabels`", "no module or member seedwise.tabels"),
        ("see `seedwise.tables.raed`", "no module or member seedwise.tables.raed"),
        ("see `src/seedwise/tabels.py`", "no path src/seedwise/tabels.py"),
        ("see `tabels.py`", "no path tabels.py"),
        ("see `algos/nothing.py`", "no path algos/nothing.py"),
        ("`snakemake --config study=config/nothing.yaml`", "no path config/nothing.yaml"),
        ("the folder `workflow/nothing/`", "no path workflow/nothing/"),
    ],
)
def test_the_check_has_teeth(text: str, wrong: str):
    assert [found.partition(": ")[2] for found in problems(text)] == [wrong]


def test_the_check_leaves_alone_what_is_no_name_of_ours():
    text = """`make env`, `make study PIP_ARGS=-v`,
    `seedwise train <run> --study config/config.yaml`, `seedwise --help`,
    `seedwise.tables`, `seedwise.tables.RUNS`, `tables.py`, `algos/part.py`, `src/seedwise/`, `tests/golden/*.json`,
    `results/default/report.html`, `Qwen/Qwen3-8B-Base`, `pass@16`, `qae.K0.4.G8.s2-1f3c9ab0`, `n/m`, `spec.json`,
    `{model: embedded}`, `config/<yours>.yaml`, `it's`
    ```yaml
    study: make nothing
    ```
    """
    assert problems(text.replace("\n    ", "\n")) == []
