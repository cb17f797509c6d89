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

MEASURES = Table(
    "measures",
    (
        _req("step", _INT, "checkpoint"),
        _req("benchmark", _STR, ""),
        _opt("problem", _STR, "null: over the problems of the benchmark"),
        _req("metric", _STR, "name with its unit"),
        _opt("value", _FLOAT, "in the unit of the name; shares and rates in 0..1"),
        _req("problems", _INT, "problems the value rests on"),
        _req("samples", _INT, "samples of these problems and of those without a value"),
        _opt("reason", _STR, "why value is null"),
    ),
    ("step", "benchmark", "problem", "metric"),
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

CHOSEN = Table(
    "chosen",
    (
        _req("step", _INT, "checkpoint"),
        _req("benchmark", _STR, ""),
        _req("engine", _STR, "software and version that read and continued the responses"),
        _req("problems", _INT, "problems of the benchmark"),
        _req("wanted", _INT, "problems asked for"),
        _req("band_low", _FLOAT, "share of correct samples of a problem, at least"),
        _req("band_high", _FLOAT, "at most"),
        _req("in_band", _INT, "problems inside the band"),
        _req("used", _INT, "of them, problems with a response that was continued"),
        _req("too_short", _INT, "responses of problems in the band without room for two windows"),
        _req("unreadable", _INT, "responses of problems in the band whose text does not give back their tokens"),
        _req("alike", _INT, "responses without two windows that differ in entropy"),
    ),
    ("step", "benchmark"),
)

ALONG = Table(
    "along",
    (
        _req("problem", _STR, ""),
        _req("response", _INT, "sample number of the original response"),
        _req("outcome", _STR, "correct | incorrect: verdict of the original response"),
        _req("position", _FLOAT, "share of the response that is kept"),
        _req("continuation", _INT, "0-based"),
        _req("start_tokens", _INT, "tokens kept"),
        _req("length_tokens", _INT, "tokens of the whole response"),
        _req("correct", _INT, "0 or 1"),
        _req("verdict", _STR, "correct | wrong | unparsed | timeout"),
    ),
    ("problem", "response", "position", "continuation"),
)

ENRICHED = Table(
    "enriched",
    (
        _req("outcome", _STR, "correct | incorrect"),
        _req("tail", _STR, "high | low token entropy"),
        _req("word", _STR, "lower case"),
        _req("count", _INT, "occurrences in the tail"),
        _req("of", _INT, "occurrences in the outcome's responses"),
        _req("tail_words", _INT, "words of the outcome's responses in the tail"),
        _req("words", _INT, "words of the outcome's responses"),
        _opt("enrichment", _FLOAT, "share of the tail's words over share of the outcome's words; null: no word in it"),
    ),
    ("outcome", "tail", "word"),
)

EXAMPLE = Table(
    "example",
    (
        _req("problem", _STR, ""),
        _req("response", _INT, "sample number of the original response"),
        _req("outcome", _STR, "correct | incorrect: verdict of the original response"),
        _req("prompt", _STR, "text given to the model"),
        _req("window", _STR, "high | low mean token entropy"),
        _req("continuation", _INT, "0-based"),
        _req("entropy_nats", _FLOAT, "mean token entropy of the window"),
        _req("start_tokens", _INT, "start of the window in the response"),
        _req("window_tokens", _INT, ""),
        _req("length_tokens", _INT, "tokens of the whole response"),
        _req("before", _STR, "the response before the window: what is kept"),
        _req("inside", _STR, "the window"),
        _req("after", _STR, "the continuation"),
        _req("correct", _INT, "0 or 1"),
        _req("verdict", _STR, "correct | wrong | unparsed | timeout"),
    ),
    ("problem", "response", "window", "continuation"),
)

RESAMPLED = {
    "continuations": CONTINUATIONS,
    "chosen": CHOSEN,
    "along": ALONG,
    "words": ENRICHED,
    "example": EXAMPLE,
}
"""What the continuation experiment leaves of a subject: the names are those of ``Layout.resampling``."""

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
        _opt("unparsed", _INT, "of n; null where nobody counted"),
        _opt("timeout", _INT, "of n; null where nobody counted"),
        _opt("truncated", _INT, "of n: stopped by length; null where nobody counted"),
        _opt("tokens", _FLOAT, "mean tokens of a sample; null where nobody counted"),
    ),
    ("model", "run", "step", "benchmark", "problem"),
)

