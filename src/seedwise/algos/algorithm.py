"""An algorithm is a chain of baselines, a credit rule, an objective and a sampler.

Every published method here is one expression over parts: see the presets at the end.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from pydantic import Field, ValidationError, model_validator

from seedwise.algos.baseline import (
    Baseline,
    DivideByGroupStd,
    GroupMean,
    Interpolation,
    LeaveOneOut,
    NegMask,
    PosMask,
    Quantile,
    RandomSparsity,
    Reading,
)
from seedwise.algos.credit import Credit, Entropic, Source, Uniform
from seedwise.algos.objective import Clipped, FixedLength, Gspo, Objective, PerSequence, PerToken
from seedwise.algos.overlong import SoftOverlong
from seedwise.algos.part import AlgorithmError, Part, chain, one_line
from seedwise.algos.sampler import Sampler, UniformSampler
from seedwise.algos.settings import nearest, with_value
from seedwise.algos.views import GroupView

if TYPE_CHECKING:
    from torch import Generator, Tensor

__all__ = ["PRESETS", "Algorithm", "AlgorithmError", "parameters", "preset", "with_value"]


class Algorithm(Part):
    """What is optimised.

    baseline: one part that centres, then at most one that scales.  penalty: added to the verdict
    before the chain; null adds nothing.
    """

    baseline: tuple[Baseline, ...] = Field(min_length=1)
    credit: Credit = Uniform()
    objective: Objective = Objective()
    sampler: Sampler = UniformSampler()
    penalty: SoftOverlong | None = None

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


def grpo(*, low: float = 0.2, high: float = 0.2, kl: float = 0.0, eps: float = 1e-6) -> Algorithm:
    """GRPO (DeepSeekMath, arXiv:2402.03300): group mean and std, mean over responses."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        objective=Objective(surrogate=Clipped(low=low, high=high), average=PerSequence(), kl=kl),
    )


def dr_grpo(*, length: int, low: float = 0.2, high: float = 0.2) -> Algorithm:
    """Dr. GRPO (arXiv:2503.20783): no std, token losses divided by a constant length in tokens."""
    return Algorithm(
        baseline=(GroupMean(),),
        objective=Objective(surrogate=Clipped(low=low, high=high), average=FixedLength(length=length)),
    )


def clip_higher(*, low: float = 0.2, high: float = 0.28, eps: float = 1e-6) -> Algorithm:
    """DAPO's clipping and token mean (arXiv:2503.14476) without its dynamic sampling."""
    return Algorithm(baseline=(GroupMean(), DivideByGroupStd(eps=eps)), objective=_token_mean(low, high))


def rloo(*, low: float = 0.2, high: float = 0.2) -> Algorithm:
    """RLOO (arXiv:2402.14740) with token ratios: leave-one-out, no std, no division by a response's own length."""
    return Algorithm(baseline=(LeaveOneOut(),), objective=_token_mean(low, high))


def gspo(*, low: float = 3e-4, high: float = 4e-4, eps: float = 1e-6) -> Algorithm:
    """GSPO (arXiv:2507.18071): one clipped ratio per response, mean over responses."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        objective=Objective(surrogate=Gspo(low=low, high=high), average=PerSequence()),
    )


def qae(
    *,
    K: float = 0.4,
    interpolation: Interpolation = "order",
    low: float = 0.2,
    high: float = 0.28,
    eps: float = 1e-6,
) -> Algorithm:
    """QAE (arXiv:2509.22611): clip_higher with the group's K-quantile in place of its mean."""
    return Algorithm(
        baseline=(Quantile(K=K, interpolation=interpolation), DivideByGroupStd(eps=eps)),
        objective=_token_mean(low, high),
    )


