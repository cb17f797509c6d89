"""What every test rests on: one thread per process, no network, the same hypothesis examples in every run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Before NumPy or torch is imported: tests run side by side, and two threads each make two processes slower.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["MPLBACKEND"] = "Agg"

settings.register_profile("seedwise", deadline=None, derandomize=True, database=None)
settings.load_profile("seedwise")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout that the tests belong to."""
    return Path(__file__).parents[1]
