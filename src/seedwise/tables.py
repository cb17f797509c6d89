"""Every file of the pipeline: columns, types, units, key; the only reader and writer.

A table is written to a temporary name and renamed, so a partial file is never taken for a
whole one.  Names, types, units and the key are checked on write and on read; a duplicate key
is an error.  An undefined number is null, and where the table has a ``reason`` column the
reason stands in it; never 0, never NaN.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


class TableError(ValueError):
    """A file does not hold the table it should; the message names file, column and remedy."""


@dataclass(frozen=True)
class Table:
    """name: what the table is called in messages.  columns: (name, Arrow type, unit or meaning,
    nullable).  key: columns that together identify a row."""

    name: str
    columns: tuple[tuple[str, pa.DataType, str, bool], ...]
    key: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema; a field's metadata holds its unit."""
        return pa.schema(
            [pa.field(name, kind, nullable, metadata={"unit": unit}) for name, kind, unit, nullable in self.columns]
        )


_STR, _INT, _FLOAT, _BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()


def _req(name: str, kind: pa.DataType, unit: str) -> tuple[str, pa.DataType, str, bool]:
    return (name, kind, unit, False)


def _opt(name: str, kind: pa.DataType, unit: str) -> tuple[str, pa.DataType, str, bool]:
    return (name, kind, unit, True)


PROBLEMS = Table(
    "problems",
    (
        _req("problem", _STR, "id, unique within the file"),
        _req("prompt", _STR, "text given to the model, template applied"),
        _req("answer", _STR, "gold answer"),
        _req("source", _STR, "task and generator"),
        _req("verifier", _STR, "name of the allow-listed verifier"),
        _opt("difficulty", _FLOAT, "task's own scale"),
        _req("metadata", _STR, "JSON the verifier needs"),
    ),
    ("problem",),
)

METRICS = Table(
    "metrics",
    (
        _req("step", _INT, "optimizer step, 1-based"),
        _req("name", _STR, "metric with its unit"),
        _opt("value", _FLOAT, "in the unit of the name"),
        _opt("reason", _STR, "why value is null"),
    ),
    ("step", "name"),
)

SAMPLES = Table(
    "samples",
    (
        _req("step", _INT, "checkpoint"),
        _req("benchmark", _STR, ""),
        _req("problem", _STR, ""),
        _req("sample", _INT, "0-based"),
        _req("text", _STR, "completion"),
        _req("tokens", _INT, "tokens"),
        _req("stop", _STR, "stop | length"),
        _req("seed", _INT, "random stream of the sample"),
        _req("engine", _STR, "name and version"),
    ),
    ("step", "benchmark", "problem", "sample"),
)

SCORES = Table(
    "scores",
    (
        _req("step", _INT, "checkpoint"),
        _req("benchmark", _STR, ""),
        _req("problem", _STR, ""),
        _req("sample", _INT, "0-based"),
        _req("correct", _INT, "0 or 1"),
        _opt("answer", _STR, "extracted answer; null when none was found"),
        _req("verdict", _STR, "correct | wrong | unparsed | timeout"),
        _req("verifier", _STR, "name and version"),
        _req("tokens", _INT, "tokens"),
        _req("stop", _STR, "stop | length"),
    ),
    ("step", "benchmark", "problem", "sample"),
)

CONTINUATIONS = Table(
    "continuations",
    (
        _req("problem", _STR, ""),
        _req("response", _INT, "sample number of the original response"),
        _req("outcome", _STR, "correct | incorrect: verdict of the original response"),
        _req("window", _STR, "high | low mean token entropy"),
        _req("continuation", _INT, "0-based"),
        _req("entropy_nats", _FLOAT, "mean token entropy of the window"),
        _req("start_tokens", _INT, "start of the window in the response"),
        _req("position", _FLOAT, "start as a share of the response length"),
        _opt("overlap_tokens", _FLOAT, "mean common prefix with the other continuations, first w tokens"),
        _req("correct", _INT, "0 or 1"),
        _req("verdict", _STR, "correct | wrong | unparsed | timeout"),
    ),
    ("problem", "response", "window", "continuation"),
)

