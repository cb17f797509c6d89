import numpy as np
import pytest

from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.prepared import prepare
from seedwise.stats.results import StatsError
from seedwise.stats.variances import Blocks, CellMargins, Margins

PAIR = {"A": 1.0, "B": -1.0}


@pytest.fixture
def scores():
    rng = np.random.default_rng(0)
    cells = {m: {"x": rng.random((S, 7)), "y": rng.random((S, 4))} for m, S in (("A", 3), ("B", 4), ("C", 3))}
    return cells | {"base": {"x": rng.random((1, 7)), "y": rng.random((1, 4))}}


@pytest.mark.parametrize(
    ("w", "options"),
    [
        (PAIR, {}),
        (PAIR, {"target": "E1"}),
        (PAIR, {"samples": 16, "alpha": 0.1}),
        ({"A": 1, "C": -1}, {"pairing": "seed"}),
        ({"A": 1, "base": -1}, {}),
        ({"A": 1, "B": -0.5, "C": -0.5}, {}),
    ],
)
def test_a_prepared_contrast_is_the_same(scores, w, options):
    ready = prepare(scores, fixed={"base"})
    assert tw_contrast(ready, w, **options) == tw_contrast(scores, w, fixed={"base"}, **options)


def test_a_pooled_seed_variance_uses_every_prepared_cell(scores):
    trained = {m: scores[m] for m in "ABC"}
    pooled = tw_contrast(prepare(trained), PAIR, seed_variance="pooled")
    assert pooled == tw_contrast(trained, PAIR, seed_variance="pooled")
    assert pooled.df_seed == 2 + 3 + 2


def test_clusters_are_prepared_too(scores):
    clusters = {"x": [0, 0, 1, 1, 2, 2, 3]}
    assert tw_contrast(prepare(scores, clusters=clusters), PAIR) == tw_contrast(scores, PAIR, clusters=clusters)


def test_a_missing_score_counts_only_where_its_cell_is_compared(scores):
    scores["C"]["x"][1, 2] = np.nan
    ready = prepare(scores, fixed={"base"})
    assert ready.whole is None
    for w in (PAIR, {"A": 1, "C": -1}, {"C": 1, "base": -1}):
        assert tw_contrast(ready, w) == tw_contrast(scores, w, fixed={"base"})
    assert (tw_contrast(ready, PAIR).dropped, tw_contrast(ready, {"A": 1, "C": -1}).dropped) == (0, 1)


def test_prepared_scores_refuse_what_belongs_to_their_making(scores):
    ready = prepare(scores)
    with pytest.raises(StatsError, match="give fixed and clusters to prepare instead"):
        tw_contrast(ready, PAIR, fixed={"base"})
    with pytest.raises(StatsError, match="cell 'D' has a weight but no scores: cells with scores are"):
        tw_contrast(ready, {"A": 1, "D": -1})
    with pytest.raises(StatsError, match="all weights are 0"):
        tw_contrast(ready, {"A": 0})


def test_margins_of_a_cell_are_those_of_its_benchmarks():
    rng = np.random.default_rng(1)
    blocks = [rng.random((3, P)) for P in (5, 1, 8)]
    cell = CellMargins.of(np.hstack(blocks), Blocks.of([5, 1, 8]))
    alone = [Margins.of(y) for y in blocks]
    np.testing.assert_allclose(cell.columns_N, np.concatenate([y.columns_P for y in alone]), rtol=1e-14)
    np.testing.assert_allclose(cell.macro_S, np.mean([y.rows_S for y in alone], axis=0), rtol=1e-14)
    np.testing.assert_allclose(cell.interaction, [y.interaction for y in alone], rtol=1e-12, atol=1e-30)
    np.testing.assert_allclose(cell.squares, [np.square(y).sum() for y in blocks], rtol=1e-12)
    assert cell.s2 == pytest.approx(cell.macro_S.var(ddof=1))
