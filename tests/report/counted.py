"""COUNTS and RUNS written as the correct answers of each seed."""

from __future__ import annotations

import json

import pandas as pd


def cell(method, counts_SN, bench="x", n=4, setting="G8", step=60, first_seed=0, model="m"):
    """COUNTS rows from a list of seeds, each a list of c per problem; None: not answered."""
    return [
        {
            "run": f"{method}.{setting}.s{seed}", "model": model, "method": method, "setting": setting, "seed": seed,
            "step": step, "benchmark": bench, "problem": f"{bench}{i}", "samples": n, "correct": c, "unparsed": 0,
            "timeout": 0, "truncated": 0, "tokens": 9.0,
        }
        for seed, counts_N in enumerate(counts_SN, start=first_seed)
        for i, c in enumerate(counts_N)
        if c is not None
    ]  # fmt: skip


def frame(*cells):
    return pd.DataFrame([row for rows in cells for row in rows])


def planned(counts, extra=(), axes=None):
    rows = counts.drop_duplicates("run")[["run", "model", "method", "setting", "seed"]]
    rows = pd.concat([rows, pd.DataFrame(extra, columns=rows.columns)], ignore_index=True)
    given = rows["method"].map(lambda method: json.dumps((axes or {}).get(method, {})))
    return rows.assign(group_size=rows["setting"].str.extract(r"(\d+)")[0].fillna("8").astype(int), axes=given, id="0")


def one(rows, **wanted):
    for key, value in wanted.items():
        rows = rows[rows[key].isna()] if value is None else rows[rows[key] == value]
    assert len(rows) == 1, f"{len(rows)} rows for {wanted}"
    return rows.iloc[0]
