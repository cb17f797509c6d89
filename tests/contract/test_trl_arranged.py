"""Micro-batches of rows of like length: dealt by hand, and an update whose gradient stays.

Dimension key:  B rows, T completion tokens.
"""

from types import SimpleNamespace

import pytest
import torch
from trained import LENGTH, G, even_digits, largest_difference, make, run
from two_processes import drawn

from seedwise.algos import presets
from seedwise.trainer.adapter import ComposedTrainer
from seedwise.trainer.batch import arranged, trimmed

PROMPT_TOKENS = 2


def micro_batch(rows):
    """rows: (name, response tokens, advantage); all prompts have two tokens, responses are padded to eight."""
    names, lengths, advantages = zip(*rows, strict=True)
    mask_BT = (torch.arange(8)[None] < torch.tensor(lengths)[:, None]).long()
    return {
        "prompt_ids": torch.tensor([[0, *[ord(name)] * PROMPT_TOKENS] for name in names]),
        "prompt_mask": torch.tensor([[0, *[1] * PROMPT_TOKENS] for _ in names]),
        "completion_ids": mask_BT * 5,
        "completion_mask": mask_BT,
        "advantages": torch.tensor(advantages)[:, None] * mask_BT,
        "num_items_in_batch": torch.tensor(30),
    }


def dealt(micro_batches, skip):
    return ["".join(map(chr, part["prompt_ids"][:, -1].tolist())) for part in arranged(micro_batches, skip=skip)]


# response tokens: a 3, b 8, c 1, d 5, e 2, f 7; b and e are silent
MADE = [
    micro_batch([("a", 3, 1.0), ("b", 8, 0.0)]),
    micro_batch([("c", 1, -1.0), ("d", 5, 1.0)]),
    micro_batch([("e", 2, 0.0), ("f", 7, -1.0)]),
]


def test_all_rows_stand_in_order_of_length_the_longest_first():
    assert dealt(MADE, skip=False) == ["bf", "da", "ec"]


def test_active_rows_are_dealt_evenly_and_silent_ones_fill_up():
    # f d a c over three micro-batches: 4 x 1 // 3 = 1, 4 x 2 // 3 = 2, 4: one, one, two; e and b fill the first two
    assert dealt(MADE, skip=True) == ["fe", "db", "ac"]


def test_with_fewer_active_rows_than_micro_batches_the_shortest_of_the_others_stand_alone():
    # of a, alone active, 0 rows, 0 rows, 1 row; the empty ones get the shortest of the others, one of which is kept
    silent = [{**part, "advantages": part["advantages"] * (part["prompt_ids"][:, -1:] == ord("a"))} for part in MADE]
    assert dealt(silent, skip=True) == ["ce", "df", "ab"]


def test_every_row_keeps_what_is_its_own_and_the_count_of_tokens_is_common():
    parts = arranged(MADE, skip=True)
    lengths = {"a": 3, "b": 8, "c": 1, "d": 5, "e": 2, "f": 7}
    for part in parts:
        assert part["num_items_in_batch"].item() == 30
        for ids, mask_T in zip(part["prompt_ids"], part["completion_mask"], strict=True):
            assert mask_T.sum().item() == lengths[chr(ids[-1])]
    assert parts[0]["completion_ids"].equal(parts[0]["completion_mask"] * 5)


def test_one_micro_batch_is_left_as_it_is():
    assert arranged(MADE[:1], skip=True)[0] is MADE[0]


def test_padding_common_to_all_rows_is_cut():
    cut = trimmed(MADE[1])
    assert cut["prompt_ids"].shape == (2, PROMPT_TOKENS) and cut["completion_ids"].shape == (2, 5)
    assert cut["advantages"].shape == (2, 5) and cut["num_items_in_batch"].item() == 30
    empty = {**MADE[0], "completion_mask": torch.zeros(2, 8, dtype=torch.long)}
    assert trimmed(empty)["completion_ids"].shape == (2, 1)  # a response cut off and masked has no token


class Given:
    """A rollout of completions as ``drawn`` has them; entropies are those an engine would give."""

    def __call__(self, prompts, trainer):
        columns = drawn(prompts, trainer)
        self.rows = [
            SimpleNamespace(
                problem=row // G, ids=ids, tokens=len(ids), logps=[-1.0] * len(ids),
                entropies=[(row + t) / 10 for t in range(len(ids))],
            )
            for row, ids in enumerate(columns["completion_ids"])
        ]  # fmt: skip
        return columns


