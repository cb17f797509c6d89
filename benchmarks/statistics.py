"""Time and memory of the comparison of a large study: 20 methods x 10 seeds x 6 benchmarks of 297 problems in all.

``statistics.ratio``: how many times longer a vectorised stratified bootstrap takes than our contrasts for the
same 19 x 7 comparisons (every method with the reference, on each benchmark and the macro average), side by
side in one process.  The bootstrap redraws the runs of every problem independently, 2,000 times, as rliable
does for every task.  ``statistics.ratio_runs_x_benchmarks``: the same on a matrix of runs x benchmarks, where
it has 50 times less to draw and knows nothing about problems.

    python -m benchmarks.statistics
"""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.record import record
from seedwise.report import layout
from seedwise.report.build import analyse, load, views_of
from seedwise.report.facts import Comparison, Facts
from seedwise.report.results import design
from seedwise.stats.audit import FamilyDesign, aa_audit
from seedwise.stats.components import components_from
from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.families import family
from seedwise.stats.prepared import prepare
from seedwise.stats.simulate import SCENARIOS, studies

METHODS, SEEDS, SAMPLES, DRAWS = 20, 10, 16, 2000
SIZES = {"aime24": 30, "aime25": 30, "hmmt": 30, "brumo": 33, "amc": 40, "math": 134}
REFERENCE = "m00"

Scores = Mapping[str, Mapping[str, NDArray[np.float64]]]


def simulated_scores() -> Scores:
    """method -> benchmark -> [S, P] shares correct, all methods equally good."""
    found: dict[str, dict[str, NDArray[np.float64]]] = {f"m{m:02d}": {} for m in range(METHODS)}
    for at, (bench, P) in enumerate(SIZES.items()):
        # the seeds of one large arm are the methods' seeds in turn
        drawn = studies(SCENARIOS["sharp"], (METHODS * SEEDS, 2), P, 1, rng=np.random.default_rng(at), samples=SAMPLES)
        for name, y_SP in zip(found, np.split(drawn.first[0], METHODS), strict=True):
            found[name][bench] = y_SP
    return found


def study(scores: Scores) -> tuple[pd.DataFrame, pd.DataFrame]:
    """RUNS and COUNTS of these scores."""
    keys = [(method, seed) for method in scores for seed in range(SEEDS)]
    runs = pd.DataFrame(
        [
            {
                "run": f"{method}.s{seed}", "model": "large", "method": method, "setting": "G8", "group_size": 8,
                "seed": seed, "axes": "{}", "id": f"{at:08x}",
            }
            for at, (method, seed) in enumerate(keys)
        ]
    )  # fmt: skip
    frames = [
        pd.DataFrame(
            {
                "run": f"{method}.s{seed}", "model": "large", "method": method, "setting": "G8", "seed": seed,
                "step": 60, "benchmark": bench, "problem": [f"{bench}-{p:03d}" for p in range(y_SP.shape[1])],
                "samples": SAMPLES, "correct": np.rint(SAMPLES * y_SP[seed]).astype(int), "unparsed": 0, "timeout": 0,
                "truncated": 0, "tokens": 100.0,
            }
        )
        for method, seed in keys
        for bench, y_SP in scores[method].items()
    ]  # fmt: skip
    return runs, pd.concat(frames, ignore_index=True)


def all_tables(runs: pd.DataFrame, counts: pd.DataFrame, facts: Facts) -> int:
    """Every table, from counts to files and to Markdown, CSV and LaTeX, without the audit; how many characters."""
    with tempfile.TemporaryDirectory() as folder:
        analyse(runs, counts, None, facts.compare, Path(folder), simulations=0)
        results = load(Path(folder), runs)
    designs = {(model, setting): design(results, facts, model, setting) for model, setting, _ in results.places()}
    groups = views_of(results, facts, designs).values()
    return sum(len(spell(group)) for group in groups for spell in (layout.markdown, layout.csv, layout.latex))


COMPARED: tuple[tuple[str, ...], ...] = (tuple(SIZES), *((bench,) for bench in SIZES))
"""The macro average and each benchmark alone; every method is compared with the reference on each."""


def our_comparison(scores: Scores) -> int:
    """Contrasts and Holm families of all methods against the reference; how many."""
    found = 0
    for benches in COMPARED:
        ready = prepare({method: {bench: ys[bench] for bench in benches} for method, ys in scores.items()})
        contrasts = {method: tw_contrast(ready, {method: 1.0, REFERENCE: -1.0}) for method in list(scores)[1:]}
        found += family(contrasts, smallest_effect=0.02).m
    return found


def bootstrap_comparison(scores: Scores, rng: np.random.Generator) -> int:
    """95 % percentile intervals of the same differences by a stratified bootstrap; how many."""
    intervals = []
    for benches in COMPARED:
        for method in list(scores)[1:]:
            d_BK = [_redrawn(scores[method][bench], rng) - _redrawn(scores[REFERENCE][bench], rng) for bench in benches]
            intervals.append(np.quantile(np.mean(d_BK, axis=0), (0.025, 0.975)))
    return len(intervals)


def _redrawn(y_SP: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """[K] mean of resamples in which the runs of every column are redrawn on their own."""
    S, P = y_SP.shape
    return y_SP[rng.integers(S, size=(DRAWS, S, P)), np.arange(P)].mean(axis=(1, 2))


def seconds(*calls: Callable[[], object], times: int) -> list[float]:
    """Median duration of each call; they take turns, and the first turn does not count when there are several."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(times + (times > 1)):
        for call, durations in zip(calls, taken, strict=True):
            start = perf_counter()
            call()
            durations.append(perf_counter() - start)
    return [float(np.median(durations[times > 1 :])) for durations in taken]


def main() -> None:
    """Measure, print, and add to results.json."""
    scores = simulated_scores()
    runs, counts = study(scores)
    compare = Comparison(REFERENCE, "avg@n", tuple(list(scores)[1:]), (), 0.02, 0.05)
    facts = Facts("large", compare, "0" * 16)
    (tables_seconds,) = seconds(lambda: all_tables(runs, counts, facts), times=3)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    means: Scores = {
        method: {bench: y_SP.mean(axis=1, keepdims=True) for bench, y_SP in blocks.items()}
        for method, blocks in scores.items()
    }
    ours, by_problem, by_benchmark = seconds(
        lambda: our_comparison(scores),
        lambda: bootstrap_comparison(scores, np.random.default_rng(0)),
        lambda: bootstrap_comparison(means, np.random.default_rng(0)),
        times=3,
    )
    family_design, components = FamilyDesign.of(scores, REFERENCE, SAMPLES), components_from(scores, SAMPLES)
    (audit_seconds,) = seconds(lambda: aa_audit(family_design, components, rng=np.random.default_rng(0)), times=1)
    record(
        {
            "statistics.ratio": by_problem / ours,
            "statistics.ratio_runs_x_benchmarks": by_benchmark / ours,
            "statistics.ours_seconds": ours,
            "statistics.bootstrap_seconds": by_problem,
            "statistics.tables_seconds": tables_seconds,
            "statistics.tables_peak_mb": peak_mb,
            "statistics.audit_seconds": audit_seconds,
        }
    )


if __name__ == "__main__":
    main()
