"""What the analysis and the report must know beside the tables: the declared comparison and the study's facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

BASE = "base"
PRIMARY = "primary"


def stem(method: str) -> str:
    """``qae.K0.4`` belongs to ``qae``: a study's method names hold no dot, its method points may."""
    return method.partition(".")[0]


class ReportError(ValueError):
    """What was asked of the report cannot be given; one line with the remedy."""


class Compare(Protocol):
    """The declared comparison, read by attribute."""

    @property
    def reference(self) -> str:
        """The method point all others are compared with."""
        ...

    @property
    def metric(self) -> str:
        """``avg@n`` or ``pass@k``; its macro average is what is claimed about."""
        ...

    @property
    def family(self) -> tuple[str, ...]:
        """Method points of the primary family."""
        ...

    @property
    def trends(self) -> tuple[str, ...]:
        """Ordered axes: K, kappa, group_size."""
        ...

    @property
    def smallest_effect(self) -> float:
        """The smallest difference of interest, score units (0..1)."""
        ...

    @property
    def alpha(self) -> float:
        """Family-wise error allowed."""
        ...


@dataclass(frozen=True)
class Comparison:
    """A Compare as a plain value."""

    reference: str
    metric: str
    family: tuple[str, ...]
    trends: tuple[str, ...]
    smallest_effect: float
    alpha: float

    @classmethod
    def of(cls, compare: Compare) -> Comparison:
        """The same values, apart from the study they came in."""
        return cls(
            compare.reference,
            compare.metric,
            tuple(compare.family),
            tuple(compare.trends),
            float(compare.smallest_effect),
            float(compare.alpha),
        )


@dataclass(frozen=True)
class Facts:
    """Facts of a study that the report prints and cannot derive from the tables.

    compare_hash: digest of the compare section, fixed before the first run.
    seed_varies, seed_fixed: what one training seed changes and what all seeds share.
    hashes, versions, settings: name -> text, printed as they are.
    """

    study: str
    compare: Comparison
    compare_hash: str
    question: str = "Which method of training with verifiable rewards gives the more accurate model?"
    seed_varies: tuple[str, ...] = ()
    seed_fixed: tuple[str, ...] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Facts:
        """Facts from a mapping.  Raises ReportError on an unknown or missing key."""
        known = [f.name for f in fields(cls)]
        if unknown := sorted(set(facts) - set(known)):
            raise ReportError(f"study facts: unknown key {unknown[0]!r}: the keys are {', '.join(known)}")
        if missing := [name for name in ("study", "compare", "compare_hash") if name not in facts]:
            raise ReportError(f"study facts: {missing[0]}: missing: the report cannot be written without it")
        plain = dict(facts)
        compare = plain.pop("compare")
        return cls(compare=Comparison(**compare) if isinstance(compare, Mapping) else Comparison.of(compare), **plain)
