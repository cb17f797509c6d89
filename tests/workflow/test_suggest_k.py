"""`seedwise suggest-k`: the rule of thumb for K, and the label of a run in the report's list."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from study_file import changed
from typer.testing import CliRunner

from seedwise import grid as grids
from seedwise import tables
from seedwise.algos.presets import PRESETS, parameters, preset
from seedwise.cli import app
from seedwise.layout import Layout
from seedwise.reading import parse
from seedwise.report.stability import COLUMNS, labelled, stability_cells
from seedwise.stats.stability import course
from seedwise.study import Stability, StudyError
from seedwise.suggest import SuggestError, levels, rule, suggest

DEFAULT = Stability()


def layout_of(root: Path, **changes: object) -> Layout:
    return Layout(grids.expand(parse(changed(**changes))), root)


def name_of(layout: Layout, method: str, seed: int = 0) -> str:
    return next(run.name for run in layout.grid.runs.values() if (run.method, run.seed) == (method, seed))


def metrics(entropies: list[float | None], reason: str | None = None) -> pd.DataFrame:
    rows = [
        {"step": step, "name": name, "value": value, "reason": None if value is not None else reason}
        for step, entropy in enumerate(entropies, 1)
        for name, value in (("entropy_nats", entropy), ("reward", 0.5))
    ]
    return pd.DataFrame(rows, columns=["step", "name", "value", "reason"])


def recorded(layout: Layout, name: str, entropies: list[float | None], reason: str | None = None) -> str:
    tables.write(tables.METRICS, metrics(entropies, reason), layout.run(name) / "metrics.parquet")
    return name


def curve(*levels: float) -> list[float]:
    """Ten steps at each level."""
    return [level for level in levels for _ in range(10)]


@pytest.mark.parametrize(
    ("levels", "label", "K", "why"),
    [
        # first and last tenth of 30 steps are 3 steps. 0.6: low below 0.3, collapsing below 0.12, exploding above 1.8
        ((0.6, 0.5, 0.4), "stable", 0.4, "neither low (below 0.300 nats) nor high (above 1.800)"),
        ((0.6, 0.4, 0.29), "stable", 0.6, "entropy is low: it ended below 0.300 nats"),
        ((0.6, 0.2, 0.05), "collapsing", 0.6, "entropy is low"),
        ((0.6, 1.5, 2.6), "exploding", 0.4, "entropy is high: it ended above 1.800 nats"),
        # a spike that falls back, below what counts as low: still a baseline of high entropy
        ((0.6, 1.9, 0.2), "stable", 0.4, "entropy was high: its peak is above 1.800 nats"),
        # the embedded model: low below 0.145
        ((0.29, 0.30, 0.245), "stable", 0.4, "neither low (below 0.145 nats)"),
        ((0.29, 0.20, 0.14), "stable", 0.6, "entropy is low"),
        # 3 nats count as 1, so low is below 0.5
        ((3.0, 1.0, 0.6), "stable", 0.4, "neither low (below 0.500 nats) nor high (above 9.000)"),
        ((1.5, 0.5, 0.45), "stable", 0.6, "it ended below 0.500 nats"),
        # collapsed by collapse_nats 0.02, though half of 0.03 is less
        ((0.03, 0.02, 0.019), "collapsing", 0.6, "it ended below 0.020 nats"),
    ],
)
def test_the_rule_of_thumb(levels: tuple[float, ...], label: str, K: float, why: str):
    found = rule("run", "method", course(curve(*levels), DEFAULT), DEFAULT)
    assert (found.course.label, found.K) == (label, K)
    assert why in found.why


def test_low_is_what_the_study_declares():
    entropies = course(curve(0.6, 0.5, 0.4), DEFAULT)
    assert rule("run", "method", entropies, DEFAULT).K == 0.4
    assert rule("run", "method", entropies, Stability(low_share=0.7)).K == 0.6


def test_a_run_by_its_name_or_by_a_prefix_of_its_own(tmp_path: Path):
    layout = layout_of(tmp_path)
    name = recorded(layout, name_of(layout, "clip_higher", seed=1), curve(0.6, 0.5, 0.4))
    for given in (name, "clip_higher.G8.s1"):
        found = suggest(layout, given)
        assert (found.run, found.method, found.K, found.course.measured) == (name, "clip_higher", 0.4, 30)


def test_names_that_fit_no_run_or_several_are_one_line_with_the_candidates(tmp_path: Path):
    layout = layout_of(tmp_path)
    with pytest.raises(SuggestError, match="clip_higher: 2 runs of study tiny begin so: name one of") as several:
        suggest(layout, "clip_higher")
    assert name_of(layout, "clip_higher", 0) in str(several.value) and "qae" not in str(several.value)
    with pytest.raises(SuggestError, match="grpo: no run of study tiny; they are") as unknown:
        suggest(layout, "grpo")
    assert all(name in str(unknown.value) for name in layout.grid.runs)
    with pytest.raises(SuggestError, match="an empty name: no run of study tiny"):
        suggest(layout, "")
    many = layout_of(tmp_path, seeds=list(range(12)))
    with pytest.raises(SuggestError, match=" and 4 more$"):  # 12 seeds less the 8 shown
        suggest(many, "clip")
    assert "\n" not in str(several.value) + str(unknown.value)


def test_a_run_that_has_a_K_is_refused(tmp_path: Path):
    layout = layout_of(tmp_path)
    with pytest.raises(SuggestError, match="its baseline already has K, .*name a run without: clip_higher.G8.s0-"):
        suggest(layout, "qae.K0.4.G8.s0")
    only = {"methods": {"a": {"preset": "qae"}, "b": {"preset": "hard_gate"}}}
    compare = {"compare": {"reference": "a", "primary": {"metric": "avg@n", "family": ["b"]}}}
    alone = layout_of(tmp_path, **only, **compare)
    with pytest.raises(SuggestError, match="already has tau, .*name a run without: this study has none"):
        suggest(alone, "hard_gate.G8.s0")


def test_every_preset_with_a_quantile_is_known_to_have_one():
    def written(name: str) -> dict[str, int]:
        return {key: 12 for key, value in parameters(name).items() if value.default is value.empty}

    refused = {name for name in PRESETS if levels(preset(name, **written(name)))}
    with_K = {name for name in PRESETS if {"K", "start_K", "tau"} & set(parameters(name))}
    assert refused == with_K and "qae_scheduled" in refused and "clip_higher" not in refused


def test_a_run_without_metrics_is_one_line(tmp_path: Path):
    layout = layout_of(tmp_path)
    with pytest.raises(tables.TableError, match="no such metrics file; run the stage that makes it"):
        suggest(layout, "clip_higher.G8.s0")


def test_without_a_label_there_is_no_K_but_the_reason(tmp_path: Path):
    layout = layout_of(tmp_path)
    name = recorded(layout, name_of(layout, "clip_higher"), [0.3, 0.2])
    found = json.loads(suggest(layout, name).json())
    assert (found["K"], found["label"], found["steps"]) == (None, None, 2)
    assert found["why"] == "a label needs at least 20 steps with an entropy, got 2; the paper's default is 0.4"
    assert found["bounds_nats"] == {"collapsing_below": None, "low_below": None, "exploding_above": None}
    recorded(layout, name, [None] * 30, "the engine gives no entropy over the whole vocabulary")
    assert "got 0: the engine gives no entropy" in suggest(layout, name).why


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    layout = layout_of(tmp_path)
    recorded(layout, name_of(layout, "clip_higher"), curve(0.6, 0.4, 0.2))
    monkeypatch.setattr("seedwise.layout.read", lambda path: layout)
    said = CliRunner().invoke(app, ["suggest-k", "clip_higher.G8.s0"])
    assert said.exit_code == 0
    assert "entropy (nats): start 0.600, peak 0.600, end 0.200" in said.output
    assert "K = 0.6: entropy is low: it ended below 0.300 nats" in said.output
    assert "arXiv:2509.22611" in said.output
    found = json.loads(CliRunner().invoke(app, ["suggest-k", "clip_higher.G8.s0", "--json"]).output)
    assert (found["K"], found["label"]) == (0.6, "stable")
    assert found["entropy_nats"] == pytest.approx({"start": 0.6, "peak": 0.6, "end": 0.2})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stability.collapse_share": 1.5}, "stability.collapse_share: 1.5"),
        ({"stability.explode_ratio": 1}, "stability.explode_ratio: 1"),
        ({"stability.edge": 0.6}, "stability.edge: 0.6"),
        ({"stability.min_step": 5}, "did you mean 'min_steps'"),
        ({"stability.usual_nats": [1.0, 0.1]}, "must rise in this order"),
        ({"stability.explode_nats": 0.5}, "usual_nats [0.1, 1] and explode_nats 0.5 must rise in this order"),
    ],
)
def test_thresholds_that_make_no_sense_are_one_line(change: dict, message: str):
    with pytest.raises(StudyError) as caught:
        parse(changed(**change), "study.yaml")
    assert str(caught.value).startswith("study.yaml: stability")
    assert message in str(caught.value)


def test_thresholds_change_no_run(tmp_path: Path):
    one, other = layout_of(tmp_path), layout_of(tmp_path, **{"stability.min_steps": 5})
    assert list(one.grid.runs) == list(other.grid.runs)
    assert one.analysis_id == other.analysis_id


def test_runs_of_the_report_carry_course_and_label():
    runs = pd.DataFrame({"run": ["a", "b", "c", "base"], "method": ["grpo", "grpo", "grpo", "base"]})
    frames = [metrics(curve(0.6, 0.4, 0.05)).assign(run="a"), metrics([0.3]).assign(run="b")]
    found = labelled(runs, pd.concat(frames, ignore_index=True), DEFAULT).set_index("run")
    assert list(found.columns) == ["method", *COLUMNS]
    assert found.loc["a", list(COLUMNS)].tolist() == [pytest.approx(0.6), 0.6, pytest.approx(0.05), "collapsing", None]
    cells = {
        row["run"]: [cell.whole for cell in stability_cells(row)] for row in found.reset_index().to_dict("records")
    }
    assert cells == {
        "a": ["0.600, 0.600, 0.050", "collapsing"],
        "b": ["0.300, 0.300, 0.300", "– a label needs at least 20 steps with an entropy, got 1"],
        "c": ["–", "– a label needs at least 20 steps with an entropy, got 0"],
        "base": ["–", "– not trained"],
    }
