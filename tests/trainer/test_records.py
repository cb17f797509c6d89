"""Metrics by hand."""

import math
from dataclasses import dataclass

import pytest

from seedwise.algos import presets
from seedwise.models.sizes import Size
from seedwise.trainer.records import Learned, Records, Updated, exploratory, levels
from seedwise.trainer.rollout import Row


def row(verdict="correct", tokens=10, entropy=1.0, text="so, 1 wait", stop="stop", penalty=0.0, late=False):
    return Row(
        problem=0,
        text=text,
        ids=[7] * tokens,
        logps=[-0.5] * tokens,
        entropies=None if entropy is None else [entropy / tokens] * tokens,
        stop=stop,
        verdict=verdict,
        correct=float(verdict == "correct"),
        penalty=penalty,
        late=late,
    )


@dataclass
class Drawn:
    rows: list
    generated: list
    draws: int = 1


def recorded(rows, advantages, *, G=4, at=0.4, h_at=None, generated=None, draws=1):
    records = Records(G, ("wait", "so"))
    rollout = Drawn(rows, rows if generated is None else generated, draws)
    records.rollout(1, rollout, Learned(advantages, at, at, h_at))
    return {entry["name"]: entry for entry in records.metrics}


def test_groups_are_flat_hard_or_easy():
    # G = 4: n1 = 0, 1, 2, 3, 4; at K = 0.4 a group with 2 wrong of 4 (0.5 >= 0.4) is hard, with 1 wrong (0.25) easy
    rows = [row("correct" if i < n1 else "wrong") for n1 in range(5) for i in range(4)]
    found = recorded(rows, [0.0] * 20)
    assert found["flat_group_share"]["value"] == pytest.approx(2 / 5)
    assert found["hard_group_share"]["value"] == pytest.approx(2 / 5)
    assert found["easy_group_share"]["value"] == pytest.approx(1 / 5)
    assert [found[f"groups_with_{n1}_of_4_correct_share"]["value"] for n1 in range(5)] == [0.2] * 5


@pytest.mark.parametrize(
    ("K", "G", "n1", "hard"), [(0.9, 10, 1, True), (0.8, 5, 1, True), (0.55, 20, 9, True), (0.4, 8, 5, False)]
)
def test_the_gate_has_no_floating_point_misfires(K, G, n1, hard):
    # methods.md section 0, 3: p <= 1 - K misfires on the first three
    found = recorded([row("correct" if i < n1 else "wrong") for i in range(G)], [0.0] * G, G=G, at=K)
    assert found["hard_group_share"]["value"] == float(hard)


def test_entropy_is_a_mean_over_tokens_and_split_by_sign():
    rows = [
        row(tokens=10, entropy=1.0),
        row(tokens=30, entropy=9.0),
        row(tokens=10, entropy=2.0),
        row(tokens=10, entropy=4.0),
    ]
    found = recorded(rows, [1.0, 1.0, 0.0, 0.0])
    assert found["entropy_nats"]["value"] == pytest.approx(16 / 60)
    assert found["entropy_nats_positive"]["value"] == pytest.approx(10 / 40)
    assert found["entropy_nats_zero"]["value"] == pytest.approx(6 / 20)
    assert found["entropy_nats_negative"]["value"] is None
    assert found["entropy_nats_negative"]["reason"] == "no response with negative advantage in this step"


def test_an_engine_without_entropy_gives_null_with_the_reason():
    found = recorded([row(entropy=None)] * 4, [1.0] * 4)
    assert found["entropy_nats"]["value"] is None and "no entropy" in found["entropy_nats"]["reason"]


def test_signs_and_mass_of_advantages():
    found = recorded([row()] * 4, [1.5, -0.5, 0.0, -1e-30])
    assert [found[f"{sign}_advantage_share"]["value"] for sign in ("positive", "zero", "negative")] == [0.25, 0.25, 0.5]
    assert found["advantage_mass"]["value"] == 2.0


def test_words_are_whole_words_in_any_case():
    assert exploratory("So sober: also SO, wait. Waiting", ("so", "wait")) == {"so": 2, "wait": 1}
    assert exploratory("so", ()) == {}
    found = recorded([row(tokens=10, text="so so wait"), row(tokens=30, text="none")], [0.0] * 2, G=2)
    # 3 words in 40 tokens
    assert found["words_per_1000_tokens"]["value"] == pytest.approx(75)
    assert found["so_per_1000_tokens"]["value"] == pytest.approx(50)
    assert found["wait_per_1000_tokens"]["value"] == pytest.approx(25)


def test_verdicts_and_lengths():
    rows = [row("unparsed", stop="length"), row("timeout", tokens=2), row("wrong"), row()]
    found = recorded(rows, [0.0] * 4)
    assert found["unparsed_responses"]["value"] == found["timeout_responses"]["value"] == 1
    assert found["truncated_share"]["value"] == 0.25
    assert found["length_tokens"]["value"] == 8
    assert found["correct_share"]["value"] == 0.25


