"""Rounds and longer runs, as a study expands: which run starts from which, and which share a beginning."""

import re

import pytest
from workflow.study_file import STUDY, changed

from seedwise import layout as layouts
from seedwise.grid import RUN_NAME, Grid, expand
from seedwise.reading import parse
from seedwise.study import StudyError


def grid(**changes) -> Grid:
    return expand(parse(changed(**changes), "study.yaml"), "study.yaml")


def with_methods(**methods) -> Grid:
    return grid(methods={**STUDY["methods"], **methods})


ROUND = {"preset": "qae", "K": 0.4, "init_from": "qae.K0.8"}


def by_method(found: Grid, method: str) -> list:
    return [run for run in found.runs.values() if run.method == method]


def test_a_round_starts_from_the_run_of_its_own_seed():
    found = with_methods(second=ROUND)
    rounds, first = by_method(found, "second"), by_method(found, "qae.K0.8")
    assert [run.init_from for run in rounds] == [run.name for run in first]
    assert [run.seed for run in rounds] == [run.seed for run in first] == [0, 1]


def test_a_round_is_another_run_than_the_same_method_from_the_untrained_model():
    found = with_methods(second=ROUND)
    (round_, _), (plain, _) = by_method(found, "second"), by_method(found, "qae.K0.4")
    assert round_.name != plain.name and plain.init_from is None
    assert round_.algorithm == plain.algorithm
    assert f".after-{round_.init_from.rpartition('-')[2]}.G8.s0-" in round_.name
    assert RUN_NAME.fullmatch(round_.name)


def test_a_changed_beginning_is_a_changed_run():
    one = by_method(with_methods(second=ROUND), "second")[0]
    other = by_method(with_methods(second={**ROUND, "init_from": "clip_higher"}), "second")[0]
    third = by_method(grid(methods={**STUDY["methods"], "second": ROUND}, **{"train.lr": 2e-4}), "second")[0]
    assert len({one.name, other.name, third.name}) == 3


def test_rounds_follow_rounds():
    found = with_methods(second=ROUND, third={"preset": "qae", "K": 0.2, "init_from": "second"})
    (third, _), (second, _) = by_method(found, "third"), by_method(found, "second")
    assert third.init_from == second.name and found.runs[second.init_from].method == "qae.K0.8"


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"second": {**ROUND, "init_from": "qea.K0.8"}}, "init_from: 'qea.K0.8' is neither a run's name nor a method"),
        ({"second": {**ROUND, "init_from": 3}}, "init_from: 3: name one method point, or one run"),
        ({"second": {**ROUND, "init_from": "second"}}, "second starts from second: a circle has no beginning"),
        (
            {"a": {"preset": "grpo", "init_from": "b"}, "b": {"preset": "rloo", "init_from": "a"}},
            "a starts from b starts from a: a circle has no beginning",
        ),
    ],
)
def test_a_beginning_that_cannot_be_is_one_line(methods, message):
    with pytest.raises(StudyError, match=re.escape(message)) as raised:
        with_methods(**methods)
    assert "\n" not in str(raised.value) and str(raised.value).startswith("study.yaml: methods.")


def test_a_round_needs_its_beginning_at_its_own_place():
    with pytest.raises(StudyError, match="qae.K0.8 is not trained at G4, seed 0: give qae.K0.8 the blocks that second"):
        grid(methods={**STUDY["methods"], "second": ROUND}, blocks=[{"methods": ["second"], "group_size": 4}])


def test_a_foreign_beginning_must_be_there(tmp_path, monkeypatch):
    import yaml

    name = "qae.K0.4.G8.s0-0123abcd"
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(changed(methods={**STUDY["methods"], "second": {**ROUND, "init_from": name}})))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StudyError, match=r"methods\.second\.init_from: .*results/runs/.* is not there: train it first"):
        layouts.read(path)
    (tmp_path / "results" / "runs" / name).mkdir(parents=True)
    (tmp_path / "results" / "runs" / name / "trained.json").write_text("{}")
    assert {run.init_from for run in layouts.read(path).grid.runs.values()} == {None, name}


def lineage(**changes) -> set:
    return {run.lineage for run in by_method(grid(**changes), "clip_higher")}


def test_runs_that_differ_in_steps_alone_share_a_lineage():
    longer = {"train.steps": 8, "train.checkpoints": [2, 4, 8]}
    assert lineage() == lineage(**longer) == lineage(**{"train.save_every": 4, "train.keep_state": False})
    assert len(lineage()) == 2, "one for each seed"
    names = [{run.name for run in by_method(grid(**change), "clip_higher")} for change in ({}, longer)]
    assert not names[0] & names[1]


@pytest.mark.parametrize("other", [{"train.lr": 1e-3}, {"group_size": 4}, {"train.completions": 32}])
def test_any_other_difference_is_another_lineage(other):
    assert not lineage() & lineage(**other)


def test_what_depends_on_the_number_of_steps_cannot_be_extended():
    assert lineage(**{"train.schedule": "linear"}) == {None}
    paced = grid(methods={**STUDY["methods"], "ramp": {"preset": "qae_scheduled"}})
    own = grid(methods={**STUDY["methods"], "ramp": {"preset": "qae_scheduled", "steps": 10}})
    assert {run.lineage for run in by_method(paced, "ramp")} == {None}
    assert None not in {run.lineage for run in by_method(own, "ramp")}
