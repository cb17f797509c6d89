"""A part is one idea of an algorithm: a frozen, printable value with one method; and how parts compose.

The same object is read from YAML, checked, written to spec.json and called on
tensors. Parts use tensor methods only, so reading a study never imports torch.

The contract, the same on every axis: ``part(x, view, state, rng)``.

- ``x``      what flows through the chain (advantages, log-probabilities, a loss)
- ``view``   what the part may look at (views.py); the adapter fills only what ``needs`` names
- ``state``  the part's own memory, a dict of plain values or tensors, saved with checkpoints
- ``rng``    a torch.Generator derived from the run's identity; tensor methods take it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

if TYPE_CHECKING:
    from torch import Generator, Tensor

Horizon = Literal["row", "group", "micro_batch", "rollout"]


class AlgorithmError(ValueError):
    """An algorithm cannot be what was asked for: one line with the setting, its value and the remedy."""


class Part(BaseModel):
    """Base of every part.

    horizon: what the part must see at once.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    horizon: ClassVar[Horizon] = "group"

    @property
    def needs(self) -> frozenset[str]:
        """Names of the optional view fields that the adapter must fill (see views.py)."""
        return frozenset()

    @property
    def row_local(self) -> bool:
        """Whether leaving rows with zero advantage out of the update changes no other row's loss."""
        return True

    @property
    def paced(self) -> bool:
        """Whether a step depends on how many steps the run will have; such a run cannot be extended."""
        return False

    def start(self) -> dict:
        """The state of the part before the first step."""
        return {}


def chain(parts: Sequence[Any], states: Sequence[dict], x: Tensor, view: Any, rng: Generator) -> Tensor:
    """Pass x through parts in order, each with its own state."""
    for part, state in zip(parts, states, strict=True):
        x = part(x, view, state, rng)
    return x


def composed(objective: Any, logp_BT: Tensor, view: Any, window: Any, states: dict, rng: Generator) -> Tensor:
    """An objective's scalar loss: surrogate, plus penalty where there is one, averaged.

    It stands here and not in Objective so that the identity of a run covers it without covering the
    surrogates and averages that the run does not use.
    """
    loss_BT = objective.surrogate(logp_BT, view, states["surrogate"], rng)
    if objective.penalty is not None:
        loss_BT = loss_BT + objective.penalty(logp_BT, view, states["penalty"], rng)
    return objective.average(loss_BT, window, states["average"], rng)


def one_line(error: ValidationError) -> str:
    """Every fault pydantic found as one line: ``Quantile.K: Input should be less than 1, got 1.5``."""
    return "; ".join(_fault(error.title, fault) for fault in error.errors())


def _fault(title: str, fault: Mapping[str, Any]) -> str:
    where = ".".join([title, *(str(step) for step in fault["loc"])])
    message = fault["msg"].removeprefix("Value error, ")
    shown = isinstance(fault["input"], str | int | float) and fault["type"] != "value_error"
    return f"{where}: {message}, got {fault['input']!r}" if shown else f"{where}: {message}"
