"""Budget forcing (EAPO, arXiv 2609.33781, figure 6): accuracy and length by number of forced continuations.

Descriptive: these answers are to the problems of a benchmark once more, so no test, family or macro average has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from seedwise import tables
from seedwise.report.facts import BASE
from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.results import Contrast

KEYS = ["model", "setting", "method", "benchmark", "continuations"]


def forcing_rows(forced: pd.DataFrame | None) -> pd.DataFrame:
    """FORCING: of each method, mean over seeds of accuracy and tokens, with 95 % intervals for new seeds.

    forced: COUNTS with the number of ``continuations``; each run is read at its last checkpoint.  None gives no rows.
    """
    rows: list[dict[str, Any]] = []
    if forced is not None and len(forced):
        last = forced[forced["step"] == forced.groupby("run")["step"].transform("max")]
        last = last.assign(accuracy=last["correct"] / last["samples"])
        for key, part in last.groupby(KEYS, sort=False):
            found = dict(zip(KEYS, key, strict=True)) | _row(part)
            rows += [found | {"setting": setting} for setting in _settings(forced, found)]
    return pd.DataFrame(rows, columns=pd.Index([column[0] for column in tables.FORCING.columns]))


def _settings(forced: pd.DataFrame, found: Mapping[str, Any]) -> list[str]:
    """Where a row stands: the untrained model in every setting of its model."""
    trained = forced.loc[(forced["method"] != BASE) & (forced["model"] == found["model"]), "setting"]
    return list(dict.fromkeys(trained)) if found["method"] == BASE and len(trained) else [found["setting"]]


def _row(part: pd.DataFrame) -> dict[str, Any]:
    seeds = part.groupby("seed")[["accuracy", "tokens"]].mean()
    accuracy, tokens = _interval(seeds["accuracy"]), _interval(seeds["tokens"])
    return {
        "accuracy": accuracy.d,
        "low": accuracy.lo,
        "high": accuracy.hi,
        "tokens": tokens.d,
        "tokens_low": tokens.lo,
        "tokens_high": tokens.hi,
        "seeds": len(seeds),
        "problems": part["problem"].nunique(),
        "samples": int(part["samples"].min()),
        "reason": accuracy.reason or tokens.reason,
    }


def _interval(values_S: pd.Series) -> Contrast:
    """Mean over seeds with its t interval: the E1 row of the one contrast engine."""
    return tw_contrast({"cell": {"run": values_S.to_numpy(dtype=float)[:, None]}}, {"cell": 1.0}, target="E1")
