"""What a machine does to a job, in one line: a full disk, files that may not be written, no memory.

Everything that is finished stays as it is, since files appear by rename; the same command goes on.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from safetensors import SafetensorError

P = ParamSpec("P")
T = TypeVar("T")

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
CLOSED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
NO_MEMORY = ("can't allocate memory", "CUDA out of memory")
TORN = "inline_container"  # torch's own writer, which does not say what the system told it
GIVE_UP = "; a training that never fits counts with the weights it has: seedwise train RUN --give-up 'out of memory'"


class MachineError(RuntimeError):
    """The machine refused; one line with the job, what was refused, and the remedy."""


def explained(error: BaseException) -> str | None:
    """What the machine refused and the remedy, None where the error is not the machine's."""
    text = " ".join(str(error).split())
    code = error.errno if isinstance(error, OSError) else None
    if isinstance(error, SafetensorError) and (told := re.search(r"os error (\d+)", text)):
        code = int(told[1])
    file = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
    if code in FULL or TORN in text:
        return f"{file}no room to write ({text}): free some, and start the same command again: nothing finished is lost"
    if code in CLOSED:
        return f"{file}may not be written ({text}): make it writable, and start the same command again"
    if isinstance(error, MemoryError) or any(words in text for words in NO_MEMORY):
        return "out of memory: ask for more, or lower train.micro_batch, and start the same command again"
    return None


def in_one_line(stage: Callable[P, T]) -> Callable[P, T]:
    """Let a stage raise MachineError, with its name and subject, where the machine refused."""

    @wraps(stage)
    def told(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return stage(*args, **kwargs)
        except (OSError, MemoryError, RuntimeError, SafetensorError) as error:
            if (why := explained(error)) is None:
                raise
            job = " ".join([stage.__name__, *(arg for arg in args if isinstance(arg, str))])
            more = GIVE_UP if stage.__name__ == "train" and why.startswith("out of memory") else ""
            raise MachineError(f"{job}: {why}{more}") from error

    return told
