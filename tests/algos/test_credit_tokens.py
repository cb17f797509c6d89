"""Forking tokens, A3PO, LESS: golden cases, arithmetic by hand, TRL's form, LESS against its definition."""

from __future__ import annotations

import math

import pytest
import torch
from algos.made import by_id, doubles, golden, loss_view, stream, tokens, window
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.algos.credit import Uniform
from seedwise.algos.credit_tokens import A3po, ForkingTokens, Less, highest, linear_quantile
from seedwise.algos.objective import Clipped, Objective, PerToken

few = settings(max_examples=60, deadline=None)
LENGTHS = st.lists(st.integers(0, 7), min_size=1, max_size=5)


def masks(lengths, T=7):
    return doubles([[1.0] * n + [0.0] * (T - n) for n in lengths])


def credited(part, adv_B, mask_BT, correct=None, groups=None, step=0, **fields):
    view = tokens(mask_BT, step=step, **fields)
    view = view._replace(
        correct_B=torch.zeros(len(mask_BT)) if correct is None else doubles(correct),
        group_B=view.group_B if groups is None else torch.tensor(groups),
    )
    return part(adv_B, view, {}, stream())


# ---------------------------------------------------------------- forking tokens


@pytest.mark.parametrize("case", golden("80/20"), ids=by_id)
def test_forking_golden(case):
    entropies = case["inputs"]["entropies"]
    part, expected = ForkingTokens(rho=case["inputs"]["rho"]), case["expected"]
    got = credited(part, doubles([1.0]), torch.ones(1, len(entropies)), entropy_BT=doubles([entropies]))
    kept = got[0].nonzero().flatten().tolist()
    assert got[0, kept].eq(1).all()
    assert len(kept) == expected.get("n_kept", len(expected.get("kept", [])))
    assert kept == expected.get("kept", kept)
    assert set(expected.get("must_keep", [])) <= set(kept)


@few
@given(lengths=LENGTHS, rho=st.sampled_from([0.05, 0.07, 0.2, 0.5, 1.0]), seed=st.integers(0, 99))
def test_exactly_the_highest_are_kept(lengths, rho, seed):
    # entropies of three values only, so that ties are the rule; padding holds the highest of all
    mask_BT = masks(lengths)
    entropy_BT = torch.randint(0, 3, mask_BT.shape, generator=stream(seed)).double().masked_fill(mask_BT == 0, 9.0)
    kept_BT = ForkingTokens(rho=rho).kept(tokens(mask_BT, entropy_BT=entropy_BT))
    N = sum(lengths)
    assert kept_BT.sum() == math.ceil(rho * N - 1e-9)
    assert (kept_BT * (1 - mask_BT)).sum() == 0
    if 0 < kept_BT.sum() < N:
        assert entropy_BT[kept_BT > 0].min() >= entropy_BT[(mask_BT > 0) & (kept_BT == 0)].max()


def test_of_equal_ones_the_earlier_are_kept():
    # two of six equal ones, and 700 of many, where sorting would lose their order if it were not told to keep it
    kept_BT = highest(doubles([[1, 1, 1], [1, 1, 1]]), torch.ones(2, 3), 2)
    assert kept_BT.tolist() == [[1, 1, 0], [0, 0, 0]]
    many_BT = highest(torch.ones(40, 50), torch.ones(40, 50), 700)
    assert many_BT.flatten()[:700].all()
    assert many_BT.sum() == 700


def test_the_count_is_not_raised_by_rounding():
    # 0.07 * 100 is 7.000000000000001
    entropy_BT = torch.arange(100.0)[None]
    assert ForkingTokens(rho=0.07).kept(tokens(torch.ones(1, 100), entropy_BT=entropy_BT)).sum() == 7


def test_rows_with_zero_advantage_are_in_the_pool():
    # five tokens, one kept: it lies in the row that learns nothing
    fields = {"entropy_BT": doubles([[0.1, 0.2, 0.3], [0.1, 5.0, 0.0]])}
    mask_BT = doubles([[1, 1, 1], [1, 1, 0]])
    assert credited(ForkingTokens(), doubles([1.0, 0.0]), mask_BT, **fields).abs().sum() == 0
    assert credited(ForkingTokens(), doubles([1.0, -2.0]), mask_BT, **fields).tolist() == [[0, 0, 0], [0, -2, 0]]


def trl_high_entropy_mask(entropies, mask, threshold):
    """GRPOTrainer.get_high_entropy_mask of TRL 1.16.0 on one process."""
    pooled = entropies[mask.bool()].float()
    return (entropies * mask.float() >= torch.quantile(pooled, threshold)) & mask.bool()


