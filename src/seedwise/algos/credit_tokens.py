"""Credit that picks tokens: forking tokens, A3PO, LESS.

Dimension key:  B rows (samples), T completion tokens, N response tokens.

"The rows given" are those of this process, which in a training of one process are the whole rollout. Of
several processes each would pool its own rows only, unless it is given the rows of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from seedwise.algos.credit_entropy import needed
from seedwise.algos.part import Horizon, Part
from seedwise.algos.views import TokenView

if TYPE_CHECKING:
    from torch import Generator, Tensor

Form = Literal["exact", "threshold"]
Denominator = Literal["all", "kept"]
Ranked = Literal["surprisal", "entropy"]


class ForkingTokens(Part):
    """Only tokens of high entropy learn (the 80/20 rule, arXiv:2506.01939).

    Pools the N response tokens of the rows given, those with zero advantage too, and takes the entropy of
    the old policy, once per rollout. The authors and TRL take the present policy's in every micro-batch: all
    agree where the micro-batch is the rollout and the update its first.

    rho: share of tokens that learn.
    form: ``exact`` keeps the ``ceil(rho N)`` tokens of highest entropy, of equal ones the earlier (the authors'
        count); ``threshold`` all at or above the quantile ``1 - rho``, linear interpolation, so that ties may
        keep many more (TRL 1.16.0, top_entropy_quantile).
    denominator: ``all`` lets the loss divide by all response tokens (TRL; the paper's objective, unchecked);
        ``kept`` acts as if it divided by the kept ones, multiplying advantages by N / kept (the authors' code;
        equal to it under a token mean over the whole rollout).
    """

    horizon: ClassVar[Horizon] = "rollout"
    even: ClassVar[bool] = False
    kind: Literal["forking_tokens"] = "forking_tokens"
    rho: float = Field(default=0.2, gt=0, le=1)
    form: Form = "exact"
    denominator: Denominator = "all"

    @property
    def needs(self) -> frozenset[str]:
        """Entropy."""
        return frozenset({"entropy"})

    def kept(self, view: TokenView) -> Tensor:
        """1.0 on tokens that learn, ``[B, T]``."""
        entropy_BT, N = needed(view.entropy_BT, self.kind, "entropy"), int(view.mask_BT.sum())
        if self.form == "exact" or N == 0:
            # 1e-9 as in a rank of the quantile baseline: 0.07 * 100 is 7.000000000000001
            return highest(entropy_BT, view.mask_BT, max(1, math.ceil(self.rho * N - 1e-9)))
        return view.mask_BT * (entropy_BT >= linear_quantile(entropy_BT[view.mask_BT > 0], 1 - self.rho))

    def __call__(self, adv_B: Tensor, view: TokenView, state: dict, rng: Generator) -> Tensor:
        """Token advantages ``[B, T]``, 0 on padding and on tokens that do not learn."""
        kept_BT = self.kept(view)
        adv_BT = adv_B[:, None] * kept_BT
        return adv_BT if self.denominator == "all" else adv_BT * (view.mask_BT.sum() / kept_BT.sum().clamp(min=1))


def linear_quantile(values_N: Tensor, level: float) -> Tensor:
    """The quantile as Tensor.quantile computes it, which TRL calls, without its limit of 2**24 values.

    Not views.pooled_quantiles: its float64 rank may lie by rounding just above a whole number where this
    float32 rank does not, and the token at the threshold would be lost.
    """
    sorted_N = values_N.sort().values
    place = sorted_N.new_tensor(level) * (len(sorted_N) - 1)
    below, above = sorted_N[place.floor().int()], sorted_N[place.ceil().int()]
    return below.lerp(above, place - place.floor())


def highest(values_BT: Tensor, mask_BT: Tensor, count: int) -> Tensor:
    """1.0 on the ``count`` highest values under the mask, of equal ones the earlier in row order: ``[B, T]``."""
    value_N = values_BT.masked_fill(mask_BT <= 0, -math.inf).flatten()
    index_K = value_N.sort(descending=True, stable=True).indices[:count]
    return mask_BT.new_zeros(mask_BT.numel()).scatter(0, index_K, 1.0).view(mask_BT.shape) * mask_BT


class A3po(Part):
    """Stronger advantages where a response surprises (A3PO, arXiv:2512.21625 and its partly released code).

    Of a correct response (``correct`` is 1) the most uncertain share of tokens, of any other the most
    certain, have their advantage multiplied. Uncertainty is ranked within the response; the share is
    ``max(1, floor(ratio T_i))`` tokens, of equal ones the earlier. The paper lets the multiplier decay, by a
    schedule that is not in the released code: here it is ``max(1, scale - (scale - 1) step / decay_steps)``, a
    choice of this project, so the part is experimental.

    scale: at least 1, 2 as in the authors' scripts.  ratio: share of a response's tokens.
    source: ``surprisal`` (-log-probability of the sampled token under the old policy) or ``entropy`` (nats).
    decay_steps: optimizer steps, read once per rollout; null keeps the multiplier, as the released code does.
    """

    horizon: ClassVar[Horizon] = "row"
    even: ClassVar[bool] = False
    experimental: ClassVar[bool] = True
    kind: Literal["a3po"] = "a3po"
    scale: float = Field(default=2.0, ge=1)
    ratio: float = Field(default=0.2, gt=0, le=1)
    source: Ranked = "surprisal"
    decay_steps: int | None = Field(default=None, gt=0)

    @property
    def needs(self) -> frozenset[str]:
        """The field of the source chosen."""
        return frozenset({"entropy" if self.source == "entropy" else "old_logp"})

    def scale_at(self, step: int) -> float:
        """The multiplier at an optimizer step, 0-based."""
        return (
            self.scale if self.decay_steps is None else max(1, self.scale - (self.scale - 1) * step / self.decay_steps)
        )

    def __call__(self, adv_B: Tensor, view: TokenView, state: dict, rng: Generator) -> Tensor:
        """Token advantages ``[B, T]``, 0 on padding."""
        if self.source == "entropy":
            uncertain_BT = needed(view.entropy_BT, "a3po of entropy", "entropy")
        else:
            uncertain_BT = -needed(view.old_logp_BT, "a3po of surprisal", "old_logp")
        ranked_BT = uncertain_BT.where(view.correct_B[:, None] >= 1, -uncertain_BT)
        ranked_BT = ranked_BT.masked_fill(view.mask_BT <= 0, -math.inf)
        place_BT = ranked_BT.argsort(dim=1, descending=True, stable=True).argsort(1)
        count_B1 = (self.ratio * view.mask_BT.double().sum(1, keepdim=True)).floor().clamp(min=1)
        factor_BT = 1 + (self.scale_at(view.step) - 1) * (place_BT < count_B1).to(adv_B.dtype)
        return adv_B[:, None] * factor_BT * view.mask_BT


class Less(Part):
    """Weaken what responses of a group share and entropy calls easy (LESS, arXiv:2512.00908 and its code).

    tau is the entropy of rank ``min(round(quantile T_i), T_i - 1)``, from 0, of a response's T_i tokens. A
    token above tau keeps its advantage; another is multiplied by ``1 / N_right`` in a correct response
    (``correct`` is 1), by ``1 / N_wrong`` in any other, with the counts of its group. A low-entropy segment,
    a longest run of at least ``segment`` tokens below tau, that also occurs token by token within low-entropy
    segments of other responses of the group is multiplied wherever it occurs: by 0 if a right and a wrong
    response have it; if c responses of one side have it, by at least ``c / N_right`` or ``c / N_wrong``.
    No factor is above 1.

    Where segments overlap, 0 goes before the largest factor, so the order of responses does not matter; the
    authors' code merges nested segments in the order it meets them and marks one occurrence per response.
    All responses of a group must be among the rows given.

    quantile: within a response.  segment: tokens.
    """

    horizon: ClassVar[Horizon] = "group"
    even: ClassVar[bool] = False
    kind: Literal["less"] = "less"
    quantile: float = Field(default=0.8, ge=0, le=1)
    segment: int = Field(default=5, ge=1)

    @property
    def needs(self) -> frozenset[str]:
        """Entropy and token ids."""
        return frozenset({"entropy", "ids"})

    def __call__(self, adv_B: Tensor, view: TokenView, state: dict, rng: Generator) -> Tensor:
        """Token advantages ``[B, T]``, 0 on padding."""
        entropies = needed(view.entropy_BT, self.kind, "entropy").tolist()
        ids, lengths = needed(view.ids_BT, self.kind, "ids").tolist(), view.mask_BT.sum(1).int().tolist()
        rows = [(entropies[b][:n], ids[b][:n]) for b, n in enumerate(lengths)]
        right = (view.correct_B >= 1).tolist()
        members: dict[int, list[int]] = {}
        for b, group in enumerate(view.group_B.tolist()):
            members.setdefault(group, []).append(b)
        factors: list[list[float]] = [[] for _ in rows]
        for group in members.values():
            found = self.factors([rows[b] for b in group], [right[b] for b in group])
            for b, factor in zip(group, found, strict=True):
                factors[b] = factor + [0.0] * (view.mask_BT.shape[1] - len(factor))
        return adv_B[:, None] * adv_B.new_tensor(factors).view(view.mask_BT.shape) * view.mask_BT

    def factors(self, responses: Sequence[tuple[list[float], list[int]]], right: Sequence[bool]) -> list[list[float]]:
        """The factor of every token of a group's responses, given as (entropies, token ids)."""
        size = {side: sum(is_right == side for is_right in right) for side in (True, False)}
        taus = [_tau(entropies, self.quantile) for entropies, _ in responses]
        factors = [
            [1.0 if entropy > tau else 1 / size[side] for entropy in entropies]
            for (entropies, _), tau, side in zip(responses, taus, right, strict=True)
        ]
        texts = [_low(*response, tau) for response, tau in zip(responses, taus, strict=True)]
        silent: list[tuple[int, int]] = []
        for places in _shared(texts, self.segment):
            havers = {row for row, _ in places}
            sides = {right[row] for row in havers}
            if len(sides) == 2:
                silent += places
                continue
            least = len(havers) / size[sides.pop()]
            for row, t in places:
                factors[row][t] = max(factors[row][t], least)
        for row, t in silent:
            factors[row][t] = 0.0
        return factors


# stands where a token is not of low entropy; as a token id it is beyond every vocabulary
GAP = chr(0x10FFFF)


def _tau(entropies: Sequence[float], quantile: float) -> float:
    return sorted(entropies)[min(round(quantile * len(entropies)), len(entropies) - 1)] if entropies else 0.0


def _low(entropies: Sequence[float], ids: Sequence[int], tau: float) -> str:
    """A response as text, a character a token, so that runs of tokens are compared as strings."""
    return "".join(chr(i) if entropy < tau else GAP for entropy, i in zip(entropies, ids, strict=True))


def _shared(texts: Sequence[str], segment: int) -> Iterator[list[tuple[int, int]]]:
    """For each segment that several texts have: (text, position) of all characters it covers, everywhere."""
    for run in sorted({run for text in texts for run in text.split(GAP) if len(run) >= segment}):
        starts = [(row, start) for row, text in enumerate(texts) for start in _starts(run, text)]
        if len({row for row, _ in starts}) > 1:
            yield [(row, t) for row, start in starts for t in range(start, start + len(run))]


def _starts(run: str, text: str) -> Iterator[int]:
    start = text.find(run)
    while start >= 0:
        yield start
        start = text.find(run, start + 1)
