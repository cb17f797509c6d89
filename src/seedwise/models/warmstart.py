"""How the embedded model got its weights: supervised training on answers made here.

Every problem is answered in one of two ways.  *Hasty* answers come at once and are mostly wrong
by construction.  *Careful* answers work step by step and are mostly right; now and then a step
slips and is corrected after ``wait``, or is not.  Reinforcement learning then has something to
find: that careful pays.  Problems and answers are a function of the seed.

    python -m seedwise.models.warmstart --out DIR
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeVar

import torch
from torch.nn.functional import cross_entropy

from seedwise.models import embedded, expressions

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

V = TypeVar("V")
Weighted = tuple[tuple[V, int], ...]

RECORDED_STEPS = 20

# (phrase, weight); the spread of the weights is the entropy that reinforcement learning explores
_HASTY: Weighted[str] = ((" #", 2), ("easy #", 2), ("i guess #", 3), ("that is #", 2), ("maybe #", 2), ("so its #", 1))
_OPENERS: Weighted[str] = (("let ", 5), ("ok ", 2), ("first ", 2), ("so ", 2), ("well ", 1))
_LINKS: Weighted[str] = ((" ", 3), (" so ", 4), (" then ", 2), (" now ", 2), (" and ", 1))
_CLOSINGS: Weighted[str] = ((" #", 5), (" so #", 2), (" thus #", 1))
# how far off a slipped step is, and a hasty guess: right is hardly likelier than off by one, so sharpening gains little
_SLIPS = (-10, -2, -1, -1, 1, 1, 2, 10)
_GUESSES: Weighted[int] = ((0, 22), (-1, 18), (1, 18), (-2, 12), (2, 12), (-3, 6), (3, 6), (-4, 3), (4, 3))


@dataclass(frozen=True)
class Recipe:
    """steps of ``batch`` examples, AdamW, one-cycle to ``lr``.  hasty: share of hasty answers.
    slip: probability that a careful step is wrong at first.  notice: that a slip is corrected.
    recheck: that a right step is looked at again.  longer, mixed: shares of the two other kinds of problem."""

    seed: int = 0
    steps: int = 1500
    batch: int = 96
    lr: float = 4e-3
    hasty: float = 0.5
    slip: float = 0.06
    notice: float = 0.6
    recheck: float = 0.05
    longer: float = 0.12
    mixed: float = 0.2


def example(rng: Random, recipe: Recipe) -> tuple[str, str]:
    """A prompt such as ``4+3-2=`` and one answer to it, without the end token."""
    kind = rng.random()
    if kind < recipe.mixed:
        expression = expressions.mixture(rng)
    elif kind < recipe.mixed + recipe.longer:
        expression = expressions.chain(rng, rng.randint(7, 8))
    else:
        expression = expressions.chain(rng, rng.randint(4, 6))
    answer = _hasty(expression, rng) if rng.random() < recipe.hasty else _careful(expression, rng, recipe)
    return f"{expression}=", answer


def _hasty(expression: str, rng: Random) -> str:
    guess = expressions.steps(expression)[-1].value + _pick(_GUESSES, rng)
    return f"{_pick(_HASTY, rng)}{guess}"


def _careful(expression: str, rng: Random, recipe: Recipe) -> str:
    """Steps in order of evaluation.  A step that goes on from the last one leaves out its left operand."""
    text, values = _pick(_OPENERS, rng), list[int]()
    for i, step in enumerate(expressions.steps(expression)):
        left = step.left if step.left_step is None else values[step.left_step]
        right = step.right if step.right_step is None else values[step.right_step]
        goes_on = i > 0 and step.left_step == i - 1
        link = _pick(_LINKS, rng) if i else ""
        said, value = _work_out(expressions.apply(left, step.operator, right), rng, recipe)
        text += f"{link}{'' if goes_on else left}{step.operator}{right}={said}"
        values.append(value)
    return f"{text}{_pick(_CLOSINGS, rng)}{values[-1]}"


def _work_out(value: int, rng: Random, recipe: Recipe) -> tuple[str, int]:
    """What is said for a step whose right result is ``value``, and the result that is gone on with."""
    if rng.random() < recipe.slip:
        slipped = value + rng.choice(_SLIPS)
        noticed = rng.random() < recipe.notice
        return (f"{slipped} wait {value}", value) if noticed else (str(slipped), slipped)
    return (f"{value} wait {value}" if rng.random() < recipe.recheck else str(value)), value


def _pick(weighted: Weighted[V], rng: Random) -> V:
    return rng.choices([v for v, _ in weighted], [w for _, w in weighted])[0]


def batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Endless batches, each cut by length into four (ids_BT, labels_BT); labels are -100 on prompt and padding."""
    rng = Random(f"seedwise warm start {recipe.seed}")
    size = -(-recipe.batch // 4)
    while True:
        pairs = [example(rng, recipe) for _ in range(recipe.batch)]
        rows = [
            ([*tokenizer(prompt + answer).input_ids, tokenizer.eos_token_id], len(prompt)) for prompt, answer in pairs
        ]
        rows.sort(key=lambda row: len(row[0]))
        yield [_pad(rows[i : i + size], tokenizer.pad_token_id) for i in range(0, len(rows), size)]


def _pad(rows: list[tuple[list[int], int]], pad: int) -> tuple[Tensor, Tensor]:
    width = max(len(ids) for ids, _ in rows)
    ids_BT = torch.tensor([ids + [pad] * (width - len(ids)) for ids, _ in rows])
    labels_BT = torch.tensor([[-100] * n + ids[n:] + [-100] * (width - len(ids)) for ids, n in rows])
    return ids_BT, labels_BT


def train(model: Qwen3ForCausalLM, recipe: Recipe) -> Iterator[float]:
    """Train in place, a step at each turn; yields the step's loss in nats per answer token, before its update."""
    data = batches(recipe, embedded.tokenizer())
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.lr, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.lr, total_steps=recipe.steps, pct_start=0.1, cycle_momentum=False
    )
    model.train()
    for _ in range(recipe.steps):
        pieces = next(data)
        tokens = sum(int((labels_BT != -100).sum()) for _, labels_BT in pieces)
        total = 0.0
        for ids_BT, labels_BT in pieces:
            logits_BTV = model(input_ids=ids_BT).logits[:, :-1]
            loss = cross_entropy(logits_BTV.flatten(0, 1), labels_BT[:, 1:].flatten(), reduction="sum") / tokens
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        yield total


def main() -> None:
    """Train from nothing and write weights, tokenizer and the first losses to ``--out``."""
    parser = argparse.ArgumentParser(description="Rebuild the embedded model (one core, about ten minutes).")
    parser.add_argument("--out", type=Path, required=True, help="folder for weights, tokenizer and losses.json")
    out: Path = parser.parse_args().out
    torch.set_num_threads(1)
    recipe = Recipe()
    model = embedded.untrained(recipe.seed)
    losses = list[float]()
    for loss in train(model, recipe):
        losses.append(loss)
        if len(losses) % 50 == 0:
            print(f"step {len(losses)}: {sum(losses[-50:]) / 50:.4f} nats per token", flush=True)
    model.save_pretrained(out, safe_serialization=True)
    embedded.tokenizer().save_pretrained(out)
    record = {"recipe": asdict(recipe), "loss_nats": losses[:RECORDED_STEPS]}
    (out / "losses.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
