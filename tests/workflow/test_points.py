"""A method of a study becomes its points: presets with whole axes beside them, names, mistakes in one line."""

from __future__ import annotations

import pytest
from algos.made import ALL_PRESETS

from seedwise.algos.presets import preset
from seedwise.points import points, slug
from seedwise.study import StudyError

DYNAMIC = {"kind": "dynamic"}


def test_a_preset_takes_axes_beside_its_parameters():
    entry = {"preset": "qae", "K": [0.2, 0.4], "sampler": DYNAMIC, "penalty": {"max_length": 64, "cache": 16}}
    found = list(points("qae", entry, "study"))
    assert [point.name for point in found] == ["qae.K0.2", "qae.K0.4"]
    assert found[0].algorithm == preset("qae", K=0.2, sampler=DYNAMIC, penalty={"max_length": 64, "cache": 16})
    assert found[0].values == {"K": 0.2, "max_length": 64, "cache": 16}


def test_a_setting_within_an_axis_may_be_a_grid():
    entry = {"preset": "eapo", "sampler": {"kind": "dynamic", "surplus": ["discard", "keep"]}}
    assert [point.name for point in points("x", entry, "study")] == ["x.surplusdiscard", "x.surpluskeep"]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"preset": "eapo", "kappa": 0.4, "credit": {"kind": "uniform"}}, "preset eapo: kappa has no effect beside"),
        ({"preset": "qae", "penalty": {"cache": 3}}, "preset qae: Algorithm.penalty.soft_overlong.max_length: Field"),
        ({"preset": "qae", "penalties": {"cache": 3}}, "no parameter 'penalties': did you mean 'penalty'?"),
        ({"preset": "gspo", "credit": {"kind": "rlrt"}}, "credit rlrt has no effect under gspo of level sequence"),
        ({"preset": "qae", "credit": {"kappa": 2}}, "preset qae: Algorithm.credit: Unable to extract tag"),
        (
            {"baseline": [{"kind": "separate_channels"}, {"kind": "divide_by_group_std"}]},
            "divide_by_group_std after separate_channels would divide the penalty too",
        ),
    ],
)
def test_mistakes_are_one_line(entry, says):
    with pytest.raises(StudyError) as error:
        list(points("x", entry, "study.yaml"))
    assert str(error.value).startswith("study.yaml: methods.x: ")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ALL_PRESETS)
def test_a_preset_is_found_again_by_its_expression(name):
    # two presets of one expression: the first in the list names both
    algorithm = ALL_PRESETS[name]
    assert slug(algorithm).split(".")[0] == name
    assert slug(algorithm) == slug(type(algorithm).model_validate(algorithm.model_dump(mode="json")))


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (preset("qae"), "qae.K0.4"),
        (preset("qae", high=0.2), "qae.K0.4.high0.2"),
        (preset("dapo", length=64), "dapo.length64"),
        (preset("dapo", length=64, cache=12), "dapo.length64"),  # 12 is the fifth that null gives
        (preset("dapo", length=64, cache=16, surplus="keep"), "dapo.length64.cache16.surpluskeep"),
        (preset("dapo", length=64, penalty=None), "clip_higher+dynamic"),
        (preset("qae", sampler=DYNAMIC), "qae.K0.4+dynamic"),
        (preset("qae", sampler=DYNAMIC, penalty={"kind": "overlong_filter"}), "qae.K0.4+dynamic+overlong_filter"),
        (preset("dr_grpo", length=9, penalty={"max_length": 9, "cache": 3}), "dr_grpo.length9+soft_overlong"),
        (preset("eapo", baseline=[{"kind": "median"}], sampler=DYNAMIC), "median+entropic+clipped+dynamic"),
    ],
)
def test_names_are_readable(algorithm, expected):
    assert slug(algorithm) == expected