RUNS = Table(
    "runs",
    (
        _req("run", _STR, "name with id"),
        _req("model", _STR, ""),
        _req("method", _STR, "method point, e.g. qae.K0.4; base for the untrained model"),
        _req("setting", _STR, "other axes, e.g. G8 or G8.lr1e-05: comparisons are made within a setting"),
        _req("group_size", _INT, "samples of a prompt"),
        _req("seed", _INT, ""),
        _req("axes", _STR, "JSON: every axis value of the run, K and kappa included"),
        _req("id", _STR, "8 hex digits"),
    ),
    ("model", "run"),  # a base stands once per model that rests on it
)

COUNTS = Table(
    "counts",
    (
        *RUNS.columns[:4],
        _req("seed", _INT, ""),
        _req("step", _INT, "checkpoint"),
        _req("benchmark", _STR, ""),
        _req("problem", _STR, ""),
        _req("samples", _INT, "n"),
        _req("correct", _INT, "c"),
        _req("unparsed", _INT, "of n"),
        _req("timeout", _INT, "of n"),
        _req("truncated", _INT, "of n: stopped by length"),
        _req("tokens", _FLOAT, "mean tokens of a sample"),
    ),
    ("model", "run", "step", "benchmark", "problem"),
)

MEANS = Table(
    "means",
    (
        _req("model", _STR, ""),
        _req("setting", _STR, ""),
        _req("method", _STR, ""),
        _req("metric", _STR, "avg@n | pass@k"),
        _opt("benchmark", _STR, "null: macro average"),
        _req("step", _INT, "checkpoint"),
        _opt("mean", _FLOAT, "0..1"),
        _opt("low", _FLOAT, "95 % interval, new seeds and new problems"),
        _opt("high", _FLOAT, ""),
        _opt("sd_seed", _FLOAT, "SD over seeds of the seed's own mean"),
        _req("seeds", _INT, "S"),
        _req("problems", _INT, "P"),
        _req("samples", _INT, "n"),
        _opt("reason", _STR, "why an undefined value is null"),
    ),
    ("model", "setting", "method", "metric", "benchmark", "step"),
)

_TEST = (
    _opt("difference", _FLOAT, "score units; slope per unit of x for a trend"),
    _opt("se", _FLOAT, ""),
    _opt("df", _FLOAT, ""),
    _opt("t", _FLOAT, ""),
    _opt("p", _FLOAT, "two-sided"),
    _opt("p_adjusted", _FLOAT, "Holm within the family; null outside one"),
    _opt("low", _FLOAT, "95 % interval"),
    _opt("high", _FLOAT, ""),
    _opt("V_seed", _FLOAT, "variance"),
    _opt("V_prob", _FLOAT, "variance"),
    _opt("V_res", _FLOAT, "variance"),
    _opt("branch", _STR, "sum | seed | problem: which variance the guard chose"),
    _req("flags", _STR, "comma-separated"),
    _opt("reason", _STR, "why p is null"),
)

CONTRASTS = Table(
    "contrasts",
    (
        _req("model", _STR, ""),
        _req("setting", _STR, ""),
        _req("metric", _STR, "avg@n | pass@k"),
        _opt("benchmark", _STR, "null: macro average"),
        _req("method", _STR, ""),
        _req("reference", _STR, ""),
        _req("estimand", _STR, "new_problems | fixed_problems"),
        *_TEST,
        _opt("family", _STR, "name of the declared family; null: descriptive"),
        _opt("family_low", _FLOAT, "interval at 1 - alpha/m"),
        _opt("family_high", _FLOAT, ""),
        _opt("tost_p", _FLOAT, "equivalence within the smallest effect"),
        _opt("tost_p_adjusted", _FLOAT, "Holm within the family"),
        _opt(
            "verdict", _STR, "superior | inferior | equivalent | superior-but-small | inferior-but-small | inconclusive"
        ),
        _req("seeds", _INT, "S of the method"),
        _req("seeds_reference", _INT, "S of the reference"),
        _req("problems", _INT, "P"),
        _req("samples", _INT, "n"),
    ),
    ("model", "setting", "metric", "benchmark", "method", "reference", "estimand"),
)

