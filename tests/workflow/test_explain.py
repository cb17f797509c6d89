"""`seedwise explain`: the numbers of the parts that train, by hand and by golden values; mistakes are one line."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from algos.made import advantages, by_id, doubles, golden, groups
from typer.testing import CliRunner

from seedwise.algos.presets import PRESETS, parameters
from seedwise.cli import app
from seedwise.explain import ExplainError, algorithm_of, explain

RAW = "{baseline: [{kind: group_mean}]}"
ENTROPIC = "{baseline: [{kind: group_mean}], credit: {kind: entropic, kappa: log 4}}"
ENTROPIES = "[[0.1, 1.0, 2.0], [0.2, 0.3, 1.4], [0.0, 0.5, 0.0], [1.0, 1.0, 3.0]]"
IDS = "[[7, 8, 9], [7, 8, 3], [1, 2, 0], [7, 8, 9]]"
LOGPROBS = "[[-0.1, -1.0, -2.0], [-0.2, -0.3, -1.4], [0.0, -0.5, 0.0], [-1.0, -1.0, -3.0]]"


def near(expected: object) -> object:
    # golden values have ten digits after the point
    return pytest.approx(expected, abs=6e-11, rel=0)


def written(name: str) -> str:
    """A preset with what it cannot do without."""
    required = [key for key, value in parameters(name).items() if value.default is value.empty]
    return f"{name}:{','.join(f'{key}=12' for key in required)}" if required else name


# everything a part may look at, for four responses of three tokens
GIVEN = {
    "lengths": "[3, 3, 2, 3]",
    "entropies": ENTROPIES,
    "logprobs": LOGPROBS,
    "teacher_logprobs": "[[-0.2, -0.5, -2.0], [-0.2, -0.3, -1.4], [0.0, -0.5, 0.0], [-0.1, -1.0, -9.0]]",
    "logits": ENTROPIES,
    "confidences": ENTROPIES,
    "ids": IDS,
}


@pytest.mark.parametrize("case", golden("quantile baseline"), ids=by_id)
def test_golden_quantile(case):
    inputs = case["inputs"]
    scale = f"{{kind: divide_by_group_std, ddof: {inputs['ddof']}, eps: {inputs['eps']}}}"
    method = f"{{baseline: [{{kind: quantile, K: {inputs['K']}}}, {scale}]}}"
    got = explain(method, json.dumps(inputs["rewards"]))
    assert got.baseline == near(case["expected"]["baseline"])
    assert got.advantages == near(case["expected"]["advantages"])


@pytest.mark.parametrize("case", golden("mean baseline (GRPO)"), ids=by_id)
def test_golden_mean(case):
    got = explain(f"grpo:eps={case['inputs']['eps']}", json.dumps(case["inputs"]["rewards"]))
    assert got.baseline == near(case["expected"]["baseline"])
    assert got.advantages == near(case["expected"]["advantages"])


@pytest.mark.parametrize("case", golden("length-weighted"), ids=by_id)
def test_golden_lengths(case):
    got = explain("opo", json.dumps(case["inputs"]["rewards"]), lengths=json.dumps(case["inputs"]["lengths"]))
    assert got.baseline == near(case["expected"]["baseline"])
    assert got.advantages == near(case["expected"]["advantages"])


def test_entropic_credit_by_hand():
    # pooled 0 0 2 2: q10 lies at place 0.3 and is 0, q90 at 2.7 and is 2, so h is 0 and 1
    # A = 1/2: weights 1 and 4 over their mean 5/2; A = -1/2: weights 1 and 1/4 over 5/8
    got = explain(ENTROPIC, "[1, 0]", entropies="[[0, 2], [0, 2]]")
    assert got.advantages == [0.5, -0.5]
    assert got.token_advantages is not None
    assert got.token_advantages[0] == pytest.approx([0.2, 0.8], abs=1e-7)
    assert got.token_advantages[1] == pytest.approx([-0.8, -0.2], abs=1e-7)


def test_surprisal_is_read_from_logprobs():
    # the same numbers as surprisals and as entropies are the same weights
    entropy = explain("eapo", "[1, 0, 0, 1]", entropies=ENTROPIES)
    surprisal = explain("eapo:source=surprisal", "[1, 0, 0, 1]", logprobs=LOGPROBS)
    assert surprisal.token_advantages == entropy.token_advantages


def test_only_tokens_within_a_length_count():
    # the third value of row 2 neither moves a quantile nor gets an advantage
    short = explain(ENTROPIC, "[1, 0]", entropies="[[0, 1, 2], [1, 2, 0]]", lengths="[3, 2]")
    other = explain(ENTROPIC, "[1, 0]", entropies="[[0, 1, 2], [1, 2, 9]]", lengths="[3, 2]")
    assert short == other
    assert [len(row) for row in short.token_advantages or ()] == [3, 2]


def test_a_penalty_is_added_to_the_verdicts():
    # cache 4 before 10 tokens: 0 up to 6, half of it used up at 8, -1 from 10 on
    got = explain("dr_grpo:length=10,penalty={max_length: 10, cache: 4}", "[1, 0, 0, 0]", lengths="[6, 8, 10, 12]")
    assert got.rewards == [1, -0.5, -1, -1]
    assert got.baseline == pytest.approx(-3 / 8)


def test_leave_one_out_has_a_baseline_for_each_response():
    # the winner's rivals average 0, each loser's average 1/3
    got = explain("rloo", "[1, 0, 0, 0]")
    assert got.baseline == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3])
    assert got.advantages == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])


@pytest.mark.parametrize("name", ["pos_mask", "random_sparsity"])
def test_where_there_is_no_single_baseline_the_reason_is_shown(name):
    # POS-MASK compares the success with 0 and the failures with 1
    got = explain(name, "[1, 0, 0, 0]")
    assert got.baseline is None
    assert f"no baseline: {name} does not compare all responses with one value" in got.notes


def test_a_random_method_says_so_and_shows_one_draw():
    rewards = "[1, 0, 1, 0, 1, 0, 1, 0]"
    got = explain("random_sparsity", rewards)
    assert explain("random_sparsity", rewards) == got
    assert "drawn at random: another seed may give other advantages" in got.notes
    assert not any("random" in note for note in explain("qae", rewards).notes)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_explained_by_its_own_parts(name):
    method = written(name)
    algorithm = algorithm_of(method)
    got = explain(method, "[1, 0, 0, 1]", **GIVEN)
    view = groups([[1.0, 0, 0, 1]])._replace(lengths_PG=doubles([[3.0, 3, 2, 3]]), entropy=0.95)
    # a random method is shown at one draw, which this generator does not repeat
    if not any("random" in note for note in got.notes):
        assert got.advantages == advantages(algorithm, view)[0].tolist()
    assert [len(row) for row in got.token_advantages or ()] == [3, 3, 2, 3]


def test_a_teacher_by_hand():
    # A = 1/2 twice: w = exp(-1 + 0.5) for the first token, exp(-0.1 + 1) = 2.46 cut to 2 for the second
    given = {"logprobs": "[[-1, -0.1], [-1, -1], [-1, -1], [-1, -1]]"}
    given["teacher_logprobs"] = "[[-0.5, -1], [-1, -1], [-9, -9], [-9, -9]]"
    method = "{baseline: [{kind: group_mean}], credit: {kind: rlrt}}"
    got = explain(method, "[1, 1, 0, 0]", **given).token_advantages
    assert got is not None
    assert got[0] == pytest.approx([0.25 + 0.25 * math.exp(-0.5), 0.25 + 0.25 * 2])
    assert got[1:] == [[0.5, 0.5], [-0.5, -0.5], [-0.5, -0.5]]


def test_the_only_correct_response_has_no_teacher():
    given = {"logprobs": "[[-1], [-1]]", "teacher_logprobs": "[[-9], [-9]]"}
    got = explain("{baseline: [{kind: group_mean}], credit: {kind: rlrt}}", "[1, 0]", **given)
    assert got.token_advantages == [[0.5], [-0.5]]


def test_a_controller_of_gradient_variance_stands_at_its_start():
    # a training has no gradient before its first step, so K is the one configured: 4 of 8 fail, hard at 0.4
    got = explain("qae_adaptive:signal=gradient_variance", "[1, 1, 1, 1, 0, 0, 0, 0]")
    assert got.baseline == 0


def test_what_happens_around_the_group_is_noted():
    notes = explain("dapo:length=12", "[1, 1, 1]", lengths="[3, 3, 3]").notes
    assert "dynamic: verdicts are equal, so this group would not train and another problem be drawn" in notes
    assert not any("dynamic" in note for note in explain("dapo:length=12", "[1, 0, 1]", lengths="[3, 3, 3]").notes)
    notes = explain("grpo:penalty={kind: overlong_filter}", "[1, 0]").notes
    assert "overlong_filter: responses cut off at the token limit do not train" in notes


def test_a_network_has_no_option():
    with pytest.raises(ExplainError, match="network_baseline needs prompt_states, for which explain has no option"):
        explain("{baseline: [{kind: network_baseline}]}", "[1, 0]")


@pytest.mark.parametrize(
    ("method", "expression"),
    [
        ("qae:K=0.6", "{baseline: [{kind: quantile, K: 0.6}, {kind: divide_by_group_std}]}"),
        (
            "qae:K=0.6,sampler={kind: dynamic},objective={kl: 0.01}",
            "{baseline: [{kind: quantile, K: 0.6}, {kind: divide_by_group_std}], sampler: {kind: dynamic}, "
            "objective: {kl: 0.01}}",
        ),
        (" qae : K = 0.6 , low = 0.2 ", "{baseline: [{kind: quantile, K: 0.6}, {kind: divide_by_group_std}]}"),
        (
            "eapo:kappa=log 8,decay_steps=20",
            "{baseline: [{kind: group_mean}, {kind: divide_by_group_std}], "
            "credit: {kind: entropic, kappa: log(8), decay_steps: 20}}",
        ),
    ],
)
def test_a_preset_and_its_expression_are_the_same_method(method, expression):
    assert algorithm_of(method) == algorithm_of(expression)


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ("qea", "qea: unknown preset 'qea': did you mean 'qae'?; presets are grpo, "),
        ("qae:k=0.4", "qae: preset qae has no parameter 'k': did you mean 'K'?"),
        ("qae:K", "qae: 'K' is no setting: write qae:KEY=VALUE,KEY=VALUE"),
        ("qae:K=1.5", "qae: preset qae: Quantile.K: Input should be less than 1, got 1.5"),
        ("qae:K=[0.2, 0.4]", "qae: a list is a grid, here of 2 methods: give one value to explain one"),
        ("dr_grpo", "dr_grpo: preset dr_grpo needs length"),
        ("{baseline: [{kind: nosuch}]}", "expression: baseline.0: "),
        ("{baselin: []}", "expression: baselin: unknown key; a method is a preset or has baseline, "),
        ("{baseline: [", "expression: expected the node content"),
    ],
)
def test_a_method_that_is_none(method, says):
    with pytest.raises(ExplainError) as error:
        explain(method, "[1, 0]")
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("method", "rewards", "given", "says"),
    [
        (RAW, "[1, 0", {}, "--rewards: [1, 0: no JSON from character 6: write [1, 0, 0, 0]"),
        (RAW, "1", {}, "--rewards: 1: not a list: write [1, 0, 0, 0]"),
        (RAW, "[1]", {}, "--rewards: [1]: a group of 1 has nothing to compare: give 2 responses or more"),
        (RAW, "[]", {}, "--rewards: []: a group of 0"),
        (RAW, '[1, "won"]', {}, '--rewards: response 2 is "won": give a finite number'),
        (RAW, "[1, NaN]", {}, "--rewards: response 2 is NaN: give a finite number"),
        (RAW, "[1e308, 1e308, -1e308]", {}, "--rewards: too large, advantages are not finite: give smaller ones"),
        (RAW, "[true, 0]", {}, "--rewards: response 1 is true: give a finite number"),
        (RAW, '["log 0", 0]', {}, '--rewards: response 1 is "log 0": give a finite number'),
        (RAW, "[1, 0]", {"lengths": "[3]"}, "--lengths: 1 lengths for 2 rewards: give one per response"),
        (RAW, "[1, 0]", {"lengths": "[3, 0]"}, "--lengths: response 2 is 0: give whole tokens, 1 or more"),
        (RAW, "[1, 0]", {"lengths": "[3, 1.5]"}, "--lengths: response 2 is 1.5: give whole tokens"),
        (
            RAW,
            "[1, 0]",
            {"entropies": "[[1, 2], [1, 2]]", "lengths": "[2, 3]"},
            "--lengths: response 2 has 3 tokens, but values of 2: give one for each",
        ),
        (RAW, "[1, 0]", {"entropies": "[[1]]"}, "--entropies: 1 rows for 2 rewards: give one row per response"),
        (
            RAW,
            "[1, 0]",
            {"entropies": "[[1, 2], [1]]"},
            "--entropies: row 2 has 1 values and row 1 has 2: fill the short ones up with 0 and say in --lengths",
        ),
        (RAW, "[1, 0]", {"entropies": "[[1], [NaN]]"}, "--entropies: row 2, token 1 is NaN: give a finite number"),
        (RAW, "[1, 0]", {"entropies": "[[1], [-1]]"}, "--entropies: row 2, token 1 is -1: give a value within 0..inf"),
        (RAW, "[1, 0]", {"entropies": "[[1], 1]"}, "--entropies: row 2 is 1: give a list with a number per token"),
        (RAW, "[1, 0]", {"logprobs": "[[-1], [1]]"}, "--logprobs: row 2, token 1 is 1: give a value within -inf..0"),
        (
            RAW,
            "[1, 0]",
            {"entropies": "[[1], [1]]", "logprobs": "[[-1, -1], [-1, -1]]"},
            "--entropies and --logprobs have rows of 1 and 2 values: give as many",
        ),
        ("eapo", "[1, 0]", {}, "entropic needs entropy: give --entropies, a row of numbers per response"),
        ("eapo:source=surprisal", "[1, 0]", {"entropies": "[[1], [1]]"}, "entropic needs old_logp: give --logprobs"),
        ("less", "[1, 0]", {"entropies": "[[1], [1]]"}, "less needs ids: give --ids, a row of numbers per response"),
        ("less", "[1, 0]", {"ids": "[[1], [1.5]]"}, "--ids: row 2, token 1 is 1.5: give a whole number"),
        ("ucas", "[1, 0]", {"logits": "[[1], [1]]"}, "ucas needs confidence: give --confidences"),
        ("opo", "[1, 0]", {}, "this method looks at how long responses are: give --lengths, tokens of each response"),
        (
            "grpo:penalty={max_length: 9, cache: 3}",
            "[1, 0]",
            {},
            "penalty looks at how long responses are: give --lengths",
        ),
    ],
)
def test_mistakes_are_one_line_with_a_remedy(method, rewards, given, says):
    with pytest.raises(ExplainError) as error:
        explain(method, rewards, **given)
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)


def test_json_has_three_keys():
    result = CliRunner().invoke(app, ["explain", "qae", "--rewards", "[1,0,0,0]", "--json"])
    # one success in four: b = 0, the sample std is sqrt((0.75**2 + 3 * 0.25**2) / 3) = 0.5
    assert json.loads(result.stdout) == {
        "baseline": 0.0,
        "advantages": pytest.approx([1 / (0.5 + 1e-6), 0, 0, 0]),
        "token_advantages": None,
    }


def test_the_table_for_people():
    result = CliRunner().invoke(app, ["explain", ENTROPIC, "--rewards", "[1,0]", "--entropies", "[[0,2],[0,2]]"])
    lines = result.stdout.splitlines()
    assert lines[0] == ENTROPIC
    assert [line.strip("│ ").split() for line in lines if line.startswith("│")] == [
        ["1", "│", "1", "│", "0.5", "│", "0.2", "0.8"],
        ["2", "│", "0", "│", "-0.5", "│", "-0.8", "-0.2"],
    ]
    assert "baseline of the group: 0.5" in lines


def test_the_command_fails_in_one_line():
    command = [sys.executable, "-m", "seedwise.cli", "explain", "eapo", "--rewards", "[1,0]"]
    failed = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)})
    assert failed.returncode == 2
    assert failed.stderr == "seedwise: entropic needs entropy: give --entropies, a row of numbers per response\n"


def test_reading_a_method_needs_no_torch():
    code = (
        "import sys; from seedwise.explain import algorithm_of; algorithm_of('qae'); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