@few
@given(seed=st.integers(0, 999), rho=st.sampled_from([0.05, 0.1, 0.2, 0.3, 0.45, 0.7, 1.0]))
def test_the_threshold_form_is_that_of_trl(seed, rho):
    rng = stream(seed)
    entropy_BT = torch.rand(6, 7, generator=rng) * 3
    mask_BT = masks([7, 1, 3, 5, 2, 4]).float()
    kept_BT = ForkingTokens(rho=rho, form="threshold").kept(tokens(mask_BT, entropy_BT=entropy_BT))
    assert torch.equal(kept_BT > 0, trl_high_entropy_mask(entropy_BT, mask_BT, 1 - rho))


def test_the_threshold_form_has_the_loss_of_trl_bit_for_bit():
    rng = stream(3)
    mask_BT, adv_B = masks([7, 1, 3, 5, 2, 4]).float(), torch.tensor([1.0, -0.4, 0.0, 2.0, 0.0, -1.5])
    old_BT, entropy_BT = -torch.rand(6, 7, generator=rng) * 3, torch.rand(6, 7, generator=rng)
    logp_BT = old_BT + 0.5 * torch.randn(6, 7, generator=rng)
    adv_BT = credited(ForkingTokens(form="threshold"), adv_B, mask_BT, entropy_BT=entropy_BT)
    objective = Objective(surrogate=Clipped(low=0.2, high=0.2), average=PerToken())
    got = objective(logp_BT, loss_view(old_BT, adv_BT, mask_BT), window(mask_BT), objective.start(), stream())
    # _compute_loss with loss_type dapo and top_entropy_quantile 0.2: the denominator is all tokens
    coef_1 = torch.exp(logp_BT - old_BT)
    coef_2 = torch.clamp(coef_1, 1 - 0.2, 1 + 0.2)
    loss = -torch.min(coef_1 * adv_B.unsqueeze(1), coef_2 * adv_B.unsqueeze(1))
    loss = loss * trl_high_entropy_mask(entropy_BT, mask_BT, 0.8)
    assert torch.equal(got, (loss * mask_BT).sum() / mask_BT.sum())


@pytest.mark.parametrize("N", [1, 2, 41, 61, 71, 81, 101, 1000])
def test_linear_quantile_has_the_bits_of_torch(N):
    # at 41, 61, 71, 81 the rank of 0.3 lies just above a whole number in float64, but not in float32
    values_N = torch.rand(N, generator=stream(N)) * 3
    for level in (0.0, 0.2, 1 - 0.7, 1 - 0.45, 0.8, 1.0):
        assert torch.equal(linear_quantile(values_N, level), values_N.quantile(level))


def test_ties_at_the_threshold_keep_far_more_than_rho():
    # nine zeros and a one: the 0.8 quantile is 0, so all ten are at or above it
    fields = {"entropy_BT": doubles([[0.0] * 9 + [1.0]])}
    count = {
        form: int(ForkingTokens(form=form).kept(tokens(torch.ones(1, 10), **fields)).sum())
        for form in ("exact", "threshold")
    }
    assert count == {"exact": 2, "threshold": 10}


def test_denominators_by_hand():
    # of five tokens one is kept: its advantage counts once in five, or alone
    fields = {"entropy_BT": doubles([[0.1, 0.2, 0.9], [0.1, 0.3, 0.0]])}
    mask_BT, adv_B = doubles([[1, 1, 1], [1, 1, 0]]), doubles([1.0, -1.0])
    mean = {}
    for denominator in ("all", "kept"):
        adv_BT = credited(ForkingTokens(denominator=denominator), adv_B, mask_BT, **fields)
        mean[denominator] = PerToken()(adv_BT, window(mask_BT), {}, stream()).item()
    assert mean == pytest.approx({"all": 0.2, "kept": 1.0})


@pytest.mark.parametrize("form", ["exact", "threshold"])
@pytest.mark.parametrize("denominator", ["all", "kept"])
def test_forking_without_tokens_is_zero_and_all_of_them_is_uniform(form, denominator):
    part = ForkingTokens(form=form, denominator=denominator, rho=1)
    entropy_BT, adv_B = torch.rand(2, 7, generator=stream()).double(), doubles([1.0, -0.3])
    empty_BT = credited(part, adv_B, masks([0, 0]), entropy_BT=entropy_BT)
    assert empty_BT.abs().sum() == 0
    full_BT = credited(part, adv_B, masks([7, 2]), entropy_BT=entropy_BT)
    assert torch.equal(full_BT, credited(Uniform(), adv_B, masks([7, 2])))


# ---------------------------------------------------------------- A3PO


