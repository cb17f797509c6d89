import numpy as np
import pytest

from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.results import StatsError
from seedwise.stats.strata import strata

PAIR = {"A": 1.0, "B": -1.0}
EDGES = (0.0, 0.5, 1.0)


@pytest.fixture
def study():
    """Two benchmarks of 20 and 10 problems; A helps by .3 where the base scores 0, and by nothing elsewhere."""
    rng = np.random.default_rng(3)
    accuracy = {"x": np.repeat([0.0, 0.25, 0.75, 1.0], 5), "y": np.repeat([0.0, 1.0], 5)}
    scores = {
        m: {
            b: base
            + (0.3 if m == "A" else 0) * (base == 0)
            + rng.normal(0, 0.02, (3, 1))
            + rng.normal(0, 0.05, (3, len(base)))
            for b, base in accuracy.items()
        }
        for m, gain in (("A", 0.3), ("B", 0.0))
    }
    return scores, accuracy


def test_bands_hold_the_problems_between_their_edges(study):
    scores, accuracy = study
    result = strata(scores, PAIR, accuracy, EDGES)
    # 0 alone; above 0 to .5; above .5 to 1
    assert [(band.low, band.high, band.problems) for band in result.bands] == [(None, 0, 10), (0, 0.5, 5), (0.5, 1, 15)]
    never = {m: {"all": np.hstack([y["x"][:, :5], y["y"][:, :5]])} for m, y in scores.items()}
    alone = tw_contrast(never, PAIR)
    assert (result.bands[0].contrast.d, result.bands[0].contrast.p) == pytest.approx((alone.d, alone.p), rel=1e-9)


def test_interaction_by_hand(study):
    scores, accuracy = study
    result = strata(scores, PAIR, accuracy, EDGES)
    low, high = result.bands[0].contrast, result.bands[2].contrast
    assert result.interaction.d == pytest.approx(high.d - low.d)
    assert result.interaction.d == pytest.approx(-0.3, abs=0.05)
    assert result.interaction.p < 0.01
    # disjoint problems: their variances add; seeds are shared, and move both bands together
    assert result.interaction.V_prob == pytest.approx(low.V_prob + high.V_prob)
    assert result.interaction.V_res == pytest.approx(low.V_res + high.V_res)
    hard = {m: np.hstack([y["x"][:, :5], y["y"][:, :5]]).mean(axis=1) for m, y in scores.items()}
    easy = {m: np.hstack([y["x"][:, 10:], y["y"][:, 5:]]).mean(axis=1) for m, y in scores.items()}
    spread = sum((easy[m] - hard[m]).var(ddof=1) / 3 for m in "AB")
    assert result.interaction.V_seed == pytest.approx(spread)


def test_a_small_band_has_no_contrast_and_says_so(study):
    scores, accuracy = study
    result = strata(scores, PAIR, accuracy, EDGES, least=6)
    assert (result.bands[1].contrast, result.bands[1].reason) == (None, "a band needs at least 6 problems, got 5")
    assert result.interaction is not None
    alone = strata(scores, PAIR, accuracy, EDGES, least=11)
    assert (alone.interaction, alone.reason) == (None, "an interaction needs 2 bands with at least 11 problems, got 1")


def test_bands_chosen_on_a_compared_cell_are_flagged(study):
    scores, accuracy = study
    result = strata(scores, PAIR, accuracy, EDGES, selected_on={"B"}, fixed={"B"})
    assert result.flags == ("bands were chosen on the scores of 'B'",)
    assert strata(scores, PAIR, accuracy, EDGES, selected_on={"base"}).flags == ()


def test_missing_scores_drop_the_problem_from_its_band(study):
    scores, accuracy = study
    scores["A"]["x"][1, 0] = np.nan
    result = strata(scores, PAIR, accuracy, EDGES)
    assert (result.dropped, result.bands[0].problems) == (1, 9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": (0.5, 0.5, 1)}, "give rising upper ends"),
        ({"edges": (0.5,)}, "the last one 1"),
        ({"accuracy": {"x": np.zeros(20)}}, "benchmark 'y' has no base accuracy"),
        ({"accuracy": {"x": np.zeros(20), "y": np.zeros(3)}}, r"\(3,\) base accuracies for \(10,\) problems"),
        ({"accuracy": {"x": np.full(20, 1.5), "y": np.zeros(10)}}, "base accuracy 1.5 is outside 0..1"),
    ],
)
def test_bands_without_meaning_are_refused(study, change, message):
    scores, accuracy = study
    with pytest.raises(StatsError, match=message):
        strata(scores, PAIR, **{"accuracy": accuracy, "edges": EDGES, **change})
