"""CISPO, Clip-Cov, KL-Cov: golden covariance, TRL's and the authors' formulas, draws, skipping that would differ."""

from __future__ import annotations

import pytest
import torch
from algos.made import ALL_PRESETS, by_id, doubles, golden, loss_view, stream, window
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import Quantile
from seedwise.algos.credit import Entropic
from seedwise.algos.objective import Clipped, Objective
from seedwise.algos.presets import preset
from seedwise.algos.surrogates import Cispo, ClipCov, KlCov, chosen_count, covariance
from seedwise.algos.views import LossView

few = settings(max_examples=60, deadline=None)
B, T = 6, 7
MASK_BT = torch.tensor([[1.0] * n + [0.0] * (T - n) for n in (7, 1, 3, 5, 2, 4)])
RNG = stream(1)
OLD_BT = -torch.rand(B, T, generator=RNG) * 3
LOGP_BT = OLD_BT + 0.6 * torch.randn(B, T, generator=RNG)
ADV_B = torch.tensor([1.0, -0.4, 0.0, 2.0, 0.0, -1.5])
VIEW = LossView(OLD_BT, ADV_B[:, None] * MASK_BT, MASK_BT)
COV = ["clip_cov", "kl_cov", "qae_clip_cov", "qae_kl_cov"]
# candidates abound and a third of the tokens is drawn
WIDE = ClipCov(ratio=0.34, cov_low=-1.0, cov_high=5.0)


def loss_of(surrogate, logp_BT=LOGP_BT, view=VIEW, seed=0):
    return surrogate(logp_BT, view, {}, stream(seed))


def gradient_of(surrogate, logp_BT=LOGP_BT, view=VIEW, seed=0):
    logp_BT = logp_BT.clone().requires_grad_()
    (loss_of(surrogate, logp_BT, view, seed) * view.mask_BT).sum().backward()
    return logp_BT.grad


# ---------------------------------------------------------------- CISPO


@pytest.mark.parametrize("cap", [1.28, 5.0])
def test_cispo_has_the_bits_of_trl(cap):
    # GRPOTrainer._compute_loss of TRL 1.16.0 with loss_type cispo and epsilon_high = cap
    coef_1 = torch.exp(LOGP_BT - OLD_BT)
    clamped_ratios = torch.clamp(coef_1, max=cap).detach()
    per_token_loss = -clamped_ratios * ADV_B.unsqueeze(1) * LOGP_BT
    expected = (per_token_loss * MASK_BT).sum() / torch.tensor(41.5)
    objective = preset("cispo", cap=cap).objective
    step = window(MASK_BT, microbatches=3, tokens=torch.tensor(41.5))
    assert torch.equal(objective(LOGP_BT, VIEW, step, objective.start(), stream()), expected)


def test_cispo_by_hand():
    # ratios 10, 3, 0.1 under cap 5 and floor 0.5: weights 5, 3, 0.5, and the gradient of -w A log pi is -w A
    old_BT, adv_BT = doubles([[-3.0, -3.0, -3.0]]), doubles([[1.0, -1.0, 2.0]])
    view = loss_view(old_BT, adv_BT)
    logp_BT = old_BT + doubles([[10.0, 3.0, 0.1]]).log()
    assert gradient_of(Cispo(floor=0.5), logp_BT, view)[0].tolist() == pytest.approx([-5, 3, -1])
    assert gradient_of(Cispo(), logp_BT, view)[0].tolist() == pytest.approx([-5, 3, -0.2])
    low_BT, high_BT = Cispo(floor=0.5).clipped(logp_BT, view)
    assert (low_BT.tolist(), high_BT.tolist()) == ([[False, False, True]], [[True, False, False]])


def test_cispo_leaves_every_token_its_gradient():
    live_BT = (VIEW.adv_BT != 0) & (MASK_BT > 0)
    low_BT, high_BT = Clipped().clipped(LOGP_BT, VIEW)
    assert (gradient_of(Clipped()) == 0)[low_BT | high_BT].all()
    assert torch.equal(gradient_of(Cispo(cap=1.28, floor=0.8)) != 0, live_BT)


def test_cispo_and_clipped_agree_on_policy():
    torch.testing.assert_close(gradient_of(Cispo(), OLD_BT), gradient_of(Clipped(), OLD_BT))


# ---------------------------------------------------------------- covariance


