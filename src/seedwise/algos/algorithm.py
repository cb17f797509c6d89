"""An algorithm is a chain of baselines, a credit rule, an objective and a sampler.

Every published method is one expression over parts: see presets.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pydantic import Field, model_validator

from seedwise.algos.channels import SeparateChannels
from seedwise.algos.credit import Credit, Uniform
from seedwise.algos.members import Baseline
from seedwise.algos.objective import Objective
from seedwise.algos.overlong import OverlongFilter, Penalty
from seedwise.algos.part import AlgorithmError, Part, chain
from seedwise.algos.sampler import Sampler, UniformSampler
from seedwise.algos.settings import with_value
from seedwise.algos.views import GroupView

if TYPE_CHECKING:
    from torch import Generator, Tensor

__all__ = ["Algorithm", "AlgorithmError", "with_value"]


class Algorithm(Part):
    """What is optimised.

    baseline: one part that centres, then at most one that scales.  penalty: of responses that are too long, before
    the chain; null has none.
    """

    baseline: tuple[Baseline, ...] = Field(min_length=1)
    credit: Credit = Uniform()
    objective: Objective = Objective()
    sampler: Sampler = UniformSampler()
    penalty: Penalty | None = None

    @model_validator(mode="after")
    def _centres_once_then_scales(self) -> Self:
        roles, kinds = [part.role for part in self.baseline], [part.kind for part in self.baseline]
        if roles.count("centres") == 0:
            raise ValueError(
                f"baseline {kinds} never subtracts anything: put group_mean first, "
                "or {kind: fixed_baseline, b: 0} to train on raw rewards"
            )
        if roles.count("centres") > 1:
            raise ValueError(f"baseline {kinds} centres more than once, so the last one undoes the others: keep one")
        if roles[0] != "centres":
            raise ValueError(f"baseline {kinds} divides before it subtracts: put {kinds[roles.index('centres')]} first")
        if roles.count("scales") > 1:
            raise ValueError(f"baseline {kinds} divides more than once: keep one")
        return self

    @model_validator(mode="after")
    def _channels_are_a_whole_chain(self) -> Self:
        if isinstance(self.baseline[0], SeparateChannels) and len(self.baseline) > 1:
            kind = self.baseline[1].kind
            raise ValueError(
                f"{kind} after separate_channels would divide the penalty too: "
                f"set its scale to {{kind: {kind}}} or null, and leave {kind} out"
            )
        return self

    @model_validator(mode="after")
    def _credit_reaches_the_loss(self) -> Self:
        if not self.credit.even and self.objective.surrogate.level == "sequence":
            raise ValueError(
                f"credit {self.credit.kind} has no effect under {self.objective.surrogate.kind} of level sequence, "
                "whose gradient sees only the mean over a response: set objective.surrogate.level to token, "
                "or credit to uniform"
            )
        return self

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every part in use: what the behaviour of a run covers, unused members of the unions left out."""
        penalty = () if self.penalty is None else (self.penalty,)
        return (self.sampler, *penalty, *self.baseline, self.credit, *self.objective.parts)

    @property
    def needs(self) -> frozenset[str]:
        """Optional view fields that some part looks at."""
        return frozenset().union(*(part.needs for part in self.parts))

    @property
    def row_local(self) -> bool:
        """Whether every part is."""
        return all(part.row_local for part in self.parts)

    @property
    def masks_truncated(self) -> bool:
        """Whether responses cut off at the token limit are left out of the loss and of the count of its tokens."""
        return isinstance(self.penalty, OverlongFilter)

    @property
    def paced(self) -> bool:
        """Whether any part is."""
        return any(part.paced for part in self.parts)

    def may_skip(self) -> str | None:
        """None if leaving rows with zero advantage out of the update is exact, else why it is not, in a line."""
        for part in self.parts:
            if not part.row_local:
                kind = getattr(part, "kind", type(part).__name__)
                return f"{kind} acts on rows with zero advantage too: set train.skip_zero_advantage to false"
        return None

    def start(self, problems: int = 0) -> dict:
        """The states of the parts before the first step of a training on so many problems."""
        return {
            "baseline": [part.start() for part in self.baseline],
            "credit": self.credit.start(),
            "objective": self.objective.start(),
            "sampler": self.sampler.start(problems),
        }

    def advantages(self, view: GroupView, state: dict, rng: Generator) -> Tensor:
        """The chain of baselines: rewards to advantages, ``[P, G]``. ``state`` is that of ``start``."""
        return chain(self.baseline, state["baseline"], view.rewards_PG, view, rng)
