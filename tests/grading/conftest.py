"""Graders shared by the tests of this folder: starting a worker costs an import of sympy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from seedwise.grading.pool import Grader


@pytest.fixture(scope="session")
def grader() -> Iterator[Grader]:
    """One worker, one second of CPU time an answer."""
    with Grader(workers=1, time_limit_s=1.0) as grader:
        yield grader