@pytest.mark.parametrize("case", golden("Clip-Cov"), ids=by_id)
def test_covariance_golden(case):
    logp_BT, adv_BT = doubles([case["inputs"]["logp"]]), doubles([case["inputs"]["advantages"]])
    view, expected = loss_view(logp_BT, adv_BT), case["expected"]
    assert covariance(logp_BT, view)[0].tolist() == pytest.approx(expected["cov"], abs=6e-11)
    assert KlCov().pulled(logp_BT, view)[0].nonzero().flatten().tolist() == [expected["kl_cov_top1"]]
    assert ClipCov().candidates(logp_BT, view)[0].nonzero().flatten().tolist() == expected["clip_cov_candidates_1_5"]


def test_covariance_means_over_trained_tokens_alone():
    # A: 2, 0 and log pi: -1, -3; the padding would move both means
    view = loss_view(doubles([[0, 0, 0]]), doubles([[2.0, 0.0, 50.0]]), doubles([[1, 1, 0]]))
    assert covariance(doubles([[-1.0, -3.0, -70.0]]), view)[0, :2].tolist() == [1, 1]


def test_tokens_without_advantage_have_a_covariance():
    cov_BT = covariance(LOGP_BT, VIEW)
    assert (cov_BT[(VIEW.adv_BT == 0) & (MASK_BT > 0)].abs() > 0).all()


def test_counts():
    # 22 tokens; the floor of one token is a larger share than was asked for
    assert [chosen_count(ratio, VIEW) for ratio in (2e-4, 0.1, 0.5, 1.0)] == [1, 2, 11, 22]


# ---------------------------------------------------------------- Clip-Cov


def test_clip_cov_by_hand():
    # A -1, 1, 0 and log pi -4, -1, -1: means 0 and -2, cov 2, 1, 0; only the first lies between 1 and 5
    logp_BT = doubles([[-4.0, -1.0, -1.0]])
    view = loss_view(logp_BT - doubles([[1.5, 3.0, 1.0]]).log(), doubles([[-1.0, 1.0, 0.0]]))
    # ratio 3 is cut to 2; the drawn token loses its loss of 1.5
    assert loss_of(ClipCov(), logp_BT, view)[0].tolist() == pytest.approx([0, -2, 0])
    assert gradient_of(ClipCov(), logp_BT, view)[0].tolist() == pytest.approx([0, 0, 0])
    # with bounds that leave nothing to draw it is the clipped surrogate
    none = loss_of(ClipCov(cov_low=3), logp_BT, view)
    assert torch.equal(none, loss_of(Clipped(low=1, high=1), logp_BT, view))


def test_what_the_clip_holds_is_not_drawn():
    # log ratio as in the test above, but the token of covariance 2 now has A > 0 and a ratio above 2
    logp_BT = doubles([[-1.0, -4.0, -4.0]])
    view = loss_view(logp_BT - doubles([[2.5, 1.0, 1.0]]).log(), doubles([[1.0, -0.5, -0.5]]))
    assert covariance(logp_BT, view)[0].tolist() == pytest.approx([2, 0.5, 0.5])
    assert not ClipCov().candidates(logp_BT, view).any()
    wider = ClipCov(high=2)
    assert wider.candidates(logp_BT, view).tolist() == [[True, False, False]]


@few
@given(seed=st.integers(0, 9999), ratio=st.sampled_from([0.01, 0.1, 0.34, 1.0]))
def test_clip_cov_silences_the_right_number_of_candidates(seed, ratio):
    part = WIDE.model_copy(update={"ratio": ratio})
    view = VIEW._replace(adv_BT=(ADV_B - 0.1)[:, None] * MASK_BT)  # without zeros, so that a drawn token shows
    candidate_BT, plain_BT = part.candidates(LOGP_BT, view), loss_of(Clipped(low=1, high=1), view=view)
    loss_BT = loss_of(part, view=view, seed=seed)
    drawn_BT = (loss_BT == 0) & (MASK_BT > 0)
    assert drawn_BT.sum() == min(chosen_count(ratio, view), int(candidate_BT.sum())) > 0
    assert not (drawn_BT & ~candidate_BT).any()
    assert torch.equal(loss_BT[~drawn_BT], plain_BT[~drawn_BT])


