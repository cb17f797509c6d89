"""docs/papers.md: every item of both papers stands there once, and every key and file it names exists.

Keys are tried, not looked up: a method becomes method points, a fragment is merged into a small study that is then
parsed and expanded.  Files are those that the workflow's rules declare.
"""

from __future__ import annotations

import ast
import copy
import importlib
import re
import sys
import typing
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from seedwise import grid, tables
from seedwise.definitions import DEFINITIONS
from seedwise.layout import Layout
from seedwise.points import points
from seedwise.reading import _Loader, parse
from seedwise.report.build import _FILES
from seedwise.study import Study, StudyError, Train
from seedwise.trainer.records import Learned, Records, Updated

sys.path.insert(0, str(Path(__file__).parent / "workflow"))

from study_file import STUDY

REPOSITORY = Path(__file__).parents[1]
DOCUMENT = REPOSITORY / "docs" / "papers.md"
QAE, ASKED, EAPO = "QAE: figures and tables", "QAE: what critics ask for", "EAPO: figures and tables"
G = 8
OF_TABLE = {
    "scores": tables.SCORES,
    "means": tables.MEANS,
    "resampling": tables.RESAMPLING,
    "course": tables.COURSE,
    "words": tables.WORDS,
}


@dataclass(frozen=True)
class Item:
    """One row.  write, read: the code spans of the two cells."""

    section: str
    name: str
    write: tuple[str, ...]
    read: tuple[str, ...]
    state: str


def items(text: str) -> list[Item]:
    """The rows of all tables with four columns."""
    found, section = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and cells[0] != "item" and not cells[0].startswith("---"):
            spans = [tuple(re.findall(r"`([^`]+)`", cell)) for cell in cells[1:3]]
            found.append(Item(section, cells[0], *spans, cells[3]))
    return found


ITEMS = items(DOCUMENT.read_text(encoding="utf-8"))


def wrongs(item: Item) -> Iterator[str]:
    """What a row names and does not exist."""
    for span in item.write:
        try:
            written(span)
        except (StudyError, KeyError, yaml.YAMLError) as error:
            yield f"`{span}`: {error}"
    yield from unread(item)
    if not item.write or not item.read:
        yield "a row names what to write and what to read"
    if not re.fullmatch(r"here|later: \S.{8,}", item.state):
        yield f"state {item.state!r} is neither here nor later: with what is missing"


def written(span: str) -> None:
    """Try a key, a method or a fragment of a study; raises StudyError or KeyError."""
    if re.fullmatch(r"[a-z_]+(\.([A-Za-z_]+|<name>))*", span):
        return key(span)
    value = yaml.load(span, _Loader)  # noqa: S506 - a SafeLoader
    if not isinstance(value, dict):
        raise KeyError(f"{value!r} is neither a key nor a mapping")
    if {"preset", "baseline"} & set(value):
        value = {"methods": {"tried": value}}
        assert list(points("tried", value["methods"]["tried"], "papers.md"))
    grid.expand(parse(merged(STUDY, value), "papers.md"), "papers.md")
    return None


def key(dotted: str) -> None:
    """Raise KeyError unless a dotted key leads through the models of a study; ``<name>`` is any name of a mapping."""
    model: Any = Study
    for part in dotted.split("."):
        if part == "<name>":
            model = typing.get_args(model)[1]
            continue
        inner = [each for each in models(model) if part in each.model_fields]
        if not inner:
            raise KeyError(f"no {part} in {dotted}")
        model = inner[0].model_fields[part].annotation


def models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for inner in typing.get_args(annotation) for found in models(inner)]


def merged(study: dict, fragment: dict) -> dict:
    """The study with the fragment's keys: mappings are merged, tasks and everything else are replaced."""
    result = copy.deepcopy(study)
    for name, value in fragment.items():
        both = isinstance(value, dict) and isinstance(result.get(name), dict) and "task" not in value
        result[name] = merged(result[name], value) if both else value
    return result