TRENDS = Table(
    "trends",
    (
        _req("model", _STR, ""),
        _req("setting", _STR, ""),
        _req("metric", _STR, ""),
        _req("axis", _STR, "K | kappa | ..."),
        _req("method", _STR, "method whose points form the axis"),
        _req("degree", _INT, "1 linear, 2 quadratic"),
        _req("x", _STR, "JSON list: positions on the natural axis"),
        *_TEST,
    ),
    ("model", "setting", "metric", "axis", "method", "degree"),
)

WINDOWS = Table(
    "windows",
    (
        *RUNS.columns[:4],
        _req("seed", _INT, ""),
        _req("problem", _STR, ""),
        _req("response", _INT, ""),
        _req("outcome", _STR, "correct | incorrect"),
        _req("reward_high", _FLOAT, "mean reward of continuations from the high-entropy window"),
        _req("reward_low", _FLOAT, ""),
        _opt("overlap_high", _FLOAT, "tokens"),
        _opt("overlap_low", _FLOAT, "tokens"),
        _req("position_high", _FLOAT, "share of the response"),
        _req("position_low", _FLOAT, ""),
        _req("entropy_high", _FLOAT, "nats"),
        _req("entropy_low", _FLOAT, "nats"),
    ),
    ("model", "run", "problem", "response"),
)

RESAMPLING = Table(
    "resampling",
    (
        _req("model", _STR, ""),
        _req("setting", _STR, ""),
        _req("method", _STR, ""),
        _req("outcome", _STR, "correct | incorrect"),
        _req("quantity", _STR, "reward | overlap_tokens"),
        _opt("high", _FLOAT, "mean from high-entropy windows"),
        _opt("low", _FLOAT, "mean from low-entropy windows"),
        _opt("difference", _FLOAT, "high - low"),
        _opt("difference_low", _FLOAT, "95 % interval, clustered by problem"),
        _opt("difference_high", _FLOAT, ""),
        _req("problems", _INT, ""),
        _req("responses", _INT, ""),
        _opt("position_high", _FLOAT, "mean start, share of the response"),
        _opt("position_low", _FLOAT, ""),
        _opt("reason", _STR, "why an undefined value is null"),
    ),
    ("model", "setting", "method", "outcome", "quantity"),
)


def write(table: Table, rows: pd.DataFrame | Sequence[Mapping] | Iterable[Mapping], path: str | Path) -> None:
    """Write rows as Parquet under ``path``, atomically.

    Raises TableError on a missing or unknown column, a wrong type, a NaN, a null in a required
    column or a duplicate key.
    """
    frame = (
        rows
        if isinstance(rows, pd.DataFrame)
        else pd.DataFrame(list(rows), columns=pd.Index([c[0] for c in table.columns]))
    )
    data = _checked(table, frame, path)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        pq.write_table(data, temporary, compression="zstd")
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(table: Table, path: str | Path) -> pd.DataFrame:
    """Read and check a table.  Raises TableError naming the file and what is wrong with it."""
    try:
        data = pq.read_table(path)
    except FileNotFoundError:
        raise TableError(f"{path}: no such {table.name} file; run the stage that makes it") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise TableError(f"{path}: not a readable {table.name} table ({error}); delete it and run again") from None
    names = [c[0] for c in table.columns]
    if data.schema.names != names:
        raise TableError(f"{path}: columns {data.schema.names} instead of {names}; delete it and run again")
    frame = data.to_pandas()
    _checked(table, frame, path)
    return frame


def _checked(table: Table, frame: pd.DataFrame, path: str | Path) -> pa.Table:
    names = [c[0] for c in table.columns]
    missing, unknown = [n for n in names if n not in frame], [n for n in frame if n not in names]
    if missing or unknown:
        raise TableError(f"{path}: {table.name} table lacks columns {missing} and has unknown columns {unknown}")
    for name, _, _, nullable in table.columns:
        if not nullable and int(frame[name].isna().to_numpy().sum()):
            raise TableError(f"{path}: column {name} of {table.name} has an empty value and may not")
    try:
        data = pa.Table.from_pandas(frame[names], schema=table.schema, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TableError(f"{path}: {table.name} table: {error}") from None
    rows = data.group_by(list(table.key)).aggregate([([], "count_all")])
    if repeated := rows.filter(pc.field("count_all") > 1).to_pylist():
        key = {name: repeated[0][name] for name in table.key}
        raise TableError(f"{path}: {table.name} table has the key {key} twice")
    return data
