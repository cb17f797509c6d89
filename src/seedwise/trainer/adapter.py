"""The only file that imports TRL and knows its private names (TRL 1.16.0; the contract test pins them).

Dimension key:  P prompts, G samples of one prompt, B rows of this process (of a micro-batch inside the
loss), T completion tokens.

What is overridden, and why:

``_calculate_rewards``               keep the rewards of all processes, which the baselines see
``_generate_and_score_completions``  replace TRL's advantages by those of the algorithm
``_get_per_token_logps_and_entropies``  take the entropy along when TRL scores the rollout anyway
``_prepare_inputs``                  divide an update into micro-batches of rows of like length
``_compute_loss``                    replace TRL's loss, and leave rows without advantage out
``_get_grad_norm``                   stop before a step with a gradient that is not finite
``_send_telemetry``                  nothing leaves the machine
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor
from trl import GRPOConfig, GRPOTrainer

from seedwise.algos.views import LossView, Window
from seedwise.identity import stream
from seedwise.trainer.batch import active, arranged, sequence, trimmed
from seedwise.trainer.diagnosing import Diagnosing, as_drawn, distributions
from seedwise.trainer.records import Learned, Records, Updated, levels
from seedwise.trainer.seeing import Seeing
from seedwise.trainer.settings import settings

if TYPE_CHECKING:
    from seedwise.algos.algorithm import Algorithm
    from seedwise.algos.views import GroupView
    from seedwise.study import Run
    from seedwise.trainer.rollout import Rollout, Row

NORMS = 20  # of the last optimizer steps, which a controller may look at
OLD_POLICY = frozenset({"entropy", "old_logp", "entropy_quantiles", "surprisal_quantiles"})


class Diverged(ArithmeticError):
    """Too many steps in a row had a loss or a gradient that is not finite; the weights are those before them."""


def config(run: Run, folder: Path, device: str, processes: int) -> GRPOConfig:
    """``settings`` as TRL wants them."""
    return GRPOConfig(**settings(run, folder, device, processes))


class ComposedTrainer(Seeing, GRPOTrainer):
    """GRPOTrainer whose advantages and loss are those of an ``Algorithm``.

    seed: root of the random streams.  memory: what the parts remember (``memory.start``).
    skip: leave rows whose token advantages are all exactly 0 out of forward and backward.
    max_skipped: steps in a row that may have a loss or a gradient that is not finite; one more raises Diverged.
    Everything else is GRPOTrainer's.  Prompts and completions come from TRL until ``attach`` is called.
    """

    def __init__(
        self,
        *,
        algorithm: Algorithm,
        seed: int,
        memory: dict | None = None,
        skip: bool = False,
        max_skipped: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.algorithm, self.seed, self.skip, self.max_skipped = algorithm, seed, skip, max_skipped
        fresh = {"gradient_norms": [], "skipped_steps": {"total": 0, "in_a_row": 0}}
        self.memory = {**fresh, **(algorithm.start() if memory is None else memory)}
        self.rollout: Rollout | None = None
        self.records: Records | None = None
        self._old: tuple[Tensor, Tensor] | None = None
        self._take_old = False
        self._tally = torch.zeros(5, dtype=torch.float64)

    def attach(self, rollout: Rollout, records: Records, diagnostics: Sequence[str] = ()) -> None:
        """Take problems, completions and verdicts from ``rollout`` and tell ``records`` what happened."""
        self.rollout, self.records = rollout, records
        per_response = self.algorithm.objective.average.kind == "per_sequence"
        self.diagnosing = Diagnosing(diagnostics, self._gathered, per_response=per_response)
        self.rollout_func = rollout  # a public attribute; as an argument it warns of being experimental
        rollout.state = self.memory["sampler"]

    def _send_telemetry(self) -> None:
        return

    @property
    def _updates(self) -> int:
        """Optimizer steps of one pass over a rollout."""
        return self.args.steps_per_generation // self.args.gradient_accumulation_steps

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
            self._old = self._as_sampled(out) or self._score(out)
        if self.rollout is not None and self.algorithm.sampler.carries:
            self._as_drawn(out, self.rollout.rows[self._mine(out)])
        groups = self._groups(out, self._rewards_NF, self.reward_weights.to(self._rewards_NF.device))
        if self.algorithm.masks_truncated:
            self._leave_out_truncated(out)
        adv_N = self.algorithm.advantages(groups, self.memory, self._rng("baseline")).flatten()
        out["advantages"], h_at = self._credited(out, groups, adv_N)
        if self.rollout is not None and self.records is not None:
            learned = Learned(adv_N.tolist(), *levels(self.algorithm, self.memory), h_at)
            self.records.rollout(self.state.global_step + 1, self.rollout, learned)
            self._diagnose(out, groups, adv_N)
        self._old = None
        return out

    def _credited(
        self, out: dict[str, Any], groups: GroupView, adv_N: Tensor
    ) -> tuple[Tensor, tuple[float, float] | None]:
        """Token advantages [B, T] of this process, and how often the credit rule's h is at its ends."""
        mask_BT, mine = out["completion_mask"], self._mine(out)
        if not out["num_items_in_batch"]:  # every response was cut off and none of them trains
            return torch.zeros_like(mask_BT, dtype=adv_N.dtype), None
        view, rng = self._tokens(out, groups), self._rng("credit")
        if not self._sees_all:
            return self.algorithm.credit(adv_N[mine], view, self.memory["credit"], rng), self._saturation(view)
        adv_NT = self.algorithm.credit(adv_N, view, self.memory["credit"], rng)
        return adv_NT[mine, : mask_BT.size(1)], self._saturation(view)

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

    def _as_sampled(self, out: dict[str, Any]) -> tuple[Tensor, Tensor] | None:
        """What the engine said of the rows of this process as it drew them; None where it gives no entropies, and
        where ratios are taken to old log-probabilities, which must be those of this precision."""
        if self.rollout is None or self.algorithm.sampler.carries:
            return None
        return as_drawn(self.rollout.rows[self._mine(out)], out["completion_mask"].float())

    def _as_drawn(self, out: dict[str, Any], rows: Sequence[Row]) -> None:
        """Give rows that were drawn in an earlier rollout the log-probabilities and entropies they were drawn with."""
        if "old_per_token_logps" not in out:
            out["old_per_token_logps"] = (self._old or self._score(out))[0].clone()
        for b, row in enumerate(rows):
            if row.late:
                drawn_T = torch.tensor(row.logps, device=out["old_per_token_logps"].device)
                out["old_per_token_logps"][b, : row.tokens] = drawn_T
                if self._old is not None:
                    self._old[0][b, : row.tokens] = drawn_T
                    self._old[1][b, : row.tokens] = torch.tensor(row.entropies, device=drawn_T.device)

    def _leave_out_truncated(self, out: dict[str, Any]) -> None:
        """Take responses cut off at the token limit out of the loss and out of the count of its tokens."""
        rows = self._drawn.rows[self._mine(out)]
        whole_B = torch.tensor([row.stop != "length" for row in rows], device=out["completion_mask"].device)
        out["completion_mask"] = out["completion_mask"] * whole_B[:, None]
        out["num_items_in_batch"] = self.accelerator.gather(out["completion_mask"].sum()).sum()

    def _diagnose(self, out: dict[str, Any], groups: GroupView, adv_N: Tensor) -> None:
        rows = self._drawn.rows[self._mine(out)]
        adv_PG = adv_N.view(groups.rewards_PG.shape)
        self._at = partial(distributions, self.model, out, temperature=self.args.temperature, batch=len(rows))
        found = self.diagnosing.rollout(out, rows, groups, adv_PG, self._score, self._at)
        self.records.diagnosed(self.state.global_step + 1, found)

    @property
    def _by_length(self) -> bool:
        """Whether rows may change places within an update, as they do unless stock TRL draws them."""
        summed = all(part.horizon == "row" or part.row_local for part in self.algorithm.objective.parts)
        whole = self.args.steps_per_generation % self.args.gradient_accumulation_steps == 0
        return self.rollout is not None and whole and summed

    def _prepare_inputs(self, generation_batch: dict[str, Any]) -> dict[str, Any]:
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if self._buffered_inputs is before or not self._by_length:
            return inputs
        drawn, n = self._buffered_inputs, self.args.gradient_accumulation_steps
        updates = [arranged(drawn[first : first + n], skip=self.skip) for first in range(0, len(drawn), n)]
        self._buffered_inputs = [micro_batch for update in updates for micro_batch in update]
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        rows, tokens = len(inputs["completion_mask"]), inputs["completion_mask"].sum()
        inputs = active(inputs) if self.skip else trimmed(inputs) if self._by_length else inputs
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
        loss = self._sum(self._tally[:1].to(self.accelerator.device)).item()  # one process's NaN is everyone's
        if not (math.isfinite(norm) and math.isfinite(loss)):
            self._skip_step(float(norm), loss)
            return norm
        self.memory["skipped_steps"]["in_a_row"] = 0
        if self._keeps_norms:
            self.memory["gradient_norms"] = [*self.memory["gradient_norms"], float(norm)][-NORMS:]
        return norm

    def _skip_step(self, norm: float, loss: float) -> None:
        """Make the optimizer's next step one that changes nothing.  Raises Diverged after ``max_skipped`` of them."""
        skipped = self.memory["skipped_steps"]
        if skipped["in_a_row"] >= self.max_skipped:
            what = f"the gradient is not finite (norm {norm})" if not math.isfinite(norm) else f"the loss is {loss}"
            after = f", after {skipped['in_a_row']} skipped steps in a row" if skipped["in_a_row"] else ""
            raise Diverged(f"step {self.state.global_step + 1}: {what}{after}")
        skipped["in_a_row"] += 1
        skipped["total"] += 1
        # without gradients torch's optimizers touch neither weights nor moments; the schedule goes on
        self.optimizer.zero_grad(set_to_none=True)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Record an optimizer step; transformers calls this after each one (and once more at the end)."""
        if self.records is not None and "grad_norm" in logs:
            loss, trained, low, high, tokens = self._sum(self._tally.to(self.accelerator.device)).tolist()
            bounded = hasattr(self.algorithm.objective.surrogate, "clipped")
            done = Updated(
                loss=loss / self.accelerator.num_processes,
                gradient_norm=float(logs["grad_norm"]),
                learning_rate=logs["learning_rate"],
                clipped=(low / tokens, high / tokens) if bounded and tokens else None,
                trained_tokens=int(trained),
            )
            self.records.update(self.state.global_step, done)
            skipped = self.memory["skipped_steps"]["total"]
            self.records.diagnosed(self.state.global_step, {"skipped_steps_total": (skipped, None)})
            if self.state.global_step % (self.args.num_iterations * self._updates) == 0:
                found = self.diagnosing.updated(self._score, self._at)
                self.records.diagnosed(self.state.global_step, found)
        self._tally.zero_()
        super().log(logs, start_time)
