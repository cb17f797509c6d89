"""What a check says."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal


class DoctorError(ValueError):
    """The checks cannot be made as asked; one line with the remedy."""


@dataclass(frozen=True)
class Finding:
    """One answer.  level: ok; warn: the study runs, with a drawback; fail: it does not.
    remedy: what to do, None where all is well."""

    check: str
    level: Literal["ok", "warn", "fail"]
    text: str
    remedy: str | None = None

    def __str__(self) -> str:
        """One line."""
        line = f"{self.level:<4} {self.check}: {self.text}" + (f": {self.remedy}" if self.remedy else "")
        return " ".join(line.splitlines())


def failed(findings: Iterable[Finding]) -> bool:
    """Whether one of them says that the study does not run."""
    return any(finding.level == "fail" for finding in findings)


def as_json(findings: Iterable[Finding]) -> str:
    """One object: failed, and findings with check, level, text and remedy."""
    every = list(findings)
    return json.dumps({"failed": failed(every), "findings": [asdict(finding) for finding in every]})