MEASURED = Table(
    "measured",
    (
        *RUNS.columns[:4],
        _req("seed", _INT, ""),
        *(column for column in MEASURES.columns if column[0] != "problem"),
    ),
    ("model", "run", "step", "benchmark", "metric"),
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
    _opt("p_adjusted", _FLOAT, "Holm within the family, p times its size at one of several looks; null outside one"),
    _opt("level", _FLOAT, "what p_adjusted may be at most; null without p_adjusted"),
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
        _opt("withheld", _STR, "why a member of a family has no verdict though it was tested"),
        _req("seeds", _INT, "S of the method"),
        _req("seeds_reference", _INT, "S of the reference"),
        _req("problems", _INT, "P"),
        _req("samples", _INT, "n"),
    ),
    ("model", "setting", "metric", "benchmark", "method", "reference", "estimand"),
)

_PAIR = (
    _req("model", _STR, ""),
    _req("setting", _STR, ""),
    _req("method", _STR, ""),
    _req("reference", _STR, ""),
)
_SHORT = (
    _opt("difference", _FLOAT, "method minus reference"),
    _opt("se", _FLOAT, ""),
    _opt("df", _FLOAT, ""),
    _opt("p", _FLOAT, "two-sided"),
    _opt("low", _FLOAT, "95 % interval"),
    _opt("high", _FLOAT, ""),
)
_SEEDS = (_req("seeds", _INT, "S of the method"), _req("seeds_reference", _INT, "S of the reference"))
_REASON = _opt("reason", _STR, "why an undefined value is null")

LOOK = Table(
    "look",
    (
        _req("look", _INT, "number, from 1"),
        _req("seeds", _INT, "S per method, as planned"),
        _opt("planned", _STR, "JSON list: S at the declared looks; null: one look at all seeds"),
        _req("taken", _STR, "JSON list: S at the declared looks so far"),
        _req("registration", _STR, "digest of the declaration"),
        _req("first", _STR, "digest of the declaration at the first look"),
        _opt("reason", _STR, "why the look was not declared"),
    ),
    ("look",),
)

STOPS = Table(
    "stops",
    (
        *RUNS.columns[:4],
        _req("seed", _INT, ""),
        _req("step", _INT, "optimizer step it stopped at; its later checkpoints hold the weights of that step"),
        _req("reason", _STR, "why it stopped"),
    ),
    ("model", "run"),
)

AUDIT = Table(
    "audit",
    (
        _req("model", _STR, ""),
        _req("setting", _STR, ""),
        _req("design", _STR, "as estimated | one arm with 3 times the seed SD"),
        _req("simulations", _INT, "simulated families without any difference"),
        _opt("false_families", _INT, "of them with at least one claim"),
        _opt("rate", _FLOAT, "family-wise false-positive rate"),
        _opt("low", _FLOAT, "95 % Wilson interval"),
        _opt("high", _FLOAT, ""),
        _opt("coverage", _FLOAT, "share of 95 % intervals that hold the difference put in"),
        _opt("mde", _FLOAT, "smallest difference found with 80 % power, score units"),
        _opt("withheld", _STR, "why no verdict may be given"),
        _REASON,
    ),
    ("model", "setting", "design"),
)

EFFECTS = Table(
    "effects",
    (
        *_PAIR,
        _req("metric", _STR, ""),
        _opt("relative", _FLOAT, "difference as a share of the reference's score"),
        _opt("hedges_g", _FLOAT, "difference in SDs of a seed's score"),
        _opt("superiority", _FLOAT, "chance that a random seed of the method beats one of the reference"),
        _opt("worst", _FLOAT, "lowest score of a seed"),
        _opt("worst_reference", _FLOAT, ""),
        *_SEEDS,
        _REASON,
    ),
    ("model", "setting", "method"),
)

RANKS = Table(
    "ranks",
    (
        _req("model", _STR, ""),
        _req("setting", _STR, ""),
        _req("metric", _STR, ""),
        _req("test", _STR, "permutation | Jonckheere-Terpstra"),
        _req("subject", _STR, "method, or axis and method of a trend"),
        _opt("statistic", _FLOAT, "difference of means | J"),
        _opt("p", _FLOAT, "two-sided, exact"),
        _opt("smallest_p", _FLOAT, "the smallest p this test can reach with these seeds"),
        _opt("alpha", _FLOAT, "level it is read at"),
        _req("seeds", _STR, "JSON list: S of each cell"),
        _REASON,
    ),
    ("model", "setting", "test", "subject"),
)

MULTIVERSE = Table(
    "multiverse",
    (
        *_PAIR,
        _req("metric", _STR, ""),
        _req("estimand", _STR, "new_problems | fixed_problems"),
        _req("analysis", _STR, "welch | pooled | mixed model | without stopped runs"),
        _req("checkpoint", _STR, "last | mean_of_last_3"),
        *_SHORT,
        _opt("p_adjusted", _FLOAT, "within the family of the same analysis"),
        _opt("verdict", _STR, "as in contrasts"),
        _req("flags", _STR, "comma-separated"),
        _REASON,
    ),
    ("model", "setting", "method", "estimand", "analysis", "checkpoint"),
)

