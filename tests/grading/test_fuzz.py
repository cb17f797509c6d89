"""Random answers: each gets a verdict, nothing is executed, no worker stays behind and memory does not grow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from attacks import CODE
from hypothesis import given, settings
from hypothesis import strategies as st

from seedwise.grading.policy import Whole
from seedwise.grading.pool import Grader, Item

# Golds of every kind that math-verify compares differently: number, root, set, interval, equation, matrix, text.
GOLDS = (
    r"\frac{1}{2}",
    r"2\sqrt{3}",
    r"\{1,2\}",
    "[0,1)",
    "x^2+y^2=1",
    r"\begin{pmatrix}1\\2\end{pmatrix}",
    r"\text{no solution}",
)
_ATOMS = st.sampled_from(
    ["0", "1", "-3", "2.5", "x", "y", r"\pi", r"\infty", "e", "i", r"\text{cm}", "%", r"\%", "=", "<", "５", "½", "1_2"]
)
_WRAPPED = st.sampled_from(
    [
        r"\sqrt{%s}", "(%s)", r"\{%s\}", r"\begin{pmatrix}%s\end{pmatrix}", "x^{%s}", r"\int_{0}^{%s} x dx", "%s{",
        r"\log_{%s} 2", r"\sum_{n=1}^{%s} n", r"\text{%s}", r"\boxed{%s}", "0.\\overline{%s}", "%s million", "-%s!",
        r"\lim_{x\to %s} x", "|%s|", "__import__('os').system('touch owned')%s",
    ]
)  # fmt: skip
_JOINED = st.sampled_from(["%s+%s", "%s-%s", "%s*%s", "%s/%s", "%s,%s", r"%s\cdot %s", "%s %s", r"%s\pm %s", "%s^%s"])
_NESTED = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(_WRAPPED, inner).map(lambda drawn: drawn[0] % drawn[1]),
        st.tuples(_JOINED, inner, inner).map(lambda drawn: drawn[0] % drawn[1:]),
        st.tuples(inner, inner).map(lambda pair: rf"\frac{{{pair[0]}}}{{{pair[1]}}}"),
    ),
    max_leaves=6,
)
_COMMANDS = (r"\frac", r"\left", r"\right", r"\text", "\\\\")
_TOKENS = st.lists(
    st.sampled_from([*r"\{}()[]^_&%$#~|=<>,.;:'!0123456789abxyz ", *_COMMANDS, "\0"]),
    max_size=25,
).map("".join)
ANSWERS = st.one_of(_NESTED, _TOKENS, st.sampled_from(CODE), st.text(max_size=30))


def resident_mb(pid: int) -> float:
    """MiB of a process in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def fuzz(grader: Grader, count: int) -> tuple[dict[str, int], list[float]]:
    """Grade ``count`` answers: how many of each verdict, and after each MiB of this process and the worker."""
    verdicts: dict[str, int] = {}
    resident: list[float] = []

    @settings(max_examples=count)
    @given(st.sampled_from(GOLDS), ANSWERS)
    def each(gold: str, answer: str) -> None:
        [found] = grader.grade([Item("math_verify", gold, answer, answer_rule=Whole())])
        assert found.correct == (found.credit == 1.0)
        verdicts[found.verdict] = verdicts.get(found.verdict, 0) + 1
        resident.append(sum(map(resident_mb, (os.getpid(), *grader.pids))))

    each()
    assert set(verdicts) <= {"correct", "wrong", "unparsed", "timeout"}
    return verdicts, resident


def test_anything_like_latex_gets_a_verdict(grader: Grader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    verdicts, _ = fuzz(grader, 200)
    assert verdicts["wrong"] > 50
    assert len(grader.pids) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow_survival
@pytest.mark.timeout(3600)
def test_thousands_of_answers_leave_memory_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Grader(time_limit_s=1.0) as grader:
        verdicts, resident = fuzz(grader, 5000)
    assert sum(verdicts.values()) >= 5000
    assert verdicts.get("timeout", 0) < 250  # an answer that hangs is rare
    assert list(tmp_path.iterdir()) == []
    half = len(resident) // 2
    # sympy's caches fill in the first half; a leak of 20 KiB an answer would show as 50 MiB
    assert max(resident[half:]) < max(resident[:half]) + 50