def test_a3po_by_hand():
    # ten tokens, two stronger: the least likely after success, the likeliest after failure
    logp_BT = doubles([[-0.1, -5, -0.2, -4, -0.3, -0.4, -0.5, -0.6, -0.7, -0.8]] * 2)
    got = credited(A3po(scale=3), doubles([1, -1]), torch.ones(2, 10), correct=[1, 0], old_logp_BT=logp_BT)
    assert got.tolist() == [[1, 3, 1, 3, 1, 1, 1, 1, 1, 1], [-3, -1, -3, -1, -1, -1, -1, -1, -1, -1]]


def test_a3po_of_entropy_ranks_by_entropy():
    part = A3po(source="entropy", ratio=0.5)
    fields = {"entropy_BT": doubles([[0.0, 2.0, 1.0, 3.0, 9.0]] * 3)}
    mask_BT = masks([4, 4, 1], T=5)
    # a graded verdict below 1 counts as wrong, and of one token one is stronger
    got = credited(part, doubles([1, 1, -1]), mask_BT, correct=[1, 0.5, 0], **fields)
    assert got.tolist() == [[1, 2, 1, 2, 0], [2, 1, 2, 1, 0], [-2, 0, 0, 0, 0]]
    assert (part.needs, A3po().needs) == ({"entropy"}, {"old_logp"})


def test_a3po_takes_the_earlier_of_equal_tokens_and_rounds_down():
    # floor(0.4 * 4) = 1
    got = credited(A3po(ratio=0.4), doubles([1, -1]), torch.ones(2, 4), [1, 0], old_logp_BT=-torch.ones(2, 4))
    assert got.tolist() == [[2, 1, 1, 1], [-2, -1, -1, -1]]


def test_a3po_decays_to_uniform():
    part = A3po(scale=5, decay_steps=4)
    assert [part.scale_at(step) for step in (0, 1, 2, 4, 9)] == [5, 4, 3, 1, 1]
    assert [A3po(scale=5).scale_at(step) for step in (0, 99)] == [5, 5]
    assert part.experimental
    adv_B, mask_BT = torch.tensor([1.3, -0.7]), torch.ones(2, 5)
    late_BT = credited(part, adv_B, mask_BT, [1, 0], step=4, old_logp_BT=-torch.rand(2, 5, generator=stream()))
    assert torch.equal(late_BT, credited(Uniform(), adv_B, mask_BT))


# ---------------------------------------------------------------- LESS


def test_less_by_hand():
    # two right, one wrong.  n = 4, quantile 0.5: tau is the third smallest entropy, 1; the last token is above
    part, entropies = Less(quantile=0.5, segment=2), [0.0, 0.0, 1.0, 2.0]
    right = [True, True, False]
    # (1, 2) is shared by both right ones: 2 of 2; (3, 4) belongs to the one wrong response, whose 1 / N is 1
    alone = part.factors([(entropies, [1, 2, 7, 8]), (entropies, [1, 2, 5, 6]), (entropies, [3, 4, 7, 8])], right)
    assert alone == [[1, 1, 0.5, 1], [1, 1, 0.5, 1], [1, 1, 1, 1]]
    # not shared: 1 of 2
    apart = part.factors([(entropies, [1, 2, 7, 8]), (entropies, [5, 6, 7, 8]), (entropies, [3, 4, 7, 8])], right)
    assert apart == [[0.5, 0.5, 0.5, 1], [0.5, 0.5, 0.5, 1], [1, 1, 1, 1]]
    # shared by right and wrong
    both = part.factors([(entropies, [1, 2, 7, 8]), (entropies, [5, 6, 7, 8]), (entropies, [1, 2, 7, 8])], right)
    assert both == [[0, 0, 0.5, 1], [0.5, 0.5, 0.5, 1], [0, 0, 1, 1]]


def test_less_rows_belong_to_their_groups():
    # the same two responses, once in one group (shared by right and wrong) and once in two
    fields = {"entropy_BT": doubles([[0.0, 0.0, 1.0, 2.0, 0.0]] * 2), "ids_BT": torch.tensor([[1, 2, 7, 8, 1]] * 2)}
    part, adv_B, mask_BT = Less(quantile=0.5, segment=2), doubles([1, -1]), masks([4, 4], T=5)
    together = credited(part, adv_B, mask_BT, [1, 0], [3, 3], **fields)
    assert together.tolist() == [[0, 0, 1, 1, 0], [0, 0, -1, -1, 0]]
    assert credited(part, adv_B, mask_BT, [1, 0], [3, 4], **fields).tolist() == [[1, 1, 1, 1, 0], [-1, -1, -1, -1, 0]]


