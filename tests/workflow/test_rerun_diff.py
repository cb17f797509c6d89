"""What two studies share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from rerun_made import layout_of
from study_file import STUDY, changed
from typer.testing import CliRunner

from seedwise import cli, stages
from seedwise.reruns import comparing
from seedwise.reruns.published import Change, differences

FILES = ("a.yaml", "b.yaml")


def test_a_study_is_itself(tmp_path) -> None:
    layout = layout_of(STUDY, tmp_path)
    found = comparing.compare(layout, layout, FILES)
    assert found.both == tuple(layout.grid.runs)
    assert (found.only_a, found.only_b, found.pairs, found.settings) == ((), (), (), ())


def test_runs_of_the_same_place_are_compared_setting_by_setting(tmp_path) -> None:
    a = layout_of(STUDY, tmp_path)
    b = layout_of(changed(study="other", seeds=[0, 1, 2], **{"methods.qae.K": [0.4], "methods.clip_higher.high": 0.3,
                                              "compare.primary.family": ["qae.K0.4"]}), tmp_path)  # fmt: skip
    found = comparing.compare(a, b, FILES)
    assert {name.rpartition("-")[0] for name in found.both} == {"qae.K0.4.G8.s0", "qae.K0.4.G8.s1"}
    # clip_higher has another bound, qae.K0.8 is gone, and there is a third seed of both methods
    assert (len(found.only_a), len(found.only_b), len(found.pairs)) == (4, 4, 2)
    assert {pair.changes for pair in found.pairs} == {(Change("algorithm.objective.surrogate.high", "0.28", "0.3"),)}
    assert [change.key for change in found.settings] == [
        "compare.primary.family",
        "methods.clip_higher.high",
        "methods.qae.K",
        "seeds",
    ]  # how a study is called is no setting
    lines = list(comparing.lines(found))
    assert lines[0] == "in both: 2 runs"
    assert "only in a.yaml: 4 runs" in lines
    assert "  seeds: [0,1] -> [0,1,2]" in lines


def test_leaves_are_compared_by_value_and_say_what_was_not_there() -> None:
    old = {"a": 1, "b": [1, 2], "c": {"d": "x"}, "parts": [{"K": 0.4}, {"K": 0.5}]}
    new = {"a": 1.0, "b": [2, 1], "c": {}, "parts": [{"K": 0.4}, {"K": 0.6}]}
    assert list(map(str, differences(old, new))) == [
        "b: [1,2] -> [2,1]",
        "c: absent -> {}",
        'c.d: "x" -> absent',
        "parts.1.K: 0.5 -> 0.6",
    ]


def test_the_commands_print_one_object_or_one_line(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(yaml.safe_dump(STUDY))
    Path("b.yaml").write_text(yaml.safe_dump(changed(**{"train.lr": 1e-3})))
    run = CliRunner()
    found = json.loads(run.invoke(cli.app, ["diff", "a.yaml", "b.yaml", "--json"]).output)
    assert (found["a"], len(found["only_a"]), len(found["pairs"])) == ("a.yaml", 6, 6)
    plan = json.loads(run.invoke(cli.app, ["plan", "--study", "a.yaml", "--json"]).output)
    assert (plan["jobs"]["train"], plan["total"]) == (6, 40)  # 2 + 1 + 6 + 7 + 7 + 7 + 7 + 3
    status = json.loads(run.invoke(cli.app, ["status", "--study", "a.yaml", "--json"]).output)
    assert {state for row in status["rows"] for state in row["stages"].values()} == {"missing"}
    assert run.invoke(cli.app, ["why", "clip_higher.G8.s0", "--study", "a.yaml"]).output.startswith(
        "train: new: no run"
    )
    with pytest.raises(stages.StageError, match="name one run, or --all"):
        run.invoke(cli.app, ["accept", "--study", "a.yaml"], catch_exceptions=False)
