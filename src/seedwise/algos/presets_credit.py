"""Presets that keep DAPO's clipping and token mean: clip_higher with another credit rule.

They are listed with all others in ``presets.py``.
"""

from __future__ import annotations

import math

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import Quantile
from seedwise.algos.credit import Entropic, Source
from seedwise.algos.credit_confidence import Silent, Ucas
from seedwise.algos.credit_entropy import EntropyAdv, Gepo, Hapo, Scope
from seedwise.algos.credit_teacher import Rlrt
from seedwise.algos.credit_tokens import A3po, Denominator, ForkingTokens, Form, Less, Ranked
from seedwise.algos.presets_group import on_clip_higher


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
    credit = Entropic(kappa=kappa, b_plus=b_plus, b_minus=b_minus, source=source, decay_steps=decay_steps)
    return on_clip_higher(low, high, eps, credit=credit)


def qae_eapo(
    *, K: float = 0.4, kappa: float = math.log(4), low: float = 0.2, high: float = 0.28, eps: float = 1e-6
) -> Algorithm:
    """QAE decides which responses learn, EAPO which of their tokens."""
    return on_clip_higher(low, high, eps, centre=Quantile(K=K), credit=Entropic(kappa=kappa))


def entropy_adv(
    *, alpha: float = 0.4, kappa: float = 2.0, low: float = 0.2, high: float = 0.28, eps: float = 1e-6
) -> Algorithm:
    """EntropyAdv (arXiv:2506.14758; experimental): clip_higher with entropy added to advantages."""
    return on_clip_higher(low, high, eps, credit=EntropyAdv(alpha=alpha, kappa=kappa))


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
    return on_clip_higher(low, high, eps, credit=Hapo(alpha=alpha, phi=phi, scope=scope))


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
    return on_clip_higher(low, high, eps, credit=ForkingTokens(rho=rho, form=form, denominator=denominator))


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
    credit = A3po(scale=scale, ratio=ratio, source=source, decay_steps=decay_steps)
    return on_clip_higher(low, high, eps, credit=credit)


def less(
    *, quantile: float = 0.8, segment: int = 5, low: float = 0.2, high: float = 0.28, eps: float = 1e-6
) -> Algorithm:
    """LESS (arXiv:2512.00908): clip_higher, weaker on the easy segments that responses share."""
    return on_clip_higher(low, high, eps, credit=Less(quantile=quantile, segment=segment))


def ucas(
    *,
    success: float = 0.25,
    failure: float = 0.35,
    weight: float = 0.05,
    silent: Silent = "penalised",
    low: float = 0.2,
    high: float = 0.28,
    eps: float = 1e-6,
) -> Algorithm:
    """UCAS (arXiv:2510.10649): clip_higher, stronger for unsure successes and sure failures, less for large logits."""
    credit = Ucas(success=success, failure=failure, weight=weight, silent=silent)
    return on_clip_higher(low, high, eps, credit=credit)


def rlrt(*, mix: float = 0.5, eps_w: float = 1.0, low: float = 0.2, high: float = 0.28, eps: float = 1e-6) -> Algorithm:
    """RLRT (arXiv:2605.10781; experimental): clip_higher, stronger where a correct response surprises a teacher."""
    return on_clip_higher(low, high, eps, credit=Rlrt(mix=mix, eps_w=eps_w))


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
    credit = Gepo(alpha_low=alpha_low, alpha_high=alpha_high, beta_low=beta_low, beta_high=beta_high, gamma=gamma)
    return on_clip_higher(low, high, eps, credit=credit)
