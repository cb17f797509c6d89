"""Objectives: TRL's formulas bit for bit, clip shares, dual clip, GSPO gradients, exact skipping."""

from __future__ import annotations

import pytest
import torch
from algos.made import ALL_PRESETS, doubles, loss_view, stream, window

from seedwise.algos.objective import Clipped, FixedLength, Gspo, Objective, PerSequence, PerToken, kl_divergence
from seedwise.algos.presets import preset
from seedwise.algos.views import LossView

B, T = 6, 7
MASK_BT = torch.tensor([[1.0] * n + [0.0] * (T - n) for n in (7, 1, 3, 5, 2, 4)])
RNG = stream(1)
OLD_BT = -torch.rand(B, T, generator=RNG) * 3
LOGP_BT = OLD_BT + 0.6 * torch.randn(B, T, generator=RNG)
REF_BT = OLD_BT + 0.1 * torch.randn(B, T, generator=RNG)
ADV_B = torch.tensor([1.0, -0.4, 0.0, 2.0, 0.0, -1.5])
VIEW = LossView(OLD_BT, ADV_B[:, None] * MASK_BT, MASK_BT, REF_BT)


def loss_of(objective, logp_BT=LOGP_BT, view=VIEW, step=None):
    return objective(logp_BT, view, window(view.mask_BT) if step is None else step, objective.start(), stream())


def trl_token_loss(low, high, beta=0.0):
    """GRPOTrainer._compute_loss of TRL 1.16.0, token level, without its KL bias correction."""
    coef_1 = torch.exp(LOGP_BT - OLD_BT)
    coef_2 = torch.clamp(coef_1, 1 - low, 1 + high)
    advantages = ADV_B.unsqueeze(1)
    loss = -torch.min(coef_1 * advantages, coef_2 * advantages)
    kl = torch.exp(REF_BT - LOGP_BT) - (REF_BT - LOGP_BT) - 1
    return loss + beta * kl if beta else loss


def test_grpo_has_the_bits_of_trl():
    loss = trl_token_loss(0.2, 0.2)
    expected = ((loss * MASK_BT).sum(-1) / MASK_BT.sum(-1).clamp(min=1.0)).mean() / 3
    assert torch.equal(loss_of(preset("grpo").objective, step=window(MASK_BT, microbatches=3)), expected)


def test_grpo_with_kl_has_the_bits_of_trl():
    loss = trl_token_loss(0.2, 0.2, beta=0.04)
    expected = ((loss * MASK_BT).sum(-1) / MASK_BT.sum(-1).clamp(min=1.0)).mean()
    assert torch.equal(loss_of(preset("grpo", kl=0.04).objective), expected)


def test_dr_grpo_has_the_bits_of_trl():
    loss = trl_token_loss(0.2, 0.2)
    expected = (loss * MASK_BT).sum() / (loss.size(0) * 50) / 3
    assert torch.equal(loss_of(preset("dr_grpo", length=50).objective, step=window(MASK_BT, microbatches=3)), expected)


def test_clip_higher_has_the_bits_of_trl():
    expected = (trl_token_loss(0.2, 0.28) * MASK_BT).sum() / torch.tensor(41.5)
    step = window(MASK_BT, microbatches=3, tokens=torch.tensor(41.5))
    assert torch.equal(loss_of(preset("clip_higher").objective, step=step), expected)


def test_gspo_has_the_bits_of_trl():
    log_ratio = ((LOGP_BT - OLD_BT) * MASK_BT).sum(-1) / MASK_BT.sum(-1).clamp(min=1.0)
    coef_1 = torch.exp(log_ratio.unsqueeze(-1))
    advantages = ADV_B.unsqueeze(1)
    loss = -torch.min(coef_1 * advantages, torch.clamp(coef_1, 1 - 3e-4, 1 + 4e-4) * advantages)
    expected = ((loss * MASK_BT).sum(-1) / MASK_BT.sum(-1).clamp(min=1.0)).mean()
    assert torch.equal(loss_of(preset("gspo").objective), expected)


def test_clipped_tokens_are_those_without_gradient():
    logp_BT = LOGP_BT.clone().requires_grad_()
    part = Clipped()
    (part(logp_BT, VIEW, {}, stream()) * MASK_BT).sum().backward()
    low_BT, high_BT = part.clipped(LOGP_BT, VIEW)
    live_BT = (VIEW.adv_BT != 0) & (MASK_BT > 0)
    assert low_BT.any()
    assert high_BT.any()
    assert torch.equal((logp_BT.grad == 0) & live_BT, low_BT | high_BT)


def test_gspo_clips_whole_responses():
    low_BT, high_BT = Gspo().clipped(LOGP_BT, VIEW)
    for clipped_BT in (low_BT, high_BT):
        per_row = (clipped_BT.sum(1) == MASK_BT.sum(1)) | (clipped_BT.sum(1) == 0)
        assert per_row.all()
    assert (low_BT | high_BT).any()


def test_dual_clip_by_hand():
    # rho 20 on A = -1: the plain loss is 20, dual 10 caps it at 10; positive advantages are not touched
    logp_BT, adv_BT = doubles([[20.0, 5.0, 20.0]]).log(), doubles([[-1.0, -1.0, 1.0]])
    got = Clipped(dual=10)(logp_BT, loss_view(torch.zeros_like(logp_BT), adv_BT), {}, stream())
    assert got[0].tolist() == pytest.approx([10, 5, -1.28])


