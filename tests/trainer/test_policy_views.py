"""What parts are told of the policy, against one forward pass per row without any padding."""

import pytest
import torch
from trainer.outputs import value, weights

from seedwise.algos import presets
from seedwise.models.load import load
from seedwise.trainer.adapter import ComposedTrainer
from seedwise.trainer.rollout import Row
from seedwise.trainer.scoring import confidence, lessons, prompt_states, taught

PROMPTS = [[3, 5, 4, 7], [4, 4, 5, 3, 4, 7]]
COMPLETIONS = [[4, 6, 4, 1], [6, 3, 1]]


def padded(sequences, left):
    longest = max(map(len, sequences))
    ids, mask = [], []
    for row in sequences:
        gap = longest - len(row)
        ids.append([*[0] * gap, *row] if left else [*row, *[0] * gap])
        mask.append([*[0] * gap, *[1] * len(row)] if left else [*[1] * len(row), *[0] * gap])
    return torch.tensor(ids), torch.tensor(mask)


@pytest.fixture(scope="module")
def model(model_folder):
    return load(model_folder)[0].eval()


@pytest.fixture(scope="module")
def batch():
    prompt_ids, prompt_mask = padded(PROMPTS, left=True)
    completion_ids, completion_mask = padded(COMPLETIONS, left=False)
    return {
        "prompt_ids": prompt_ids, "prompt_mask": prompt_mask,
        "completion_ids": completion_ids, "completion_mask": completion_mask,
    }  # fmt: skip


def logits(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0].double()


def test_logits_and_confidence_are_those_of_each_row_alone_at_the_temperature(model, batch):
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    logit_BT, confidence_BT = confidence(model, ids, mask, 4, temperature=0.5, batch=1)
    for b, (prompt, completion) in enumerate(zip(PROMPTS, COMPLETIONS, strict=True)):
        z_TV = logits(model, [*prompt, *completion])[len(prompt) - 1 : -1] / 0.5
        for t, token in enumerate(completion):
            assert logit_BT[b, t].item() == pytest.approx(z_TV[t, token].item(), abs=1e-4)
            # KL(uniform, policy) + log V = -mean log p = logsumexp z - mean z
            assert confidence_BT[b, t].item() == pytest.approx(-z_TV[t].log_softmax(0).mean().item(), abs=1e-4)


def test_prompt_states_do_not_depend_on_padding_or_batch(model):
    together = prompt_states(model, PROMPTS, batch=2, device=torch.device("cpu"))
    for p, prompt in enumerate(PROMPTS):
        with torch.no_grad():
            alone = model(input_ids=torch.tensor([prompt]), output_hidden_states=True).hidden_states[-1][0].mean(0)
        torch.testing.assert_close(together[p], alone, atol=1e-5, rtol=1e-4)


def sample(problem, correct, ids):
    return Row(problem, "", ids, [0.0] * len(ids), None, "stop", "correct" if correct else "wrong", correct, 0.0)


def test_the_teacher_reads_the_first_other_correct_response_between_two_readings_of_the_prompt():
    # groups of 3: the first has correct rows 0 and 2, the second only row 5
    rows = [
        sample(0, 1.0, [8, 1]), sample(0, 0.0, [9]), sample(0, 1.0, [7, 7, 1]),
        sample(1, 0.0, [6]), sample(1, 0.0, [5]), sample(1, 1.0, [4, 1]),
    ]  # fmt: skip
    prompt = PROMPTS[0]
    assert lessons(rows, PROMPTS, 3) == [
        [*prompt, 7, 7, 1, *prompt], None, [*prompt, 8, 1, *prompt], None, None, None,
    ]  # fmt: skip


def test_a_row_without_a_teacher_keeps_its_prompt(batch):
    lesson = [3, 4, 5, 6, 7, 3, 4]
    found = taught(batch, [lesson, None])
    assert found["prompt_ids"][0].tolist() == lesson
    assert found["prompt_ids"][1, 1:].tolist() == PROMPTS[1] and found["prompt_mask"][1].tolist() == [0, *[1] * 6]
    assert found["completion_ids"] is batch["completion_ids"]


