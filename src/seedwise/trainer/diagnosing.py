"""Diagnostics of a step, from what the trainer has at hand to metrics; diagnostics.py has the arithmetic.

Dimension key:  P prompts, G samples of one prompt, B rows of this process, T completion tokens, V vocabulary.

Log-probabilities and entropies are those the responses were drawn with.  What is measured after an update is
measured after the last update on a rollout, over its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seedwise.trainer.batch import sequence
from seedwise.trainer.diagnostics import (
    Scored,
    contributions,
    entropy_change,
    entropy_identity,
    entropy_slope,
    gradient_noise,
    update_mass,
)

if TYPE_CHECKING:
    from seedwise.algos.views import GroupView
    from seedwise.trainer.records import Value
    from seedwise.trainer.rollout import Row

CHOSEN = 64  # tokens whose whole distributions are compared
NO_ENTROPY = "the engine gives no entropy over the whole vocabulary"

Gather = Callable[[Tensor], Tensor]
Score = Callable[[dict[str, Any]], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class _Before:
    """A rollout before its updates.

    out: its rows of this process.  scored: None where only whole distributions are wanted.  logps_NV: of the first
    tokens that train, None where they are not.
    """

    out: dict[str, Any]
    scored: Scored | None
    adv_BT: Tensor
    logps_NV: Tensor | None


class Diagnosing:
    """The diagnostics that a study wants, in the order in which they can be taken.

    wanted: names.  gather: rows of this process to those of all, padded.  per_response: whether the loss is a mean
    over responses, whose tokens then weigh by their response's length.
    """

    def __init__(self, wanted: Sequence[str], gather: Gather, *, per_response: bool) -> None:
        self.wanted, self.gather, self.per_response = frozenset(wanted), gather, per_response
        self._before: _Before | None = None

    def rollout(
        self,
        out: dict[str, Any],
        rows: Sequence[Row],
        groups: GroupView,
        adv_PG: Tensor,
        score: Score,
        distributions: Gather,
    ) -> dict[str, Value]:
        """What can be said before the update.

        out: the rollout with its token advantages.  rows: those of this process.  distributions: from the chosen
        places of the rows, ``[B, T]`` bool, to log-probabilities of the whole vocabulary there, ``[N, V]``.
        score: a pass over the rows, which a change is measured against: the engine's values differ from it by rounding.
        """
        mask_BT, adv_BT = out["completion_mask"].float(), self._pulls(out)
        found: dict[str, Value] = {}
        if "update_mass" in self.wanted:
            found |= update_mass(groups.correct_PG, adv_PG).metrics()
        if "gradient_noise" in self.wanted:
            pull_N = self.gather(contributions(_logps(rows, mask_BT), adv_BT, mask_BT)[:, None])
            found |= gradient_noise(pull_N.view(adv_PG.shape), adv_PG != 0).metrics()
        if "entropy_slope" in self.wanted:
            found |= self._slope(as_drawn(rows, mask_BT), adv_BT, mask_BT)
        if self.wanted & {"entropy_change", "entropy_identity"}:
            scored = Scored(*score(out)) if "entropy_change" in self.wanted else None
            logps_NV = distributions(self._chosen(adv_BT)) if "entropy_identity" in self.wanted else None
            self._before = _Before(out, scored, adv_BT, logps_NV)
        return found

    def updated(self, score: Score, distributions: Gather) -> dict[str, Value]:
        """What can be said after the last update on the rollout; nothing where nothing of it is wanted."""
        before, self._before = self._before, None
        if before is None:
            return {}
        found: dict[str, Value] = {}
        if before.scored is not None:
            found |= self._change(before, before.scored, Scored(*score(before.out)))
        if before.logps_NV is not None:
            now_NV = distributions(self._chosen(before.adv_BT))
            found |= entropy_identity(before.logps_NV, now_NV).metrics()
        return found

    def _pulls(self, out: dict[str, Any]) -> Tensor:
        adv_BT = out["advantages"]
        return adv_BT / out["completion_mask"].sum(1).clamp(min=1)[:, None] if self.per_response else adv_BT

    def _slope(self, drawn: Scored | None, adv_BT: Tensor, mask_BT: Tensor) -> dict[str, Value]:
        if drawn is None:
            return {"entropy_slope_nats": (None, NO_ENTROPY)}
        logp_BT, entropy_BT, adv_BT, mask_BT = map(self.gather, (*drawn, adv_BT, mask_BT))
        return entropy_slope(Scored(logp_BT, entropy_BT), adv_BT, mask_BT).metrics()

    def _change(self, before: _Before, then: Scored, now: Scored) -> dict[str, Value]:
        mask_BT = self.gather(before.out["completion_mask"].float())
        then, after = (Scored(*map(self.gather, scored)) for scored in (then, now))
        return entropy_change(then, after, self.gather(before.adv_BT), mask_BT).metrics()

    @staticmethod
    def _chosen(adv_BT: Tensor) -> Tensor:
        """The first tokens of this process that train, as many as are compared, ``[B, T]`` bool."""
        train_BT = adv_BT != 0
        return train_BT & (train_BT.flatten().cumsum(0).view(train_BT.shape) <= CHOSEN)


def distributions(model: Any, out: dict[str, Any], chosen_BT: Tensor, *, temperature: float, batch: int) -> Tensor:
    """Log-probabilities of the whole vocabulary at the chosen places of a rollout, ``[N, V]``."""
    ids, mask, T = sequence(out)
    found = []
    with torch.no_grad():
        for first in range(0, len(ids), batch):
            rows = slice(first, first + batch)
            if not chosen_BT[rows].any():
                continue
            z_BTV = model(input_ids=ids[rows], attention_mask=mask[rows], logits_to_keep=T + 1, use_cache=False).logits
            found.append((z_BTV[:, :-1][:, -T:][chosen_BT[rows]].float() / temperature).log_softmax(1))
    return torch.cat(found) if found else torch.zeros(0, 0)


def _logps(rows: Sequence[Row], like_BT: Tensor) -> Tensor:
    return _padded([row.logps for row in rows], like_BT)


def as_drawn(rows: Sequence[Row], like_BT: Tensor) -> Scored | None:
    """Rows as the engine drew them, 0 on padding, ``[B, T]`` like ``like_BT``; None where it gave no entropies."""
    entropies = [row.entropies for row in rows if row.entropies is not None]
    return Scored(_logps(rows, like_BT), _padded(entropies, like_BT)) if len(entropies) == len(rows) else None


def _padded(values: Sequence[Sequence[float]], like_BT: Tensor) -> Tensor:
    padded_BT = torch.zeros_like(like_BT)
    for b, value in enumerate(values):
        padded_BT[b, : len(value)] = torch.tensor(value, device=like_BT.device)
    return padded_BT
