"""What a method does to one group of responses, computed by the very parts that train.

Dimension key:  P prompts (here 1), G samples of the prompt, B rows (here G), T tokens of a row.

The group is the whole rollout, at the first step of a training with seed 0.  Numbers are float64.
The objective acts later, in the loss, and is not part of what is shown.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import LeaveOneOut
from seedwise.algos.part import Part, chain
from seedwise.algos.views import GroupView, TokenView, pooled_quantiles
from seedwise.catalogue import expression
from seedwise.identity import stream
from seedwise.points import points
from seedwise.study import number

if TYPE_CHECKING:
    from torch import Generator, Tensor

# what a part may need -> the option that gives it
OPTIONS = {
    "entropy": "--entropies",
    "entropy_quantiles": "--entropies",
    "old_logp": "--logprobs",
    "surprisal_quantiles": "--logprobs",
}
# steps of the training whose first one is shown; a schedule stands at its start whatever the number
STEPS = 100


class ExplainError(ValueError):
    """Something that cannot be explained: one line with the option, its value and the remedy."""


@dataclass(frozen=True)
class Explanation:
    """What a method does to one group.

    rewards: what trains, verdict plus penalty, reward units.  baseline: what they are compared with, before any
    scaling; a list where every response has its own (leave_one_out), None where not all are compared with one value.
    token_advantages: of each response's own tokens; None where they cannot be given.  notes: why, and what to know.
    """

    algorithm: Algorithm
    rewards: list[float]
    baseline: float | list[float] | None
    advantages: list[float]
    token_advantages: list[list[float]] | None
    notes: tuple[str, ...]

    def json(self) -> str:
        """One JSON object with keys baseline, advantages and token_advantages."""
        keys = ("baseline", "advantages", "token_advantages")
        return json.dumps({key: getattr(self, key) for key in keys}, allow_nan=False)


@dataclass(frozen=True)
class Group:
    """One group as given: verdicts of G responses, their lengths in tokens, values of their tokens by option [G, T]."""

    verdicts: list[float]
    lengths: list[int] | None
    tokens: dict[str, list[list[float]]]


def explain(
    method: str,
    rewards: str,
    *,
    entropies: str | None = None,
    lengths: str | None = None,
    logprobs: str | None = None,
) -> Explanation:
    """Explain a method on one group.

    method: ``qae``, ``qae:K=0.6`` or ``{baseline: [...]}`` in YAML.  rewards: JSON list of verdicts, one per response.
    entropies (nats), logprobs (of the sampled tokens under the old policy): JSON lists, a row per response.
    lengths: JSON list, how many tokens of each row count; without it all do.
    Raises ExplainError, one line.
    """
    algorithm = algorithm_of(method)
    group = _group(rewards, lengths, {"--entropies": (entropies, 0, math.inf), "--logprobs": (logprobs, -math.inf, 0)})
    _check_needs(algorithm, group)
    try:
        return _explained(algorithm, group)
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


def _group(rewards: str, lengths: str | None, tables: dict[str, tuple[str | None, float, float]]) -> Group:
    """A group from what was given; a table comes with the least and the largest value its tokens can have."""
    read = _listed(rewards, "--rewards", "[1, 0, 0, 0]")
    verdicts = [_number(value, f"--rewards: response {place}") for place, value in enumerate(read, 1)]
    G = len(verdicts)
    if G < 2:
        raise ExplainError(f"--rewards: {rewards}: a group of {G} has nothing to compare: give 2 responses or more")
    tokens = {
        option: _rows(text, option, G, least, most)
        for option, (text, least, most) in tables.items()
        if text is not None
    }
    widths = sorted({len(rows[0]) for rows in tokens.values()})
    if len(widths) > 1:
        raise ExplainError(f"{' and '.join(tokens)} have rows of {widths[0]} and {widths[1]} values: give as many")
    T = widths[0] if widths else None
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


def _rows(text: str, option: str, G: int, least: float, most: float) -> list[list[float]]:
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


def _check_needs(algorithm: Algorithm, group: Group) -> None:
    """Raise ExplainError where a part looks at what was not given, with the option that gives it."""
    if algorithm.penalty is not None and group.lengths is None:
        raise ExplainError("penalty looks at how long responses are: give --lengths, tokens of each response")
    for part in (*algorithm.baseline, algorithm.credit):
        for need in sorted(part.needs):
            option = OPTIONS.get(need)
            if option is None and part is not algorithm.credit:
                raise ExplainError(f"{_kind(part)} needs {need}, for which explain has no option")
            if option is not None and option not in group.tokens:
                raise ExplainError(f"{_kind(part)} needs {need}: give {option}, a row of numbers per response")


class _Unmeasured(GroupView):
    """A group without lengths: a part that looks at them hears which option gives them."""

    @property
    def lengths_PG(self) -> Tensor:
        raise ExplainError("this method looks at how long responses are: give --lengths, tokens of each response")


def _explained(algorithm: Algorithm, group: Group) -> Explanation:
    view, tokens = _views(algorithm, group)
    adv_PG = algorithm.advantages(view, algorithm.start(1), _rng("baseline"))
    if not bool(adv_PG.isfinite().all()):
        raise ExplainError("--rewards: too large, advantages are not finite: give smaller ones")
    baseline, why_baseline = _baseline(algorithm, view)
    of_tokens, why_tokens = None, _why_no_tokens(algorithm, group)
    if why_tokens is None:
        adv_BT = algorithm.credit(adv_PG[0], tokens, algorithm.start(1)["credit"], _rng("credit"))
        of_tokens = [row[kept].tolist() for row, kept in zip(adv_BT, tokens.mask_BT.bool(), strict=True)]
    others = (algorithm.advantages(view, algorithm.start(1), _rng("baseline", seed)) for seed in range(1, 9))
    random = any(bool((other_PG != adv_PG).any()) for other_PG in others)
    drawn = "drawn at random: another seed may give other advantages" if random else None
    return Explanation(
        algorithm=algorithm,
        rewards=view.rewards_PG[0].tolist(),
        baseline=baseline,
        advantages=adv_PG[0].tolist(),
        token_advantages=of_tokens,
        notes=tuple(note for note in (why_baseline, why_tokens, drawn, _wide(algorithm)) if note),
    )


def _views(algorithm: Algorithm, group: Group) -> tuple[GroupView, TokenView]:
    """What the parts look at, as in training; token fields are None where not given."""
    import torch

    def pooled(values_BT: Tensor | None) -> tuple[float, float] | None:
        return None if values_BT is None else pooled_quantiles(values_BT[mask_BT.bool()])

    G, T = len(group.verdicts), max((len(rows[0]) for rows in group.tokens.values()), default=0)
    given = {option: torch.tensor(rows, dtype=torch.float64) for option, rows in group.tokens.items()}
    entropy_BT, logp_BT = given.get("--entropies"), given.get("--logprobs")
    verdict_PG = torch.tensor([group.verdicts], dtype=torch.float64)
    lengths_PG = torch.tensor([group.lengths or [0] * G], dtype=torch.float64)
    mask_BT = (torch.arange(T) < lengths_PG.T).double()
    penalty_PG = torch.zeros_like(verdict_PG) if algorithm.penalty is None else algorithm.penalty(lengths_PG)
    view = (GroupView if group.lengths else _Unmeasured)(
        rewards_PG=verdict_PG + penalty_PG,
        correct_PG=verdict_PG.clamp(0, 1),
        penalty_PG=penalty_PG,
        lengths_PG=lengths_PG,
        prompt_P=torch.zeros(1, dtype=torch.int64),
        step=0,
        steps=STEPS,
        entropy=None if entropy_BT is None else entropy_BT[mask_BT.bool()].mean().item(),
    )
    return view, TokenView(
        mask_BT=mask_BT,
        rewards_B=view.rewards_PG[0],
        correct_B=view.correct_PG[0],
        group_B=torch.zeros(G, dtype=torch.int64),
        step=0,
        steps=STEPS,
        entropy_BT=entropy_BT,
        old_logp_BT=logp_BT,
        entropy_quantiles=pooled(entropy_BT),
        surprisal_quantiles=None if logp_BT is None else pooled(-logp_BT),
    )


def _rng(purpose: str, seed: int = 0) -> Generator:
    """The stream that a training with this seed has at its first step."""
    from torch import Generator

    return Generator().manual_seed(stream(seed, purpose, 0))


def _baseline(algorithm: Algorithm, view: GroupView) -> tuple[float | list[float] | None, str | None]:
    """Rewards less their centred values, and if that is not one number, why."""
    centring = [part for part in algorithm.baseline if part.role == "centres"]
    states = algorithm.start(1)["baseline"][: len(centring)]
    centred_PG = chain(centring, states, view.rewards_PG, view, _rng("baseline"))
    # R - (R - b) leaves dust in the last digits of b; adding 0 makes -0 a 0
    compared = [round(value, 14) + 0.0 for value in (view.rewards_PG - centred_PG)[0].tolist()]
    if max(compared) - min(compared) < 1e-9:
        return compared[0], None
    if isinstance(centring[0], LeaveOneOut):
        return compared, None
    return None, f"no baseline: {_kind(centring[0])} does not compare all responses with one value"


def _why_no_tokens(algorithm: Algorithm, group: Group) -> str | None:
    if missing := sorted(algorithm.credit.needs - set(OPTIONS)):
        kind = _kind(algorithm.credit)
        return f"no token advantages: {kind} needs {' and '.join(missing)}, for which explain has no option"
    return None if group.tokens else "no token advantages: give --entropies to see them"


def _wide(algorithm: Algorithm) -> str | None:
    """A note where a part looks beyond the group."""
    kinds = [_kind(part) for part in (*algorithm.baseline, algorithm.credit) if part.horizon == "rollout"]
    return f"{' and '.join(kinds)}: measured on a whole rollout in training, on this one group here" if kinds else None


def _kind(part: Part) -> str:
    return getattr(part, "kind", type(part).__name__)


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