STRATA = Table(
    "strata",
    (
        *_PAIR,
        _req("metric", _STR, ""),
        _req("band", _STR, "base accuracy, or interaction: highest minus lowest band"),
        _req("problems", _INT, "P in the band"),
        *_SHORT,
        _opt("p_adjusted", _FLOAT, "Holm over the methods, interaction only"),
        _REASON,
    ),
    ("model", "setting", "method", "band"),
)

GRID = Table(
    "grid",
    (
        *_PAIR,
        _req("metric", _STR, ""),
        *_SHORT,
        _opt("p_fdr", _FLOAT, "Benjamini-Hochberg over all methods of the setting"),
        _opt("p_best", _FLOAT, "Holm against the method with the highest mean; null for that method"),
        _opt("among_best", _BOOL, "not significantly worse than the best; null: not a trained method"),
        *_SEEDS,
        _REASON,
    ),
    ("model", "setting", "method"),
)

BENCHMARKS = Table(
    "benchmarks",
    (
        *_PAIR,
        _req("benchmark", _STR, ""),
        _req("metric", _STR, ""),
        *_SHORT,
        _opt("p_adjusted", _FLOAT, "Holm over the benchmarks of the method"),
        _req("claimed", _BOOL, "whether the macro difference was claimed; if not, these rows describe"),
        _req("problems", _INT, "P"),
        *_SEEDS,
        _REASON,
    ),
    ("model", "setting", "method", "benchmark"),
)

CURVES = Table(
    "curves",
    (
        *_PAIR,
        _req("curve", _STR, "metric.summary; metric.crossover and metric.collapse where declared"),
        _opt("mean", _FLOAT, "over seeds, unit of the metric"),
        _opt("mean_reference", _FLOAT, ""),
        *_SHORT,
        _opt("p_adjusted", _FLOAT, "Holm over the methods of the primary family"),
        *_SEEDS,
        _REASON,
    ),
    ("model", "setting", "method", "curve"),
)

OUTCOMES = Table(
    "outcomes",
    (
        _req("model", _STR, ""),
        _req("setting", _STR, ""),
        _req("outcome", _STR, "name of the declared outcome, which is the family"),
        _req("kind", _STR, "mean | linear | quadratic | pair"),
        _req("subject", _STR, "method point; of a pair the two joined by a minus sign; of a line its name"),
        _req("measure", _STR, "what training recorded, unit in the name"),
        _opt("estimate", _FLOAT, "mean, difference, slope per unit of the natural axis, or curvature"),
        _opt("se", _FLOAT, ""),
        _opt("df", _FLOAT, ""),
        _opt("low", _FLOAT, "95 % interval over new seeds"),
        _opt("high", _FLOAT, ""),
        _opt("p", _FLOAT, "two-sided; null for a mean"),
        _opt("p_adjusted", _FLOAT, "Holm within the outcome"),
        _opt("level", _FLOAT, "that the adjusted p is read at"),
        _opt("tost_p_adjusted", _FLOAT, "equivalence of a pair within the smallest effect, Holm within the outcome"),
        _opt("hedges_g", _FLOAT, "difference of a pair in SDs of a run"),
        _opt("detectable", _FLOAT, "smallest true value found with 80 % power at alpha/m, at this SE and df"),
        _req("seeds", _INT, "S of the method point; the fewest of a pair or line"),
        _opt(
            "verdict",
            _STR,
            "as claimed | opposite | higher | lower, or one of them, but small | equivalent | undecided",
        ),
        _req("flags", _STR, "cautions, joined by commas"),
        _REASON,
    ),
    ("model", "setting", "outcome", "kind", "subject"),
)

COSTS = Table(
    "costs",
    (
        *_PAIR,
        _req("metric", _STR, ""),
        _req("cost", _STR, "generated_tokens | trained_tokens | flops | device_seconds"),
        _opt("budget", _FLOAT, "amount of it per run"),
        _opt("mean", _FLOAT, "score at the budget, over seeds"),
        _opt("mean_reference", _FLOAT, ""),
        *_SHORT,
        _opt("p_adjusted", _FLOAT, "Holm over the methods of the primary family"),
        *_SEEDS,
        _REASON,
    ),
    ("model", "setting", "method", "cost"),
)