def test_what_does_not_exist_is_null_and_what_is_not_finite_too():
    found = recorded([row()] * 4, [0.0] * 4)
    assert found["entropic_h_at_low_share"]["value"] is None
    assert found["entropic_h_at_low_share"]["reason"] == "the credit rule has no h"
    records = Records(4, ())
    records.update(3, Updated(math.nan, 1.0, 0.1, None, 5))
    named = {entry["name"]: entry for entry in records.metrics}
    assert named["loss"]["value"] is None and named["loss"]["reason"] == "not finite: nan"
    assert named["clip_low_share"]["reason"] == "the surrogate has no clip bounds, or no token trains"


def test_totals_go_on_after_a_restart():
    records = Records(4, ())
    records.update(1, Updated(0.0, 1.0, 0.1, (0.0, 0.25), 5))
    again = Records(4, ())
    again.restore(*records.frames(), records.totals)
    for r in (records, again):
        r.update(2, Updated(0.0, 1.0, 0.1, None, 7))
    assert again.metrics == records.metrics
    assert [e["value"] for e in again.metrics if e["name"] == "trained_tokens_total"] == [5, 12]


def test_operations_are_two_per_generated_and_six_per_trained_token_and_parameter():
    full = Records(2, (), size=Size(50, 10))
    full.rollout(
        1, Drawn([row(tokens=4), row(tokens=6)], [row(tokens=4), row(tokens=6)]), Learned([0.0] * 2, None, None, None)
    )
    full.update(1, Updated(0.0, 1.0, 0.1, None, 7))
    full.update(2, Updated(0.0, 1.0, 0.1, None, 1))
    # 10 active parameters: 2 x 10 generated + 6 x 7 trained tokens, then one more trained
    assert [e["value"] for e in full.metrics if e["name"] == "flops_total"] == [620, 680]
    adapter = Records(2, (), size=Size(50, 10), adapter=True)
    adapter.update(1, Updated(0.0, 1.0, 0.1, None, 7))
    assert [e["value"] for e in adapter.metrics if e["name"] == "flops_total"] == [280]
    unknown = Records(2, ())
    unknown.update(1, Updated(0.0, 1.0, 0.1, None, 7))
    (entry,) = [e for e in unknown.metrics if e["name"] == "flops_total"]
    assert (entry["value"], entry["reason"]) == (None, "how many parameters the model has is not known")


def test_all_that_was_generated_counts_and_advantages_are_of_what_trains():
    # one group of 2 trains, a flat one of 2 was drawn beside it
    trained = [row("correct", tokens=10, entropy=1.0), row("wrong", tokens=10, entropy=3.0, penalty=-0.5)]
    flat = [row("correct", tokens=30, entropy=6.0), row("correct", tokens=30, entropy=6.0)]
    found = recorded(trained, [1.0, -1.0], G=2, generated=[*flat, *trained], draws=2)
    assert found["reward"]["value"] == pytest.approx((1 + 1 + 1 - 0.5) / 4)
    assert found["correct_share"]["value"] == 0.75
    assert found["entropy_nats"]["value"] == pytest.approx(16 / 80)
    assert found["entropy_nats_negative"]["value"] == pytest.approx(0.3)
    assert found["flat_group_share"]["value"] == 0.5
    assert found["zero_advantage_share"]["value"] == 0.0
    assert found["generated_responses"]["value"] == 4 and found["prompt_draws"]["value"] == 2
    assert found["generated_tokens"]["value"] == 80
    assert found["late_response_share"]["value"] == 0.0


def test_a_step_that_trains_on_groups_carried_over_may_generate_nothing():
    carried = [row("correct", late=True), row("wrong", late=True)]
    found = recorded(carried, [1.0, -1.0], G=2, generated=[], draws=0)
    assert found["late_response_share"]["value"] == 1.0
    assert found["generated_tokens"]["value"] == 0
    for name in ("reward", "entropy_nats", "flat_group_share", "length_tokens", "wait_per_1000_tokens"):
        assert found[name]["value"] is None and found[name]["reason"] == "no response in this step"
    assert found["positive_advantage_share"]["value"] == 0.5


def test_k_and_the_gate_are_those_of_the_algorithm_as_it_stands():
    def found(algorithm, K=None):
        memory = algorithm.start()
        if K is not None:
            memory["baseline"][0]["K"] = K
        return levels(algorithm, memory)

    assert found(presets.qae(K=0.8)) == (0.8, 0.8)
    assert found(presets.pos_mask(K=0.6)) == (0.6, 0.6)
    assert found(presets.hard_gate(tau=0.3)) == (None, 0.3)
    assert found(presets.clip_higher()) == (None, None)
    assert found(presets.qae_scheduled(), K=0.55) == (0.55, 0.55)


def test_k_is_recorded():
    assert recorded([row()] * 4, [0.0] * 4, at=0.6)["K"]["value"] == 0.6
    none = recorded([row()] * 4, [0.0] * 4, at=None)
    assert none["K"]["value"] is None and none["K"]["reason"] == "the baseline has no K"
