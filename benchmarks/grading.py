"""Answers graded per second, against bare math-verify on the same answers.

``grading.ratio``: answers per second of a ``Grader`` with two workers (every answer that needs a library is judged in
another process, within limits of time and memory) over those of math-verify in this process, as TRL's accuracy reward
calls it: its LaTeX extraction, its comparison, but each gold answer parsed once.  Both take turns on the same answers,
each round with answers of its own, after a round that is not counted, in which libraries are imported and caches fill.
``grading.cpu_ratio`` is the same of CPU time, workers included: what is saved, not what runs side by side.

The answers are those of groups of 16 samples: problems of the kinds of competition benchmarks, answered rightly in
several spellings, wrongly with some wrong answers more usual than others, or not at all.

    python -m benchmarks.grading
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from os import sysconf
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify

from benchmarks.record import record
from seedwise.grading.pool import Grader, Item
from seedwise.grading.verify import MATH_VERIFY

PROBLEMS, SAMPLES, WORKERS, ROUNDS = 80, 16, 2, 3
Problem = tuple[str, Sequence[str], Sequence[str]]


def integer(rng: random.Random) -> Problem:
    """As AIME, HMMT and AMC have them."""
    n = rng.randrange(2, 999)
    return f"{n}", (f"{n}", f"{n}", f"{n}", f"{n}.", rf"\text{{{n}}}"), [f"{n + d}" for d in (1, -1, 2, 10, n)]


def fraction(rng: random.Random) -> Problem:
    a, b = rng.randrange(1, 40), rng.choice((3, 7, 8, 9, 11, 16))
    right = rf"\frac{{{a}}}{{{b}}}"
    return right, (right, rf"\dfrac{{{a}}}{{{b}}}", f"{a}/{b}"), [rf"\frac{{{b}}}{{{a}}}", f"{a}", rf"-{right}"]


def root(rng: random.Random) -> Problem:
    a, b = rng.randrange(2, 80), rng.choice((2, 3, 5, 7, 11, 13, 17, 19))
    right = rf"{a}\sqrt{{{b}}}"
    return right, (right, right, rf"\sqrt{{{a * a * b}}}"), [rf"\sqrt{{{a * b}}}", rf"{a}\sqrt{{{b + 1}}}", f"{a * b}"]


def polynomial(rng: random.Random) -> Problem:
    a, b = rng.randrange(2, 40), rng.randrange(1, 40)
    right = f"x^2+{a}x+{b}"
    return right, (right, f"{b}+{a}x+x^2"), [f"x^2+{b}x+{a + 1}", f"x^2-{a}x+{b}", f"{a}x+{b}"]


def points(rng: random.Random) -> Problem:
    a, b = rng.randrange(1, 40), rng.randrange(40, 80)
    return f"({a},{b})", (f"({a}, {b})", f"({a},{b})"), [f"({b},{a})", f"[{a},{b}]", f"({a},{b + 1})"]


def text(rng: random.Random) -> Problem:
    right, wrong = rng.sample(("Monday", "Tuesday", "Friday", "even", "odd"), 2)
    return rf"\text{{{right}}}", (rf"\text{{{right}}}", right.lower()), [rf"\text{{{wrong}}}", wrong]


# Percent of problems.  An integer is all that AIME and AMC ask for, and the most usual answer of MATH and HMMT.
KINDS: dict[Callable[[random.Random], Problem], int] = {
    integer: 60, fraction: 14, root: 10, polynomial: 7, points: 6, text: 3
}  # fmt: skip


def answers(rng: random.Random) -> list[tuple[str, str]]:
    """(gold answer, completion) of PROBLEMS groups of SAMPLES."""
    drawn = []
    for kind in rng.choices(list(KINDS), list(KINDS.values()), k=PROBLEMS):
        gold, right, wrong = kind(rng)
        ability = rng.random()
        for _ in range(SAMPLES):
            chosen = (
                rng.choice(right) if rng.random() < ability else rng.choices(wrong, [3, 2, 1, 1, 1][: len(wrong)])[0]
            )
            boxed = rf"\boxed{{{chosen}}}" if rng.random() < 0.92 else f"and {chosen}"
            drawn.append((gold, f"Let us see. We find that the answer is {boxed}."))
    return drawn


@cache
def parsed(gold: str) -> list[Any]:
    return parse(f"${gold}$", extraction_mode="first_match")


def bare(drawn: Sequence[tuple[str, str]]) -> list[bool]:
    """math-verify in this process, in the manner of TRL's accuracy_reward."""
    config = [
        LatexExtractionConfig(
            normalization_config=NormalizationConfig(units=True),
            boxed_match_priority=0,
            try_extract_without_anchor=False,
        )
    ]
    return [
        verify(parsed(gold), parse(text, extraction_config=config, extraction_mode="first_match"))
        for gold, text in drawn
    ]


def ours(drawn: Sequence[tuple[str, str]], grader: Grader) -> list[bool]:
    """A Grader, group by group as a training has them."""
    items = [Item(MATH_VERIFY, gold, text) for gold, text in drawn]
    groups = [items[start : start + SAMPLES] for start in range(0, len(items), SAMPLES)]
    return [bool(verdict.correct) for group in groups for verdict in grader.grade(group)]


@dataclass(frozen=True)
class Cost:
    """Of grading some answers: seconds that pass, and CPU seconds of this process and the grader's workers."""

    wall: float
    cpu: float


def measured(call: Callable[[], list[bool]], pids: Sequence[int]) -> tuple[Cost, list[bool]]:
    """What a call costs, and its result."""
    wall, cpu = perf_counter(), cpu_seconds(pids)
    found = call()
    return Cost(perf_counter() - wall, cpu_seconds(pids) - cpu), found


def cpu_seconds(pids: Sequence[int]) -> float:
    """Of this process and others so far."""
    ticks = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13] for pid in pids]
    return process_time() + sum(int(tick) for pair in ticks for tick in pair) / sysconf("SC_CLK_TCK")


def rounds() -> tuple[list[Cost], list[Cost], list[bool]]:
    """Costs of ours and of math-verify alone, a round each, and whether their verdicts are the same."""
    costs_ours, costs_bare, same = [], [], []
    with Grader(WORKERS) as grader:
        for number in range(ROUNDS + 1):
            drawn = answers(random.Random(number))
            of_ours, found_ours = measured(partial(ours, drawn, grader), grader.pids)
            of_bare, found_bare = measured(partial(bare, drawn), ())
            if number:
                costs_ours.append(of_ours)
                costs_bare.append(of_bare)
                same += [one == other for one, other in zip(found_ours, found_bare, strict=True)]
    return costs_ours, costs_bare, same


def main() -> None:
    """Measure, print, and add to results.json."""
    costs_ours, costs_bare, same = rounds()
    pairs = list(zip(costs_bare, costs_ours, strict=True))
    count = PROBLEMS * SAMPLES
    record(
        {
            "grading.ratio": median(theirs.wall / own.wall for theirs, own in pairs),
            "grading.cpu_ratio": median(theirs.cpu / own.cpu for theirs, own in pairs),
            "grading.ours_answers_per_second": count / median(own.wall for own in costs_ours),
            "grading.math_verify_answers_per_second": count / median(theirs.wall for theirs in costs_bare),
            "grading.same_verdict_share": sum(same) / len(same),
        }
    )


if __name__ == "__main__":
    main()
