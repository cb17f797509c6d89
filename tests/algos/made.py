"""Views made from plain lists, golden cases by subject, presets with the parameters they need."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.presets import PRESETS, preset
from seedwise.algos.views import GroupView, LossView, TokenView, Window

torch.set_num_threads(1)

CASES = json.loads((Path(__file__).parent.parent / "golden" / "methods.json").read_text())["cases"]
REQUIRED = {"dr_grpo": {"length": 12}, "dapo": {"length": 12}}
ALL_PRESETS = {name: preset(name, **REQUIRED.get(name, {})) for name in PRESETS}


def golden(start: str) -> list[dict]:
    """Golden cases whose subject begins with ``start``; an empty selection is a mistake."""
    found = [case for case in CASES if case["what"].startswith(start)]
    assert found, f"no golden case is about {start!r}"
    return found


def by_id(case: dict) -> str:
    return case["id"]


def doubles(rows: list) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def groups(rewards: list[list[float]] | Tensor, penalty: list[list[float]] | None = None) -> GroupView:
    """Groups of verdicts 0/1 (or -1/1) to which a penalty may have been added."""
    verdict_PG = doubles(rewards) if isinstance(rewards, list) else rewards
    penalty_PG = torch.zeros_like(verdict_PG) if penalty is None else doubles(penalty)
    return GroupView(
        rewards_PG=verdict_PG + penalty_PG,
        correct_PG=(verdict_PG >= 1).to(verdict_PG.dtype),
        penalty_PG=penalty_PG,
        lengths_PG=torch.ones_like(verdict_PG),
        prompt_P=torch.arange(len(verdict_PG)),
        step=0,
        steps=10,
        entropy=0.5,
    )


def advantages(algorithm: Algorithm, view: GroupView, seed: int = 0) -> Tensor:
    return algorithm.advantages(view, algorithm.start(), stream(seed))


def tokens(mask_BT: Tensor, step: int = 0, **fields: object) -> TokenView:
    B = len(mask_BT)
    return TokenView(
        mask_BT, torch.zeros(B), torch.zeros(B), torch.zeros(B, dtype=torch.int64), step=step, steps=10, **fields
    )


def loss_view(old_BT: Tensor, adv_BT: Tensor, mask_BT: Tensor | None = None, ref_BT: Tensor | None = None) -> LossView:
    return LossView(old_BT, adv_BT, torch.ones_like(old_BT) if mask_BT is None else mask_BT, ref_BT)


def window(mask_BT: Tensor, rows: int | None = None, microbatches: int = 1, tokens: Tensor | None = None) -> Window:
    return Window(
        mask_BT, mask_BT.sum() if tokens is None else tokens, len(mask_BT) if rows is None else rows, microbatches
    )