SPENT = Table(
    "spent",
    (
        _req("run", _STR, ""),
        _req("model", _STR, ""),
        _req("setting", _STR, ""),
        _req("method", _STR, ""),
        _req("seed", _INT, ""),
        _opt("generated_tokens", _FLOAT, "tokens"),
        _opt("trained_tokens", _FLOAT, "tokens that went through forward and backward"),
        _opt("flops", _FLOAT, "operations of those tokens, by parameters"),
        _opt("device_seconds", _FLOAT, "s of the optimizer steps, rollouts included"),
        _opt("peak_memory_bytes", _FLOAT, "of the GPU; on a CPU of the process"),
        _opt("energy_joules", _FLOAT, "of the GPU, by NVML"),
        _REASON,
    ),
    ("run",),
)

TRENDS = Table(
    "trends",
    (
        _req("model", _STR, ""),
        _req("setting", _STR, ""),
        _req("metric", _STR, ""),
        _req("axis", _STR, "K | kappa | ...; two joined by x for an interaction"),
        _req("method", _STR, "method whose points form the axis"),
        _req("degree", _INT, "1 linear, 2 quadratic; 0 interaction: difference of differences between the corners"),
        _req("x", _STR, "JSON list: positions on the natural axis, pairs for an interaction"),
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
        _req("quantity", _STR, "reward | overlap_tokens | position | entropy_nats"),
        _opt("high", _FLOAT, "mean from high-entropy windows"),
        _opt("low", _FLOAT, "mean from low-entropy windows"),
        _opt("difference", _FLOAT, "high - low"),
        _opt("difference_low", _FLOAT, "95 % interval, clustered by problem"),
        _opt("difference_high", _FLOAT, ""),
        _req("problems", _INT, ""),
        _req("responses", _INT, ""),
        _req("wanted", _INT, "problems asked for in each run"),
        _req("in_band", _STR, "JSON list: problems in the band of difficulty, of each run"),
        _req("used", _STR, "JSON list: of them, problems with a continued response, of each run"),
        _opt("reason", _STR, "why an undefined value is null"),
    ),
    ("model", "setting", "method", "outcome", "quantity"),
)

PREFIXES = Table(
    "prefixes",
    (
        *RUNS.columns[:4],
        _req("seed", _INT, ""),
        _req("problem", _STR, ""),
        _req("response", _INT, ""),
        _req("outcome", _STR, "correct | incorrect"),
        _req("position", _FLOAT, "share of the response that is kept"),
        _req("reward", _FLOAT, "mean reward of the continuations"),
    ),
    ("model", "run", "problem", "response", "position"),
)

COURSE = Table(
    "course",
    (
        _req("model", _STR, ""),
        _req("setting", _STR, ""),
        _req("method", _STR, ""),
        _req("outcome", _STR, "correct | incorrect"),
        _req("position", _FLOAT, "share of the response that is kept"),
        _opt("reward", _FLOAT, "mean reward of the continuations"),
        _opt("low", _FLOAT, "95 % interval, clustered by problem"),
        _opt("high", _FLOAT, ""),
        _req("problems", _INT, ""),
        _req("responses", _INT, ""),
        _opt("reason", _STR, "why an undefined value is null"),
    ),
    ("model", "setting", "method", "outcome", "position"),
)

WORDS = Table(
    "words",
    (
        _req("model", _STR, ""),
        _req("setting", _STR, ""),
        _req("method", _STR, ""),
        *ENRICHED.columns,
        _req("rank", _INT, "from 1, most enriched first, within method, outcome and tail"),
    ),
    ("model", "setting", "method", "outcome", "tail", "word"),
)

FORCING = Table(
    "forcing",
    (
        _req("model", _STR, ""),
        _req("setting", _STR, ""),
        _req("method", _STR, ""),
        _req("benchmark", _STR, ""),
        _req("continuations", _INT, "times a response that had ended was made to go on"),
        _req("accuracy", _FLOAT, "0..1, mean over seeds at their last checkpoint"),
        _opt("low", _FLOAT, "95 % interval, new seeds"),
        _opt("high", _FLOAT, ""),
        _req("tokens", _FLOAT, "mean tokens of a response, forced ones included"),
        _opt("tokens_low", _FLOAT, "95 % interval, new seeds"),
        _opt("tokens_high", _FLOAT, ""),
        _req("seeds", _INT, "S"),
        _req("problems", _INT, "P"),
        _req("samples", _INT, "n"),
        _opt("reason", _STR, "why an undefined value is null"),
    ),
    ("model", "setting", "method", "benchmark", "continuations"),
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


def distinct(table: Table, path: str | Path, column: str) -> list[str]:
    """The different values of a column, sorted; the other columns are not read.  Raises TableError as ``read``."""
    try:
        return sorted(pc.unique(pq.read_table(path, columns=[column])[column]).to_pylist())
    except FileNotFoundError:
        raise TableError(f"{path}: no such {table.name} file; run the stage that makes it") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise TableError(f"{path}: not a readable {table.name} table ({error}); delete it and run again") from None


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
