"""The process that runs verifiers: JSON lines in, JSON lines out, bounded and unable to act.

Two lines are answered to each request ``{op, verifier, gold, answer, entry}``: ``{"ready": true}`` once the verifier's
library is imported, so that importing is not charged to the answer, then the result.  The parent enforces the limits by
killing; this process adds bounds of its own, so that it ends even when the parent is gone.

The first wall is that nothing here evaluates an answer.  The second is an audit hook, which cannot be removed again: it
refuses to write or delete files, to start programs and to open connections.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import time
from typing import Any

# Beginnings of Python's audit events.
_EVENTS = """
    subprocess. socket. shutil. ftplib. http. urllib. webbrowser. pty. pickle.find_class
    os.system os.exec os.posix_spawn os.spawn os.fork os.kill os.startfile
    os.remove os.rename os.rmdir os.mkdir os.link os.symlink os.truncate os.chmod os.chown
"""
_REFUSED = tuple(_EVENTS.split())
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ORPHAN_FACTOR = 3


def main() -> None:
    """Answer requests until the input ends.  Arguments: memory limit in MiB, CPU limit per answer in seconds."""
    memory_mb, time_limit_s = int(sys.argv[1]), float(sys.argv[2])
    restrict(memory_mb)
    replies = sys.stdout
    sys.stdout = sys.stderr  # a library that prints must not break the protocol
    for line in sys.stdin:
        for reply in _answers(json.loads(line), time_limit_s):
            replies.write(json.dumps(reply) + "\n")
            replies.flush()


def restrict(memory_mb: int) -> None:
    """Bound memory, forbid core dumps and non-empty files, and install the audit hook."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory_mb * 2**20, memory_mb * 2**20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        flags = arguments[2] if isinstance(arguments[2], int) else 0
        if flags & _WRITING:
            raise PermissionError(f"a verifier may not write {arguments[0]!r}")
    elif event.startswith(_REFUSED):
        raise PermissionError(f"a verifier may not do {event}")


def _answers(request: dict[str, Any], time_limit_s: float) -> Any:
    from seedwise.grading import verify

    verifier, gold, entry = request["verifier"], request["gold"], request["entry"]
    try:
        verify.load(verifier)
        yield {"ready": True}
        _limit_cpu(time_limit_s)
        if request["op"] == "gold":
            yield {"fault": verify.gold_fault(verifier, gold, entry)}
        else:
            yield {"credit": verify.credit(verifier, gold, request["answer"], entry)}
    except (verify.VerifierError, ImportError) as error:
        yield {"error": f"{error}"}


def _limit_cpu(time_limit_s: float) -> None:
    """A bound for a process whose parent has died: the parent's own limit comes first."""
    allowed = math.ceil(time.process_time() + _ORPHAN_FACTOR * time_limit_s + 1)
    resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main()
