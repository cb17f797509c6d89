"""What a part may look at.

Dimension key:  P prompts, G samples of one prompt, B rows (samples) held by this
process, T completion tokens (padded).  A field that is None was not declared under
``needs`` by any part in use; always-present fields have no default.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class GroupView(NamedTuple):
    """Seen by baselines: whole groups, gathered from every process, never tokens.

    rewards_PG: reward that trains, in reward units (correctness plus penalties).
    correct_PG: the verifier's verdict alone, 0 or 1 (graded rewards: 0..1).
    penalty_PG: what was added to it (soft overlong penalty), at most 0.
    lengths_PG: completion lengths in tokens.
    prompt_P: stable integer ids of the problems, for parts that remember prompts.
    step: optimizer step at the rollout, 0-based.  steps: optimizer steps of the whole run.
    entropy: mean policy entropy of the rollout in nats, over all response tokens (needs "entropy").
    gradient_norms: norms of the gradient before clipping of the last optimizer steps, up to 20, the latest last; empty
        before the first step (needs "gradient_norms").
    prompt_PH: hidden state of the old policy's last layer, the mean over the prompt's tokens, without gradient: a row
        per group, H the width of the model (needs "prompt_states").
    """

    rewards_PG: Tensor
    correct_PG: Tensor
    penalty_PG: Tensor
    lengths_PG: Tensor
    prompt_P: Tensor
    step: int
    steps: int
    entropy: float | None = None
    gradient_norms: tuple[float, ...] | None = None
    prompt_PH: Tensor | None = None


class TokenView(NamedTuple):
    """Seen by credit rules: the rows of this process, before they are cut into micro-batches.

    mask_BT: 1.0 on response tokens, 0.0 on padding.
    correct_B, rewards_B: of each row.  group_B: index of the row's group in the rollout.
    entropy_BT: full-vocabulary entropy of the old policy in nats at the training temperature (needs "entropy").
    old_logp_BT: log-probabilities of the sampled tokens under the old policy (needs "old_logp").
    entropy_quantiles: (q10, q90) of the entropy pooled over all valid tokens of the rollout batch,
        gathered over processes, linear interpolation (needs "entropy_quantiles").
    surprisal_quantiles: the same of -old_logp (needs "surprisal_quantiles").
    ids_BT: completion token ids (needs "ids").
    logit_BT: logit of the sampled token under the old policy, at the training temperature (needs "logit").
    confidence_BT: logsumexp of the same logits minus their mean over the vocabulary, in nats: the KL divergence of the
        policy from the uniform distribution, KL(uniform, policy), plus the log of the vocabulary's size (needs
        "confidence").
    teacher_logp_BT: log-probabilities of the sampled tokens under the old policy as its own teacher, which has read
        another correct response of the group (needs "teacher_logp").  NaN on rows that have no teacher: a wrong
        response, and the only correct one of its group.  The teacher reads the prompt, the first correct response of
        the group that is not the row itself with its end token, the prompt again, and then the row.
    """

    mask_BT: Tensor
    rewards_B: Tensor
    correct_B: Tensor
    group_B: Tensor
    step: int
    steps: int
    entropy_BT: Tensor | None = None
    old_logp_BT: Tensor | None = None
    entropy_quantiles: tuple[float, float] | None = None
    surprisal_quantiles: tuple[float, float] | None = None
    ids_BT: Tensor | None = None
    logit_BT: Tensor | None = None
    confidence_BT: Tensor | None = None
    teacher_logp_BT: Tensor | None = None


class LossView(NamedTuple):
    """Seen by surrogates: one micro-batch.

    old_BT: old log-probabilities.  adv_BT: token advantages.  mask_BT: 1.0 on trained tokens.
    ref_BT: log-probabilities under the reference policy (needs "ref_logp").
    """

    old_BT: Tensor
    adv_BT: Tensor
    mask_BT: Tensor
    ref_BT: Tensor | None = None


class Window(NamedTuple):
    """Seen by averages: one optimizer step, from one process.

    mask_BT: 1.0 on trained tokens of the micro-batch.
    tokens: trained tokens of the optimizer step over all processes, divided by the number of processes.
    rows: rows of the micro-batch that this process would hold if no row were skipped (>= len(mask_BT)).
    microbatches: backward passes in the step.
    """

    mask_BT: Tensor
    tokens: Tensor
    rows: int
    microbatches: int


def pooled_quantiles(values_N: Tensor, low: float = 0.1, high: float = 0.9) -> tuple[float, float]:
    """Quantiles with linear interpolation of all valid tokens of a rollout, gathered from every process.

    By sorting, since Tensor.quantile refuses more than 2**24 values.  Raises ValueError when there are none.
    """
    N = len(values_N)
    if N == 0:
        raise ValueError("quantiles of no tokens: the rollout has no response token")
    sorted_N = values_N.detach().double().sort().values
    return _interpolated(sorted_N, low), _interpolated(sorted_N, high)


def _interpolated(sorted_N: Tensor, level: float) -> float:
    place = level * (len(sorted_N) - 1)
    below = math.floor(place)
    above = min(below + 1, len(sorted_N) - 1)
    return sorted_N[below].lerp(sorted_N[above], place - below).item()
