"""Importing the training stack in less time.

transformers imports scikit-learn and TRL imports MLflow wherever they are installed, for things a
training here never does (assisted decoding, logging to a tracking server from inside TRL).  Together
they are a third of the start-up of a training: 4 of 13 s of CPU time, measured on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

UNUSED = ("mlflow", "sklearn")


@contextmanager
def quick() -> Iterator[None]:
    """Hide UNUSED while the training stack is imported: ``with quick(): from seedwise.trainer.run import train``.

    What is imported already stays; afterwards everything can be imported again.
    """
    hidden = [name for name in UNUSED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None is how Python marks a module as absent
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