@cache
def outputs() -> set[str]:
    """Every file that the workflow's rules declare or a stage lays beside one; ``<>`` for each name in a path."""
    rules = "\n".join(path.read_text() for path in sorted((REPOSITORY / "workflow" / "rules").glob("*.smk")))
    found = {re.sub(r"\{\w+\}", "<>", path) for path in re.findall(r'"(results/(?:runs|data|models)/[^"]+)"', rules)}
    lists: dict[str, list[str]] = {"TABLES": [], "FIGURES": []}
    for name, value in re.findall(r"^(TABLES|FIGURES) \+?= (\[[^{]*?\])$", rules, re.M):
        lists[name] += ast.literal_eval(value)
    found |= {f"results/<>/tables/{name}.{end}" for name in lists["TABLES"] for end in ("md", "csv", "tex")}
    found |= {f"results/<>/figures/{name}.{end}" for name in lists["FIGURES"] for end in ("svg", "pdf")}
    found |= {f"results/<>/analysis/{name}.parquet" for name in _FILES}
    layout = Layout(grid.expand(parse(STUDY)))
    run = next(iter(layout.grid.runs))
    places = {each.folder.with_name("<>") / "<>.parquet" for each in layout.samples(run).values()}
    return found | {path.as_posix().replace(run, "<>") for path in places}


def unread(item: Item) -> Iterator[str]:
    """Files of a row that nothing writes, and names that are not in the file before them."""
    known: set[str] | None = None
    for span in item.read:
        if not span.startswith("results/"):
            if known is None or span not in known:
                yield f"`{span}`: no metric or column of the file before it"
            continue
        path = re.sub(r"<\w+>", "<>", span)
        axis = re.fullmatch(r"results/<>/figures/trend_(\w+)\.svg", path)
        if axis and axis[1] not in trends(item):
            yield f"`{span}`: the row declares no trend along {axis[1]}"
        if not axis and path not in outputs():
            yield f"`{span}`: no rule writes it"
        known = names_in(path)


def trends(item: Item) -> list[str]:
    """Axes that the fragments of a row declare under compare.trends."""
    fragments = [yaml.load(span, _Loader) for span in item.write if "compare: " in span]  # noqa: S506
    return [axis for fragment in fragments for axis in fragment["compare"].get("trends", [])]


def names_in(path: str) -> set[str] | None:
    """Metrics or columns of a file, None where a row need not name any."""
    file = Path(path)
    if file.name == "metrics.parquet":
        return metrics()
    if "/resample/" in path:
        part = file.stem.partition(".")[2] or "continuations"
        return {column[0] for column in tables.RESAMPLED[part].columns}
    if "/measures/" in path:
        return {each.name for each in DEFINITIONS}
    table = OF_TABLE.get(file.stem) if file.suffix == ".parquet" else None
    return {column[0] for column in table.columns} if table else None


@cache
def metrics() -> set[str]:
    """Names of all metrics: what Records writes of a step, and what the diagnostics find once a training asks them."""
    row = SimpleNamespace(
        text="so", tokens=2, entropy_nats=0.5, verdict="correct", correct=1.0, penalty=0.0, stop="stop", late=False
    )
    records = Records(G, Train().words)
    learned = Learned(advantages=[1.0] * G, K=None, gate=None, h_at=None)
    records.rollout(1, SimpleNamespace(rows=[row] * G, generated=[row] * G, draws=1), learned)
    records.update(1, Updated(0.0, 0.0, 0.0, None, 1))
    found = {entry["name"] for entry in records.metrics}
    trainer = REPOSITORY / "src" / "seedwise" / "trainer"
    asks = re.compile(r"^\s*(from seedwise\.trainer(\.diagnostics)? import .*|import .*\bdiagnostics\b)", re.MULTILINE)
    if not any("diagnostics" in asked[0] for path in trainer.glob("*.py") for asked in asks.finditer(path.read_text())):
        return found
    diagnostics = importlib.import_module("seedwise.trainer.diagnostics")
    kinds = [kind for kind in diagnostics.Diagnostic.__subclasses__() if kind is not diagnostics.UpdateMass]
    found |= {field.name for kind in kinds for field in fields(kind)}
    return found | set(diagnostics.UpdateMass(((0.0, None),) * (G + 1)).metrics())


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"{item.section.partition(':')[0]}-{item.name[:24]}")
def test_every_key_and_file_of_a_row_exists(item: Item):
    assert list(wrongs(item)) == []