def eapo(
    *,
    kappa: float = math.log(4),
    b_plus: int = 1,
    b_minus: int = -1,
    source: Source = "entropy",
    decay_steps: int | None = None,
    low: float = 0.2,
    high: float = 0.28,
    eps: float = 1e-6,
) -> Algorithm:
    """EAPO (arXiv:2609.33781): clip_higher with entropic credit."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        credit=Entropic(kappa=kappa, b_plus=b_plus, b_minus=b_minus, source=source, decay_steps=decay_steps),
        objective=_token_mean(low, high),
    )


def qae_eapo(
    *, K: float = 0.4, kappa: float = math.log(4), low: float = 0.2, high: float = 0.28, eps: float = 1e-6
) -> Algorithm:
    """QAE decides which responses learn, EAPO which of their tokens."""
    return Algorithm(
        baseline=(Quantile(K=K), DivideByGroupStd(eps=eps)),
        credit=Entropic(kappa=kappa),
        objective=_token_mean(low, high),
    )


def pos_mask(
    *, K: float = 0.4, reading: Reading = "qae_value", low: float = 0.2, high: float = 0.28, eps: float = 1e-6
) -> Algorithm:
    """QAE's POS-MASK (equation 7): successes of easy groups are silent."""
    return Algorithm(
        baseline=(PosMask(K=K, reading=reading), DivideByGroupStd(eps=eps)), objective=_token_mean(low, high)
    )


def neg_mask(
    *, K: float = 0.4, reading: Reading = "qae_value", low: float = 0.2, high: float = 0.28, eps: float = 1e-6
) -> Algorithm:
    """QAE's NEG-MASK (equation 8): failures of hard groups are silent."""
    return Algorithm(
        baseline=(NegMask(K=K, reading=reading), DivideByGroupStd(eps=eps)), objective=_token_mean(low, high)
    )


def random_sparsity(*, K: float = 0.4, low: float = 0.2, high: float = 0.28, eps: float = 1e-6) -> Algorithm:
    """Control for QAE: clip_higher on as many responses of each group as QAE has active, chosen at random."""
    return Algorithm(baseline=(RandomSparsity(K=K), DivideByGroupStd(eps=eps)), objective=_token_mean(low, high))


def _token_mean(low: float, high: float) -> Objective:
    return Objective(surrogate=Clipped(low=low, high=high), average=PerToken())


_METHODS = (grpo, dr_grpo, clip_higher, rloo, gspo, qae, eapo, qae_eapo, pos_mask, neg_mask, random_sparsity)
PRESETS: dict[str, Callable[..., Algorithm]] = {method.__name__: method for method in _METHODS}


def parameters(name: str) -> dict[str, inspect.Parameter]:
    """A preset's parameters in order, by name, with type and default; every preset takes ``penalty``.

    Raises AlgorithmError on an unknown preset.
    """
    if name not in PRESETS:
        raise AlgorithmError(f"unknown preset {name!r}{nearest(name, PRESETS)}; presets are {', '.join(PRESETS)}")
    penalty = inspect.Parameter("penalty", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=SoftOverlong | None)
    return {**inspect.signature(PRESETS[name], eval_str=True).parameters, "penalty": penalty}


def preset(name: str, *, penalty: SoftOverlong | dict | None = None, **params: object) -> Algorithm:
    """The algorithm of a preset: ``preset("qae", K=0.6)``.

    Raises AlgorithmError, one line, on an unknown preset or parameter, a missing one or a value it cannot have.
    """
    known = parameters(name)
    for given in params:
        if given not in known:
            raise AlgorithmError(
                f"preset {name} has no parameter {given!r}{nearest(given, known)}; it has {', '.join(known)}"
            )
    missing = [key for key, parameter in known.items() if parameter.default is parameter.empty and key not in params]
    if missing:
        raise AlgorithmError(f"preset {name} needs {' and '.join(missing)}: set it beside preset")
    try:
        algorithm = PRESETS[name](**params)
        return Algorithm(**{**dict(algorithm), "penalty": penalty})
    except ValidationError as error:
        raise AlgorithmError(f"preset {name}: {one_line(error)}") from None