def test_candidates_are_drawn_uniformly():
    # A: mean -1/3, log pi: mean -3, so cov is 2/3 on the first eight and 8/3 on the last four
    logp_BT = doubles([[-4.0] * 8 + [-1.0] * 4])
    view = loss_view(logp_BT, doubles([[-1.0] * 8 + [1.0] * 4]))
    part, rng = ClipCov(ratio=0.3, cov_low=0.6, cov_high=2.0), stream(5)
    drawn_RT = torch.cat([part(logp_BT, view, {}, rng) == 0 for _ in range(4000)])
    # floor(0.3 * 12) = 3 of eight; the standard error of a share over 4000 draws is below 0.008
    assert (drawn_RT.sum(1) == 3).all()
    share_T = drawn_RT.double().mean(0)
    assert (share_T[:8] - 3 / 8).abs().max() < 0.04
    assert share_T[8:].sum() == 0


def test_the_draw_follows_its_generator():
    losses = [loss_of(WIDE, seed=seed) for seed in range(20)]
    assert torch.equal(losses[0], loss_of(WIDE, seed=0))
    assert any(not torch.equal(losses[0], other) for other in losses[1:])


# ---------------------------------------------------------------- KL-Cov


def test_kl_cov_by_hand():
    # A -1, 1, 0 and log pi -4, -1, -1: cov 2, 1, 0; one of three tokens is pulled, by |log 1.5| times coef 2
    logp_BT, ratios = doubles([[-4.0, -1.0, -1.0]]), doubles([[1.5, 3.0, 0.5]])
    view = loss_view(logp_BT - ratios.log(), doubles([[-1.0, 1.0, 0.0]]))
    pull = 2 * ratios.log()[0, 0].item()
    assert loss_of(KlCov(coef=2), logp_BT, view)[0].tolist() == pytest.approx([1.5 + pull, -3, 0])
    # no clip: d(-rho A) = -rho A; the pull adds coef times the sign of log rho
    assert gradient_of(KlCov(coef=2), logp_BT, view)[0].tolist() == pytest.approx([1.5 + 2, -3, 0])


def authors_kl_cov(log_prob, old_log_prob, advantages, mask, ratio, coef):
    """compute_policy_loss_kl_cov of the paper's repository, its token losses."""
    valid = mask.flatten() > 0
    adv, logp = advantages.flatten()[valid], log_prob.detach().flatten()[valid]
    cov = (adv - adv.mean()) * (logp - logp.mean())
    large = torch.topk(cov, max(1, int(len(cov) * ratio)), largest=True).indices
    selected = torch.zeros_like(mask).flatten()
    selected[valid.nonzero().flatten()[large]] = 1
    log_ratio = log_prob - old_log_prob
    pulled = -advantages * torch.exp(log_ratio) + coef * log_ratio.abs()
    return torch.where(selected.view_as(mask) > 0, pulled, -advantages * torch.exp(log_ratio))


@few
@given(seed=st.integers(0, 9999), ratio=st.sampled_from([2e-4, 0.05, 0.3, 1.0]), coef=st.sampled_from([0.1, 1.0]))
def test_kl_cov_is_the_authors(seed, ratio, coef):
    rng = stream(seed)
    logp_BT = OLD_BT + 0.6 * torch.randn(B, T, generator=rng)
    view = VIEW._replace(adv_BT=torch.randn(B, T, generator=rng) * MASK_BT)
    expected = authors_kl_cov(logp_BT, OLD_BT, view.adv_BT, MASK_BT, ratio, coef)
    got = loss_of(KlCov(ratio=ratio, coef=coef), logp_BT, view)
    torch.testing.assert_close(got * MASK_BT, expected * MASK_BT)


def test_the_pull_has_no_gradient_on_policy():
    assert torch.equal(gradient_of(KlCov(ratio=1), OLD_BT), gradient_of(KlCov(ratio=1, coef=0), OLD_BT))
    assert not torch.equal(gradient_of(KlCov(ratio=1)), gradient_of(KlCov(ratio=1, coef=0)))


# ---------------------------------------------------------------- all


@pytest.mark.parametrize("part", [Cispo(), KlCov(ratio=0.2)], ids=lambda part: part.kind)
@few
@given(order=st.permutations(range(B)))
def test_rows_may_come_in_any_order(part, order):
    moved = LossView(*(None if field is None else field[order] for field in VIEW))
    torch.testing.assert_close(loss_of(part, LOGP_BT[order], moved), loss_of(part)[order])


