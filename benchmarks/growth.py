"""How time and memory of an update grow with the length of responses, the micro-batch and the vocabulary."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd
from torch import Generator
from trl import GRPOTrainer

from benchmarks import trainers
from benchmarks.trainers import G, peak_bytes, seconds, turns
from seedwise.algos import presets
from seedwise.grading.pool import Grader
from seedwise.trainer.adapter import ComposedTrainer
from seedwise.trainer.batch import arranged

Found = dict[str, float]

GROWTH = {
    "tokens": [{"P": 1, "T": T, "rows": 4} for T in (128, 256, 512, 1024)],
    "micro_batch": [{"P": 4, "rows": rows} for rows in (2, 8, 32)],
    "vocabulary": [{"P": 1, "T": 48, "rows": 4, "V": V} for V in (50, 5_000, 50_000, 150_000)],
}
"""P prompts of 8 responses of up to T tokens, in micro-batches of so many rows; see ``growth``."""


def both(
    folder: Path, asked: pd.DataFrame, grader: Grader, rows: int, B: int, T: int
) -> tuple[GRPOTrainer, ComposedTrainer]:
    """Stock TRL, and ours under QAE."""
    run = trainers.run_of(presets.qae(K=0.4), completions=B, micro_batch=rows, max_tokens=T)
    return trainers.stock(run, folder, asked, grader), trainers.ours(run, folder, asked, grader)


def growth(root: Path, asked: pd.DataFrame, grader: Grader) -> Found:
    """Update phases of a small Qwen3, along one axis at a time."""
    found: Found = {}
    for axis, points in GROWTH.items():
        for point in points:
            value = point[{"tokens": "T", "micro_batch": "rows", "vocabulary": "V"}[axis]]
            with tempfile.TemporaryDirectory(dir=root) as folder:
                measured = grown(Path(folder), asked, grader, **point)
            found |= {f"growth.{axis}_{value}.{name}": number for name, number in measured.items()}
    return found


def grown(
    folder: Path, asked: pd.DataFrame, grader: Grader, *, P: int, T: int = 128, rows: int = 8, V: int = 58
) -> Found:
    """Seconds and peak memory of an update of P groups, stock TRL's and ours."""
    trainers.save_model(folder, hidden=128, layers=2, vocabulary=V, positions=T + trainers.PROMPT)
    stock, ours = both(folder, asked, grader, rows, P * G, T)
    parts = trainers.micro_batches(trainers.rollout(P, T, V, Generator().manual_seed(T + 1)), rows)
    ordered = arranged(parts, skip=True)
    theirs, own = turns(lambda: trainers.update(stock, parts), lambda: trainers.update(ours, ordered), times=2)
    peaks = [peak_bytes(lambda: trainers.update(stock, parts)), peak_bytes(lambda: trainers.update(ours, ordered))]
    return {
        "stock_seconds": seconds(theirs),
        "qae_seconds": seconds(own),
        "stock_peak_mb": peaks[0] / 1e6,
        "qae_peak_mb": peaks[1] / 1e6,
    }
