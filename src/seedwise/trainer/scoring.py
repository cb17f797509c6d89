"""What some parts want to know of the policy beyond log-probabilities and entropies.  Nothing here needs TRL.

Dimension key:  P prompts, B rows, T completion tokens, H width of the model, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from seedwise.trainer.rollout import Row


@torch.no_grad()
def confidence(
    model: Any, ids: Tensor, mask: Tensor, T: int, *, temperature: float, batch: int
) -> tuple[Tensor, Tensor]:
    """(logit of the sampled token, logsumexp minus mean of the logits), both ``[B, T]``, at a temperature.

    ids, mask: prompts and completions joined, ``[B, .]``; the last T are the completion.
    """
    logits, confidences = [], []
    for rows in _slices(len(ids), batch):
        z_BTV = model(input_ids=ids[rows], attention_mask=mask[rows], logits_to_keep=T + 1, use_cache=False).logits
        z_BTV = z_BTV[:, :-1][:, -T:].float() / temperature  # the last one predicts a token that is not there
        logits.append(z_BTV.gather(2, ids[rows, -T:, None]).squeeze(2))
        confidences.append(z_BTV.logsumexp(2) - z_BTV.mean(2))
    return torch.cat(logits), torch.cat(confidences)


@torch.no_grad()
def prompt_states(model: Any, prompts: Sequence[Sequence[int]], *, batch: int, device: torch.device) -> Tensor:
    """State of the last layer, mean over the prompt's tokens, ``[P, H]`` float32."""
    states = []
    for chosen in _slices(len(prompts), batch):
        ids, mask = _left(prompts[chosen], device)
        found = model(input_ids=ids, attention_mask=mask, output_hidden_states=True, use_cache=False, logits_to_keep=1)
        state_BLH, mask_BL1 = found.hidden_states[-1].float(), mask[:, :, None].float()
        states.append((state_BLH * mask_BL1).sum(1) / mask_BL1.sum(1))
    return torch.cat(states)


def lessons(rows: Sequence[Row], prompt_ids: Sequence[Sequence[int]], group_size: int) -> list[list[int] | None]:
    """What the teacher of each row reads before it: the prompt, another correct response of the group, the prompt.

    The other response is the first correct one that is not the row itself.  None where there is no teacher: the row
    is wrong, or the only correct one.  rows: of all processes.
    """
    found: list[list[int] | None] = []
    for place, row in enumerate(rows):
        first = place - place % group_size
        others = [other for other in range(first, first + group_size) if other != place and rows[other].correct >= 1]
        prompt = list(prompt_ids[row.problem])
        read = row.correct >= 1 and bool(others)
        found.append([*prompt, *rows[others[0]].ids, *prompt] if read else None)
    return found


def taught(batch: dict[str, Any], lessons_B: Sequence[Sequence[int] | None]) -> dict[str, Any]:
    """A batch whose prompts are the teachers' readings; a row without one keeps its own prompt.

    All rows stay, so every process runs as many passes.
    """
    device = batch["prompt_ids"].device
    prompts = [
        ids[mask > 0].tolist() if lesson is None else lesson
        for ids, mask, lesson in zip(batch["prompt_ids"], batch["prompt_mask"], lessons_B, strict=True)
    ]
    ids, mask = _left(prompts, device)
    return {**batch, "prompt_ids": ids, "prompt_mask": mask}


def _left(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """(ids, mask), padded on the left with token 0, which the mask hides."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[*[0] * (longest - len(prompt)), *prompt] for prompt in prompts], device=device)
    mask = torch.tensor([[*[0] * (longest - len(prompt)), *[1] * len(prompt)] for prompt in prompts], device=device)
    return ids, mask


def _slices(count: int, batch: int) -> Iterator[slice]:
    return (slice(first, first + batch) for first in range(0, count, batch))