def test_gspo_token_has_the_gradient_of_gspo_when_credit_is_even():
    gradients = []
    for level in ("sequence", "token"):
        logp_BT = (OLD_BT + 1e-4).requires_grad_()
        objective = Objective(surrogate=Gspo(level=level), average=PerSequence())
        loss_of(objective, logp_BT).backward()
        gradients.append(logp_BT.grad)
    torch.testing.assert_close(*gradients)
    assert gradients[0].abs().max() > 0


def test_gspo_token_sees_credit_and_gspo_does_not():
    # two tokens with advantages 0.4 and 1.6, mean 1: only level token tells them apart
    old_BT, adv_BT = torch.zeros(1, 2), torch.tensor([[0.4, 1.6]])
    gradient = {}
    for level in ("sequence", "token"):
        logp_BT = torch.zeros(1, 2, requires_grad=True)
        objective = Objective(surrogate=Gspo(level=level), average=PerSequence())
        loss_of(objective, logp_BT, loss_view(old_BT, adv_BT)).backward()
        gradient[level] = (-logp_BT.grad[0]).tolist()
    assert gradient["sequence"] == pytest.approx([0.5, 0.5])
    assert gradient["token"] == pytest.approx([0.2, 0.8])


def test_fixed_length_by_hand():
    # tokens 1 + 2 and 4, two rows, length 10, two micro-batches: 7 / 20 / 2
    loss_BT, mask_BT = doubles([[1, 2], [4, 9]]), doubles([[1, 1], [1, 0]])
    assert FixedLength(length=10)(loss_BT, window(mask_BT, microbatches=2), {}, stream()).item() == pytest.approx(0.175)


@pytest.mark.parametrize("average", [PerToken(), PerSequence(), FixedLength(length=9)])
def test_a_micro_batch_without_rows_gives_a_zero_that_has_a_gradient(average):
    logp_BT = torch.zeros(0, 4, requires_grad=True)
    view = loss_view(torch.zeros(0, 4), torch.zeros(0, 4))
    loss = loss_of(Objective(average=average), logp_BT, view, window(view.mask_BT, rows=2, tokens=torch.tensor(8.0)))
    loss.backward()
    assert loss.item() == 0
    assert logp_BT.grad is not None


def gradient_of(objective, keep_B):
    """Gradient by every row's log-probabilities when only the rows ``keep_B`` are computed."""
    logp_BT = LOGP_BT.double().requires_grad_()
    view = LossView(*(field_BT[keep_B].double() for field_BT in VIEW))
    step = window(view.mask_BT, rows=B, microbatches=2, tokens=MASK_BT.sum())
    loss = loss_of(objective, logp_BT[keep_B], view, step)
    loss.backward()
    return loss.item(), logp_BT.grad


@pytest.mark.parametrize("name", [name for name, algorithm in ALL_PRESETS.items() if algorithm.may_skip() is None])
def test_leaving_out_rows_with_zero_advantage_is_exact(name):
    algorithm = ALL_PRESETS[name]
    full, full_BT = gradient_of(algorithm.objective, torch.ones(B, dtype=torch.bool))
    fewer, fewer_BT = gradient_of(algorithm.objective, ADV_B != 0)
    assert fewer == pytest.approx(full, rel=1e-14)
    torch.testing.assert_close(fewer_BT, full_BT, rtol=1e-14, atol=0)


def test_leaving_them_out_is_not_exact_under_kl_and_is_refused():
    algorithm = preset("grpo", kl=0.1)
    full, _ = gradient_of(algorithm.objective, torch.ones(B, dtype=torch.bool))
    fewer, _ = gradient_of(algorithm.objective, ADV_B != 0)
    assert fewer != pytest.approx(full, rel=1e-3)
    assert (
        algorithm.may_skip()
        == "kl_penalty acts on rows with zero advantage too: set train.skip_zero_advantage to false"
    )
    assert not algorithm.row_local


def test_kl_needs_the_reference_policy():
    objective = preset("grpo", kl=0.1).objective
    assert objective.needs == {"ref_logp"}
    assert preset("grpo").needs == frozenset()
    with pytest.raises(ValueError, match="needs ref_logp"):
        loss_of(objective, view=loss_view(OLD_BT, VIEW.adv_BT))


def test_k1_has_a_gradient_that_ignores_the_reference():
    gradients = []
    for ref_BT in (REF_BT, REF_BT - 5):
        logp_BT = LOGP_BT.clone().requires_grad_()
        kl_divergence(logp_BT, ref_BT, "k1").sum().backward()
        gradients.append(logp_BT.grad)
    assert torch.equal(*gradients)
    with pytest.raises(ValueError, match="set kl_estimator to k2 or k3, or kl to 0"):
        Objective(kl=0.1, kl_estimator="k1")


@pytest.mark.parametrize("fields", [{"low": 1.1}, {"low": -0.1}, {"high": -0.1}, {"dual": 1.0}])
def test_bounds_are_checked(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        Clipped(**fields)
