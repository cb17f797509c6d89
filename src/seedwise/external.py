"""Scores made by any other system: a CSV or Parquet file -> checked rows -> RUNS and COUNTS.

A row is one method, seed and problem: ``correct`` of ``samples`` answers were right.  Names are text, counts are whole
numbers; other columns are ignored.  A file that says less than a study does not get more said about it: seeds of two
methods share nothing that is known, and every seed counts as a training run.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from seedwise import tables
from seedwise.identity import digest
from seedwise.report.facts import BASE

COLUMNS = ("method", "seed", "benchmark", "problem", "samples", "correct")
MODEL, SETTING = "scores", "unpaired seeds"
SHOWN = 10
# a name must fit beside its row of the forest plot, and pass@k takes a time proportional to the samples
LONGEST = {"method": 40, "benchmark": 40, "problem": 1000}
LARGEST = {"seed": 2**31 - 1, "samples": 100_000, "correct": 100_000}

_ASIDE = " (method)"
_BASE = re.compile(rf"{BASE}({re.escape(_ASIDE)})*")
_WHOLE = re.compile(r"([+-]?[0-9]{1,18})(?:\.0*)?")


Row = tuple[str, int, str, str, int, int]


class ScoresError(ValueError):
    """A file of scores that cannot be read; one line per bad row, at most ten of them, each with file and line."""


def read(path: Path) -> pd.DataFrame:
    """The rows of a file of scores, with the columns of ``COLUMNS``, in the order of the file.

    CSV is UTF-8 with a header line; Parquet is known by its first bytes, and its rows are counted from 1.  Text is
    stripped of spaces at its ends.  Raises ScoresError on a missing column, a field that is empty, not a whole number
    or negative, ``correct`` above ``samples``, and a (method, seed, benchmark, problem) that stands twice.
    """
    rows: list[Row] = []
    wrong: list[str] = []
    seen: dict[tuple, str] = {}
    for place, values in _placed(path):
        try:
            row = _checked(values)
            first = seen.setdefault(row[:4], place)
            if first is not place:
                raise ScoresError(f"{_key(row)} stands in {first} already: keep one of them")
            rows.append(row)
        except ScoresError as error:
            wrong.append(f"{path}: {place}: {error}")
    if wrong:
        more = [f"{path}: and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
        raise ScoresError("\n".join([*wrong[:SHOWN], *more]))
    if not rows:
        raise ScoresError(f"{path}: holds no rows: give one per method, seed, benchmark and problem")
    return pd.DataFrame(rows, columns=pd.Index(COLUMNS))


def told_apart(method: str) -> str:
    """A method's name in tables: ``base`` is the untrained model there, in a file a method with seeds of its own."""
    return method + _ASIDE if _BASE.fullmatch(method) else method


def as_written(method: str) -> str:
    """The name in the file of a method of the tables."""
    return method.removesuffix(_ASIDE) if _BASE.fullmatch(method) else method