def gradients(folder, out, algorithm, by_length, skip=False, **settings):
    """Gradients of two updates of one rollout, and the shape of every pass."""
    passes, found = [], []

    class Watched(ComposedTrainer):
        _by_length = ComposedTrainer._by_length if by_length else False

        def _get_per_token_logps_and_entropies(self, model, input_ids, *args, **kwargs):
            if torch.is_grad_enabled():
                passes.append(tuple(input_ids.shape))
            return super()._get_per_token_logps_and_entropies(model, input_ids, *args, **kwargs)

        def _get_grad_norm(self, model, grad_norm=None):
            found.append({name: weight.grad.double().clone() for name, weight in model.named_parameters()})
            return super()._get_grad_norm(model, grad_norm)

    rewards = (even_digits, lambda completions, **_: [0.0] * len(completions))
    trainer = make(
        folder, out, algorithm, skip, Watched, rewards, num_iterations=1, max_steps=2, beta=algorithm.objective.kl,
        **settings,
    )  # fmt: skip
    trainer.rollout = Given()
    run(trainer, trainer.rollout)
    return found, passes


METHODS = {
    "per_token": presets.clip_higher(),
    "per_sequence and kl": presets.grpo(kl=0.1),
    "fixed_length": presets.dr_grpo(length=LENGTH),
    "gspo": presets.gspo(),
    "entropic": presets.eapo(),
}


@pytest.mark.parametrize("skip", [False, True], ids=["", "skip"])
@pytest.mark.parametrize("name", METHODS)
def test_the_gradient_of_an_update_is_the_same_up_to_rounding(name, skip, folder, tmp_path):
    algorithm = METHODS[name]
    skip = skip and algorithm.may_skip() is None
    plain, passes = gradients(folder, tmp_path / "plain", algorithm, by_length=False, skip=skip)
    ours, fewer = gradients(folder, tmp_path / "ours", algorithm, by_length=True, skip=skip)
    assert len(passes) == len(fewer) == 4 and fewer != passes
    tokens = [sum(rows * width for rows, width in shapes) for shapes in (fewer, passes)]
    assert tokens[0] < tokens[1]
    for one, other in zip(plain, ours, strict=True):  # the second: rows have not moved to another update
        scale = max(gradient.abs().max().item() for gradient in one.values())
        assert scale > 0 and largest_difference(one, other) <= 1e-5 * scale


@pytest.mark.parametrize("algorithm", [presets.clip_cov(), presets.kl_cov()], ids=["clip_cov", "kl_cov"])
def test_rows_that_a_surrogate_compares_stay_together(algorithm, folder, tmp_path):
    plain, passes = gradients(folder, tmp_path / "plain", algorithm, by_length=False)
    ours, same = gradients(folder, tmp_path / "ours", algorithm, by_length=True)
    assert passes == same
    assert all(largest_difference(one, other) == 0 for one, other in zip(plain, ours, strict=True))


def test_what_an_engine_has_measured_is_not_measured_again(folder, tmp_path):
    taken = []

    class Watched(ComposedTrainer):
        def _tokens(self, out, groups):
            view = super()._tokens(out, groups)
            taken.append((view.entropy_BT, view.mask_BT))
            return view

        def _score(self, out):
            raise AssertionError("a pass over the rollout")

    rewards = (even_digits, lambda completions, **_: [0.0] * len(completions))
    division = {"gradient_accumulation_steps": 4, "num_iterations": 1, "max_steps": 1}
    trainer = make(folder, tmp_path, presets.eapo(), False, Watched, rewards, **division)
    assert "entropy" in trainer.algorithm.needs
    trainer.rollout = Given()
    run(trainer, trainer.rollout)
    ((entropy_BT, mask_BT),) = taken
    for row, (entropy_T, mask_T) in enumerate(zip(entropy_BT, mask_BT, strict=True)):
        given = [(row + t) / 10 for t in range(int(mask_T.sum()))]
        assert entropy_T[mask_T > 0].tolist() == pytest.approx(given)
