"""Penalties: what is added to the verifier's verdict to make the reward that trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from seedwise.algos.part import Horizon, Part

if TYPE_CHECKING:
    from torch import Tensor


class SoftOverlong(Part):
    """DAPO's soft overlong penalty (arXiv:2503.14476, equation 13).

    0 up to ``max_length - cache`` tokens, then falling linearly to -1 at ``max_length``, and -1 beyond.
    It comes before the chain of baselines, so it is called on lengths alone.

    max_length, cache: tokens.
    """

    horizon: ClassVar[Horizon] = "row"
    kind: Literal["soft_overlong"] = "soft_overlong"
    max_length: int = Field(gt=0)
    cache: int = Field(gt=0)

    @model_validator(mode="after")
    def _cache_within_length(self) -> Self:
        if self.cache > self.max_length:
            raise ValueError(
                f"cache {self.cache} is longer than max_length {self.max_length}: "
                "the penalty would begin before the first token; lower cache"
            )
        return self

    def __call__(self, lengths: Tensor) -> Tensor:
        """The penalty of completions of so many tokens, any shape, in -1..0 reward units."""
        return ((self.max_length - self.cache - lengths).clamp(max=0) / self.cache).clamp(min=-1)