def test_the_teacher_s_log_probabilities_are_those_after_its_reading(train, make_run, model_folder, monkeypatch):
    seen = {}
    real = ComposedTrainer._teacher

    def looks(trainer, out):
        found = real(trainer, out)
        if not seen:
            seen.update(rows=trainer.rollout.rows, prompts=trainer.rollout.prompt_ids, teacher=found)
        return found

    monkeypatch.setattr(ComposedTrainer, "_teacher", looks)
    train(make_run(presets.preset("rlrt"), steps=1, checkpoints=(1,), save_every=1))
    model, _ = load(model_folder)
    read = lessons(seen["rows"], seen["prompts"], 8)
    assert 2 <= sum(lesson is not None for lesson in read) < 16
    for row, lesson, teacher_T in zip(seen["rows"], read, seen["teacher"], strict=True):
        if lesson is None:
            assert teacher_T.isnan().all()
            continue
        logp_TV = logits(model, [*lesson, *row.ids])[len(lesson) - 1 : -1].log_softmax(1)
        for t, token in enumerate(row.ids):
            assert teacher_T[t].item() == pytest.approx(logp_TV[t, token].item(), abs=1e-4)


def test_responses_cut_off_leave_the_loss_and_its_count_but_stay_in_the_group(train, make_run):
    filtering = presets.preset("clip_higher", penalty={"kind": "overlong_filter"})
    settings = {"steps": 1, "checkpoints": (1,), "save_every": 1, "skip_zero_advantage": False, "max_tokens": 3}
    plain, before = train(make_run(presets.clip_higher(), **settings), "plain")
    filtered, after = train(make_run(filtering, **settings), "filtered")
    for name in ("reward", "positive_advantage_share", "advantage_mass", "generated_tokens"):
        assert value(before, 1, name) == value(after, 1, name)
    cut = value(after, 1, "truncated_share")
    assert 0 < cut < 1
    # each of the 16 cut responses has the 3 tokens of the limit
    assert value(after, 1, "trained_tokens") == value(before, 1, "trained_tokens") - 3 * 16 * cut
    assert any(not torch.equal(weight, weights(filtered, 1)[name]) for name, weight in weights(plain, 1).items())


def test_a_rollout_of_nothing_but_cut_responses_trains_nothing(train, make_run):
    filtering = presets.preset("eapo", penalty={"kind": "overlong_filter"})
    settings = {"steps": 1, "checkpoints": (1,), "save_every": 1, "max_tokens": 1}
    _, metrics = train(make_run(filtering, **settings))
    assert value(metrics, 1, "truncated_share") == 1.0
    assert value(metrics, 1, "trained_tokens") == 0 and value(metrics, 1, "gradient_norm") == 0.0


@pytest.mark.parametrize("name", sorted(presets.PRESETS))
def test_every_preset_trains(name, train, make_run):
    given = {"length": 6} if "length" in presets.parameters(name) else {}
    algorithm = presets.preset(name, **given)
    _, metrics = train(make_run(algorithm, steps=2, checkpoints=(2,)))
    for step in (1, 2):
        assert value(metrics, step, "loss") is not None
        assert value(metrics, step, "gradient_norm") >= 0


@pytest.mark.parametrize(
    "baseline",
    [
        {"kind": "network_baseline"},
        {"kind": "scheduled_quantile", "schedule": {"kind": "adaptive", "signal": "gradient_variance", "last": 5}},
    ],
    ids=lambda baseline: baseline["kind"],
)
def test_baselines_that_look_at_the_policy_train_and_remember(baseline, train, make_run):
    out, metrics = train(make_run(presets.preset("clip_higher", baseline=[baseline]), steps=8, checkpoints=(8,)))
    assert value(metrics, 8, "loss") is not None
    from seedwise.trainer import memory

    remembered = memory.load(out / "checkpoints" / "8" / "memory")
    if baseline["kind"] == "network_baseline":
        assert all(weight.isfinite().all() for weight in remembered["baseline"][0]["weights"])
    else:
        assert len(remembered["gradient_norms"]) == 8
        assert 0 < value(metrics, 8, "K") < 1
