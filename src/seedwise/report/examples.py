"""A few answers of every method, for reading.  They are text from a model: whoever prints them escapes them."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from seedwise.report.results import Results, ordered
from seedwise.report.wording import known

LONGEST = 2000
PER_METHOD = 3


@dataclass(frozen=True)
class Example:
    """One answer.  prompt, verdict, answer: empty where unknown.  origin: run, step, problem, sample."""

    text: str
    origin: str
    prompt: str
    verdict: str
    answer: str


def examples(samples: pd.DataFrame | None, results: Results, reference: str) -> list[tuple[str, list[Example]]]:
    """(heading, answers) of every method that has samples, the same problems for all where possible.

    samples: SAMPLES columns and ``run``; ``prompt``, ``verdict`` and ``answer`` are shown where present.
    Taken from a method's first run at its last checkpoint; one answer of each verdict comes first.
    """
    if samples is None or not len(samples):
        return []
    places = pd.concat([results.runs, results.counts])[["run", "model", "method", "setting"]]
    rows = samples.merge(places.drop_duplicates("run"), on="run", how="inner")
    several = len(results.places()) > 1
    shown: list[tuple[str, list[Example]]] = []
    for model, setting, methods in results.places():
        for method in ordered(methods, reference):
            part = rows[(rows["model"] == model) & (rows["setting"] == setting) & (rows["method"] == method)]
            if len(part):
                heading = f"{method} ({model}, {setting})" if several else method
                shown.append((heading, _few(part[part["step"] == part["step"].max()])))
    return shown


def _few(part: pd.DataFrame) -> list[Example]:
    part = part[part["run"] == part["run"].min()].sort_values(["benchmark", "problem", "sample"], kind="stable")
    if "verdict" in part:
        part = part.assign(again=part.groupby("verdict").cumcount()).sort_values("again", kind="stable")
    return [_example(row) for row in part.head(PER_METHOD).to_dict("records")]


def _example(row: dict) -> Example:
    text = row["text"]
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}\n[{len(row['text']) - LONGEST} more characters]"
    origin = f"{row['run']}, step {row['step']}, {row['benchmark']}/{row['problem']}, sample {row['sample']}"
    prompt, verdict, answer = (
        str(row[name]) if known(row.get(name)) else "" for name in ("prompt", "verdict", "answer")
    )
    return Example(text, origin, prompt, verdict, answer)
