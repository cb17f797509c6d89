"""What a study file may say, and how it answers what it may not."""

from __future__ import annotations

import math

import pytest
import yaml
from study_file import STUDY, changed

from seedwise import grid as grids
from seedwise.reading import load, parse
from seedwise.reference import write
from seedwise.study import Metrics, StudyError


def runs_of(study: dict) -> dict:
    return grids.expand(parse(study)).runs


@pytest.mark.parametrize(
    ("change", "key", "remedy"),
    [
        ({"sedes": [1]}, "sedes", "did you mean 'seeds'"),
        ({"train.step": 1}, "train.step", "did you mean 'steps'"),
        ({"train_data.sise": 3}, "train_data.sise: unknown key", "did you mean 'size'"),
        ({"evaluate.benchmarks.same.sed": 3}, "evaluate.benchmarks.same.sed: unknown key", "did you mean 'seed'"),
        ({"models.embedded.lora": {"ranks": 3}}, "models.embedded.lora.ranks: unknown key", "did you mean 'rank'"),
        ({"models.embedded.kind": "nano"}, "models.embedded.kind: 'nano'", "'embedded'"),
        ({"train_data.task": "csv"}, "train_data", "'reasoning_gym'"),
        ({"train_data.size": -1}, "train_data.size: -1", "greater than"),
        ({"train_data": {"task": "jsonl", "path": "nowhere.jsonl"}}, "train_data", "nowhere.jsonl"),
        ({"models.embedded": {"kind": "folder", "path": "nowhere"}}, "models.embedded", "nowhere"),
        ({"train.lr": "fast"}, "train.lr: 'fast'", "number"),
        ({"train.steps": 0}, "train.steps: 0", "greater than or equal to 1"),
        ({"train.checkpoints": [2]}, "train", "must be steps 4"),
        ({"train.checkpoints": [4, 2]}, "train", "rising order"),
        ({"train.completions": 12}, "group_size: 8", "completions 12 is not a multiple"),
        ({"group_size": 1}, "group_size: 1", "at least 2"),
        ({"group_size": []}, "group_size: []", "at least one"),
        ({"seeds": []}, "seeds", "at least 1"),
        ({"seeds": [0, None]}, "seeds", "seed 1 is None: give a whole number"),
        ({"seeds": [0, 0]}, "seeds", "names a seed twice"),
        ({"study": "runs"}, "study: 'runs'", "reserved"),
        ({"study": "data"}, "study: 'data'", "reserved"),
        ({"study": "../x"}, "study: '../x'", "letters, digits"),
        ({"methods.qae.K": []}, "methods.qae.K: []", "at least one value"),
        ({"methods.qae.K": 1.4}, "methods.qae", "K"),
        ({"methods.qae.k": 0.4, "methods.qae.K": ...}, "methods.qae", "no parameter 'k'"),
        ({"methods.qae.preset": "qea"}, "methods.qae", "unknown preset 'qea'"),
        ({"methods.odd": {"baselin": []}}, "methods.odd: baselin", "unknown key"),
        ({"methods.base": {"preset": "grpo"}}, "methods.base", "rename"),
        ({"compare.reference": "clip"}, "compare.reference: 'clip'", "no method point; they are clip_higher"),
        ({"compare.primary": {"metric": "avg@n", "family": ["qae"]}}, "compare.primary.family: 'qae'", "qae.K0.4"),
        ({"compare.across": ["train.lr"]}, "compare.across: 'train.lr'", "no axis of this study; they are group_size"),
        ({"axes": {"train.lr": []}}, "axes.train.lr: []", "at least one value"),
        ({"axes": {"train.lrr": [1]}}, "axes.train.lrr", "no such setting"),
        ({"axes": {"objective.hight": [0.2]}}, "axes.objective.hight", "high"),
        ({"models.embedded.kind": "hub"}, "models.embedded", "needs 'id'"),
        ({"evaluate.benchmarks": {}}, "evaluate.benchmarks", "at least 1"),
        ({"resample": {"band": [0.8, 0.2]}}, "resample.band", "is empty"),
        ({"metrics.bands": [0.2, 1]}, "metrics.bands", "must begin with 0 and end with 1"),
        ({"metrics.bands": [0, 0.5, 0.5, 1]}, "metrics.bands", "must rise, without repeats"),
        ({"metrics.pass_k": [4, 2]}, "metrics.pass_k", "must rise, without repeats"),
        ({"metrics.pass_k": [0]}, "metrics.pass_k", "greater than or equal to 1"),
        ({"metrics.best_of": ["longest", "longest"]}, "metrics.best_of", "names 'longest' twice"),
        ({"metrics.best_of": ["best"]}, "metrics.best_of", "most_frequent"),
        ({"metrics.markers": ["Wait", "wait"]}, "metrics.markers", "names 'wait' twice"),
        ({"metrics.markers": ["markers"]}, "metrics.markers", "no word to count"),
        ({"metrics.word": ["wait"]}, "metrics.word", "unknown key"),
        ({"train_data.name": "n_queens"}, "train_data", "n_queens"),
    ],
)
def test_a_mistake_is_one_line_with_key_and_remedy(change: dict, key: str, remedy: str) -> None:
    with pytest.raises(StudyError) as caught:
        grids.expand(parse(changed(**change), "study.yaml"), "study.yaml")
    first = str(caught.value).splitlines()[0]
    assert first.startswith("study.yaml: ")
    assert key in first
    assert remedy in first


