"""Self-audit: the false-positive rate, coverage and reach of one table, by simulating it (statistics, section 9).

Whole families are simulated from the fitted variance components at the table's own seeds, problems and
samples, and tested by its own rule: TW-Welch on the macro average for new problems, Holm inside the
family.  Every study draws new problems, of the difficulties seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from statsmodels.stats.proportion import proportion_confint

from seedwise.stats.batched import ArmMargins, Differences, differences
from seedwise.stats.components import Components
from seedwise.stats.matrices import aligned
from seedwise.stats.planner import mde
from seedwise.stats.results import StatsError
from seedwise.stats.scores import avg, passk
from seedwise.stats.simulate import Arm, CountTable, fitted_arm, latent, shift_for
from seedwise.stats.variances import Array

SIMULATIONS = 2000
LIMIT = 1.2
"""Verdicts are withheld above this multiple of alpha: 0.06 at 0.05."""
UNSTABLE = 3.0
EDGE = 0.001
CHUNK = 2**18


@dataclass(frozen=True)
class FamilyDesign:
    """A family of comparisons with one reference, as it was run.

    seeds: S of every arm that is tested, the reference among them.  fixed: arms without training seeds,
    like the untrained base.  accuracy: benchmark -> [P] mean share correct of each problem.
    samples: n per benchmark.  means: macro score of each arm, in the metric pass@k (k = 1: avg@n).
    """

    reference: str
    seeds: Mapping[str, int]
    fixed: frozenset[str]
    accuracy: Mapping[str, Array]
    samples: Mapping[str, int]
    means: Mapping[str, float]
    k: int = 1

    @property
    def members(self) -> tuple[str, ...]:
        """The arms compared with the reference."""
        return tuple(arm for arm in self.seeds if arm != self.reference)

    @classmethod
    def of(
        cls,
        scores: Mapping[str, Mapping[str, ArrayLike]],
        reference: str,
        samples: int | Mapping[str, int],
        *,
        fixed: frozenset[str] = frozenset(),
        k: int = 1,
    ) -> FamilyDesign:
        """The design behind these scores: arm -> benchmark -> [S, P] shares correct c/n, also for pass@k.

        samples: n, one number or per benchmark.  An arm with one seed that is not fixed is not tested and
        left out.  Raises StatsError when nothing is left to test, or a benchmark has fewer than 2 problems.
        """
        data = aligned(scores, dict.fromkeys(scores, 1.0), fixed=fixed)
        S = {str(arm): len(ys[0]) for arm, ys in data.y.items()}
        tested = {arm: 1 if arm in fixed else count for arm, count in S.items() if arm in fixed or count > 1}
        if reference not in tested or len(tested) < 2:
            raise StatsError(f"an audit needs the reference {reference!r} and another arm with 2 seeds each, got {S}")
        if min(ys.shape[1] for ys in data.y[reference]) < 2:
            raise StatsError(f"an audit needs at least 2 problems, got 1 in {data.smallest_bench!r}")
        n = {bench: samples[bench] if isinstance(samples, Mapping) else samples for bench in data.benches}
        # half a right and half a wrong answer more: a problem nobody solved is not impossible
        drawn = {bench: n_b * sum(S[arm] for arm in tested) for bench, n_b in n.items()}
        accuracy = {
            bench: (n_b * np.sum([data.y[arm][b].sum(axis=0) for arm in tested], axis=0) + 0.5) / (drawn[bench] + 1)
            for b, (bench, n_b) in enumerate(n.items())
        }
        means = {
            arm: float(
                np.mean(
                    [_scored(np.rint(y * n_b), n_b, k).mean() for y, n_b in zip(data.y[arm], n.values(), strict=True)]
                )
            )
            for arm in tested
        }
        return cls(reference, tested, frozenset(fixed) & tested.keys(), accuracy, n, means, k)


@dataclass(frozen=True)
class Rate:
    """Share of simulations with an event, and its 95 % Wilson interval."""

    share: float
    low: float
    high: float

    @classmethod
    def of(cls, share: float, simulations: int) -> Rate:
        """Wilson's interval around ``share`` of so many simulations."""
        bounds = proportion_confint(share * simulations, simulations, method="wilson")
        return cls(share, *np.asarray(bounds, dtype=np.float64).tolist())


