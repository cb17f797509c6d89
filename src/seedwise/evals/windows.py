"""Which problems, responses and windows the continuation experiment looks at.

Source: EAPO (arXiv 2609.33781), table 1: moderately difficult problems, two correct and two incorrect
responses of each, and in every response the two non-overlapping windows of w tokens whose mean token
entropies differ most, away from both ends of the response and close to each other.

Arrays in, choices out: NumPy only, and randomness only where a generator is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_ROUNDING = 1e-9  # (1 - 0.3) * 90 is 62.99999999999999: a bound may be exceeded by this many tokens


@dataclass(frozen=True)
class Bounds:
    """Where windows may lie.

    window: tokens.  edge: share of the response excluded at each end, in which no token of a window lies.
    apart: the two starts differ by at most this share of the response length.
    """

    window: int
    edge: float = 0.2
    apart: float = 0.2

    def starts(self, length: int) -> range:
        """Start positions allowed in a response of ``length`` tokens."""
        first = math.ceil(self.edge * length - _ROUNDING)
        last = math.floor((1 - self.edge) * length + _ROUNDING) - self.window
        return range(first, last + 1)

    def reach(self, length: int) -> int:
        """Largest distance allowed between the two starts, tokens."""
        return math.floor(self.apart * length + _ROUNDING)

    def fit(self, length: int) -> bool:
        """Whether a response of ``length`` tokens has room for two windows."""
        return len(self.starts(length)) > self.window and self.reach(length) >= self.window


@dataclass(frozen=True)
class Pair:
    """Two windows of one response: start positions (tokens) and mean token entropies (nats)."""

    high: int
    low: int
    entropy_high: float
    entropy_low: float


def pair(entropy_T: Sequence[float] | NDArray[np.float64], bounds: Bounds) -> Pair | None:
    """The two windows with the largest difference in mean token entropy.

    entropy_T: nats, one per response token.  Of equal differences the one with the earliest first window
    and then the nearest second one is taken.  None where no two windows fit or all differences are 0.
    """
    length = len(entropy_T)
    if not bounds.fit(length):
        return None
    starts = bounds.starts(length)
    windows_SW = np.lib.stride_tricks.sliding_window_view(np.asarray(entropy_T, dtype=np.float64), bounds.window)
    mean_S = windows_SW[starts.start : starts.stop].mean(axis=1)
    best = (0.0, 0, 0)
    for distance in range(bounds.window, min(bounds.reach(length), len(starts) - 1) + 1):
        gap_S = np.abs(mean_S[distance:] - mean_S[:-distance])
        first = int(gap_S.argmax())
        if (gap_S[first], -first) > (best[0], -best[1]):
            best = (float(gap_S[first]), first, first + distance)
    gap, first, second = best
    if gap == 0.0:
        return None
    high, low = (first, second) if mean_S[first] > mean_S[second] else (second, first)
    return Pair(starts.start + high, starts.start + low, float(mean_S[high]), float(mean_S[low]))


@dataclass(frozen=True)
class Choice:
    """Responses chosen: (problem, sample, outcome).  The rest says how they were found.

    in_band: problems whose accuracy lies in the band.  used: of them, those with a chosen response.
    too_short, unreadable: responses of problems in the band that have no room for two windows, or no known tokens.
    """

    responses: tuple[tuple[str, int, str], ...]
    in_band: int
    used: int
    too_short: int
    unreadable: int


def choose(
    correct_NK: Mapping[str, Sequence[bool]],
    length_NK: Mapping[str, Sequence[int | None]],
    bounds: Bounds,
    *,
    band: tuple[float, float],
    problems: int,
    responses: int,
    rng: np.random.Generator,
) -> Choice:
    """Choose up to ``problems`` problems and of each up to ``responses`` correct and as many incorrect responses.

    correct_NK, length_NK: per problem, its K samples' verdicts and lengths in tokens, None where the
        tokens are not known.
    band: accuracy, both ends included.
    Responses that are too short for two windows or not readable are passed over and counted.
    Problems come in random order, those with enough usable responses of both outcomes first; a problem
    without any is passed over.
    """
    inside = [name for name in sorted(correct_NK) if _within(correct_NK[name], band)]
    lengths = [length for name in inside for length in length_NK[name]]
    found = []
    for rank, at in enumerate(rng.permutation(len(inside))):
        name, taken = inside[at], []
        for outcome, wanted in (("correct", True), ("incorrect", False)):
            these = [k for k, correct in enumerate(correct_NK[name]) if bool(correct) == wanted]
            shuffled = [these[i] for i in rng.permutation(len(these))]
            usable = [k for k in shuffled if bounds.fit(length_NK[name][k] or 0)]
            taken += [(name, k, outcome) for k in usable[:responses]]
        if taken:
            found.append((len(taken) < 2 * responses, rank, taken))
    chosen = sorted(found)[:problems]
    return Choice(
        responses=tuple(response for _, _, taken in chosen for response in taken),
        in_band=len(inside),
        used=len(chosen),
        too_short=sum(length is not None and not bounds.fit(length) for length in lengths),
        unreadable=lengths.count(None),
    )


def _within(correct_K: Sequence[bool], band: tuple[float, float]) -> bool:
    accuracy = sum(map(bool, correct_K)) / len(correct_K)
    return band[0] - _ROUNDING <= accuracy <= band[1] + _ROUNDING
