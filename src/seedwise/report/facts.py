"""What the analysis and the report must know beside the tables: the declared comparison and the study's facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol

BASE = "base"
PRIMARY = "primary"


def stem(method: str) -> str:
    """``qae.K0.4`` belongs to ``qae``: a study's method names hold no dot, its method points may."""
    return method.partition(".")[0]


class ReportError(ValueError):
    """What was asked of the report cannot be given; one line with the remedy."""


class Declared(Protocol):
    """A declared family, read by attribute."""

    @property
    def metric(self) -> str:
        """``avg@n`` or ``pass@k``; its macro average is what is claimed about."""
        ...

    @property
    def family(self) -> tuple[str, ...]:
        """Method points of the family."""
        ...


class Bound(Protocol):
    """A declared collapse, read by attribute; one of floor and drop is None."""

    @property
    def floor(self) -> float | None:
        """Lowest value that is no collapse, in the unit of the metric."""
        ...

    @property
    def drop(self) -> float | None:
        """Largest fall from the highest value so far that is none."""
        ...

    @property
    def evaluations(self) -> int:
        """How many values in a row it takes."""
        ...


class Line(Protocol):
    """Method points along an ordered axis, read by attribute."""

    @property
    def axis(self) -> str:
        """K, kappa, group_size or a setting."""
        ...

    @property
    def points(self) -> tuple[str, ...]:
        """Method points."""
        ...


class Outcome(Protocol):
    """A declared outcome of runs, read by attribute."""

    @property
    def measure(self) -> str:
        """A name of METRICS."""
        ...

    @property
    def over(self) -> tuple[float, float]:
        """Shares of a run's steps: after the first, up to the second."""
        ...

    @property
    def summary(self) -> Literal["mean", "min", "max"]:
        """Of the defined values in these steps."""
        ...

    @property
    def trends(self) -> Mapping[str, Line]:
        """Lines by name."""
        ...

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Method points whose difference is tested."""
        ...

    @property
    def direction(self) -> Literal["rises", "falls"] | None:
        """Sign that the claim gives to every difference and slope; None: none."""
        ...

    @property
    def smallest_effect(self) -> float | None:
        """Margin of equivalence of a pair, unit of the measure; None: not tested."""
        ...

    @property
    def paired(self) -> bool:
        """Whether runs of one seed are compared with each other."""
        ...

    @property
    def claim(self) -> str:
        """The claim in words."""
        ...

    @property
    def methods(self) -> tuple[str, ...]:
        """Every method point in it."""
        ...


class Compare(Declared, Protocol):
    """The declared comparison, read by attribute; metric and family are those of the primary family."""

    @property
    def reference(self) -> str:
        """The method point all others are compared with."""
        ...

    @property
    def secondary(self) -> Mapping[str, Declared]:
        """Further declared families by name."""
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

    @property
    def spending(self) -> Literal["obf", "pocock"]:
        """How alpha is spent over the declared looks."""
        ...

    @property
    def checkpoint(self) -> Literal["last", "mean_of_last_3"]:
        """What is scored."""
        ...

    @property
    def bands(self) -> tuple[float, ...]:
        """Upper edges of the bands of base accuracy; none: no bands."""
        ...

    @property
    def curves(self) -> tuple[str, ...]:
        """``metric.summary`` of training curves."""
        ...

    @property
    def interactions(self) -> tuple[tuple[str, str], ...]:
        """Pairs of ordered axes."""
        ...

    @property
    def crossover(self) -> Mapping[str, float]:
        """Metric -> level that a run is to stay above."""
        ...

    @property
    def collapse(self) -> Mapping[str, Bound]:
        """Metric -> when a run counts as collapsed."""
        ...

    @property
    def budget(self) -> Mapping[Any, float | None]:
        """Cost -> amount at which scores are compared; None: the largest that every run reached."""
        ...

    @property
    def outcomes(self) -> Mapping[str, Outcome]:
        """Outcomes of runs by name."""
        ...


@dataclass(frozen=True)
class Family:
    """A Declared as a plain value."""

    metric: str
    family: tuple[str, ...]


@dataclass(frozen=True)
class Fall:
    """A Bound as a plain value."""

    floor: float | None = None
    drop: float | None = None
    evaluations: int = 3


@dataclass(frozen=True)
class Comparison:
    """A Compare as a plain value."""

    reference: str
    metric: str
    family: tuple[str, ...]
    trends: tuple[str, ...]
    smallest_effect: float
    alpha: float
    secondary: Mapping[str, Declared] = field(default_factory=dict)
    spending: Literal["obf", "pocock"] = "obf"
    checkpoint: Literal["last", "mean_of_last_3"] = "last"
    bands: tuple[float, ...] = (0.0, 0.5)
    curves: tuple[str, ...] = ()
    budget: Mapping[Any, float | None] = field(default_factory=dict)
    interactions: tuple[tuple[str, str], ...] = ()
    crossover: Mapping[str, float] = field(default_factory=dict)
    collapse: Mapping[str, Bound] = field(default_factory=dict)
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)

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
            {name: Family(each.metric, tuple(each.family)) for name, each in compare.secondary.items()},
            compare.spending,
            compare.checkpoint,
            tuple(compare.bands),
            tuple(compare.curves),
            dict(compare.budget),
            tuple(compare.interactions),
            dict(compare.crossover),
            {name: Fall(each.floor, each.drop, each.evaluations) for name, each in compare.collapse.items()},
            dict(compare.outcomes),
        )


@dataclass(frozen=True)
class Look:
    """Which look at the data an analysis is; its level follows from the seeds at the looks so far.

    number: from 1; an analysis of the same scores again is the same look.  seeds: S per method, as planned.
    planned: S at every declared look, None for one look at all seeds.  taken: S at the declared looks so
    far, this one last.  registration, first: digests of the declaration now and at the first look.
    reason: why this look was not declared, so that its verdicts are withheld.
    """

    number: int
    seeds: int
    planned: tuple[int, ...] | None
    taken: tuple[int, ...]
    registration: str
    first: str
    reason: str | None = None

    @property
    def changed(self) -> bool:
        """Whether the declaration is not the one of the first look."""
        return self.registration != self.first

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the planned seeds at the declared looks so far; (1.0,) where one look was planned.

        Fixed by the declaration alone.  For new problems the looks share more information than this
        says, which makes the levels stricter, never looser.
        """
        return tuple(S / self.planned[-1] for S in self.taken) if self.planned else (1.0,)


@dataclass(frozen=True)
class Facts:
    """Facts of a study that the report prints and cannot derive from the tables.

    compare_hash: digest of the compare section, fixed before the first run.  declared_in: where that stands.
    seed_varies, seed_fixed: what one training seed changes and what all seeds share.
    hashes, versions, settings: name -> text, printed as they are.
    cautions: what a reader must know before any table: printed first, and under every table.
    """

    study: str
    compare: Comparison
    compare_hash: str
    question: str = "Which method of training with verifiable rewards gives the more accurate model?"
    declared_in: str = "Compare section of the study"
    seed_varies: tuple[str, ...] = ()
    seed_fixed: tuple[str, ...] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    cautions: tuple[str, ...] = ()

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
