"""One worker process of the pool, seen from the parent: requests out, replies in, limits enforced by killing it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_SOURCE = str(Path(__file__).resolve().parents[2])
_LOAD_LIMIT_S = 300.0  # importing sympy or reasoning-gym, on a machine where everything else runs too
_WALL_FACTOR = 10.0  # a worker that sleeps or swaps uses no CPU time


class GraderError(RuntimeError):
    """The grading machinery itself failed; one line with the remedy."""


class Process:
    """A worker with at most one request in flight.

    ``time_limit_s`` is CPU time of the worker, so that a busy machine does not turn slow answers into timeouts;
    wall time may be ten times that.
    """

    def __init__(self, time_limit_s: float, memory_mb: int) -> None:
        self.time_limit_s, self.memory_mb = time_limit_s, memory_mb
        self.request: Mapping[str, Any] | None = None
        self._buffer, self._deadline, self._ready_cpu, self._ready_wall = b"", 0.0, 0.0, 0.0
        self._child = subprocess.Popen(
            [sys.executable, "-B", "-P", "-m", "seedwise.grading.worker", str(memory_mb), str(time_limit_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={
                "PATH": os.defpath,
                "PYTHONPATH": os.pathsep.join([_SOURCE, *filter(None, [os.environ.get("PYTHONPATH")])]),
                "PYTHONHASHSEED": "0",
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "LC_ALL": "C.UTF-8",
            },
        )

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._child.pid

    def fileno(self) -> int:
        """The descriptor of the replies, for select."""
        assert self._child.stdout is not None
        return self._child.stdout.fileno()

    def send(self, request: Mapping[str, Any]) -> bool:
        """Start on a request; False when the worker is no longer there."""
        assert self._child.stdin is not None
        assert self.request is None
        try:
            self._child.stdin.write(json.dumps(request).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            return False
        self.request, self._ready_wall = request, 0.0
        self._deadline = time.monotonic() + _LOAD_LIMIT_S
        return True

    def receive(self) -> Mapping[str, Any] | None:
        """Read what has arrived: the result, or None when there is none yet.  Raises EOFError if the worker died."""
        chunk = os.read(self.fileno(), 65536)
        if not chunk:
            raise EOFError
        self._buffer += chunk
        while b"\n" in self._buffer:
            line, _, self._buffer = self._buffer.partition(b"\n")
            reply = json.loads(line)
            if "ready" not in reply:
                self.request = None
                return reply
            self._ready_wall, self._ready_cpu = time.monotonic(), self._cpu_seconds()
            self._deadline = self._ready_wall + _WALL_FACTOR * self.time_limit_s
        return None

    @property
    def thinking(self) -> bool:
        """Whether the library is loaded and the answer is being judged."""
        return self._ready_wall > 0

    def remaining(self) -> float:
        """Seconds until the limit could be reached at the earliest; 0 or less once it is."""
        wall = self._deadline - time.monotonic()
        return min(wall, self._ready_cpu + self.time_limit_s - self._cpu_seconds()) if self.thinking else wall

    def kill(self) -> int:
        """End the worker at once; returns its exit status."""
        self._child.kill()
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # a request that was still buffered
                pipe.close()
        return self._child.wait()

    def _cpu_seconds(self) -> float:
        # The CPU clock of another process, as clock_getcpuclockid(3) builds it on Linux; a dead one has none.
        try:
            return time.clock_gettime((~self.pid << 3) | 2)
        except OSError:
            return 0.0


def wait_for_any(processes: Sequence[Process]) -> list[Process]:
    """The processes that have something to read, after at most the shortest of their remaining times."""
    timeout = max(0.0, min(process.remaining() for process in processes))
    ready, _, _ = select.select(processes, [], [], timeout)
    return ready
