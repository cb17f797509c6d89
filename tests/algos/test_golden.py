"""Every golden case of tests/golden/methods.json that concerns a part in this package."""

from __future__ import annotations

import pytest
import torch
from algos.made import advantages, by_id, doubles, golden, groups, loss_view, stream, tokens, window

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.baseline import DivideByGroupStd, GroupMean, LeaveOneOut, NegMask, PosMask, Quantile
from seedwise.algos.credit import Entropic, normalised
from seedwise.algos.objective import Clipped, Gspo, PerSequence, PerToken, kl_divergence
from seedwise.algos.overlong import SoftOverlong
from seedwise.algos.views import pooled_quantiles

# golden values have ten digits after the point
TEN_DIGITS = 6e-11


def near(expected: object) -> object:
    return pytest.approx(expected, abs=TEN_DIGITS, rel=0)


@pytest.mark.parametrize("case", golden("quantile baseline"), ids=by_id)
def test_quantile(case):
    inputs, view = case["inputs"], groups([case["inputs"]["rewards"]])
    centre, scale = Quantile(K=inputs["K"]), DivideByGroupStd(ddof=inputs["ddof"], eps=inputs["eps"])
    got = advantages(Algorithm(baseline=(centre, scale)), view)[0].tolist()
    assert centre.threshold(view.rewards_PG).item() == near(case["expected"]["baseline"])
    assert got == near(case["expected"]["advantages"])
    zeros = [value for value, wanted in zip(got, case["expected"]["advantages"], strict=True) if wanted == 0]
    assert all(value == 0 for value in zeros), "an inactive sample has exactly 0, or it cannot be left out"


@pytest.mark.parametrize("case", golden("mean baseline (GRPO)"), ids=by_id)
def test_group_mean_and_std(case):
    scale = DivideByGroupStd(ddof=case["inputs"]["ddof"], eps=case["inputs"]["eps"])
    got = advantages(Algorithm(baseline=(GroupMean(), scale)), groups([case["inputs"]["rewards"]]))
    assert got[0].tolist() == near(case["expected"]["advantages"])


@pytest.mark.parametrize("case", golden("mean baseline, no std"), ids=by_id)
def test_group_mean_alone(case):
    got = advantages(Algorithm(baseline=(GroupMean(),)), groups([case["inputs"]["rewards"]]))
    assert got[0].tolist() == near(case["expected"]["advantages"])


@pytest.mark.parametrize("case", golden("leave-one-out"), ids=by_id)
def test_leave_one_out(case):
    got = advantages(Algorithm(baseline=(LeaveOneOut(),)), groups([case["inputs"]["rewards"]]))
    assert got[0].tolist() == near(case["expected"]["advantages"])


@pytest.mark.parametrize("case", golden("POS-MASK"), ids=by_id)
@pytest.mark.parametrize(("name", "part"), [("qae", Quantile), ("pos_mask", PosMask), ("neg_mask", NegMask)])
def test_masks(case, name, part):
    inputs = case["inputs"]
    scale = DivideByGroupStd(ddof=inputs["ddof"], eps=inputs["eps"])
    got = advantages(Algorithm(baseline=(part(K=inputs["K"]), scale)), groups([inputs["rewards"]]))
    assert got[0].tolist() == near(case["expected"][name])


@pytest.mark.parametrize("case", golden("zero-advantage fraction"), ids=by_id)
def test_sparsity(case):
    G = case["inputs"]["G"]
    view = groups([[1.0] * successes + [0.0] * (G - successes) for successes in range(1, G)])
    active_PG = Quantile(K=case["inputs"]["K"])(view.rewards_PG, view, {}, stream()) != 0
    assert active_PG.double().mean().item() == near(case["expected"]["active_fraction"])


@pytest.mark.parametrize("case", golden("entropic credit") + golden("EAPO direction"), ids=by_id)
def test_entropic(case):
    inputs = case["inputs"]
    part = Entropic(kappa=inputs["kappa"], b_plus=inputs.get("b_plus", 1))
    # with quantiles 0 and 1 the entropies are h itself, up to eps
    view = tokens(torch.ones(1, len(inputs["h"])), entropy_BT=doubles([inputs["h"]]), entropy_quantiles=(0.0, 1.0))
    got = part.model_copy(update={"eps": 1e-300})(doubles([inputs["advantage"]]), view, {}, stream())
    assert got[0].tolist() == near(case["expected"]["token_advantages"])


@pytest.mark.parametrize("case", golden("EAPO entropy normalisation"), ids=by_id)
def test_entropy_normalisation(case):
    entropies_N = doubles(case["inputs"]["entropies"])
    assert normalised(entropies_N, *pooled_quantiles(entropies_N)).tolist() == near(case["expected"]["h"])


@pytest.mark.parametrize("case", golden("clipped surrogate"), ids=by_id)
def test_clipped(case):
    logp_BT, adv_BT = doubles([[case["inputs"]["ratio"]]]).log(), doubles([[case["inputs"]["advantage"]]])
    loss_BT = Clipped(low=0.2, high=0.28)(logp_BT, loss_view(torch.zeros_like(logp_BT), adv_BT), {}, stream())
    assert -loss_BT.item() == near(case["expected"]["objective"])


@pytest.mark.parametrize("case", golden("GSPO"), ids=by_id)
@pytest.mark.parametrize("level", ["sequence", "token"])
def test_gspo(case, level):
    logp_BT, part = doubles([case["inputs"]["log_ratios"]]), Gspo(level=level)
    for advantage in (1.0, -1.0):
        view = loss_view(torch.zeros_like(logp_BT), torch.full_like(logp_BT, advantage))
        ratio_BT = part.ratio(logp_BT, view)
        assert ratio_BT.flatten().tolist() == near([case["expected"]["ratio"]] * ratio_BT.numel())
        loss = PerSequence()(part(logp_BT, view, {}, stream()), window(view.mask_BT), {}, stream())
        assert -loss.item() == near(case["expected"][f"objective_A{advantage:+.0f}"])


@pytest.mark.parametrize("case", golden("per-token KL"), ids=by_id)
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_kl(case, estimator):
    logp_BT, ref_BT = doubles([[case["inputs"]["logp"]]]), doubles([[case["inputs"]["ref_logp"]]])
    assert kl_divergence(logp_BT, ref_BT, estimator).item() == near(case["expected"][estimator])


@pytest.mark.parametrize("case", golden("DAPO soft overlong"), ids=by_id)
def test_soft_overlong(case):
    part = SoftOverlong(max_length=case["inputs"]["max_length"], cache=case["inputs"]["cache"])
    assert part(torch.tensor([case["inputs"]["length"]])).item() == pytest.approx(case["expected"]["penalty"], abs=6e-8)


@pytest.mark.parametrize("case", golden("loss aggregation"), ids=by_id)
def test_averages(case):
    rows = case["inputs"]["token_losses"]
    T = max(len(row) for row in rows)
    loss_BT = doubles([row + [99.0] * (T - len(row)) for row in rows])
    step = window(doubles([[1.0] * len(row) + [0.0] * (T - len(row)) for row in rows]))
    assert PerToken()(loss_BT, step, {}, stream()).item() == near(case["expected"]["token_mean"])
    assert PerSequence()(loss_BT, step, {}, stream()).item() == near(case["expected"]["sequence_mean_of_token_mean"])
