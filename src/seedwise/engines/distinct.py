"""Are the samples of a prompt distinct draws?  Two checks that do not accuse a policy that is merely certain.

A policy close to determinism repeats itself honestly, so equal texts alone prove nothing.  What was
drawn is therefore compared with what the policy's own probabilities allow, and the seeds are tried
where every policy is random: at a temperature that makes any distribution nearly uniform.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from seedwise.engines.base import Completion, Engine, Sampling

_HOT, _TOKENS = 100.0, 8  # 8 nearly uniform tokens agree by chance with probability V**-8
_UNLIKELY = math.log(1e-12)  # per group: thousands of groups leave no false alarm


class IdenticalSamples(RuntimeError):
    """A backend repeated a completion more often than its own probabilities allow."""


class SeedIgnored(RuntimeError):
    """A backend gives one text for different seeds, or different texts for one seed."""


def check_distinct(groups: Sequence[Sequence[Completion]], sampling: Sampling) -> None:
    """Refuse repeated completions that cannot be chance.

    groups: completions of one prompt each, drawn with different seeds.
    A completion of log-probability l that occurs m times among n has, with every other completion at
    most as probable, a probability of at most C(n, m) exp((m - 1) l); below 1e-12 the draws were not
    independent.  top_p raises a probability by at most 1/top_p per token, which is allowed for.  Drawing
    with temperature 0 or with top_k leaves nothing to test, and nothing is.

    Raises IdenticalSamples naming the prompt's place, the counts and the log-probability.
    """
    if sampling.temperature == 0 or sampling.top_k > 0:
        return
    for p, group in enumerate(groups):
        for ids, m in Counter(tuple(completion.ids) for completion in group).items():
            if m == 1:
                continue
            drawn = next(completion for completion in group if tuple(completion.ids) == ids)
            logp = sum(min(0.0, token - math.log(sampling.top_p)) for token in drawn.logps)
            if math.log(math.comb(len(group), m)) + (m - 1) * logp < _UNLIKELY:
                raise IdenticalSamples(
                    f"prompt {p}: {m} of {len(group)} samples are the same text {drawn.text[:60]!r} though its"
                    f" log-probability is {logp:.1f}; the engine repeats itself, check that it uses its seeds"
                )


def check_seeds(engine: Engine, prompt: Sequence[int]) -> None:
    """Draw completions of one prompt with four seeds, each given twice, at temperature 100.

    Different seeds must give different tokens; the same seed must give the same tokens at least once
    (a rounding error may flip a token, not all of them).

    Raises SeedIgnored naming the engine and which of the two failed.
    """
    sampling, seeds = Sampling(max_tokens=_TOKENS, temperature=_HOT), [11, 12, 13, 14]
    drawn = [tuple(completion.ids) for completion in engine.generate([prompt], 8, sampling, seeds * 2)[0]]
    first, second = drawn[:4], drawn[4:]
    if len(set(first)) < len(first):
        raise SeedIgnored(
            f"{engine.name}: different seeds give the same tokens at temperature {_HOT:g}; mend its seeding"
        )
    if not any(a == b for a, b in zip(first, second, strict=True)):
        raise SeedIgnored(f"{engine.name}: one seed gives different tokens when it is used again; mend its seeding")
