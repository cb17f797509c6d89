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
    DivideByGroupStd,
    FixedBaseline,
    GroupMean,
    Interpolation,
    LeaveOneOut,
    NegMask,
    PosMask,
    Quantile,
    RandomSparsity,
    Reading,
)
from seedwise.algos.controller import AdaptiveK
from seedwise.algos.credit import Credit, Entropic, Source, Uniform
from seedwise.algos.credit_entropy import EntropyAdv, Gepo, Hapo, Scope
from seedwise.algos.credit_tokens import A3po, Denominator, ForkingTokens, Form, Less, Ranked
from seedwise.algos.gates import HardGate
from seedwise.algos.members import Baseline
from seedwise.algos.objective import Clipped, FixedLength, Gspo, Objective, PerSequence, PerToken
from seedwise.algos.overlong import SoftOverlong
from seedwise.algos.part import AlgorithmError, Part, chain, one_line
from seedwise.algos.robust import LengthWeighted
from seedwise.algos.sampler import Sampler, UniformSampler
from seedwise.algos.scaling import Whitening
from seedwise.algos.schedules import DitheredQuantile, Linear, ScheduledQuantile
from seedwise.algos.settings import nearest, with_value
from seedwise.algos.surrogates import Cispo, ClipCov, KlCov
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


def opo(*, low: float = 0.2, high: float = 0.2) -> Algorithm:
    """OPO (arXiv:2505.23585): baseline weighted by length, no std; take one optimizer step per rollout."""
    return Algorithm(baseline=(LengthWeighted(),), objective=_token_mean(low, high))


def reinforce_pp(*, low: float = 0.2, high: float = 0.2, eps: float = 1e-8) -> Algorithm:
    """REINFORCE++ with a group baseline (arXiv:2501.03262): advantages whitened over all tokens of the rollout."""
    return Algorithm(baseline=(GroupMean(), Whitening(eps=eps)), objective=_token_mean(low, high))


def psr(*, low: float = 0.2, high: float = 0.28, eps: float = 1e-6) -> Algorithm:
    """Positive samples only: b = 0, so that failures (reward 0) are silent; QAE's limit of small K."""
    return Algorithm(baseline=(FixedBaseline(b=0), DivideByGroupStd(eps=eps)), objective=_token_mean(low, high))


def nsr(*, low: float = 0.2, high: float = 0.28, eps: float = 1e-6) -> Algorithm:
    """Negative samples only: b = 1, so that successes (reward 1) are silent; QAE's limit of large K."""
    return Algorithm(baseline=(FixedBaseline(b=1), DivideByGroupStd(eps=eps)), objective=_token_mean(low, high))


def hard_gate(*, tau: float = 0.4, low: float = 0.2, high: float = 0.28, eps: float = 1e-6) -> Algorithm:
    """Control for QAE: its gate written without a quantile; on 0/1 rewards the same at tau = K."""
    return Algorithm(baseline=(HardGate(tau=tau), DivideByGroupStd(eps=eps)), objective=_token_mean(low, high))


def qae_scheduled(
    *,
    start_K: float = 0.6,
    end_K: float = 0.4,
    steps: int | None = None,
    low: float = 0.2,
    high: float = 0.28,
    eps: float = 1e-6,
) -> Algorithm:
    """QAE with a K that moves in a straight line over so many optimizer steps (null: the whole run)."""
    return Algorithm(
        baseline=(
            ScheduledQuantile(schedule=Linear(start_K=start_K, end_K=end_K, steps=steps)),
            DivideByGroupStd(eps=eps),
        ),
        objective=_token_mean(low, high),
    )


def qae_adaptive(
    *,
    K: float = 0.4,
    target: float | None = None,
    kp: float = 0.05,
    ki: float = 0.005,
    low: float = 0.2,
    high: float = 0.28,
    eps: float = 1e-6,
) -> Algorithm:
    """QAE with a K that holds the policy's entropy at a target in nats (null: learned from the run's beginning)."""
    return Algorithm(
        baseline=(
            ScheduledQuantile(schedule=AdaptiveK(K=K, target=target, kp=kp, ki=ki)),
            DivideByGroupStd(eps=eps),
        ),
        objective=_token_mean(low, high),
    )


def qae_dithered(*, K: float = 0.4, low: float = 0.2, high: float = 0.28, eps: float = 1e-6) -> Algorithm:
    """QAE with a rank drawn group by group, so that a K between two ranks has an effect of its own."""
    return Algorithm(baseline=(DitheredQuantile(K=K), DivideByGroupStd(eps=eps)), objective=_token_mean(low, high))


def _token_mean(low: float, high: float) -> Objective:
    return Objective(surrogate=Clipped(low=low, high=high), average=PerToken())


def entropy_adv(
    *, alpha: float = 0.4, kappa: float = 2.0, low: float = 0.2, high: float = 0.28, eps: float = 1e-6
) -> Algorithm:
    """EntropyAdv (arXiv:2506.14758; experimental): clip_higher with entropy added to advantages."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        credit=EntropyAdv(alpha=alpha, kappa=kappa),
        objective=_token_mean(low, high),
    )


def hapo(
    *,
    alpha: float = 0.2,
    phi: float = 2.0,
    scope: Scope = "rollout",
    low: float = 0.2,
    high: float = 0.28,
    eps: float = 1e-6,
) -> Algorithm:
    """HAPO (arXiv:2604.11056; experimental): clip_higher with advantages larger at tokens of high entropy."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        credit=Hapo(alpha=alpha, phi=phi, scope=scope),
        objective=_token_mean(low, high),
    )


