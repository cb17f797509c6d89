"""Grading in processes that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import seedwise
from seedwise.grading.policy import Marker
from seedwise.grading.pool import Grader, Item
from seedwise.grading.verify import Verdict

HANGING = r"\boxed{5^{(5^{(5^{(5^5)})}-4)}-5}"
HALF = "0.5"  # a decimal: what is equal to it takes the library


def half(answer: str) -> Item:
    """An item that only math-verify can decide."""
    return Item("math_verify", HALF, f"\\boxed{{{answer}}}")


def test_a_hanging_answer_costs_its_limit_and_the_run_goes_on() -> None:
    with Grader(time_limit_s=0.5) as grader:
        grader.grade([half("2/4")])  # the import is not part of what is measured
        [before] = grader.pids
        verdicts = grader.grade([Item("math_verify", "5", HANGING), half("3/6"), half("3/7")])
        [after] = grader.pids
        assert [verdict.verdict for verdict in verdicts] == ["timeout", "correct", "wrong"]
        assert verdicts[0].answer == HANGING[len("\\boxed{") : -1]
        assert before != after
        with pytest.raises(ProcessLookupError):
            os.kill(before, 0)
        assert grader.grade([half("3/6")])[0].correct
        assert grader.pids == (after,)  # remembered or not, a judgement costs no worker


def test_memory_is_bounded(tmp_path: Path) -> None:
    done = _run("from seedwise.grading import worker; worker.restrict(256); bytearray(2**30)", tmp_path)
    assert "MemoryError" in done.stderr


def test_verdicts_come_in_order_whoever_is_first() -> None:
    with Grader(workers=2, time_limit_s=0.5) as grader:
        items = [Item("math_verify", "5", HANGING)] + [half(f"{i}/{2 * i + i % 2}") for i in range(1, 30)]
        items.insert(7, Item("math_verify", "5", "no box"))
        verdicts = grader.grade(items)
    # i / (2i) for even i only
    wanted = ["timeout"] + ["wrong" if i % 2 else "correct" for i in range(1, 30)]
    wanted.insert(7, "unparsed")
    assert [verdict.verdict for verdict in verdicts] == wanted


def test_no_more_workers_than_work() -> None:
    with Grader(workers=2) as grader:
        grader.grade([half("2/4")])
        assert len(grader.pids) == 1
        grader.grade([half(f"{i}/7") for i in range(1, 7)])
        assert len(grader.pids) == 2


def test_judgements_are_remembered() -> None:
    with Grader() as grader:
        first = grader.grade([half("2/4"), half("2/4"), half("5/4")])
        os.kill(grader.pids[0], signal.SIGSTOP)  # a worker asked again could not answer
        try:
            assert grader.grade([half("5/4"), half("2/4")]) == [first[2], first[0]]
        finally:
            os.kill(grader.pids[0], signal.SIGCONT)
    assert [verdict.verdict for verdict in first] == ["correct", "correct", "wrong"]


def test_a_timeout_is_not_remembered() -> None:
    with Grader(time_limit_s=0.5) as grader:
        hanging = Item("math_verify", "5", HANGING)
        twice = grader.grade([hanging, hanging])  # asked once in a call
        assert [verdict.verdict for verdict in twice] == ["timeout", "timeout"]
        assert grader.grade([half("2/4")])[0].correct
        [before] = grader.pids
        assert grader.grade([hanging]) == twice[:1]
        assert before not in grader.pids  # it was asked again, and died of it again


def test_the_last_judgements_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ask = Grader._ask
    monkeypatch.setattr(Grader, "_ask", lambda self, keys: asked.extend(key.answer for key in keys) or ask(self, keys))
    monkeypatch.setattr("seedwise.grading.pool._REMEMBERED", 2)
    long = "2/4" + " " * 10 + "0" * 1000
    with Grader() as grader:
        for answer in ("2/4", "3/6", "2/4", "4/8", "2/4", "3/6", long, long):
            grader.grade([half(answer)])
    # 4/8 pushes out 3/6, which was used before 2/4; the long one is never kept
    assert asked == ["2/4", "3/6", "4/8", "3/6", long, long]


def test_partial_credit_is_judged_in_a_worker() -> None:
    # 2 of 3 characters of 12x are the gold answer's
    with Grader() as grader:
        texts = ("#12", "#12x", "#x", "12")
        items = [Item("reasoning_gym_graded:chain_sum", "12", text, answer_rule=Marker(marker="#")) for text in texts]
        verdicts = grader.grade(items)
        assert len(grader.pids) == 1
    assert verdicts == [
        Verdict("correct", "12", 1.0),
        Verdict("wrong", "12x", 2 / 3),
        Verdict("wrong", "x", 0.0),
        Verdict("unparsed", None, 0.0),
    ]


def test_a_killed_worker_is_replaced() -> None:
    with Grader() as grader:
        grader.grade([half("2/4")])
        [before] = grader.pids
        os.kill(before, signal.SIGKILL)
        assert grader.grade([half("3/6")]) == [Verdict("correct", "3/6", 1.0)]
        [after] = grader.pids
        assert before != after


def test_no_worker_for_what_is_plain() -> None:
    with Grader() as grader:
        items = [Item("math_verify", "12", f"\\boxed{{{i}}}") for i in range(100)]
        items += [
            Item("reasoning_gym:chain_sum", "-3", text, answer_rule=Marker(marker="#")) for text in ("#-3", "#x", "")
        ]
        verdicts = grader.grade(items)
        assert grader.pids == ()
        assert [verdict.verdict for verdict in verdicts[-3:]] == ["correct", "wrong", "unparsed"]
        assert sum(verdict.correct for verdict in verdicts) == 2
    assert "sympy" not in _modules_after("from seedwise.grading.pool import Grader; Grader().close()")


def test_the_worker_never_imports_torch() -> None:
    loaded = _modules_after(
        "from seedwise.grading import worker, verify; verify.load('math_verify'); verify.load('reasoning_gym:sudoku')"
    )
    assert {"sympy", "reasoning_gym"} <= loaded
    assert "torch" not in loaded


def _modules_after(statement: str) -> set[str]:
    done = _run(f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))", Path())
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def _run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    source = str(Path(seedwise.__file__).resolve().parents[1])
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )


def test_leaving_ends_the_workers() -> None:
    with Grader() as grader:
        grader.grade([half("2/4")])
        [pid] = grader.pids
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    "act",
    [
        "open('owned', 'w')",
        "os.open('owned', os.O_CREAT | os.O_WRONLY)",
        "os.system('touch owned')",
        "subprocess.run(['touch', 'owned'])",
        "os.fork()",
        "os.mkdir('owned')",
        "os.kill(os.getppid(), 15)",
        "socket.create_connection(('127.0.0.1', 9))",
        "pickle.loads(b\"cos\\nsystem\\n(S'touch owned'\\ntR.\")",
    ],
)
def test_the_worker_cannot_act(act: str, tmp_path: Path) -> None:
    """The second wall, for the day when a library executes something after all."""
    script = f"import os, pickle, socket, subprocess; from seedwise.grading import worker; worker.restrict(1024)\n{act}"
    done = _run(script, tmp_path)
    assert done.returncode == 1
    assert "PermissionError: a verifier may not" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("limits", [{"workers": 0}, {"time_limit_s": 0.0}, {"memory_mb": 10}])
def test_senseless_limits_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least 1 worker"):
        Grader(**limits)
