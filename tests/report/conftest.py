"""A small rendered study, built once."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import synthetic

from seedwise.report import style

METHODS = ("clip_higher", "qae.K0.2", "qae.K0.4", "qae.K0.6", "eapo.log4", "qae_eapo")


@pytest.fixture(scope="session", autouse=True)
def quick_fonts():
    """PDF fonts that cost a tenth; the ones the report uses have a test of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(style.SETTINGS, "pdf.fonttype", 3)
        yield


def simulated(methods: tuple[str, ...], block: tuple[str, ...]) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(3)
    planned = synthetic.runs(methods=methods, block=block)
    return {
        "runs": planned,
        "counts": synthetic.counts(planned, rng),
        "metrics": synthetic.metrics(planned, rng, steps=4),
        **vars(synthetic.resampled(planned, rng)),
        "continued": synthetic.continued(planned),
        "samples": synthetic.samples(planned),
    }


@pytest.fixture(scope="session")
def study() -> dict[str, pd.DataFrame]:
    return simulated(METHODS, ("qae.K0.4",))


@pytest.fixture(scope="session")
def small_study() -> dict[str, pd.DataFrame]:
    return simulated(("clip_higher", "qae.K0.4"), ())


@pytest.fixture(scope="session")
def rendered(quick_fonts: None, study: dict[str, pd.DataFrame], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.build(study, tmp_path_factory.mktemp("report")).parent
