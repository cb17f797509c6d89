"""A study with known effects: K x method, a 2-point group-size block, the untrained base, one unstable seed."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd

from seedwise.report.build import analyse, render
from seedwise.report.facts import Comparison, Look
from seedwise.report.resampling import Resampled

BENCHMARKS = {"same": 40, "longer": 30, "mixed": 36}
SAMPLES, SIMULATIONS = 16, 100
STEPS = (20, 40, 60)
# macro accuracy gained over the reference at the last step
EFFECTS = {
    "clip_higher": 0.0, "grpo": -0.02, "qae.K0.2": 0.00, "qae.K0.4": 0.10, "qae.K0.6": 0.06, "qae.K0.8": -0.04,
    "eapo.log2": 0.03, "eapo.log4": 0.04, "qae_eapo": 0.002,
}  # fmt: skip
AXES = {
    "qae.K0.2": {"K": 0.2}, "qae.K0.4": {"K": 0.4}, "qae.K0.6": {"K": 0.6}, "qae.K0.8": {"K": 0.8},
    "eapo.log2": {"kappa": math.log(2)}, "eapo.log4": {"kappa": math.log(4)},
}  # fmt: skip
FAMILY, TRENDS = ("qae.K0.4", "eapo.log4", "qae_eapo", "base"), ("K", "group_size")
COMPARE = Comparison(
    "clip_higher", "avg@n", FAMILY, TRENDS, 0.02, 0.05, curves=("reward.area", "entropy_nats.log_volatility"),
    budget={"generated_tokens": None, "trained_tokens": None},
)  # fmt: skip
FACTS = {
    "study": "synthetic",
    "compare": COMPARE,
    "compare_hash": "5f2c9a01",
    "seed_varies": ("the order of prompts", "the sampled completions"),
    "seed_fixed": ("the initial weights", "the benchmarks"),
    "hashes": {"data": "91ab23cd"},
    "versions": {"trl": "1.16.0"},
    "settings": {"train data": "chain_sum, 2,000 problems"},
}


def runs(
    seeds: tuple[int, ...] = (0, 1, 2),
    methods: tuple[str, ...] = tuple(EFFECTS),
    block: tuple[str, ...] = ("qae.K0.2", "qae.K0.4"),
) -> pd.DataFrame:
    cells = [("G8", method, 8) for method in methods] + [("G4", method, 4) for method in block]
    rows = [
        {
            "run": f"{method}.{setting}.s{seed}", "model": "embedded", "method": method, "setting": setting,
            "group_size": G, "seed": seed, "axes": json.dumps(AXES.get(method, {}) | {"group_size": G}),
            "id": f"{len(method):04x}{G:02x}{seed:02x}",
        }
        for setting, method, G in cells
        for seed in seeds
    ]  # fmt: skip
    return pd.DataFrame(rows)


def counts(planned: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Logit-normal problems and seeds, Binomial(16) answers; the base once, 18 points below the reference."""
    difficulty = {name: rng.normal(0.1, 1.3, P) for name, P in BENCHMARKS.items()}
    frames = []
    for row in planned.itertuples():
        shift = rng.normal(0, 0.06)
        for step in STEPS:
            gain = (EFFECTS[row.method] + 0.18) * step / STEPS[-1] - 0.18
            frames += _answers(row, step, 4.6 * gain + shift, difficulty, rng)
    base = pd.Series({"run": "base", "model": "embedded", "method": "base", "setting": "base", "seed": 0})
    frames += _answers(base, 0, 4.6 * -0.18, difficulty, rng)
    return pd.concat(frames, ignore_index=True)


def _answers(row, step, shift, difficulty, rng) -> list[pd.DataFrame]:
    frames = []
    for name, logits in difficulty.items():
        theta = 1 / (1 + np.exp(-(logits + shift + rng.normal(0, 0.25, len(logits)))))
        correct = rng.binomial(SAMPLES, theta)
        frames.append(
            pd.DataFrame(
                {
                    "run": row.run, "model": row.model, "method": row.method, "setting": row.setting,
                    "seed": row.seed, "step": step, "benchmark": name,
                    "problem": [f"{name}-{i:03d}" for i in range(len(logits))], "samples": SAMPLES,
                    "correct": correct, "unparsed": np.minimum(1, SAMPLES - correct), "timeout": 0, "truncated": 0,
                    "tokens": 24.0,
                }
            )
        )  # fmt: skip
    return frames


def metrics(planned: pd.DataFrame, rng: np.random.Generator, steps: int = 60) -> pd.DataFrame:
    """Curves with the names the trainer writes; one value is undefined with its reason."""
    t = np.arange(1, steps + 1)
    frames = []
    for row in planned.itertuples():
        zero = {"qae": 0.68}.get(row.method.split(".")[0], 0.3) + rng.normal(0, 0.03, steps)
        positive = (1 - zero) * (0.4 + 0.2 * t / steps)
        values = {
            "reward": 0.45 + (EFFECTS[row.method] + 0.25) * (1 - np.exp(-t / 25)) + rng.normal(0, 0.03, steps),
            "entropy_nats": 0.2 * np.exp(-t / (200 if "qae" in row.method else 60)) + rng.normal(0, 0.004, steps),
            "length_tokens": 22 + 6 * t / steps + rng.normal(0, 0.8, steps),
            "generated_tokens_total": 1500.0 * t,
            "trained_tokens_total": 1500.0 * t * (1 - zero.mean()),
            "positive_advantage_share": positive,
            "zero_advantage_share": zero,
            "negative_advantage_share": 1 - zero - positive,
        }
        frames += [
            pd.DataFrame({"run": row.run, "step": t, "name": name, "value": v, "reason": None})
            for name, v in values.items()
        ]
    frame = pd.concat(frames, ignore_index=True)
    frame.loc[0, ["value", "reason"]] = [None, "no response in this step"]
    return frame