@dataclass(frozen=True)
class Audit:
    """What a table's rule does where the truth is known.

    null: families in which any difference is claimed, all arms alike.  unstable: the same with the seed
    SD of ``unstable_arm`` three times as large.  coverage: intervals at 1 - alpha, one per comparison,
    that hold the true difference for new problems when the arms differ as observed; its Wilson interval
    counts a family once, since its intervals share a reference.  mde: smallest difference that one
    comparison finds with the power asked for; mde_family: at alpha/m.  withheld: why no verdict may be
    printed, or None.
    """

    simulations: int
    m: int
    alpha: float
    null: Rate
    unstable: Rate
    unstable_arm: str
    coverage: Rate
    mde: float
    mde_family: float
    withheld: str | None = None


def aa_audit(
    design: FamilyDesign,
    components: Components,
    *,
    rng: np.random.Generator,
    alpha: float = 0.05,
    power: float = 0.8,
    simulations: int = SIMULATIONS,
    metric_components: Components | None = None,
) -> Audit:
    """Audit of a family from the components of its shares correct (``components_from``, trained arms).

    metric_components: those of the metric, where it is pass@k, for the smallest detectable difference.
    Where the seed variance is estimated as 0, three times the SD means that of its upper 75 % limit.
    Raises StatsError as ``planner.mde``, for fewer than 1 simulation, and where nothing simulated varies.
    """
    if simulations < 1:
        raise StatsError(f"simulations: {simulations}: an audit needs at least 1")
    trained = [name for name in (*design.members, design.reference) if name not in design.fixed]
    if not trained:
        raise StatsError("an audit needs an arm with training seeds: all of this family are fixed")
    accuracy, m = list(design.accuracy.values()), len(design.members)
    P, n = 1 / sum(1 / (len(acc_P) * len(accuracy) ** 2) for acc_P in accuracy), min(design.samples.values())
    S = min(design.seeds[name] for name in trained)
    alone, in_family = (
        mde(metric_components or components, S, P, n, level, power, rng=rng) for level in (alpha, alpha / m)
    )
    arm = fitted_arm(components, accuracy)
    spread = arm.su or fitted_arm(components.cautious(), accuracy).su
    # no finite shift makes an arm right or wrong always
    observed = {name: float(np.clip(mean, EDGE, 1 - EDGE)) for name, mean in design.means.items()}
    alike = dict.fromkeys(design.seeds, observed[design.reference])
    calm = Simulator.of(design, arm)
    restless = replace(calm, arms={**calm.arms, trained[0]: replace(arm, su=UNSTABLE * spread)})
    null, unstable = (
        Rate.of(float(simulator.claims(alike, simulations, alpha, rng).mean()), simulations)
        for simulator in (calm, restless)
    )
    coverage = Rate.of(calm.coverage(observed, simulations, alpha, rng), simulations)
    return Audit(
        simulations, m, alpha, null, unstable, trained[0], coverage, alone, in_family, _withheld(null, alpha)
    )  # fmt: skip


def _withheld(null: Rate, alpha: float) -> str | None:
    if null.low <= LIMIT * alpha:
        return None
    return (
        f"verdicts withheld: identical methods would be told apart in {100 * null.share:.1f} % of families like this "
        f"one ({100 * null.low:.1f} to {100 * null.high:.1f} %), declared were {100 * alpha:g} %"
    )


