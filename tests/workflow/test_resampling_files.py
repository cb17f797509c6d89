"""The continuation experiment's files, settings and ids."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from study_file import STUDY, changed

from seedwise import behaviour, tables
from seedwise.evals.windows import Bounds, choose
from seedwise.grid import expand
from seedwise.layout import Layout, record_of
from seedwise.reading import parse
from seedwise.study import StudyError

RULES = Path(__file__).parents[2] / "workflow" / "rules"


def layout_of(**changes) -> Layout:
    return Layout(expand(parse(changed(**changes), "study"), "study"))


def test_the_rule_declares_what_the_stage_writes() -> None:
    layout = layout_of()
    name = next(iter(layout.grid.runs))
    files = layout.resampling(name)
    assert list(files) == list(tables.RESAMPLED)
    assert files["continuations"] == layout.continuations(name)
    id = files["continuations"].stem
    declared = re.findall(r'"(results/runs/\S+)"', (RULES / "resample.smk").read_text())
    assert sorted(path.format(run=name, id=id) for path in declared) == sorted(
        map(str, [*files.values(), record_of(files["continuations"])])
    )
    assert layout_of(**{"resample.methods": ["base"]}).resampling(name) == {}


@pytest.mark.parametrize("key", ["positions", "per_position", "words"])
def test_an_id_covers_the_settings_and_nothing_before_it_changes(key: str) -> None:
    now, then = layout_of(**{f"resample.{key}": [0.5] if key == "positions" else 3}), layout_of()
    name = next(iter(then.grid.runs))
    assert now.scores(name) == then.scores(name)
    assert now.continuations(name) != then.continuations(name)
    assert now.analysis_id != then.analysis_id


def test_drawing_and_wording_belong_to_the_report_alone() -> None:
    drawn = {"report.courses", "report.continuing", "report.worked"}
    assert drawn <= set(behaviour.of_modules(behaviour.RENDERING))
    for stage in (behaviour.ANALYSIS, behaviour.RESAMPLING, behaviour.SCORING):
        assert not drawn & set(behaviour.of_modules(stage))
    assert "report.resampling" in behaviour.of_modules(behaviour.ANALYSIS)
    experiment = {"evals.along", "evals.chosen", "evals.continuing", "evals.metrics_tails", "evals.windows"}
    assert experiment <= set(behaviour.of_modules(behaviour.RESAMPLING))
    assert not experiment & set(behaviour.of_modules(behaviour.SAMPLING + behaviour.SCORING))


@pytest.mark.parametrize("positions", [[0.5, 0.25], [0.5, 0.5], [1.0], [-0.1]])
def test_positions_rise_and_leave_something_to_write(positions: list[float]) -> None:
    with pytest.raises(StudyError, match="resample.positions"):
        parse(changed(**{"resample.positions": positions}), "study")


def test_the_papers_settings_are_reachable() -> None:
    """EAPO: 6 to 14 of 32 correct, two responses of each outcome, 20 problems, windows of 32 tokens."""
    paper = {"problems": 20, "band": [0.1875, 0.4375], "responses": 2, "window": 32, "continuations": 64}
    settings = parse(STUDY | {"resample": paper}, "study").resample
    bounds = Bounds(settings.window, settings.edge, settings.apart)
    correct = {str(c): [k < c for k in range(32)] for c in range(33)}
    lengths = {name: [800] * 32 for name in correct}

    class Ordered:
        def permutation(self, n: int) -> range:
            return range(n)

    found = choose(
        correct, lengths, bounds, band=settings.band, problems=settings.problems, responses=settings.responses,
        rng=Ordered(),
    )  # fmt: skip
    assert sorted({int(name) for name, *_ in found.responses}) == list(range(6, 15))
    assert (found.in_band, found.used, len(found.responses)) == (9, 9, 9 * 4)