def windows(planned: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """High-entropy windows: correct responses lose 10 points, incorrect ones gain 15."""
    rows = [
        {
            "run": row.run, "model": row.model, "method": row.method, "setting": row.setting, "seed": row.seed,
            "problem": f"same-{problem:03d}", "response": response, "outcome": outcome,
            "reward_high": 0.6 + change + rng.normal(0, 0.08), "reward_low": 0.6 + rng.normal(0, 0.08),
            "overlap_high": 2.0 + rng.normal(0, 0.2), "overlap_low": 4.5 + rng.normal(0, 0.2),
            "position_high": 0.48, "position_low": 0.52, "entropy_high": 0.5, "entropy_low": 0.05,
        }
        for row in planned[planned["method"].isin(["clip_higher", "eapo.log4"])].itertuples()
        for problem in range(6)
        for response, (outcome, change) in enumerate([("correct", -0.1), ("incorrect", 0.15)] * 2)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def resampled(planned: pd.DataFrame, rng: np.random.Generator) -> Resampled:
    """Windows as above; success falls or rises along a response; two words; every run found 6 of 8 problems."""
    rows = windows(planned, rng)
    ends = {"correct": 1.0, "incorrect": 0.0}
    prefixes = [
        {key: row[key] for key in ("run", "model", "method", "setting", "seed", "problem", "response", "outcome")}
        | {"position": at, "reward": 0.4 + (ends[row["outcome"]] - 0.4) * at + rng.normal(0, 0.05)}
        for row in rows.to_dict("records")
        for at in (0.0, 0.5, 0.9)
    ]
    runs = rows.drop_duplicates("run")[["run", "model", "method", "setting", "seed"]].to_dict("records")
    chosen = {
        "step": 60, "benchmark": "same", "engine": "e", "problems": 40, "wanted": 8, "band_low": 0.2, "band_high": 0.8,
        "in_band": 6, "used": 6, "too_short": 0, "unreadable": 0, "alike": 0,
    }  # fmt: skip
    words = [
        {"outcome": outcome, "tail": tail, "word": word, "count": count, "of": 10, "tail_words": 20, "words": 200,
         "enrichment": count / 20 / 0.05}
        for outcome in ends
        for tail, word, count in (("high", "try", 8), ("high", "so", 1), ("low", "so", 6), ("low", "try", 0))
    ]  # fmt: skip
    return Resampled(
        rows,
        pd.DataFrame(prefixes),
        pd.DataFrame([run | chosen for run in runs]),
        pd.DataFrame([run | word for run in runs for word in words]),
    )


EXAMPLE_TEXTS = {"prompt": "<i>3 + 4 - 2</i>?", "before": "<script>alert('w')</script> 3 + 4 = ", "inside": "{{ 7 }}"}


def continued(planned: pd.DataFrame) -> pd.DataFrame:
    """A response of the first two runs with its texts; that of the second differs more in entropy."""
    rows = [
        {
            "run": run, "problem": "same-003", "response": 5, "outcome": "incorrect", "window": window,
            "continuation": m, "entropy_nats": entropy, "start_tokens": 700, "window_tokens": 7, "length_tokens": 900,
            "after": f"</pre><b>wait {m}</b> & so on", "correct": int(m < right),
            "verdict": "correct" if m < right else "wrong",
        }
        | EXAMPLE_TEXTS
        for run, more in zip(planned["run"].iloc[:2], (0.0, 0.5), strict=True)
        for window, entropy, right in (("high", 1.0 + more, 3), ("low", 0.1, 1))
        for m in range(4)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def samples(planned: pd.DataFrame) -> pd.DataFrame:
    """Two answers of every run; the texts are what must never reach the page as markup."""
    texts = (
        "let me see: 3 + 4 = 7, wait, 7 - 2 = 5\nso the answer is 5",
        "<script>alert('x')</script> \\boxed{<b>7</b>} {{ 7 * 7 }} & so on",
    )
    rows = [
        {
            "run": row.run, "step": 60, "benchmark": "same", "problem": "same-000", "sample": i, "text": text,
            "tokens": len(text), "stop": "stop", "seed": 1, "engine": "transformers 5.17.0",
            "prompt": "What is 3 + 4 - 2?", "verdict": ("correct", "wrong")[i], "answer": ("5", "<b>7</b>")[i],
        }
        for row in planned.itertuples()
        for i, text in enumerate(texts)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def build(study: dict[str, pd.DataFrame], out: Path, facts: dict = FACTS, look: Look | None = None) -> Path:
    """Analyse and render a study; returns the path of the page."""
    names = [field.name for field in fields(Resampled)]
    resampled = None if study["windows"] is None else Resampled(*(study[name] for name in names))
    analyse(
        study["runs"], study["counts"], resampled, facts["compare"], out, look=look, metrics=study["metrics"],
        stops=study.get("stops"), forced=study.get("forced"), simulations=SIMULATIONS,
    )  # fmt: skip
    return render(out, study["metrics"], facts, study["samples"], study["runs"], continued=study.get("continued"))
