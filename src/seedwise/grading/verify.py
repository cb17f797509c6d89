"""``judge``: from a gold answer and a completion to a verdict.  Pure; heavy libraries are imported only when needed.

A verifier is named ``math_verify``, ``reasoning_gym:<dataset>`` (right or wrong) or ``reasoning_gym_graded:<dataset>``
(with partial credit).  What two plain integers, two equal texts or two decimals say is decided here at once; everything
else is decided by the verifier, which may hang: pool.py runs it in a process that can be killed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Literal

from seedwise.grading import plain
from seedwise.grading.allowed import DECIMAL, EXACT, graded_refusal, refusal
from seedwise.grading.policy import POLICY_VERSION, Box, Marker, Whole, extract
from seedwise.grading.versions import VERSIONS

Outcome = Literal["correct", "wrong", "unparsed", "timeout"]

MATH_VERIFY = "math_verify"
REASONING_GYM = "reasoning_gym"
GRADED = "reasoning_gym_graded"
_INTEGER = re.compile(r"[-+]?[0-9]{1,1000}")
# What a verifier raises on an answer that is not of its form; anything else is a fault of ours and is raised.
_NOT_OF_ITS_FORM = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError)


class VerifierError(ValueError):
    """A verifier that may not or cannot be used; one line with the remedy."""


@dataclass(frozen=True)
class Verdict:
    """verdict: correct, wrong, unparsed (no answer found) or timeout.  answer: what was judged; None when unparsed.

    credit: 0..1, of a verifier that gives partial credit; 1 if and only if correct.
    """

    verdict: Outcome
    answer: str | None
    credit: float

    @classmethod
    def of(cls, answer: str, credit: float) -> Verdict:
        """Of an answer that was judged."""
        return cls("correct" if credit == 1.0 else "wrong", answer, credit)

    @property
    def correct(self) -> int:
        """1 for correct, else 0: full correctness, whatever the partial credit."""
        return int(self.verdict == "correct")


def judge(
    verifier: str, gold: str, text: str, answer_rule: Box | Marker | Whole, metadata: Mapping[str, Any]
) -> Verdict:
    """Judge a completion in this process, without a time limit: ``Grader`` is for answers of a model.

    metadata: what the verifier needs of the problem (``entry`` of the problem's metadata column).
    Raises VerifierError for a verifier that is not allow-listed and for a gold answer that cannot be read.
    """
    answer = extract(text, answer_rule)
    if answer is None:
        return Verdict("unparsed", None, 0.0)
    correct = quick(verifier, gold, answer)
    return Verdict.of(answer, credit(verifier, gold, answer, metadata) if correct is None else float(correct))


def quick(verifier: str, gold: str, answer: str) -> bool | None:
    """The verdict where it is plain without the verifier's library, else None; agrees with ``credit`` (tested)."""
    kind, name = parse_verifier(verifier)
    if kind == MATH_VERIFY:
        return plain.equal(gold, answer)
    if name not in EXACT | DECIMAL:
        return None
    equal = answer == gold or (name in DECIMAL and _same_decimal(gold, answer))
    return equal or (None if kind == GRADED else False)


def decide(verifier: str, gold: str, answer: str, metadata: Mapping[str, Any]) -> bool:
    """Whether the extracted ``answer`` is right, by the verifier's own library.  May hang: see pool.py."""
    return credit(verifier, gold, answer, metadata) == 1.0


def credit(verifier: str, gold: str, answer: str, metadata: Mapping[str, Any]) -> float:
    """What the extracted ``answer`` is worth by the verifier's own library, 0..1: 1 if and only if it is right.

    Between 0 and 1 for a graded verifier only.  May hang: see pool.py.
    """
    kind, name = parse_verifier(verifier)
    if kind == MATH_VERIFY:
        return float(_equal(gold, answer))
    try:
        score = float(_score_answer(name)(answer, {**metadata, "answer": gold}))
    except _NOT_OF_ITS_FORM:
        return 0.0
    # Some verifiers go below 0 or exceed 1 for a wrong answer, which is then worth nothing.
    return score if score == 1.0 or (kind == GRADED and 0.0 <= score < 1.0) else 0.0


def _equal(gold: str, answer: str) -> bool:
    from seedwise.grading.maths import equal, read
    from seedwise.grading.spelling import NotMaths

    gold_reading = _read_gold(gold)
    try:
        return equal(gold_reading, read(answer, prose=True))
    except NotMaths:
        return False


def gold_fault(verifier: str, gold: str, metadata: Mapping[str, Any]) -> str | None:
    """Why the verifier cannot work with this gold answer; None when it can.  Asked when data is built."""
    if not gold.strip():
        return "is empty"
    try:
        accepted = decide(verifier, gold, gold, metadata)
        decide(verifier, gold, "0", metadata)  # equal texts are not evaluated; this ends only if the gold answer does
    except VerifierError as error:
        return str(error)
    return None if accepted else f"is not accepted by {verifier} itself"


def needs_library(verifier: str, gold: str) -> bool:
    """Whether checking this gold answer takes the verifier's library: plain integers and exact texts do not."""
    kind, name = parse_verifier(verifier)
    if kind == MATH_VERIFY or name in DECIMAL:
        return not _INTEGER.fullmatch(gold)
    return name not in EXACT or not gold.strip()


def parse_verifier(verifier: str) -> tuple[str, str]:
    """(``math_verify``, "") or (``reasoning_gym`` or ``reasoning_gym_graded``, dataset).

    Raises VerifierError unless it is allow-listed.
    """
    kind, _, name = verifier.partition(":")
    if verifier == MATH_VERIFY:
        return kind, name
    if kind not in (REASONING_GYM, GRADED):
        raise VerifierError(f"verifier {verifier!r} is unknown: use {MATH_VERIFY} or {REASONING_GYM}:<dataset>")
    if why := graded_refusal(name) if kind == GRADED else refusal(name):
        raise VerifierError(f"verifier {verifier!r} is refused: it {why}; use {MATH_VERIFY} or another task")
    return kind, name


def declared_version(verifier: str) -> str:
    """Version of the verifier's code and of the extraction policy, as their authors declare them."""
    kind, _ = parse_verifier(verifier)
    return f"version {VERSIONS[kind]} policy {POLICY_VERSION}"


@lru_cache(maxsize=64)
def package_version(verifier: str) -> tuple[str, str]:
    """Name and version of the package that the verifier asks."""
    from importlib.metadata import version  # slow to import, and reading a study needs none of it

    kind, _ = parse_verifier(verifier)
    package = "math-verify" if kind == MATH_VERIFY else "reasoning-gym"
    return package, version(package)


@lru_cache(maxsize=64)
def verifier_version(verifier: str) -> str:
    """Name and version for the record: of the package, and as declared of our code and of the extraction policy."""
    return f"{verifier} {package_version(verifier)[1]} {declared_version(verifier)}"


def load(verifier: str) -> None:
    """Import what ``decide`` needs, so that importing is not counted as thinking."""
    kind, name = parse_verifier(verifier)
    if kind == MATH_VERIFY:
        import seedwise.grading.maths  # noqa: F401 - imported for its effect
    else:
        _score_answer(name)


def _same_decimal(gold: str, answer: str) -> bool:
    try:
        return Decimal(answer.replace(",", "")) == Decimal(gold.replace(",", ""))
    except InvalidOperation:
        return False


@lru_cache(maxsize=64)
def _read_gold(gold: str) -> Any:
    from seedwise.grading.maths import read
    from seedwise.grading.spelling import NotMaths

    try:
        return read(gold)
    except NotMaths as error:
        raise VerifierError(f"cannot be read by {MATH_VERIFY}: {error}") from None


@lru_cache(maxsize=64)
def _score_answer(name: str) -> Any:
    from reasoning_gym.factory import get_score_answer_fn

    return get_score_answer_fn(name)
