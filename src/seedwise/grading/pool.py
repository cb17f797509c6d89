"""Grading completions in worker processes that can be killed.

What ``verify.quick`` can decide never leaves this process, and no worker is started until one is needed.  A worker that
thinks longer than its limit, or dies on an answer, is killed and replaced; that answer's verdict is ``timeout`` and the
others go on.

Judgements are remembered by what they depend on: gold answer, answer, verifier and its version.  A timeout is not: it
also depends on the machine.  They are kept in memory only.  A run's samples are graded by one grader, judging a new
answer takes milliseconds, and a file shared by jobs would have to be locked over a network for that.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from cachetools import LRUCache
from pydantic import TypeAdapter

from seedwise.grading.policy import AnswerRule, Box, Marker, Whole, extract
from seedwise.grading.process import GraderError, Process, wait_for_any
from seedwise.grading.verify import Verdict, VerifierError, needs_library, quick, verifier_version

_RULES: TypeAdapter[Box | Marker | Whole] = TypeAdapter(AnswerRule)
_REMEMBERED = 50_000  # judgements
_LONGEST_REMEMBERED = 1000  # characters of an answer: longer ones hardly repeat and would fill the memory
_ATTEMPTS = 2  # a worker may have been killed by someone else; an answer that kills two is at fault


@dataclass(frozen=True)
class Item:
    """One completion to judge.  metadata: JSON of what the verifier needs of the problem."""

    verifier: str
    gold: str
    text: str
    metadata: str = "{}"
    answer_rule: Box | Marker | Whole = field(default_factory=Box)

    @classmethod
    def of(cls, problem: Mapping[str, Any], text: str) -> Item:
        """From a row of the PROBLEMS table and a completion of its prompt."""
        answer_rule, entry = _metadata(problem["metadata"])
        return cls(problem["verifier"], problem["answer"], text, entry, answer_rule)


@lru_cache(maxsize=4096)
def _metadata(metadata: str) -> tuple[Box | Marker | Whole, str]:
    values = json.loads(metadata)
    rule = _RULES.validate_python(values.get("answer_rule", {"rule": "box"}))
    return rule, json.dumps(values.get("entry", {}), sort_keys=True)


class _Key(NamedTuple):
    """What a judgement depends on."""

    op: str
    verifier: str
    version: str
    gold: str
    answer: str
    entry: str


_Result = Mapping[str, Any]
_TIMEOUT: _Result = {"timeout": True}


@dataclass
class _Work:
    """What a call of ``grade`` waits for: keys with their attempt, workers with their key, and results."""

    todo: deque[tuple[_Key, int]]
    busy: dict[Process, tuple[_Key, int]] = field(default_factory=dict)
    found: dict[_Key, _Result] = field(default_factory=dict)


class Grader:
    """Judges completions, in order, with ``workers`` processes at most.

    time_limit_s: CPU seconds for one answer.  memory_mb: MiB a worker may allocate.  The 50,000
    judgements used last are remembered as long as the grader lives.  Use as a context manager, or call ``close``.
    """

    def __init__(self, workers: int = 1, time_limit_s: float = 2.0, memory_mb: int = 1024) -> None:
        if workers < 1 or time_limit_s <= 0 or memory_mb < 256:
            raise ValueError(
                f"workers {workers}, time_limit_s {time_limit_s}, memory_mb {memory_mb}: "
                "use at least 1 worker, a positive time and 256 MiB (sympy alone takes more than 100)"
            )
        self.workers, self.time_limit_s, self.memory_mb = workers, time_limit_s, memory_mb
        self._processes: list[Process] = []
        self._known: LRUCache[_Key, _Result] = LRUCache(_REMEMBERED)

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End every worker."""
        while self._processes:
            self._processes.pop().kill()

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers alive now; empty until one was needed."""
        return tuple(process.pid for process in self._processes)

    def grade(self, items: Sequence[Item]) -> list[Verdict]:
        """One verdict per item, in order.

        Raises VerifierError for a verifier that is not allow-listed or a gold answer it cannot read, GraderError when
        a worker cannot even start.
        """
        verdicts: dict[int, Verdict] = {}
        waiting: dict[int, _Key] = {}
        for index, item in enumerate(items):
            answer = extract(item.text, item.answer_rule)
            correct = quick(item.verifier, item.gold, answer) if answer is not None else None
            if answer is None:
                verdicts[index] = Verdict("unparsed", None, 0.0)
            elif correct is not None:
                verdicts[index] = Verdict.of(answer, float(correct))
            else:
                version = verifier_version(item.verifier)
                waiting[index] = _Key("judge", item.verifier, version, item.gold, answer, item.metadata)
        found = self._found(waiting.values())
        for index, key in waiting.items():
            verdicts[index] = _verdict(key, found[key])
        return [verdicts[index] for index in range(len(items))]

    def gold_faults(self, problems: Sequence[Mapping[str, Any]]) -> list[str | None]:
        """For each PROBLEMS row, why its verifier cannot work with its gold answer; None where it can."""
        keys: dict[int, _Key] = {}
        for index, problem in enumerate(problems):
            verifier, gold = problem["verifier"], problem["answer"]
            if needs_library(verifier, gold):
                entry = _metadata(problem["metadata"])[1]
                keys[index] = _Key("gold", verifier, verifier_version(verifier), gold, gold, entry)
        found = self._found(keys.values())
        return [
            self._gold_fault(keys[index], found[keys[index]]) if index in keys else None
            for index in range(len(problems))
        ]

    def _gold_fault(self, key: _Key, result: _Result) -> str | None:
        if "timeout" in result:
            return f"takes {key.verifier} longer than {self.time_limit_s} s or {self.memory_mb} MiB"
        return result.get("error") or result["fault"]

    def _found(self, keys: Iterable[_Key]) -> dict[_Key, _Result]:
        """What is known of each key, or found out now."""
        distinct = dict.fromkeys(keys)
        found = {key: self._known[key] for key in distinct if key in self._known}
        new = self._ask([key for key in distinct if key not in found])
        self._known.update(
            (key, result)
            for key, result in new.items()
            if "timeout" not in result and len(key.answer) <= _LONGEST_REMEMBERED
        )
        return found | new

    def _ask(self, keys: Sequence[_Key]) -> dict[_Key, _Result]:
        """Have the workers find out; an answer that took too long or killed its workers is a timeout."""
        work = _Work(deque((key, 1) for key in keys))
        try:
            while work.todo or work.busy:
                while work.todo and (process := self._idle(work.busy)) is not None:
                    key, attempt = work.todo.popleft()
                    if process.send({**key._asdict(), "entry": json.loads(key.entry)}):
                        work.busy[process] = (key, attempt)
                    else:
                        work.todo.appendleft((key, attempt))
                        self._discard(process)
                for process in wait_for_any(list(work.busy)):
                    self._take(process, work)
                for process in [process for process in work.busy if process.remaining() <= 0]:
                    self._expire(process, work)
        finally:
            for process in work.busy:  # an exception left them in the middle of a request
                self._discard(process)
        return work.found

    def _take(self, process: Process, work: _Work) -> None:
        try:
            result = process.receive()
        except EOFError:
            key, attempt = work.busy.pop(process)
            thinking, status = process.thinking, self._discard(process)
            if attempt < _ATTEMPTS:
                work.todo.appendleft((key, attempt + 1))
            elif thinking:
                work.found[key] = _TIMEOUT
            else:
                raise GraderError(
                    f"grading worker for {key.verifier} ended with status {status} while starting: "
                    f"check that its packages import, and grading memory_mb {self.memory_mb}"
                ) from None
            return
        if result is not None:
            work.found[work.busy.pop(process)[0]] = result

    def _expire(self, process: Process, work: _Work) -> None:
        key, _ = work.busy.pop(process)
        thinking = process.thinking
        self._discard(process)
        if not thinking:
            raise GraderError(
                f"grading worker for {key.verifier} does not finish importing it: the machine is too busy"
            )
        work.found[key] = _TIMEOUT

    def _idle(self, busy: Mapping[Process, object]) -> Process | None:
        for process in self._processes:
            if process not in busy:
                return process
        if len(self._processes) == self.workers:
            return None
        self._processes.append(Process(self.time_limit_s, self.memory_mb))
        return self._processes[-1]

    def _discard(self, process: Process) -> int:
        self._processes.remove(process)
        return process.kill()


def _verdict(key: _Key, result: _Result) -> Verdict:
    if "error" in result:
        raise VerifierError(f"gold answer {key.gold!r} {result['error']}")
    if "timeout" in result:
        return Verdict("timeout", key.answer, 0.0)
    return Verdict.of(key.answer, result["credit"])
