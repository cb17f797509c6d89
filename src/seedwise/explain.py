"""`seedwise explain`: read a method and a group of responses as they are written on a command line, and show them.

Dimension key:  G samples of one prompt, T tokens of a row.

What is shown is computed in ``explained.py``.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import yaml

from seedwise.algos.algorithm import Algorithm
from seedwise.catalogue import expression
from seedwise.explained import ExplainError, Explanation, Group, check_needs, explained
from seedwise.points import points
from seedwise.study import number

# tokens are numbers within these bounds
BOUNDS = {
    "--entropies": (0, math.inf),
    "--logprobs": (-math.inf, 0),
    "--teacher-logprobs": (-math.inf, 0),
    "--logits": (-math.inf, math.inf),
    "--confidences": (0, math.inf),
    "--ids": (0, 2**20),
}


def explain(
    method: str,
    rewards: str,
    *,
    lengths: str | None = None,
    entropies: str | None = None,
    logprobs: str | None = None,
    teacher_logprobs: str | None = None,
    logits: str | None = None,
    confidences: str | None = None,
    ids: str | None = None,
) -> Explanation:
    """Explain a method on one group.

    method: ``qae``, ``qae:K=0.6`` or ``{baseline: [...]}`` in YAML.  rewards: JSON list of verdicts, one per response.
    lengths: JSON list, how many tokens of each row count; without it all do.
    All others are JSON lists of numbers of tokens, a row per response: entropies (nats), logprobs (of the sampled
    tokens under the old policy), teacher_logprobs, logits and confidences (as in TokenView), ids (of the tokens).
    Raises ExplainError, one line.
    """
    algorithm = algorithm_of(method)
    given = (entropies, logprobs, teacher_logprobs, logits, confidences, ids)
    group = _group(rewards, lengths, dict(zip(BOUNDS, given, strict=True)))
    check_needs(algorithm, group)
    try:
        return explained(algorithm, group)
    except ValueError as error:  # a part says why it cannot work on this group
        raise ExplainError(str(error)) from None


def algorithm_of(method: str) -> Algorithm:
    """The algorithm of ``qae``, ``qae:K=0.6,low=0.1`` or an expression in YAML, read as a study reads it.

    Raises ExplainError, one line, on what a study would refuse, and on a grid.
    """
    name = "expression" if method.lstrip().startswith("{") else method.partition(":")[0].strip()
    try:
        found = list(points(name, _entry(method), "explain"))
    except yaml.YAMLError as error:
        raise ExplainError(f"{name}: {getattr(error, 'problem', error)}: mend the YAML of {method!r}") from None
    except ValueError as error:
        raise ExplainError(str(error).removeprefix("explain: methods.")) from None
    if len(found) > 1:
        raise ExplainError(f"{name}: a list is a grid, here of {len(found)} methods: give one value to explain one")
    return found[0].algorithm


def _entry(method: str) -> dict[str, Any]:
    """A method as it would stand under ``methods`` of a study."""
    if method.lstrip().startswith("{"):
        return yaml.safe_load(method)
    name, _, written = method.partition(":")
    entry: dict[str, Any] = {"preset": name.strip()}
    for setting in re.split(r",(?=\s*\w+\s*=)", written) if written.strip() else ():
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise ExplainError(f"{name}: {setting!r} is no setting: write {name}:KEY=VALUE,KEY=VALUE")
        entry[key.strip()] = yaml.safe_load(value)
    return entry


def _group(rewards: str, lengths: str | None, tables: dict[str, str | None]) -> Group:
    """A group from what was given; the tables of tokens by option."""
    read = _listed(rewards, "--rewards", "[1, 0, 0, 0]")
    verdicts = [_number(value, f"--rewards: response {place}") for place, value in enumerate(read, 1)]
    G = len(verdicts)
    if G < 2:
        raise ExplainError(f"--rewards: {rewards}: a group of {G} has nothing to compare: give 2 responses or more")
    tokens = {option: _rows(text, option, G) for option, text in tables.items() if text is not None}
    widths = {option: len(rows[0]) for option, rows in tokens.items()}
    if len(set(widths.values())) > 1:
        raise ExplainError(
            f"{' and '.join(widths)} have rows of {' and '.join(map(str, widths.values()))} values: give as many"
        )
    T = next(iter(widths.values()), None)
    if lengths is not None:
        return Group(verdicts, _lengths(lengths, G, T), tokens)
    return Group(verdicts, None if T is None else [T] * G, tokens)


def _listed(text: str, option: str, example: str) -> list:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ExplainError(f"{option}: {text}: no JSON from character {error.pos + 1}: write {example}") from None
    if not isinstance(value, list):
        raise ExplainError(f"{option}: {text}: not a list: write {example}")
    return value


def _number(value: object, where: str) -> float:
    try:
        read = float(number(value)) if type(value) in (int, float, str) else math.nan  # type: ignore[arg-type]
    except (ValueError, OverflowError):  # a word, log 0, a whole number beyond float64
        read = math.nan
    if not math.isfinite(read):
        raise ExplainError(f"{where} is {json.dumps(value)}: give a finite number")
    return read


def _rows(text: str, option: str, G: int) -> list[list[float]]:
    least, most = BOUNDS[option]
    table = _listed(text, option, "[[0.1, 2.0], [0.3, 0.0]], a row per response")
    if len(table) != G:
        raise ExplainError(f"{option}: {len(table)} rows for {G} rewards: give one row per response")
    for place, row in enumerate(table, 1):
        if not isinstance(row, list) or not row:
            raise ExplainError(f"{option}: row {place} is {json.dumps(row)}: give a list with a number per token")
        if len(row) != len(table[0]):
            raise ExplainError(
                f"{option}: row {place} has {len(row)} values and row 1 has {len(table[0])}: "
                "fill the short ones up with 0 and say in --lengths how many values of each row count"
            )
        row[:] = [_number(value, f"{option}: row {place}, token {token}") for token, value in enumerate(row, 1)]
        for token, value in enumerate(row, 1):
            if not least <= value <= most:
                raise ExplainError(
                    f"{option}: row {place}, token {token} is {value:g}: give a value within {least:g}..{most:g}"
                )
            if option == "--ids" and value % 1:
                raise ExplainError(f"{option}: row {place}, token {token} is {value:g}: give a whole number")
    return table


def _lengths(text: str, G: int, T: int | None) -> list[int]:
    counts = _listed(text, "--lengths", "[120, 80, 64, 200]")
    if len(counts) != G:
        raise ExplainError(f"--lengths: {len(counts)} lengths for {G} rewards: give one per response")
    for place, count in enumerate(counts, 1):
        if type(count) is not int or count < 1:
            raise ExplainError(f"--lengths: response {place} is {json.dumps(count)}: give whole tokens, 1 or more")
        if T is not None and count > T:
            raise ExplainError(f"--lengths: response {place} has {count} tokens, but values of {T}: give one for each")
    return counts


def show(explanation: Explanation) -> None:
    """Print the explanation for people: the method, a row per response, the baseline, notes."""
    from rich.console import Console
    from rich.table import Table

    baseline, tokens = explanation.baseline, explanation.token_advantages
    columns = {"reward": explanation.rewards}
    if isinstance(baseline, list):
        columns["baseline"] = baseline
    columns["advantage"] = explanation.advantages
    table = Table("response", *columns, *(() if tokens is None else ("advantages of its tokens",)))
    for place, values in enumerate(zip(*columns.values(), strict=True)):
        row = [f"{value:.6g}" for value in values]
        row += [] if tokens is None else [" ".join(f"{value:.4g}" for value in tokens[place])]
        table.add_row(str(place + 1), *row)
    single = [f"baseline of the group: {baseline:.6g}"] if isinstance(baseline, float) else []
    console = Console()
    console.print(expression(explanation.algorithm), markup=False, highlight=False, soft_wrap=True)
    console.print(table)
    for line in (*single, *explanation.notes):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
