import math
from fractions import Fraction

import numpy as np
import pytest

from seedwise.stats.results import StatsError
from seedwise.stats.scores import avg, macro, passk


def test_passk_by_hand():
    # 4 samples, 1 correct: of the 6 pairs, 3 contain the correct one
    assert passk(4, 1, 2) == pytest.approx(1 / 2, abs=1e-15)


def test_passk_golden(golden):
    case = golden["G1"]
    for name, value in case.items():
        if name != "frac_16_3_4":
            n, c, k = (int(part[1:]) for part in name.split())
            assert float(passk(n, c, k)) == golden.printed(value), name
    assert float(passk(16, 3, 4)) == pytest.approx(float(Fraction(case["frac_16_3_4"])), abs=1e-15)


def test_passk_equals_its_definition_for_every_count():
    n, c = (grid.ravel() for grid in np.meshgrid(np.arange(1, 33), np.arange(33), indexing="ij"))
    n, c = n[c <= n], c[c <= n]
    for k in (1, 2, 5, 16, 32):
        enough = n >= k
        exact = [1 - math.comb(N - C, k) / math.comb(N, k) for N, C in zip(n[enough], c[enough], strict=True)]
        np.testing.assert_allclose(passk(n[enough], c[enough], k), exact, atol=1e-14)


def test_passk_of_one_is_the_average_and_shapes_broadcast():
    c_SP = np.array([[0, 3, 16], [1, 8, 15]])
    np.testing.assert_allclose(passk(16, c_SP, 1), avg(16, c_SP), atol=1e-15)


def test_avg_golden(golden):
    A = np.array(golden["G4"]["counts_A"])
    y = avg(16, A)
    assert y.mean(axis=1).tolist() == [golden.printed(mean) for mean in golden["G2"]["A_seed_means"]]
    assert y.mean() == golden.printed(golden["G2"]["A_mean"])
    assert passk(16, A[0], 4).mean() == golden.printed(golden["G2"]["passk4_seed0"])


def test_macro_gives_benchmarks_equal_weight():
    # seed 0: (mean(1, 0) + 1/2)/2; seed 1: (mean(1, 1) + 0)/2
    np.testing.assert_allclose(macro({"two": [[1, 0], [1, 1]], "one": [[0.5], [0]]}), [0.5, 0.5])


def test_fewer_samples_than_k_is_an_error_with_both_numbers():  # case 26
    with pytest.raises(StatsError, match=r"pass@16 needs at least 16 samples of a problem, got 8"):
        passk([16, 8], [3, 2], 16)


@pytest.mark.parametrize(
    ("n", "c", "message"),
    [
        (16, -1, "correct: -1 is negative"),
        (-4, 0, "samples: -4 is negative"),
        (16, 17, "17 correct of 16 samples"),
        (16, 1.5, "correct: 1.5 is not a whole number"),
        (float("nan"), 1, "samples: nan is not a whole number"),
        ("16", 1, "samples: .*'16'.* is not a number"),
    ],
)
@pytest.mark.parametrize("score", [avg, lambda n, c: passk(n, c, 1)])
def test_counts_without_meaning_are_refused_with_the_value(score, n, c, message):  # case 32
    with pytest.raises(StatsError, match=message):
        score(n, c)


def test_no_samples_no_benchmark_and_different_seeds_are_refused():
    with pytest.raises(StatsError, match="at least 1 sample"):
        avg([4, 0], 0)
    with pytest.raises(StatsError, match="whole k of at least 1, got 0"):
        passk(4, 1, 0)
    with pytest.raises(StatsError, match="at least 1 benchmark"):
        macro({})
    with pytest.raises(StatsError, match="number of seeds differs"):
        macro({"a": [[1]], "b": [[1], [0]]})
