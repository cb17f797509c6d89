"""Importing the training stack in less time.

transformers imports scikit-learn and SciPy, and TRL imports MLflow, wherever they are installed, for things
a job here never does (assisted decoding, object detection, logging from inside TRL).  And while thousands of
modules are imported, the garbage collector walks all that came before, again and again, and finds nothing.
Together they are a quarter to a third of the start-up of a job: 11 s of CPU time without, 8 s with this.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

UNUSED = ("mlflow", "scipy", "sklearn")


@contextmanager
def quick() -> Iterator[None]:
    """Hide UNUSED and rest the collector while imports run: ``with quick(): from seedwise.trainer.run import train``.

    What is imported already stays; afterwards everything can be imported again, and the collector passes over
    what was imported inside.
    """
    hidden = [name for name in UNUSED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None is how Python marks a module as absent
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
        gc.freeze()
        if collecting:
            gc.enable()
