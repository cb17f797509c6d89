"""Judging one completion: every published case, the shortcuts against the libraries, code as an answer."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from attacks import CODE
from hypothesis import example, given
from hypothesis import strategies as st

from seedwise.grading.allowed import ALLOWED, EXACT, REFUSED, UNREPEATABLE, graded_refusal
from seedwise.grading.policy import Box, Marker, Whole
from seedwise.grading.pool import Grader, Item
from seedwise.grading.verify import VerifierError, credit, decide, gold_fault, judge, quick, verifier_version
from seedwise.tasks.reasoning_gym import ReasoningGym

CASES = json.loads((Path(__file__).parents[1] / "cases" / "grading.json").read_text())["cases"]
NEVER_ENDING = ("timeout", "timeout|wrong")


@pytest.mark.parametrize("case", [case for case in CASES if case["verdict"] != "error"], ids=lambda case: case["kind"])
def test_published_case(case: dict[str, str], grader: Grader) -> None:
    [verdict] = grader.grade([Item("math_verify", case["gold"], case["answer"], answer_rule=Whole())])
    assert verdict.verdict in case["verdict"].split("|")


@pytest.mark.parametrize("case", [case for case in CASES if case["verdict"] not in ("error", *NEVER_ENDING)])
def test_judge_says_the_same_without_a_grader(case: dict[str, str]) -> None:
    assert judge("math_verify", case["gold"], case["answer"], Whole(), {}).verdict in case["verdict"].split("|")


@pytest.mark.parametrize("case", [case for case in CASES if case["verdict"] == "error"])
def test_unreadable_gold_is_an_error(case: dict[str, str], grader: Grader) -> None:
    assert "several words" in (gold_fault("math_verify", case["gold"], {}) or "")
    with pytest.raises(VerifierError, match="foo bar"):
        judge("math_verify", case["gold"], case["answer"], Whole(), {})
    with pytest.raises(VerifierError, match="foo bar"):
        grader.grade([Item("math_verify", case["gold"], case["answer"])])


def test_every_case_has_a_verdict_we_know() -> None:
    known = {"correct", "wrong", "unparsed", "timeout", "error"}
    assert len(CASES) == 18
    assert all(set(case["verdict"].split("|")) <= known for case in CASES)


def test_partial_credit_is_not_a_right_answer() -> None:
    # oracle in answer: 2 of 3 characters, 0.67 of the credit
    assert judge("reasoning_gym:chain_sum", "12", "#12x", Marker(marker="#"), {}).verdict == "wrong"
    assert judge("reasoning_gym:chain_sum", "12", "#+012.0", Marker(marker="#"), {}).verdict == "correct"
    assert judge("reasoning_gym:chain_sum", "12", "12", Marker(marker="#"), {}).verdict == "unparsed"


@given(st.integers(-(10**30), 10**30), st.integers(-20, 20), st.sampled_from(["{}", "+{}", "00{}", "{}.0", "{}."]))
@example(7, 0, "\uff17")
def test_quick_agrees_with_reasoning_gym(gold: int, offset: int, form: str) -> None:
    answer = form.format(gold + offset)
    assert quick("reasoning_gym:chain_sum", str(gold), answer) == decide(
        "reasoning_gym:chain_sum", str(gold), answer, {}
    )


@given(st.text(alphabet="0123456789+-.,eE_ nNaAfFiI\u0665", max_size=8))
@example("sNaN")
@example("1e99999999999999999999")
def test_quick_agrees_with_reasoning_gym_on_texts(answer: str) -> None:
    assert quick("reasoning_gym:products", "12", answer) == decide("reasoning_gym:products", "12", answer, {})


@given(st.integers(-999, 999), st.integers(-1, 1))
def test_quick_agrees_with_math_verify(gold: int, offset: int) -> None:
    answer = str(gold + offset)
    assert quick("math_verify", str(gold), answer) == decide("math_verify", str(gold), answer, {})


def test_quick_leaves_the_rest_to_the_verifier() -> None:
    assert quick("math_verify", "1/2", "0.5") is None
    assert quick("math_verify", "5", "5.0") is None
    assert quick("math_verify", "5", "\u0665") is None  # a digit, not an ASCII one
    assert quick("reasoning_gym:knights_knaves", "a", "a") is None


def test_exact_datasets_do_use_the_plain_comparison() -> None:
    from reasoning_gym.dataset import ProceduralDataset
    from reasoning_gym.factory import DATASETS

    assert all(DATASETS[name][0].score_answer is ProceduralDataset.score_answer for name in EXACT)
    assert set(REFUSED) | UNREPEATABLE | ALLOWED <= set(DATASETS)
    assert not ALLOWED & (set(REFUSED) | UNREPEATABLE)


@pytest.mark.parametrize("name", ["n_queens", "spiral_matrix", "countdown", "puzzle24", "polynomial_multiplication"])
def test_verifiers_that_evaluate_are_refused(name: str) -> None:
    with pytest.raises(VerifierError, match=f"reasoning_gym:{name}.*evaluates the answer as code.*math_verify"):
        judge(f"reasoning_gym:{name}", "5", "\\boxed{5}", Box(), {})
    with pytest.raises(VerifierError, match="evaluates"):
        Grader().grade([Item(f"reasoning_gym:{name}", "5", "\\boxed{5}")])


GRADED = sorted(name for name in ALLOWED if graded_refusal(name) is None)


@pytest.mark.parametrize(
    ("name", "gold", "answer", "entry", "credit"),
    [
        ("base_conversion", "12", "12x", {}, 2 / 3),  # 2 of 3 characters
        ("prime_factorization", "2 × 2 × 3", "4 × 3", {}, 0.5),  # the product is right
        (
            "knights_knaves",
            "Al is a knight, and Bo is a knave",
            "Al is a knight, and Bo is a knight",
            {},
            0.3 + 0.7 / 2,
        ),
        ("sentence_reordering", "a b c d", "a c b d", {}, 2 / 4),
        # |5 - -1| / -1 = -6 would be exp(30)
        ("calendar_arithmetic", "-1", "5", {"metadata": {"task": "recurring_event_calculations"}}, 0.0),
        ("calendar_arithmetic", "10", "8", {"metadata": {"task": "count_days"}}, math.exp(-5 * 2 / 10)),
        ("mini_sudoku", "1", "no", {}, 0.0),  # the entry is not of its form
    ],
)
def test_partial_credit(name: str, gold: str, answer: str, entry: dict[str, Any], credit: float) -> None:
    verdict = judge(f"reasoning_gym_graded:{name}", gold, f"\\boxed{{{answer}}}", Box(), entry)
    assert (verdict.verdict, verdict.credit) == ("wrong", pytest.approx(credit))
    full = judge(f"reasoning_gym:{name}", gold, f"\\boxed{{{answer}}}", Box(), entry)
    assert (full.verdict, full.credit) == ("wrong", 0.0)


def test_credit_is_a_share_and_full_credit_is_for_right_answers(one_problem_each: dict[str, dict[str, Any]]) -> None:
    """For every allowed dataset: the gold answer, its beginning, its repetition, and what an attacker would try."""
    for name in GRADED:
        row = one_problem_each[name]
        gold, entry = row["answer"], json.loads(row["metadata"])["entry"]
        verifier = f"reasoning_gym_graded:{name}"
        assert credit(verifier, gold, gold, entry) == 1.0, name
        for answer in (gold + gold, f"{gold}, zzz", gold[:-1], gold.swapcase(), "0", "-1", "nan", "1e99", "[]", "{}"):
            given = credit(verifier, gold, answer, entry)
            assert 0.0 <= given <= 1.0, (name, answer)
            assert (given == 1.0) == decide(f"reasoning_gym:{name}", gold, answer, entry), (name, answer)


def test_surplus_words_are_not_a_right_answer(one_problem_each: dict[str, dict[str, Any]]) -> None:
    """What word_sorting was refused for; no allowed verifier gives full credit for it."""
    # graph_color's gold answer is one of many; knights_knaves reads assignments out of any sentence
    for name in ALLOWED - {"graph_color", "knights_knaves"}:
        row = one_problem_each[name]
        entry = json.loads(row["metadata"])["entry"]
        assert not decide(row["verifier"], row["answer"], f"{row['answer']}, zzz", entry), name
    gold = "A is a knight, and B is a knave"
    assert not decide("reasoning_gym:knights_knaves", gold, f"{gold}, and B is a knight", {})


def test_graded_verifiers_are_allow_listed_too() -> None:
    with pytest.raises(VerifierError, match="reasoning_gym_graded:spell_backward.*begins with the right answer"):
        judge("reasoning_gym_graded:spell_backward", "cba", "\\boxed{cba}", Box(), {})
    with pytest.raises(VerifierError, match="reasoning_gym_graded:n_queens.*evaluates the answer as code"):
        judge("reasoning_gym_graded:n_queens", "5", "\\boxed{5}", Box(), {})
    assert judge("reasoning_gym:spell_backward", "cba", "\\boxed{cba}", Box(), {}).correct


@pytest.mark.parametrize("verifier", ["sympy", "reasoning_gym", "reasoning_gym:no_such", "math_verify:x", ""])
def test_unknown_verifiers_are_refused(verifier: str) -> None:
    with pytest.raises(VerifierError, match="verifier"):
        judge(verifier, "5", "\\boxed{5}", Box(), {})


def test_versions_name_package_and_policy() -> None:
    assert verifier_version("math_verify") == "math_verify 0.9.0 version 1 policy 2"
    assert (
        verifier_version("reasoning_gym_graded:chain_sum") == "reasoning_gym_graded:chain_sum 0.1.25 version 1 policy 2"
    )
    assert verifier_version("reasoning_gym:chain_sum") == "reasoning_gym:chain_sum 0.1.25 version 1 policy 2"


@pytest.fixture(scope="module")
def one_problem_each() -> dict[str, dict[str, Any]]:
    """A generated problem of every allow-listed dataset, and one for math-verify."""
    rows = {
        name: ReasoningGym(task="reasoning_gym", name=name, size=1, seed=3).problems(None, frozenset())[0]
        for name in sorted(ALLOWED)
    }
    mathematical = ReasoningGym(task="reasoning_gym", name="gsm_symbolic", size=1, seed=3, verifier="math_verify")
    return rows | {"math_verify": mathematical.problems(None, frozenset())[0]}


def test_every_allowed_verifier_accepts_its_gold_answers(one_problem_each: dict[str, dict[str, Any]]) -> None:
    for row in one_problem_each.values():
        entry = json.loads(row["metadata"])["entry"]
        assert gold_fault(row["verifier"], row["answer"], entry) is None, row["verifier"]


def test_code_is_not_executed_by_any_library(
    one_problem_each: dict[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verifiers themselves, in this process, without the worker's walls: shortcuts are bypassed."""
    monkeypatch.chdir(tmp_path)
    for row in one_problem_each.values():
        entry = json.loads(row["metadata"])["entry"]
        for answer in CODE:
            assert decide(row["verifier"], row["answer"], answer, entry) is False, (row["verifier"], answer)
    assert list(tmp_path.iterdir()) == []


