"""What a method does to one group of responses, computed by the very parts that train.

Dimension key:  P prompts (here 1), G samples of the prompt, B rows (here G), T tokens of a row.

The group is the whole rollout, at the first step of a training with seed 0.  Numbers are float64.
The objective acts later, in the loss, and is not part of what is shown.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import LeaveOneOut
from seedwise.algos.part import Part, chain
from seedwise.algos.sampler import DynamicSampling
from seedwise.algos.views import GroupView, TokenView, pooled_quantiles
from seedwise.identity import stream

if TYPE_CHECKING:
    from torch import Generator, Tensor

# what a part may need -> the option that gives it
OPTIONS = {
    "entropy": "--entropies",
    "entropy_quantiles": "--entropies",
    "old_logp": "--logprobs",
    "surprisal_quantiles": "--logprobs",
    "teacher_logp": "--teacher-logprobs",
    "logit": "--logits",
    "confidence": "--confidences",
    "ids": "--ids",
}
# what a part may need and every training has at its first step: no step, so no norm of a gradient
AT_START = frozenset({"gradient_norms"})
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


def check_needs(algorithm: Algorithm, group: Group) -> None:
    """Raise ExplainError where a part looks at what was not given, with the option that gives it."""
    if algorithm.penalty is not None and not algorithm.masks_truncated and group.lengths is None:
        raise ExplainError("penalty looks at how long responses are: give --lengths, tokens of each response")
    for part in (*algorithm.baseline, algorithm.credit):
        for need in sorted(part.needs - AT_START):
            option = OPTIONS.get(need)
            if option is None:
                raise ExplainError(f"{_kind(part)} needs {need}, for which explain has no option")
            if option not in group.tokens:
                raise ExplainError(f"{_kind(part)} needs {need}: give {option}, a row of numbers per response")


class _Unmeasured(GroupView):
    """A group without lengths: a part that looks at them hears which option gives them."""

    @property
    def lengths_PG(self) -> Tensor:
        raise ExplainError("this method looks at how long responses are: give --lengths, tokens of each response")


def explained(algorithm: Algorithm, group: Group) -> Explanation:
    """What the algorithm does to the group.  Raises ExplainError, or the ValueError of a part."""
    view, tokens = _views(algorithm, group)
    adv_PG = algorithm.advantages(view, algorithm.start(1), _rng("baseline"))
    if not bool(adv_PG.isfinite().all()):
        raise ExplainError("--rewards: too large, advantages are not finite: give smaller ones")
    baseline, why_baseline = _baseline(algorithm, view)
    of_tokens, why_tokens = None, None if group.tokens else "no token advantages: give --entropies to see them"
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
        notes=tuple(note for note in (why_baseline, why_tokens, drawn, *_around(algorithm, group)) if note),
    )


def _views(algorithm: Algorithm, group: Group) -> tuple[GroupView, TokenView]:
    """What the parts look at, as in training; token fields are None where not given."""
    import torch

    def pooled(values_BT: Tensor | None) -> tuple[float, float] | None:
        return None if values_BT is None else pooled_quantiles(values_BT[mask_BT.bool()])

    G, T = len(group.verdicts), max((len(rows[0]) for rows in group.tokens.values()), default=0)
    given = {option: torch.tensor(rows, dtype=torch.float64) for option, rows in group.tokens.items()}
    entropy_BT, logp_BT, ids_BT = (given.get(option) for option in ("--entropies", "--logprobs", "--ids"))
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
        gradient_norms=(),
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
        ids_BT=None if ids_BT is None else ids_BT.long(),
        logit_BT=given.get("--logits"),
        confidence_BT=given.get("--confidences"),
        teacher_logp_BT=_taught(given.get("--teacher-logprobs"), verdict_PG[0] >= 1),
    )


def _taught(teacher_BT: Tensor | None, correct_B: Tensor) -> Tensor | None:
    """The teacher's log-probabilities, NaN on rows that have none in training: see TokenView."""
    if teacher_BT is None:
        return None
    return teacher_BT.masked_fill(~(correct_B & (correct_B.sum() > 1))[:, None], math.nan)


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


def _around(algorithm: Algorithm, group: Group) -> tuple[str | None, ...]:
    """Notes on what happens around the group: before it is formed, and to what parts see of the rollout."""
    flat = isinstance(algorithm.sampler, DynamicSampling) and len(set(group.verdicts)) == 1
    return (
        _wide(algorithm),
        "dynamic: verdicts are equal, so this group would not train and another problem be drawn" if flat else None,
        "overlong_filter: responses cut off at the token limit do not train" if algorithm.masks_truncated else None,
    )


def _wide(algorithm: Algorithm) -> str | None:
    """A note where a part looks beyond the group."""
    kinds = [_kind(part) for part in (*algorithm.baseline, algorithm.credit) if part.horizon == "rollout"]
    return f"{' and '.join(kinds)}: measured on a whole rollout in training, on this one group here" if kinds else None


def _kind(part: Part) -> str:
    return getattr(part, "kind", type(part).__name__)
