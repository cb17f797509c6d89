"""What a model of the embedded kind does before and after training, on problems of reasoning-gym.

    python -m seedwise.models.measure FOLDER

prints, per benchmark: accuracy, the share of careful answers, the accuracy of either way, mean length and entropy.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from seedwise.models.load import load

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_ROWS = 256
_CHAIN = {"min_digits": 1, "max_digits": 1, "allow_negation": False}
_SIGNED = {**_CHAIN, "operators": ["+", "-", "*"], "allow_parentheses": True}
# parentheses stay on: without them reasoning-gym evaluates from left to right, and its answer to 7 + 4 * 0 is 0
BENCHMARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "same": ("chain_sum", {"min_terms": 4, "max_terms": 6, **_CHAIN}),
    "longer": ("chain_sum", {"min_terms": 7, "max_terms": 8, **_CHAIN}),
    "mixed": ("basic_arithmetic", {"min_terms": 3, "max_terms": 4, **_SIGNED}),
}


@dataclass(frozen=True)
class Measured:
    """Shares in 0..1; ``entropy_nats`` over the full vocabulary at temperature 1, a mean over completion tokens."""

    right: float
    careful: float
    right_careful: float | None
    right_hasty: float | None
    length_tokens: float
    longest_tokens: int
    entropy_nats: float

    def __str__(self) -> str:
        ways = [f"{way} {'-' if x is None else f'{x:.3f}'}" for way, x in self._ways()]
        return (
            f"right {self.right:.3f} ({', '.join(ways)}), careful share {self.careful:.2f}, "
            f"{self.length_tokens:.1f} tokens (longest {self.longest_tokens}), {self.entropy_nats:.3f} nats"
        )

    def _ways(self) -> tuple[tuple[str, float | None], ...]:
        return (("careful", self.right_careful), ("hasty", self.right_hasty))


def problems(benchmark: str, size: int, seed: int) -> list[tuple[str, str]]:
    """(prompt, answer) pairs of a benchmark: ``("4+3-2=", "5")``."""
    import reasoning_gym

    name, settings = BENCHMARKS[benchmark]
    made = reasoning_gym.create_dataset(name, seed=seed, size=size, **settings)
    return [(problem["metadata"]["expression"].replace(" ", "") + "=", problem["answer"]) for problem in made]


def measure(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: list[tuple[str, str]],
    *,
    samples: int,
    temperature: float,
    seed: int,
    max_tokens: int = 96,
) -> Measured:
    """Sample every problem ``samples`` times; the answer is the text after the last ``#``; with ``=`` it is careful."""
    right, careful, lengths, entropy = list[bool](), list[bool](), list[int](), 0.0
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        asked = [pair for pair in pairs for _ in range(samples)]
        for rows in (asked[i : i + _ROWS] for i in range(0, len(asked), _ROWS)):
            batch = tokenizer([prompt for prompt, _ in rows], return_tensors="pt", padding=True)
            ids_BT = model.generate(
                **batch, do_sample=True, temperature=temperature, top_k=0, max_new_tokens=max_tokens
            )
            width = batch["input_ids"].shape[1]
            spoken_BT = (ids_BT[:, width:] != tokenizer.pad_token_id).long()
            mask_BT = torch.cat([batch["attention_mask"], spoken_BT], 1)
            logp_BTV = model(input_ids=ids_BT, attention_mask=mask_BT).logits[:, width - 1 : -1].log_softmax(-1)
            entropy -= float(((logp_BTV.exp() * logp_BTV).sum(-1) * spoken_BT).sum())
            lengths += spoken_BT.sum(1).tolist()
            texts = tokenizer.batch_decode(ids_BT[:, width:], skip_special_tokens=True)
            right += [t.rsplit("#", 1)[-1].strip() == answer for t, (_, answer) in zip(texts, rows, strict=True)]
            careful += ["=" in text for text in texts]
    return Measured(
        right=sum(right) / len(right),
        careful=sum(careful) / len(careful),
        right_careful=_mean([r for r, c in zip(right, careful, strict=True) if c]),
        right_hasty=_mean([r for r, c in zip(right, careful, strict=True) if not c]),
        length_tokens=sum(lengths) / len(lengths),
        longest_tokens=max(lengths),
        entropy_nats=entropy / sum(lengths),
    )


def _mean(values: list[bool]) -> float | None:
    return sum(values) / len(values) if values else None


def main() -> None:
    """Measure the model of a folder on the three benchmarks, at temperatures 1 and 0.7."""
    parser = argparse.ArgumentParser(description="Accuracy, ways of answering, length and entropy of a model.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--samples", type=int, default=16)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load(args.folder)
    for temperature in (1.0, 0.7):
        for name in BENCHMARKS:
            pairs = problems(name, args.problems, seed=777)
            found = measure(model, tokenizer, pairs, samples=args.samples, temperature=temperature, seed=0)
            print(f"{name}, temperature {temperature}: {found}", flush=True)


if __name__ == "__main__":
    main()
