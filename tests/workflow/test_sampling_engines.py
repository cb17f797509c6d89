"""Which engine drew the samples is recorded, printed, and never mixed within a table."""

from __future__ import annotations

import re

import pytest
from rerun_made import finish, layout_of
from study_file import changed

from seedwise import tables
from seedwise.conclude import facts, sampling_engine
from seedwise.evals import store
from seedwise.layout import Layout
from seedwise.stages import StageError


@pytest.fixture
def study(tmp_path) -> Layout:
    """Six runs and the base, one benchmark, all sampled by engine ``e``."""
    layout = layout_of(changed(), tmp_path)
    finish(layout)
    return layout


def drawn_by(engine: str, layout: Layout, subject: str, *, from_step: int = 0) -> None:
    """Let the parts of a subject's samples, from a step on, come from another engine."""
    (wanted,) = layout.samples(subject).values()
    for part in store.listed(wanted.folder):
        if part.step >= from_step:
            store.write(wanted.folder, part, store.part_of(wanted.folder / part.file).assign(engine=engine))


def test_one_engine_is_printed_beside_the_tables(study: Layout):
    assert sampling_engine(study) == "e"
    assert facts(study)["versions"] == {"device": "cpu", "world_size": "1", "sampling engine": "e"}


def test_a_run_sampled_by_another_engine_is_refused(study: Layout):
    name = next(iter(study.grid.runs))
    drawn_by("vllm 0.31.0 cpu float32", study, name)
    said = "tiny: its samples come from 2 engines, which may not share a table: "
    with pytest.raises(StageError, match=re.escape(said)) as refused:
        facts(study)
    assert "e (6, e.g. base.embedded-" in str(refused.value)
    assert f" | vllm 0.31.0 cpu float32 (1, e.g. {name}): remove samples, evals" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_untrained_model_counts_too(study: Layout):
    drawn_by("vllm 0.31.0 cpu float32", study, next(iter(study.grid.bases)))
    with pytest.raises(StageError, match="from 2 engines"):
        facts(study)


def test_a_run_that_was_begun_by_one_and_ended_by_another_is_refused(study: Layout):
    drawn_by("other 1.0", study, next(iter(study.grid.runs)), from_step=4)  # its checkpoints are 2 and 4
    with pytest.raises(StageError, match=r"e \(7, .* \| other 1\.0 \(1, "):
        facts(study)


def test_a_column_of_a_missing_or_damaged_file(tmp_path):
    with pytest.raises(tables.TableError, match="no such samples file"):
        tables.distinct(tables.SAMPLES, tmp_path / "none.parquet", "engine")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    with pytest.raises(tables.TableError, match="torn.parquet: not a readable samples table"):
        tables.distinct(tables.SAMPLES, tmp_path / "torn.parquet", "engine")


def test_responses_continued_by_another_engine_are_refused(study: Layout):
    name = next(name for name in study.subjects if study.resampling(name))
    row = {"step": 4, "benchmark": "same", "engine": "other 1.0", "problems": 1, "wanted": 1, "in_band": 1, "used": 1}
    counts = {"band_low": 0.2, "band_high": 0.8, "too_short": 0, "unreadable": 0, "alike": 0}
    tables.write(tables.CHOSEN, [row | counts], study.resampling(name)["chosen"])
    with pytest.raises(StageError, match=rf"e \(7, .* \| other 1\.0 \(1, e\.g\. {re.escape(name)}\)"):
        facts(study)
