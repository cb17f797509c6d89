"""A process that has imported everything and forks a seedwise command for every order: a start costs next to nothing.

Orders and answers are lines of JSON: ``{"folder", "log", "command", "before"}`` -> ``{"pid"}``, and ``{"wait": pid}``
-> ``{"status"}``.  before: Python statements that the forked process runs first, in this file's names.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys

from seedwise.trainer.imports import quick

with quick():
    from seedwise import cli, stages
    from seedwise.engines.transformers import Transformers
    from seedwise.evals import samples, scores
    from seedwise.models.load import load
    from seedwise.trainer import run as story

IMPORTED = (Transformers, load, samples, scores, stages, story, resource, signal, socket)


def run(order: dict) -> None:
    """Become the command; never returns."""
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(order["folder"])
    sys.argv = ["seedwise", *order["command"]]
    code = 1
    try:
        exec(order["before"], globals())  # noqa: S102 - the tests' own statements
        cli.main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(bool(left.code))
    finally:
        sys.stdout.flush()
        if code == 1:
            sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Serve orders until the other end is closed."""
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            answer = {"status": os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])}
        else:
            pid = os.fork()
            if pid == 0:
                run(order)
            answer = {"pid": pid}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
