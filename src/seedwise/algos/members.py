"""The members of the baseline axis: every part that may stand in a chain.

They are listed apart from the parts because most modules named here build on ``baseline``.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from seedwise.algos.baseline import (
    DivideByGroupMean,
    DivideByGroupStd,
    FixedBaseline,
    GroupMean,
    LeaveOneOut,
    NegMask,
    PosMask,
    Quantile,
    RandomSparsity,
)
from seedwise.algos.channels import SeparateChannels
from seedwise.algos.gates import BinarisedGate, DeadZone, HardGate, HistoricalMean, LearnedGate
from seedwise.algos.network import NetworkBaseline
from seedwise.algos.robust import HuberisedMean, LengthWeighted, Median, TrimmedMean
from seedwise.algos.scaling import BatchStd, Whitening
from seedwise.algos.schedules import DitheredQuantile, ScheduledQuantile
from seedwise.algos.sparsity import MatchedSparsity

Baseline = Annotated[
    GroupMean
    | LeaveOneOut
    | Median
    | TrimmedMean
    | HuberisedMean
    | LengthWeighted
    | Quantile
    | ScheduledQuantile
    | DitheredQuantile
    | PosMask
    | NegMask
    | HardGate
    | BinarisedGate
    | DeadZone
    | LearnedGate
    | HistoricalMean
    | NetworkBaseline
    | FixedBaseline
    | RandomSparsity
    | MatchedSparsity
    | SeparateChannels
    | DivideByGroupStd
    | DivideByGroupMean
    | BatchStd
    | Whitening,
    Field(discriminator="kind"),
]