def test_code_is_not_executed_in_grading_or_rewards(
    one_problem_each: dict[str, dict[str, Any]], grader: Grader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows and completions as evaluation and training rewards hand them over."""
    monkeypatch.chdir(tmp_path)
    items = [
        Item.of(row, text)
        for row in one_problem_each.values()
        for answer in CODE
        for text in (answer, f"\\boxed{{{answer}}}")
    ]
    verdicts = grader.grade(items)
    assert {verdict.verdict for verdict in verdicts} == {"wrong", "unparsed"}
    assert list(tmp_path.iterdir()) == []


def test_the_attack_would_work(tmp_path: Path) -> None:
    """Teeth: the same answer does create the file with a verifier that is refused."""
    script = (
        "import sys; from reasoning_gym.factory import get_score_answer_fn; "
        "get_score_answer_fn('n_queens')(sys.argv[1], {'metadata': {'valid_answers': []}})"
    )
    subprocess.run([sys.executable, "-c", script, CODE[0]], cwd=tmp_path, check=True)
    assert (tmp_path / "owned").exists()


def test_decimals_are_compared_exactly() -> None:
    # 0.1 + 0.2 as floats is not 0.3
    assert quick("reasoning_gym:chain_sum", "0.3", str(Decimal("0.1") + Decimal("0.2"))) is True
    assert quick("reasoning_gym:chain_sum", "10000000000000000000", "10000000000000000001") is False
