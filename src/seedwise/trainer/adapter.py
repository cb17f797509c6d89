"""The only file that imports TRL and knows its private names (TRL 1.16.0; the contract test pins them).

Dimension key:  P prompts, G samples of one prompt, B rows of this process (of a micro-batch inside the
loss), T completion tokens.

What is overridden, and why:

``_calculate_rewards``               keep the rewards of all processes, which the baselines see
``_generate_and_score_completions``  replace TRL's advantages by those of the algorithm
``_get_per_token_logps_and_entropies``  take the entropy along when TRL scores the rollout anyway
``_compute_loss``                    replace TRL's loss, and leave rows without advantage out
``_get_grad_norm``                   stop before a step with a gradient that is not finite
``_send_telemetry``                  nothing leaves the machine
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor
from trl import GRPOConfig, GRPOTrainer

from seedwise.algos.views import GroupView, LossView, TokenView, Window, pooled_quantiles
from seedwise.identity import stream
from seedwise.trainer.batch import active, sequence
from seedwise.trainer.records import Learned, Records, Updated
from seedwise.trainer.settings import settings

if TYPE_CHECKING:
    from seedwise.algos.algorithm import Algorithm
    from seedwise.study import Run
    from seedwise.trainer.rollout import Rollout

OLD_POLICY = frozenset({"entropy", "old_logp", "entropy_quantiles", "surprisal_quantiles"})


class Diverged(ArithmeticError):
    """The gradient is not finite; the weights are those before the step."""


def config(run: Run, folder: Path, device: str, processes: int) -> GRPOConfig:
    """``settings`` as TRL wants them."""
    return GRPOConfig(**settings(run, folder, device, processes))


class ComposedTrainer(GRPOTrainer):
    """GRPOTrainer whose advantages and loss are those of an ``Algorithm``.

    seed: root of the random streams.  memory: what the parts remember (``memory.start``).
    skip: leave rows whose token advantages are all exactly 0 out of forward and backward.
    Everything else is GRPOTrainer's.  Prompts and completions come from TRL until ``attach`` is called.
    """

    def __init__(
        self,
        *,
        algorithm: Algorithm,
        seed: int,
        memory: dict | None = None,
        skip: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.algorithm, self.seed, self.skip = algorithm, seed, skip
        self.memory = algorithm.start() if memory is None else memory
        self.rollout: Rollout | None = None
        self.records: Records | None = None
        self._old: tuple[Tensor, Tensor] | None = None
        self._take_old = False
        self._tally = torch.zeros(5, dtype=torch.float64)

    def attach(self, rollout: Rollout, records: Records) -> None:
        """Take problems, completions and verdicts from ``rollout`` and tell ``records`` what happened."""
        self.rollout, self.records = rollout, records
        self.rollout_func = rollout  # a public attribute; as an argument it warns of being experimental
        rollout.state = self.memory["sampler"]

    def _send_telemetry(self) -> None:
        return

    def _rng(self, *purpose: str | int) -> Generator:
        device = self.accelerator.device
        return Generator(device).manual_seed(stream(self.seed, *purpose, self.state.global_step))

    def _calculate_rewards(self, *args: Any) -> Tensor:
        self._rewards_NF = super()._calculate_rewards(*args)  # [all samples, reward functions]
        return self._rewards_NF

    def _generate_and_score_completions(self, inputs: list[dict]) -> dict[str, Any]:
        if self.rollout is not None:
            # TRL shuffles the rows of a rollout with torch's global generator
            torch.manual_seed(stream(self.seed, "shuffle", self.state.global_step, self.accelerator.process_index))
        scored_anyway = self.args.gradient_accumulation_steps % (self.args.steps_per_generation * self.num_iterations)
        wanted = bool(self.algorithm.needs & OLD_POLICY)
        self._old, self._take_old = None, wanted and bool(scored_anyway)
        out = super()._generate_and_score_completions(inputs)
        self._take_old = False
        if wanted and self._old is None:
            self._old = self._score(out)
        groups = self._groups(out)
        adv_PG = self.algorithm.advantages(groups, self.memory, self._rng("baseline"))
        adv_N = adv_PG.flatten()
        view = self._tokens(out, groups)
        adv_BT = self.algorithm.credit(adv_N[self._mine(out)], view, self.memory["credit"], self._rng("credit"))
        out["advantages"] = adv_BT
        if self.rollout is not None and self.records is not None:
            learned = Learned(groups.rewards_PG.flatten().tolist(), adv_N.tolist(), self._saturation(view))
            self.records.rollout(self.state.global_step + 1, self.rollout.rows, learned)
        self._old = None
        return out

    def _get_per_token_logps_and_entropies(
        self, model: Any, *args: Any, compute_entropy: bool = False, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        take = self._take_old and self._old is None  # the first pass over a rollout is that of the old policy
        found = super()._get_per_token_logps_and_entropies(
            model, *args, compute_entropy=compute_entropy or take, **kwargs
        )
        if take:
            self._old = found[0], found[1]
        return found

    @torch.no_grad()
    def _score(self, out: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """(log-probabilities, entropies) [B, T] of all rows of this process under the present policy."""
        logp_BT, entropy_BT, _ = self._get_per_token_logps_and_entropies(
            self.model, *sequence(out), batch_size=self.args.per_device_train_batch_size, compute_entropy=True
        )
        return logp_BT, entropy_BT

    def _mine(self, out: dict[str, Any]) -> slice:
        B = len(out["completion_mask"])
        return slice(self.accelerator.process_index * B, (self.accelerator.process_index + 1) * B)

    def _groups(self, out: dict[str, Any]) -> GroupView:
        G = self.num_generations
        weights_F = self.reward_weights.to(self._rewards_NF.device)
        rewards_PG = (self._rewards_NF * weights_F).nansum(1).view(-1, G)
        lengths_PG = self.accelerator.gather(out["completion_mask"].sum(1)).view(-1, G)
        if self.rollout is None:
            correct_PG, penalty_PG, problems = rewards_PG, torch.zeros_like(rewards_PG), list(range(len(rewards_PG)))
        else:
            correct_PG, penalty_PG = (self._rewards_NF[:, i].view(-1, G) for i in (0, 1))
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
        )

    def _mean_entropy(self, out: dict[str, Any]) -> float:
        mask_BT = out["completion_mask"]
        total, tokens = self._sum(torch.stack([(self._old[1] * mask_BT).sum(), mask_BT.sum().float()])).tolist()
        return total / tokens

    def _tokens(self, out: dict[str, Any], groups: GroupView) -> TokenView:
        mask_BT, mine, needs = out["completion_mask"].float(), self._mine(out), self.algorithm.needs
        logp_BT, entropy_BT = self._old if self._old is not None else (None, None)
        rows = torch.arange(groups.rewards_PG.numel(), device=mask_BT.device)[mine]
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
            ids_BT=out["completion_ids"] if "ids" in needs else None,
        )

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

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        rows, tokens = len(inputs["completion_mask"]), inputs["completion_mask"].sum()
        inputs = active(inputs) if self.skip else inputs
        mask_BT = inputs["completion_mask"].float()
        logp_BT, _, _ = self._get_per_token_logps_and_entropies(model, *sequence(inputs))
        old_BT = inputs.get("old_per_token_logps")
        view = LossView(
            old_BT=logp_BT.detach() if old_BT is None else old_BT,
            adv_BT=inputs["advantages"],
            mask_BT=mask_BT,
            ref_BT=inputs.get("ref_per_token_logps"),
        )
        # num_items_in_batch spans the whole rollout; one optimizer step sees accumulation / steps_per_generation of it
        steps = self.current_gradient_accumulation_steps
        share = inputs["num_items_in_batch"].clamp(min=1.0) / self.accelerator.num_processes
        window = Window(mask_BT, share * steps / self.args.steps_per_generation, rows, steps)
        rng = self._rng("objective", self._step, self.accelerator.process_index)
        loss = self.algorithm.objective(logp_BT, view, window, self.memory["objective"], rng)
        self._count(loss, logp_BT, view, tokens)
        return loss

    def _count(self, loss: Tensor, logp_BT: Tensor, view: LossView, tokens: Tensor) -> None:
        """Add a micro-batch to the tally: loss, tokens trained, held back low, held back high, tokens in all."""
        surrogate = self.algorithm.objective.surrogate
        low_BT, high_BT = surrogate.clipped(logp_BT.detach(), view) if hasattr(surrogate, "clipped") else (None, None)
        counts = [
            loss.detach(),
            view.mask_BT.sum(),
            *(0.0 if x is None else x.sum() for x in (low_BT, high_BT)),
            tokens,
        ]
        self._tally += torch.tensor([float(count) for count in counts], dtype=torch.float64)

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        if not math.isfinite(norm):
            raise Diverged(f"step {self.state.global_step + 1}: the gradient is not finite (norm {float(norm)})")
        return norm

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Record an optimizer step; transformers calls this after each one (and once more at the end)."""
        if self.records is not None and "grad_norm" in logs:
            loss, trained, low, high, tokens = self._sum(self._tally.to(self.accelerator.device)).tolist()
            bounded = hasattr(self.algorithm.objective.surrogate, "clipped")
            done = Updated(
                loss=loss / self.accelerator.num_processes,
                gradient_norm=float(logs["grad_norm"]),
                learning_rate=logs["learning_rate"],
                clipped=(low / tokens, high / tokens) if bounded else None,
                trained_tokens=int(trained),
            )
            self.records.update(self.state.global_step, done)
        self._tally.zero_()
        super().log(logs, start_time)