def literal_factors(responses, right, quantile, segment):
    """LESS by its definition, token by token."""
    runs = []  # of each response, (start, tokens) of its low-entropy segments
    base = []
    for (entropies, ids), side in zip(responses, right, strict=True):
        n = len(ids)
        tau = sorted(entropies)[min(round(quantile * n), n - 1)] if n else 0
        base.append([1 if tau < H else 1 / right.count(side) for H in entropies])
        found, start = [], 0
        for t in range(n + 1):
            if t == n or entropies[t] >= tau:
                if t - start >= segment:
                    found.append((start, ids[start:t]))
                start = t + 1
        runs.append(found)
    for j in range(len(responses)):
        for t in range(len(base[j])):
            sides, shares = set(), []
            for piece in [run for found in runs for _, run in found]:
                length = len(piece)
                has = [
                    [s + k for s, run in found for k in range(len(run) - length + 1) if run[k : k + length] == piece]
                    for found in runs
                ]
                havers = [i for i, places in enumerate(has) if places]
                if len(havers) > 1 and any(place <= t < place + length for place in has[j]):
                    sides = {right[i] for i in havers}
                    shares.append(0 if len(sides) == 2 else len(havers) / right.count(right[j]))
            base[j][t] = 0 if 0 in shares else max([base[j][t], *shares])
    return base


@few
@given(
    seed=st.integers(0, 9999),
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    quantile=st.sampled_from([0.5, 0.8]),
    order=st.randoms(use_true_random=False),
)
def test_less_is_its_definition_and_knows_no_order(seed, lengths, quantile, order):
    # two token ids and few entropies, so that segments, ties, nesting and overlaps are common
    rng = stream(seed)
    draw = lambda n, high: torch.randint(0, high, (n,), generator=rng).tolist()  # noqa: E731
    responses = [([H / 2 for H in draw(n, 4)], draw(n, 2)) for n in lengths]
    right = [bool(side) for side in draw(len(lengths), 2)]
    part = Less(quantile=quantile, segment=2)
    got = part.factors(responses, right)
    assert got == literal_factors(responses, right, quantile, 2)
    places = list(range(len(lengths)))
    order.shuffle(places)
    assert part.factors([responses[i] for i in places], [right[i] for i in places]) == [got[i] for i in places]


# ---------------------------------------------------------------- all three


PARTS = [ForkingTokens(), ForkingTokens(form="threshold", denominator="kept"), A3po(), Less(segment=2)]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.kind)
@few
@given(seed=st.integers(0, 999), order=st.permutations(range(4)))
def test_signs_padding_and_order_of_rows(part, seed, order):
    rng = stream(seed)
    mask_BT = (torch.arange(7) < torch.randint(0, 8, (4, 1), generator=rng)).double()
    fields = {
        "entropy_BT": torch.rand(4, 7, generator=rng, dtype=torch.float64),
        "old_logp_BT": -torch.rand(4, 7, generator=rng, dtype=torch.float64),
        "ids_BT": torch.randint(0, 2, (4, 7), generator=rng),
    }
    adv_B, correct, groups = doubles([1.5, -0.4, 0.0, 2.0]), [1, 0, 1, 1], [0, 0, 5, 5]
    got_BT = credited(part, adv_B, mask_BT, correct, groups, **fields)
    assert (got_BT * adv_B[:, None] >= 0).all()
    assert (got_BT * (1 - mask_BT)).abs().sum() == 0
    moved_BT = credited(
        part,
        adv_B[order],
        mask_BT[order],
        [correct[i] for i in order],
        [groups[i] for i in order],
        **{name: value[order] for name, value in fields.items()},
    )
    torch.testing.assert_close(moved_BT, got_BT[order])


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (ForkingTokens(), "forking_tokens needs entropy in its view"),
        (A3po(), "a3po of surprisal needs old_logp in its view"),
        (A3po(source="entropy"), "a3po of entropy needs entropy in its view"),
        (Less(), "less needs entropy in its view"),
    ],
)
def test_missing_fields_are_named(part, says):
    with pytest.raises(ValueError, match=says):
        credited(part, doubles([1.0]), torch.ones(1, 2))
    assert not part.even
    assert part.row_local


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        (ForkingTokens, {"rho": 0}),
        (ForkingTokens, {"form": "top"}),
        (ForkingTokens, {"denominator": "selected"}),
        (A3po, {"scale": 0.5}),
        (A3po, {"ratio": 1.5}),
        (A3po, {"source": "prob"}),
        (A3po, {"decay_steps": 0}),
        (Less, {"quantile": 1.1}),
        (Less, {"segment": 0}),
    ],
)
def test_fields_are_checked(part, fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        part(**fields)