def numbers(section: str, word: str) -> list[int]:
    """Numbers of the figures, tables or asks of a section; a figure of several panels stands once for each."""
    names = [item.name for item in ITEMS if item.section == section]
    return [
        int(found[1]) for name in names if (found := re.match(rf"{word} (\d+)(?:[a-c]| left| middle| right)?:", name))
    ]


@pytest.mark.parametrize(
    ("section", "word", "last", "panels"),
    [
        # QAE has eleven figures; 4, 5 and 6 have three panels each.  EAPO has eight, and 4 has two panels
        (QAE, "Fig.", 11, {4: 3, 5: 3, 6: 3}),
        (QAE, "Table", 2, {}),
        (ASKED, "Ask", 19, {}),
        (EAPO, "Fig.", 8, {4: 2}),
        (EAPO, "Table", 10, {}),
    ],
)
def test_every_figure_and_table_has_its_rows(section: str, word: str, last: int, panels: dict[int, int]):
    assert Counter(numbers(section, word)) == {number: panels.get(number, 1) for number in range(1, last + 1)}


def test_no_row_is_left_uncounted():
    # 11 + 6 panels more + 2 tables; 19 asks; 8 + 1 panel more + 10 tables + one appendix
    sizes = Counter(item.section for item in ITEMS)
    assert (sizes[QAE], sizes[ASKED], sizes[EAPO]) == (19, 19, 20)
    assert sum(item.name.startswith("App. E") for item in ITEMS) == 1
    assert len({(item.section, item.name) for item in ITEMS}) == len(ITEMS)


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ("| x | `train.lrr` | `results/<study>/tables/main.csv` | here |", "no lrr in train.lrr"),
        ("| x | `models.<name>.lora.ranks` | `results/<study>/tables/main.csv` | here |", "no ranks in"),
        ("| x | `{preset: qea}` | `results/<study>/tables/main.csv` | here |", "unknown preset 'qea'"),
        ("| x | `{preset: qae, k: 0.4}` | `results/<study>/tables/main.csv` | here |", "no parameter 'k'"),
        ("| x | `{baseline: [{kind: quantil}]}` | `results/<study>/tables/main.csv` | here |", "quantil"),
        ("| x | `axes: {objective.hight: [0.2]}` | `results/<study>/tables/main.csv` | here |", "axes.objective.hight"),
        ("| x | `group_size: [1]` | `results/<study>/tables/main.csv` | here |", "at least 2 samples"),
        ("| x | `train` | `results/<study>/tables/mein.csv` | here |", "no rule writes it"),
        ("| x | `train` | `results/<study>/figures/trend_K.svg` | here |", "declares no trend along K"),
        ("| x | `train` | `results/runs/<run>/metrics.parquet` `entropy` | here |", "no metric or column"),
        ("| x | `train` | `results/runs/<run>/resample/<id>.parquet` `overlap` | here |", "no metric or column"),
        ("| x | `train` | `results/<study>/tables/main.csv` | later |", "neither here nor later"),
        ("| x | `train` | `results/<study>/tables/main.csv` | soon |", "neither here nor later"),
        ("| x | train | `results/<study>/tables/main.csv` | here |", "a row names what to write"),
    ],
)
def test_the_check_has_teeth(row: str, wrong: str):
    (item,) = items(row)
    (found,) = wrongs(item)
    assert wrong in found