@pytest.mark.parametrize("part", [Cispo(), WIDE, KlCov()], ids=lambda part: part.kind)
def test_a_micro_batch_without_tokens_gives_a_zero_that_has_a_gradient(part):
    for rows, mask in ((0, 1.0), (2, 0.0)):
        logp_BT = torch.zeros(rows, 4, requires_grad=True)
        view = loss_view(torch.zeros(rows, 4), torch.zeros(rows, 4), torch.full((rows, 4), mask))
        step = window(view.mask_BT, tokens=torch.tensor(8.0))
        objective = Objective(surrogate=part)
        loss = objective(logp_BT, view, step, objective.start(), stream())
        loss.backward()
        assert loss.item() == 0
        assert logp_BT.grad is not None


@pytest.mark.parametrize(
    ("part", "all_rows", "without"), [(ClipCov(ratio=1.0), [0, 0], [-2, -2]), (KlCov(ratio=0.5), [-1, -1], [-1, -2])]
)
def test_leaving_rows_with_zero_advantage_out_would_differ(part, all_rows, without):
    # A: 1, 1, 0, 0, mean 1/2; log pi: -1, -1, -9, -9, mean -5: every cov is 2, so Clip-Cov silences all tokens
    # and KL-Cov pulls the first two (ratio 2: -2 + 1).  Without the second row every cov is 0, and half of two
    # tokens is one.
    logp_BT, mask_BT = doubles([[-1, -1], [-9, -9]]), torch.ones(2, 2)
    view = loss_view(logp_BT - doubles([[2.0]]).log(), doubles([[1, 1], [0, 0]]), mask_BT)
    assert covariance(logp_BT, view).tolist() == [[2, 2], [2, 2]]
    assert gradient_of(part, logp_BT, view)[0].tolist() == pytest.approx(all_rows)
    fewer = LossView(*(None if field is None else field[:1] for field in view))
    assert gradient_of(part, logp_BT[:1], fewer)[0].tolist() == pytest.approx(without)


@pytest.mark.parametrize("name", COV)
def test_and_is_refused(name):
    algorithm = ALL_PRESETS[name]
    kind = algorithm.objective.surrogate.kind
    assert algorithm.may_skip() == (
        f"{kind} acts on rows with zero advantage too: set train.skip_zero_advantage to false"
    )
    assert not algorithm.row_local


@pytest.mark.parametrize("name", ["cispo", "qae_gspo"])
def test_the_others_may_be_skipped(name):
    assert ALL_PRESETS[name].may_skip() is None


@pytest.mark.parametrize("surrogate", [Cispo(), ClipCov(), KlCov()], ids=lambda part: part.kind)
def test_they_take_any_baseline_and_credit(surrogate):
    algorithm = Algorithm(baseline=(Quantile(),), credit=Entropic(), objective=Objective(surrogate=surrogate))
    assert Algorithm.model_validate(algorithm.model_dump(mode="json")) == algorithm
    assert surrogate.needs == frozenset()


def test_recipes():
    clip, kl = preset("clip_cov").objective.surrogate, preset("kl_cov").objective.surrogate
    assert (clip.ratio, clip.cov_low, clip.cov_high, clip.low, clip.high) == (2e-4, 1, 5, 1, 1)
    assert (kl.ratio, kl.coef) == (2e-3, 1)
    assert preset("qae_clip_cov").objective == preset("clip_cov").objective
    assert preset("qae_kl_cov").objective == preset("kl_cov").objective
    assert preset("qae_gspo").objective == preset("gspo").objective
    assert {preset(f"qae_{name}").baseline for name in ("clip_cov", "kl_cov", "gspo")} == {preset("qae").baseline}


@pytest.mark.parametrize(
    ("part", "fields", "says"),
    [
        (Cispo, {"cap": 0.5}, "cap"),
        (Cispo, {"floor": 1.5}, "floor"),
        (ClipCov, {"ratio": 0}, "ratio"),
        (ClipCov, {"cov_low": 5}, "cov_low 5.0 is not below cov_high 5.0: no token lies between"),
        (ClipCov, {"low": 1.1}, "low"),
        (KlCov, {"ratio": 2}, "ratio"),
        (KlCov, {"coef": -1}, "coef"),
    ],
)
def test_fields_are_checked(part, fields, says):
    with pytest.raises(ValueError, match=says):
        part(**fields)
