"""Penalties: what a response that is too long costs, in reward or by not being trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

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


class OverlongFilter(Part):
    """Responses cut off at the token limit do not train (overlong filtering, DAPO, arXiv:2503.14476).

    The alternative to the soft penalty. Their tokens leave the loss and the count that a token mean divides by, as
    with TRL's mask_truncated_completions; means over responses still count them. Their verdicts stay in the
    group, so they move its baseline and its standard deviation. No credit rule sees their tokens.
    """

    horizon: ClassVar[Horizon] = "row"
    kind: Literal["overlong_filter"] = "overlong_filter"

    def __call__(self, lengths: Tensor) -> Tensor:
        """What is added to the verdicts of completions of so many tokens: 0, any shape."""
        return lengths * 0.0


def _soft(written: object) -> object:
    return {"kind": "soft_overlong", **written} if isinstance(written, dict) else written


Penalty = Annotated[SoftOverlong | OverlongFilter, Field(discriminator="kind"), BeforeValidator(_soft)]