def forking(
    *,
    rho: float = 0.2,
    form: Form = "exact",
    denominator: Denominator = "all",
    low: float = 0.2,
    high: float = 0.28,
    eps: float = 1e-6,
) -> Algorithm:
    """The 80/20 rule (arXiv:2506.01939): clip_higher on the tokens of highest entropy alone."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        credit=ForkingTokens(rho=rho, form=form, denominator=denominator),
        objective=_token_mean(low, high),
    )


def a3po(
    *,
    scale: float = 2.0,
    ratio: float = 0.2,
    source: Ranked = "surprisal",
    decay_steps: int | None = None,
    low: float = 0.2,
    high: float = 0.28,
    eps: float = 1e-6,
) -> Algorithm:
    """A3PO (arXiv:2512.21625; experimental): clip_higher, stronger where responses surprise."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        credit=A3po(scale=scale, ratio=ratio, source=source, decay_steps=decay_steps),
        objective=_token_mean(low, high),
    )


def less(
    *, quantile: float = 0.8, segment: int = 5, low: float = 0.2, high: float = 0.28, eps: float = 1e-6
) -> Algorithm:
    """LESS (arXiv:2512.00908): clip_higher, weaker on the easy segments that responses share."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        credit=Less(quantile=quantile, segment=segment),
        objective=_token_mean(low, high),
    )


def gepo(
    *,
    alpha_low: float = 0.5,
    alpha_high: float = 0.2,
    beta_low: float = 0.2,
    beta_high: float = 0.3,
    gamma: float = 0.01,
    low: float = 0.2,
    high: float = 0.28,
    eps: float = 1e-6,
) -> Algorithm:
    """GEPO (arXiv:2607.16850; experimental): clip_higher, weaker on groups of unusual entropy."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        credit=Gepo(alpha_low=alpha_low, alpha_high=alpha_high, beta_low=beta_low, beta_high=beta_high, gamma=gamma),
        objective=_token_mean(low, high),
    )


def cispo(*, cap: float = 5.0, floor: float = 0.0, eps: float = 1e-6) -> Algorithm:
    """CISPO (arXiv:2506.13585): clipped ratios as weights, so every token keeps its gradient; token mean."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        objective=Objective(surrogate=Cispo(cap=cap, floor=floor), average=PerToken()),
    )


def clip_cov(
    *,
    ratio: float = 2e-4,
    cov_low: float = 1.0,
    cov_high: float = 5.0,
    low: float = 1.0,
    high: float = 1.0,
    eps: float = 1e-6,
) -> Algorithm:
    """Clip-Cov (arXiv:2505.22617): a few tokens of high covariance learn nothing; token mean."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        objective=Objective(
            surrogate=ClipCov(ratio=ratio, cov_low=cov_low, cov_high=cov_high, low=low, high=high), average=PerToken()
        ),
    )


def kl_cov(*, ratio: float = 2e-3, coef: float = 1.0, eps: float = 1e-6) -> Algorithm:
    """KL-Cov (arXiv:2505.22617): tokens of the highest covariance are pulled to the old policy; token mean."""
    return Algorithm(
        baseline=(GroupMean(), DivideByGroupStd(eps=eps)),
        objective=Objective(surrogate=KlCov(ratio=ratio, coef=coef), average=PerToken()),
    )


def qae_clip_cov(
    *,
    K: float = 0.4,
    ratio: float = 2e-4,
    cov_low: float = 1.0,
    cov_high: float = 5.0,
    low: float = 1.0,
    high: float = 1.0,
    eps: float = 1e-6,
) -> Algorithm:
    """QAE on Clip-Cov (arXiv:2509.22611)."""
    return Algorithm(
        baseline=(Quantile(K=K), DivideByGroupStd(eps=eps)),
        objective=Objective(
            surrogate=ClipCov(ratio=ratio, cov_low=cov_low, cov_high=cov_high, low=low, high=high), average=PerToken()
        ),
    )


def qae_kl_cov(*, K: float = 0.4, ratio: float = 2e-3, coef: float = 1.0, eps: float = 1e-6) -> Algorithm:
    """QAE on KL-Cov (arXiv:2509.22611)."""
    return Algorithm(
        baseline=(Quantile(K=K), DivideByGroupStd(eps=eps)),
        objective=Objective(surrogate=KlCov(ratio=ratio, coef=coef), average=PerToken()),
    )


def qae_gspo(*, K: float = 0.4, low: float = 3e-4, high: float = 4e-4, eps: float = 1e-6) -> Algorithm:
    """QAE on GSPO (arXiv:2509.22611)."""
    return Algorithm(
        baseline=(Quantile(K=K), DivideByGroupStd(eps=eps)),
        objective=Objective(surrogate=Gspo(low=low, high=high), average=PerSequence()),
    )


_METHODS = (
    grpo,
    dr_grpo,
    clip_higher,
    rloo,
    gspo,
    qae,
    eapo,
    qae_eapo,
    pos_mask,
    neg_mask,
    random_sparsity,
    opo,
    reinforce_pp,
    psr,
    nsr,
    hard_gate,
    qae_scheduled,
    qae_adaptive,
    qae_dithered,
    entropy_adv,
    hapo,
    forking,
    a3po,
    less,
    gepo,
    cispo,
    clip_cov,
    kl_cov,
    qae_clip_cov,
    qae_kl_cov,
    qae_gspo,
)
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