@pytest.mark.parametrize("name", ["a;b", "../x", "a b", "a'b", 'a"b', "$(touch x)", "", "a.b", "-x"])
def test_unsafe_method_names_are_refused_by_name(name: str) -> None:
    with pytest.raises(StudyError, match="not a safe name") as caught:
        parse(changed(**{"methods": {name: {"preset": "grpo"}}}))
    assert repr(name) in str(caught.value)


def test_skipping_where_it_is_not_exact_is_refused_with_the_part_named() -> None:
    study = changed(**{"methods.kl": {"preset": "grpo", "kl": 0.1}, "train.skip_zero_advantage": True})
    with pytest.raises(
        StudyError,
        match=r"methods\.kl: kl_penalty acts on rows with zero advantage too: set train\.skip_zero_advantage to false",
    ):
        runs_of(study)


def test_a_key_that_stands_twice_is_refused(tmp_path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(STUDY) + "seeds: [7]\n")
    with pytest.raises(StudyError, match=r"line \d+: key 'seeds' stands twice"):
        load(path)


def test_a_missing_file_is_one_line(tmp_path) -> None:
    with pytest.raises(StudyError, match=r"nowhere\.yaml: No such file"):
        load(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("text", ["0.1", "0.10", "1e-1", '"0.1"', "'1e-1'", ".1"])
def test_one_number_however_it_is_written(text: str, tmp_path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(changed(**{"train.lr": 0.1})).replace("lr: 0.1", f"lr: {text}"))
    assert set(grids.expand(load(path)).runs) == set(runs_of(changed(**{"train.lr": 0.1})))


def test_budgets_are_parts_of_the_longest_response_unless_given() -> None:
    # a quarter, a half and all of 96, and never 0 tokens
    assert Metrics().within(96) == (24, 48, 96)
    assert Metrics().within(3) == (1, 3)
    assert Metrics(budgets=(7,)).within(96) == (7,)


def test_logarithms_and_exponents_are_numbers(tmp_path) -> None:
    study = changed(
        **{"methods.eapo": {"preset": "eapo", "kappa": ["log 2", "log 4"]}, "axes": {"train.lr": ["1e-4", "2e-4"]}}
    )
    runs = list(runs_of(study).values())
    assert {run.algorithm.credit.kappa for run in runs if run.method == "eapo.log4"} == {math.log(4)}
    assert {run.train.lr for run in runs} == {1e-4, 2e-4}


def test_lists_expand_to_a_grid() -> None:
    study = changed(**{"group_size": [4, 8], "axes": {"train.lr": [1e-4, 2e-4], "objective.high": [0.2, 0.28]}})
    runs = list(runs_of(study).values())
    # 3 method points x 2 group sizes x 2 learning rates x 2 clip bounds x 2 seeds
    assert len(runs) == 3 * 2 * 2 * 2 * 2
    assert {run.algorithm.objective.surrogate.high for run in runs} == {0.2, 0.28}
    assert "G4.lr0.0001.high0.2" in {run.setting for run in runs}


def test_a_block_adds_cells_without_repeating_those_that_are_there() -> None:
    study = changed(**{"blocks": [{"methods": ["qae.K0.4"], "group_size": [4, 8]}]})
    grid = grids.expand(parse(study))
    assert len(grid.runs) == 6 + 2
    assert sorted(run.setting for run in grid.runs.values()).count("G4") == 2


def test_the_same_run_twice_is_one_run_with_a_note() -> None:
    study = changed(**{"methods.quarter": {"preset": "qae", "K": 0.4}})
    grid = grids.expand(parse(study))
    assert len(grid.runs) == 6
    assert any("quarter at G8 is the run of qae.K0.4" in note for note in grid.notes)


def test_lora_or_full_is_an_axis() -> None:
    runs = runs_of(changed(**{"axes": {"model.lora": [None, 8]}}))
    assert {run.setting for run in runs.values()} == {"G8.full", "G8.lora8"}
    assert len({run.base for run in runs.values()}) == 1


def test_comparisons_stay_within_a_setting_unless_the_study_says_otherwise() -> None:
    block = {"methods": ["clip_higher"], "axes": {"train.lr": [2e-4]}}
    within = runs_of(changed(**{"blocks": [block]}))
    assert {(run.method, run.setting) for run in within.values() if run.train.lr == 2e-4} == {
        ("clip_higher", "G8.lr0.0002")
    }
    across = changed(**{"blocks": [block], "compare.across": ["train.lr"]})
    across["compare"]["primary"]["family"] = ["clip_higher.lr0.0002"]
    runs = runs_of(across)
    assert {run.setting for run in runs.values()} == {"G8"}
    assert "clip_higher.lr0.0002" in {run.method for run in runs.values()}
    assert set(runs) == set(within)  # what is compared with what is no part of a run


def test_run_names_are_readable_and_parse_back() -> None:
    study = changed(**{"methods.both": {"preset": "qae_eapo", "K": 0.4, "kappa": "log 4"}})
    names = list(runs_of(study))
    assert any(name.startswith("qae.K0.4.G8.s1-") for name in names)
    assert any(name.startswith("qae_eapo.K0.4.log4.G8.s0-") for name in names)
    for name in names:
        parts = grids.parse_run_name(name)
        assert f"{parts['slug']}.G{parts['group_size']}.s{parts['seed']}-{parts['id']}" == name
    with pytest.raises(ValueError, match="is no run name"):
        grids.parse_run_name("qae-1f3c")


def test_a_missing_seed_in_one_place_leaves_all_other_names_as_they_were() -> None:
    both, one = runs_of(STUDY), runs_of(changed(seeds=[0]))
    assert set(one) == {name for name, run in both.items() if run.seed == 0}


def test_two_swapped_parameters_are_other_runs() -> None:
    one = changed(
        **{
            "methods": {
                "clip_higher": {"preset": "clip_higher"},
                "c": {"preset": "clip_higher", "low": 0.1, "high": 0.3},
            }
        }
    )
    two = changed(
        **{
            "methods": {
                "clip_higher": {"preset": "clip_higher"},
                "c": {"preset": "clip_higher", "low": 0.3, "high": 0.1},
            }
        }
    )
    for study in (one, two):
        study["compare"]["primary"]["family"] = ["c"]
    first, second = runs_of(one), runs_of(two)
    assert {name for name, run in first.items() if run.method == "c"}.isdisjoint(second)
    assert {name for name, run in first.items() if run.method != "c"} <= set(second)


def test_how_often_a_run_is_saved_is_not_part_of_it() -> None:
    assert set(runs_of(STUDY)) == set(runs_of(changed(**{"train.save_every": 4})))
    assert set(runs_of(STUDY)).isdisjoint(runs_of(changed(**{"train.lr": 2e-4})))


def test_schema_and_readme_are_fresh(request) -> None:
    stale = write(request.config.rootpath / "config", check=True)
    assert stale == [], "run `seedwise docs`"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"compare.trends": ["KK"]}, "compare.trends: 'KK' is no axis of this study; they are K, group_size"),
        ({"compare.interactions": [["K", "groupsize"]]}, "compare.interactions: 'groupsize' is no axis"),
    ],
)
def test_a_trend_along_an_axis_that_no_run_has_is_refused(changes, message):
    with pytest.raises(StudyError, match=message):
        grids.expand(parse(changed(**changes), "study.yaml"), "study.yaml")