def runs_and_counts(scores: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """``tables.RUNS`` and ``tables.COUNTS`` of the rows of a file; a run is a method with a seed.

    What a file does not tell is null (how many answers were unparsed, late or cut off, and their length) or 0 where a
    table needs a number (checkpoint, group size).
    """
    methods = scores["method"].map(told_apart)
    names = methods + ".s" + scores["seed"].astype(str)
    named = scores.assign(method=methods, run=names, model=MODEL, setting=SETTING, group_size=0, axes="{}")
    runs = named.drop_duplicates("run").reset_index(drop=True)
    runs = runs.assign(id=[digest(name)[:8] for name in runs["run"]])
    counts = named.assign(step=0, unparsed=None, timeout=None, truncated=None, tokens=None)
    return _as(tables.RUNS, runs), _as(tables.COUNTS, counts)


def _as(table: tables.Table, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.reindex(columns=[column[0] for column in table.columns])


Fields = Sequence[object] | ScoresError
"""Values in the order of COLUMNS, or why a row has none."""


def _placed(path: Path) -> Iterator[tuple[str, Fields]]:
    """(``line 7`` or ``row 7``, its fields) of every row."""
    try:
        with path.open("rb") as file:
            parquet = file.read(4) == b"PAR1"
        yield from (_of_parquet if parquet else _of_csv)(path)
    except (OSError, pa.ArrowInvalid) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())
        raise ScoresError(f"{path}: {reason}: give a CSV or Parquet file of scores") from None
    except UnicodeDecodeError:
        raise ScoresError(f"{path}: not UTF-8 text and not Parquet: save it as one of them") from None


def _of_csv(path: Path) -> Iterator[tuple[str, Fields]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            header = [name.strip() for name in next(reader, [])]
            order = _order(header, path, "line 1")
            start = reader.line_num + 1
            for fields in reader:
                # a row with a quoted line break ends later than it starts
                place, start = f"line {start}", reader.line_num + 1
                if len(fields) == len(header):
                    yield place, [fields[i] for i in order]
                elif fields:
                    sizes = f"{len(fields)} fields instead of {len(header)}"
                    yield place, ScoresError(f"{sizes}: quote a field that holds a comma")
        except csv.Error as error:
            raise ScoresError(f"{path}: line {reader.line_num}: {error}: mend the CSV") from None


def _of_parquet(path: Path) -> Iterator[tuple[str, Fields]]:
    with pq.ParquetFile(path) as file:
        order = _order(file.schema_arrow.names, path, "schema")
        names = [file.schema_arrow.names[i] for i in order]
        row = 0
        for batch in file.iter_batches(columns=names):
            columns = [batch.column(name).to_pylist() for name in names]
            for values in zip(*columns, strict=True):
                row += 1
                yield f"row {row}", values


def _order(header: Sequence[str], path: Path, place: str) -> list[int]:
    """Where each of COLUMNS stands."""
    for name in COLUMNS:
        if (times := list(header).count(name)) != 1:
            fault = "is missing" if times == 0 else f"stands {times} times"
            shown = ", ".join(header) or "empty"
            raise ScoresError(f"{path}: {place}: column {name} {fault}: needed are {', '.join(COLUMNS)}, got {shown}")
    return [list(header).index(name) for name in COLUMNS]


def _checked(fields: Fields) -> Row:
    if isinstance(fields, ScoresError):
        raise fields
    method, seed, benchmark, problem, samples, correct = fields
    row = (
        _name("method", method),
        _count("seed", seed),
        _name("benchmark", benchmark),
        _name("problem", problem),
        _count("samples", samples),
        _count("correct", correct),
    )
    n, c = row[4:]
    if n < 1:
        raise ScoresError("samples: 0: give at least 1")
    if c > n:
        raise ScoresError(f"correct: {c} of {n} samples: it may not exceed them")
    return row


def _name(key: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is not None and not isinstance(value, str):
        raise ScoresError(f"{key}: {value!r}: give a text")
    text = (value or "").strip()
    if not text:
        raise ScoresError(f"{key}: empty: give a name")
    if not text.isprintable():
        raise ScoresError(f"{key}: {text!r}: holds a character that cannot be printed: rename it")
    if (key, text) == ("benchmark", "macro"):
        raise ScoresError("benchmark: 'macro': is what the average over benchmarks is called: leave out or rename it")
    if len(text) > LONGEST[key]:
        raise ScoresError(f"{key}: {text[:20]!r}...: {len(text)} characters: give a name of at most {LONGEST[key]}")
    return text


def _count(key: str, value: object) -> int:
    text = "" if value is None else str(value).strip()
    if not text:
        raise ScoresError(f"{key}: empty: give a whole number")
    found = _WHOLE.fullmatch(text)
    if found is None or isinstance(value, bool):
        raise ScoresError(f"{key}: {text[:40]!r}: give a whole number")
    number = int(found[1])
    if number < 0:
        raise ScoresError(f"{key}: {number}: is negative: give 0 or more")
    if number > LARGEST[key]:
        raise ScoresError(f"{key}: {number}: give at most {LARGEST[key]}")
    return number


def _key(row: Row) -> str:
    return f"method {row[0]!r}, seed {row[1]}, benchmark {row[2]!r}, problem {row[3]!r}"
