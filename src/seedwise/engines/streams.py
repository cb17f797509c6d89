"""Random streams of completions: one uniform number per token, a pure function of (seed, token index).

SplitMix64 (Steele, Lea, Flood 2014) is counter-based: any block of a stream is computed directly, for
all rows at once, so a row's numbers do not depend on what else is in the batch or on when it is compacted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def uniforms(seeds_B: Sequence[int] | NDArray[np.uint64], start: int, stop: int) -> NDArray[np.float64]:
    """Numbers in [0, 1) for tokens ``start`` to ``stop`` - 1 of every stream: [B, stop - start].

    seeds_B: integers in [0, 2**64).
    """
    states_B = _mix(np.asarray(seeds_B, dtype=np.uint64))  # mixed first: seeds 0, 1, 2 must not give shifted streams
    with np.errstate(over="ignore"):  # arithmetic is modulo 2**64
        counters_BT = states_B[:, None] + _GAMMA * np.arange(start + 1, stop + 1, dtype=np.uint64)
    return (_mix(counters_BT) >> np.uint64(11)) * 2.0**-53


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