OUTCOME = {"measure": "entropy_nats", "trends": {"K": {"axis": "K", "points": ["qae.K0.4", "qae.K0.8"]}}}


def with_outcome(**changes):
    return grids.expand(parse(changed(**{"compare.outcomes": {"end": {**OUTCOME, **changes}}}), "f.yaml"), "f.yaml")


def test_an_outcome_is_part_of_what_is_declared():
    outcome = with_outcome(pairs=[["qae.K0.4", "clip_higher"]]).study.compare.outcomes["end"]
    assert outcome.over == (0.9, 1.0)
    assert outcome.methods == ("qae.K0.4", "qae.K0.8", "clip_higher")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trends": {}}, "nothing is asked"),
        ({"over": [0.5, 0.5]}, r"over \[0.5, 0.5\] is empty"),
        ({"pairs": [["qae.K0.4", "qae.K0.4"]]}, "with itself"),
        ({"pairs": [["qae.K0.4", "clip_higher"], ["clip_higher", "qae.K0.4"]]}, "stands there twice"),
        ({"pairs": [["qae.K0.5", "clip_higher"]]}, "compare.outcomes.end: 'qae.K0.5' is no method point"),
        ({"show": ["base"]}, "the untrained model has no training to measure"),
        ({"trends": {"K": {"axis": "K", "points": ["qae.K0.4", "qae.K0.4"]}}}, "names a method point twice"),
        ({"trends": {"K": {"axis": "K", "points": ["qae.K0.4", "clip_higher"]}}}, "'clip_higher' has no K"),
        ({"trends": {"G": {"axis": "group_size", "points": ["qae.K0.4", "clip_higher"]}}}, r"group_size is \[8, 8\]"),
    ],
)
def test_an_outcome_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(StudyError, match=message):
        with_outcome(**changes)