@dataclass(frozen=True)
class Simulator:
    """Families of one design from given arms.  difficulty: logits [P] per benchmark.  tables: count
    table of an arm's seed-by-problem SD and a number of samples.  values: score of each count."""

    design: FamilyDesign
    arms: Mapping[str, Arm]
    difficulty: tuple[Array, ...]
    tables: Mapping[tuple[float, int], CountTable]
    values: tuple[Array, ...]

    @classmethod
    def of(cls, design: FamilyDesign, arm: Arm) -> Simulator:
        """All arms alike, but fixed ones without seeds."""
        arms = {name: Arm(0.0, 0.0, arm.smp) if name in design.fixed else arm for name in design.seeds}
        n = list(design.samples.values())
        return cls(
            design,
            arms,
            tuple(latent(acc_P, arm.sd) for acc_P in design.accuracy.values()),
            {(sv, n_b): CountTable.of(n_b, sv) for sv in {arm.sv for arm in arms.values()} for n_b in set(n)},
            tuple(_scored(np.arange(n_b + 1), n_b, design.k) for n_b in n),
        )

    def families(
        self, shifts: Mapping[str, float], R: int, rng: np.random.Generator
    ) -> Iterator[tuple[str, list[Array]]]:
        """The arms of R families one by one, the reference first: per benchmark scores [R, S, P]."""
        x = [rng.choice(x_P, (R, len(x_P))) for x_P in self.difficulty]
        for name in (self.design.reference, *self.design.members):
            arm, S = self.arms[name], self.design.seeds[name]
            seed_RS = shifts[name] + arm.su * rng.standard_normal((R, S, 1))
            blocks = []
            for x_RP, n, values_C in zip(x, self.design.samples.values(), self.values, strict=True):
                at_RP = x_RP + arm.smp * rng.standard_normal(x_RP.shape)
                blocks.append(values_C[self.tables[arm.sv, n].draw(at_RP[:, None] + seed_RS, rng)])
            yield name, blocks

    def tested(
        self, levels: Mapping[str, float], R: int, alpha: float, rng: np.random.Generator
    ) -> Iterator[dict[str, Differences]]:
        """The comparisons of R families whose arms have these true macro scores, a chunk at a time."""
        shifts = {name: shift_for(arm, self.difficulty, levels[name], self.design.k) for name, arm in self.arms.items()}
        largest = max(self.design.seeds.values()) * max(len(x_P) for x_P in self.difficulty)
        chunk = max(1, CHUNK // largest)
        for start in range(0, R, chunk):
            arms = (
                (name, ArmMargins.of(blocks, fixed=name in self.design.fixed))
                for name, blocks in self.families(shifts, min(chunk, R - start), rng)
            )
            _, reference = next(arms)
            yield {name: differences(arm, reference, alpha=alpha) for name, arm in arms}

    def claims(self, levels: Mapping[str, float], R: int, alpha: float, rng: np.random.Generator) -> NDArray[np.bool_]:
        """[R] true where Holm claims any difference of the family.

        Its smallest adjusted p is m times the smallest p, m being how many are defined.
        """
        found = []
        for chunk in self.tested(levels, R, alpha, rng):
            p_MR = np.array([result.p for result in chunk.values()])
            m_R = np.isfinite(p_MR).sum(axis=0)
            found.append(m_R * np.where(np.isfinite(p_MR), p_MR, 1.0).min(axis=0) <= alpha)
        return np.concatenate(found)

    def coverage(self, levels: Mapping[str, float], R: int, alpha: float, rng: np.random.Generator) -> float:
        """Share of intervals that hold the true difference; those that are undefined do not count.

        Raises StatsError when all are.
        """
        held = known = 0
        for chunk in self.tested(levels, R, alpha, rng):
            for name, result in chunk.items():
                truth = levels[name] - levels[self.design.reference]
                held += int((np.abs(result.d - truth) <= result.half).sum())
                known += int(np.isfinite(result.half).sum())
        if not known:
            raise StatsError("no simulated family varies over seeds or problems: there is nothing to audit")
        return held / known


def _scored(counts: ArrayLike, n: int, k: int) -> Array:
    """avg@n (k = 1) or pass@k of counts."""
    return avg(n, counts) if k == 1 else passk(n, counts, k)
