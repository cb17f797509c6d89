"""What the parts of an algorithm see of a rollout.  No private name of TRL is known here.

Dimension key:  P prompts, G samples of one prompt, N all samples, F reward functions, B rows of this process,
T completion tokens.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seedwise.algos.views import GroupView, TokenView, pooled_quantiles
from seedwise.trainer.batch import sequence
from seedwise.trainer.scoring import confidence, lessons, prompt_states, taught

if TYPE_CHECKING:
    from accelerate import Accelerator

    from seedwise.algos.algorithm import Algorithm
    from seedwise.trainer.rollout import Rollout

POOLED = frozenset({"entropy_quantiles", "surprisal_quantiles"})


class Seeing:
    """The part of the trainer that fills views: only what the algorithm ``needs`` is computed.

    ``out`` is a rollout as TRL hands it over.  ``_old``: log-probabilities and entropies [B, T] of the policy that
    generated it, None where no part needs them.
    """

    algorithm: Algorithm
    accelerator: Accelerator
    model: Any
    args: Any
    state: Any
    memory: dict
    num_generations: int
    rollout: Rollout | None
    _old: tuple[Tensor, Tensor] | None

    def _score(self, out: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """(log-probabilities, entropies) [B, T] of all rows of this process under the present policy."""
        raise NotImplementedError

    @property
    def _drawn(self) -> Rollout:
        """The rollout.  Raises ValueError where TRL generates, whose responses nothing is known about."""
        if self.rollout is None:
            raise ValueError("this algorithm looks at responses as they were drawn: attach a rollout")
        return self.rollout

    def _mine(self, out: dict[str, Any]) -> slice:
        B = len(out["completion_mask"])
        return slice(self.accelerator.process_index * B, (self.accelerator.process_index + 1) * B)

    def _groups(self, out: dict[str, Any], rewards_NF: Tensor, weights_F: Tensor) -> GroupView:
        """All groups.  rewards_NF: of all samples, by reward function."""
        G = self.num_generations
        rewards_PG = (rewards_NF * weights_F).nansum(1).view(-1, G)
        lengths_PG = self.accelerator.gather(out["completion_mask"].sum(1)).view(-1, G)
        if self.rollout is None:
            correct_PG, penalty_PG, problems = rewards_PG, torch.zeros_like(rewards_PG), list(range(len(rewards_PG)))
        else:
            correct_PG, penalty_PG = (rewards_NF[:, i].view(-1, G) for i in (0, 1))
            problems = [row.problem for row in self.rollout.rows[::G]]
        return GroupView(
            rewards_PG=rewards_PG,
            correct_PG=correct_PG,
            penalty_PG=penalty_PG,
            lengths_PG=lengths_PG,
            prompt_P=torch.tensor(problems, device=rewards_PG.device),
            step=self.state.global_step,
            steps=self.args.max_steps,
            entropy=self._mean_entropy(out) if "entropy" in self.algorithm.needs else None,
            gradient_norms=tuple(self.memory["gradient_norms"]) if self._keeps_norms else None,
            prompt_PH=self._prompt_states() if "prompt_states" in self.algorithm.needs else None,
        )

    @property
    def _keeps_norms(self) -> bool:
        return "gradient_norms" in self.algorithm.needs

    def _prompt_states(self) -> Tensor:
        asked = [self._drawn.prompt_ids[row.problem] for row in self._drawn.rows[:: self.num_generations]]
        micro, device = self.args.per_device_train_batch_size, self.accelerator.device
        return prompt_states(self.model, asked, batch=micro, device=device)

    def _mean_entropy(self, out: dict[str, Any]) -> float:
        mask_BT = out["completion_mask"]
        total, tokens = self._sum(torch.stack([(self._old[1] * mask_BT).sum(), mask_BT.sum().float()])).tolist()
        return total / tokens

    @property
    def _sees_all(self) -> bool:
        """Whether the credit rule compares rows that other processes hold, and is shown them too."""
        credit = self.algorithm.credit
        # those that only need quantiles over the rollout get the quantiles
        compares = credit.horizon in ("group", "rollout") and not credit.needs & POOLED
        return compares and self.accelerator.num_processes > 1

    def _gathered(self, values_BT: Tensor) -> Tensor:
        """The rows of all processes, padded with 0 to the longest."""
        return self.accelerator.gather(self.accelerator.pad_across_processes(values_BT, dim=1))

    def _tokens(self, out: dict[str, Any], groups: GroupView) -> TokenView:
        """The rows of this process, or of all where the credit rule compares them."""
        mask_BT, mine, needs = out["completion_mask"].float(), self._mine(out), self.algorithm.needs
        ids_BT = out["completion_ids"] if "ids" in needs else None
        logp_BT, entropy_BT = self._old if self._old is not None else (None, None)
        logit_BT, confidence_BT = self._confidence(out) if needs & {"logit", "confidence"} else (None, None)
        teacher_BT = self._teacher(out) if "teacher_logp" in needs else None
        if self._sees_all:
            mine = slice(None)
            mask_BT, ids_BT, logp_BT, entropy_BT, logit_BT, confidence_BT, teacher_BT = (
                None if x is None else self._gathered(x)
                for x in (mask_BT, ids_BT, logp_BT, entropy_BT, logit_BT, confidence_BT, teacher_BT)
            )
        rows = torch.arange(groups.rewards_PG.numel(), device=groups.rewards_PG.device)[mine]
        return TokenView(
            mask_BT=mask_BT,
            rewards_B=groups.rewards_PG.flatten()[mine],
            correct_B=groups.correct_PG.flatten()[mine],
            group_B=rows // self.num_generations,
            step=groups.step,
            steps=groups.steps,
            entropy_BT=entropy_BT,
            old_logp_BT=logp_BT,
            entropy_quantiles=self._quantiles(entropy_BT, mask_BT) if "entropy_quantiles" in needs else None,
            surprisal_quantiles=self._quantiles(-logp_BT, mask_BT) if "surprisal_quantiles" in needs else None,
            ids_BT=ids_BT,
            logit_BT=logit_BT,
            confidence_BT=confidence_BT,
            teacher_logp_BT=teacher_BT,
        )

    def _confidence(self, out: dict[str, Any]) -> tuple[Tensor, Tensor]:
        micro = self.args.per_device_train_batch_size
        return confidence(self.model, *sequence(out), temperature=self.args.temperature, batch=micro)

    def _teacher(self, out: dict[str, Any]) -> Tensor:
        """Log-probabilities of the old policy once it has read another correct response; NaN without one."""
        read = lessons(self._drawn.rows, self._drawn.prompt_ids, self.num_generations)[self._mine(out)]
        logp_BT, _ = self._score(taught(out, read))
        alone_B = torch.tensor([lesson is None for lesson in read], device=logp_BT.device)
        return logp_BT.masked_fill(alone_B[:, None], math.nan)

    def _quantiles(self, values_BT: Tensor, mask_BT: Tensor) -> tuple[float, float]:
        padded_N = self.accelerator.pad_across_processes(values_BT[mask_BT.bool()], pad_index=math.nan)
        pooled_N = self.accelerator.gather(padded_N)
        return pooled_quantiles(pooled_N[~pooled_N.isnan()])

    def _saturation(self, view: TokenView) -> tuple[float, float] | None:
        """Shares of response tokens with entropic h at 0 and at 1; None if the credit rule has no h."""
        if not hasattr(self.algorithm.credit, "uncertainty"):
            return None
        h_BT, real_BT = self.algorithm.credit.uncertainty(view), view.mask_BT > 0
        counts = torch.stack([((h_BT <= 0) & real_BT).sum(), ((h_BT >= 1) & real_BT).sum(), real_BT.sum()])
        low, high, tokens = self._sum(counts).tolist()
        return low / tokens, high / tokens

    def _sum(self, values: Tensor) -> Tensor:
        return self.accelerator.reduce(values, reduction="sum")
