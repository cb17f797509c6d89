"""The settings of GRPOConfig, every one that matters written out.

TRL and transformers move defaults between releases; the contract test holds the list of all settings with
their defaults, so that a new or moved one is noticed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedwise.identity import stream

if TYPE_CHECKING:
    from seedwise.study import Run


class BatchError(ValueError):
    """The rollout does not divide over the processes; one line with the remedy."""


def settings(run: Run, folder: Path, device: str, processes: int) -> dict[str, Any]:
    """Keyword arguments of GRPOConfig for a run.

    folder: where resumable states go.  processes: of this training.  Raises BatchError.
    """
    train, objective = run.train, run.algorithm.objective
    rows, left = divmod(train.completions, train.updates_per_rollout * processes)
    micro = min(train.micro_batch, rows)
    if left or rows % micro:
        raise BatchError(
            f"{run.name}: train.completions: {train.completions} in {train.updates_per_rollout} updates"
            f" over {processes} processes are not whole micro-batches of {micro}:"
            " change the number of processes or train.micro_batch"
        )
    accumulation = rows // micro
    dropout = run.model.lora is not None and run.model.lora.dropout > 0
    return dict(  # noqa: C408 - reads as the call it becomes
        output_dir=str(folder),
        seed=stream(run.seed, "weights") % 2**31,  # of new adapter weights; all else has streams of its own
        # one rollout is one epoch: P placeholder rows, each repeated by TRL's own sampler
        max_steps=train.steps,
        num_generations=run.group_size,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=accumulation,
        steps_per_generation=accumulation * train.updates_per_rollout,
        num_iterations=train.iterations,
        shuffle_dataset=False,
        dataloader_drop_last=False,
        dataloader_num_workers=0,
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        # optimizer
        learning_rate=train.lr,
        lr_scheduler_type={"constant": "constant_with_warmup"}.get(train.schedule, train.schedule),
        warmup_steps=train.warmup_steps,
        optim="adamw_torch_fused",
        adam_beta1=0.9,
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        weight_decay=train.weight_decay,
        max_grad_norm=train.max_grad_norm,
        # generation: ours; these bound what TRL pads and at which temperature it scores
        max_completion_length=train.max_tokens,
        temperature=train.temperature,
        top_p=train.top_p,
        top_k=train.top_k,
        min_p=None,
        repetition_penalty=1.0,
        use_vllm=False,
        vllm_importance_sampling_correction=False,
        use_transformers_continuous_batching=False,
        pad_to_multiple_of=None,
        mask_truncated_completions=False,
        # loss: ours; beta makes TRL score the reference policy, the rest is switched off
        beta=objective.kl,
        sync_ref_model=False,
        use_bias_correction_kl=False,
        loss_type="dapo",
        scale_rewards="none",
        multi_objective_aggregation="sum_then_normalize",
        reward_weights=[1.0, 1.0],
        epsilon=0.2,
        epsilon_high=None,
        delta=None,
        importance_sampling_level="token",
        off_policy_mask_threshold=None,
        top_entropy_quantile=1.0,
        entropy_coef=0.0,
        use_adaptive_entropy=False,
        router_aux_loss_coef=0.0,
        disable_dropout=not dropout,
        cast_lm_head_to_fp32=False,
        # hardware
        use_cpu=device == "cpu",
        bf16=train.bf16,
        fp16=False,
        gradient_checkpointing=device != "cpu",
        gradient_checkpointing_kwargs={"use_reentrant": False},
        torch_compile=False,
        use_liger_kernel=False,
        full_determinism=False,
        average_tokens_across_devices=False,
        ddp_find_unused_parameters=False,
        # files and logs: ours
        trust_remote_code=False,
        save_strategy="no",
        save_only_model=False,
        ignore_data_skip=True,
        enable_jit_checkpoint=False,
        eval_strategy="no",
        logging_strategy="steps",
        logging_steps=1,
        logging_nan_inf_filter=False,
        log_completions=False,
        log_level="warning",
        report_to="none",
        disable_tqdm=True,
        push_to_hub=False,
    )
