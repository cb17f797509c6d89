"""Type-I error and coverage on simulated studies, and tests that invalid methods fail the same check.

The studies are those of ``seedwise.stats.simulate``, the candidates those of benchmarks/calibration.py,
whose full table is in docs/statistics.md; here is a subset that takes seconds.
"""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.simulate import SCENARIOS, Arm, Scenario, studies

LIMIT, STUDIES, FEW = 0.065, 2500, 1000
OURS, WELCH = "TW-Welch (seedwise)", "Welch t on seed means"


def program(name):
    path = Path(__file__).parents[2] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def calibration():
    yield program("calibration")
    del sys.modules["calibration"]


def too_many_errors(rate, studies):
    """Above the limit by more than two Monte-Carlo standard errors."""
    return rate > LIMIT + 2 * np.sqrt(LIMIT * (1 - LIMIT) / studies)


@pytest.mark.parametrize("scenario", list(SCENARIOS))
@pytest.mark.parametrize(("S", "P"), [(3, 30), (3, 130), (5, 30), (10, 30)])
def test_type_one_error_and_coverage(scenario, S, P, calibration):
    rng = np.random.default_rng([17, S, P, *scenario.encode()])
    ours, welch = calibration.measure([OURS, WELCH], scenario, S, P, STUDIES, rng=rng)
    assert 0.02 < ours.type_one <= LIMIT, ours  # nor so careful that it finds nothing
    assert ours.covers_same >= 0.935, ours
    assert welch.covers_same >= 0.935, welch


@pytest.mark.parametrize(
    ("wrong", "scenario", "S", "P"),
    [
        (WELCH, "seedlo", 10, 30),  # it answers for the problems drawn, not for new ones
        ("pooled binomial z", "base", 3, 30),
        ("paired t over problems", "base", 3, 130),
        ("problem bootstrap", "base", 3, 130),
        ("hierarchical bootstrap", "hetero", 3, 130),
        ("stratified bootstrap of runs x problems", "base", 3, 30),
        ("mixed model, Wald z", "hetero", 3, 30),
    ],
)
def test_invalid_candidates_fail_the_same_check(wrong, scenario, S, P, calibration):
    rng = np.random.default_rng([18, S, P])
    (found,) = calibration.measure([wrong], scenario, S, P, FEW, rng=rng, draws=199)
    assert too_many_errors(found.type_one, FEW), found


def rejections(test, drawn):
    return float(np.mean([test(a, b) <= 0.05 for a, b in zip(drawn.first, drawn.second, strict=True)]))


def tw_p(a, b, **options):
    return tw_contrast({"A": {"b": a}, "B": {"b": b}}, {"A": 1, "B": -1}, **options).p


def test_the_contrast_itself_with_unequal_arms():
    drawn = studies(SCENARIOS["hetero"], (3, 3), 30, 1000, rng=np.random.default_rng(30))
    rate = rejections(tw_p, drawn)
    assert 0.02 < rate <= LIMIT, rate


def test_pooling_the_seed_variance_of_unequal_arms_fails_the_same_check():
    R, rng = 500, np.random.default_rng(8)
    drawn = studies(SCENARIOS["hetero"], (3, 3), 100, R, rng=rng)
    calm = iter(studies(SCENARIOS["base"], (12, 3), 100, R, rng=rng).first)

    def pooled(a, b):
        others = {str(i): {"b": y} for i, y in enumerate(np.split(next(calm), 4))}
        scores = {"A": {"b": a}, "B": {"b": b}, **others}
        return tw_contrast(scores, {"A": 1, "B": -1}, seed_variance="pooled").p

    rate = rejections(pooled, drawn)
    assert too_many_errors(rate, R), rate


def test_type_one_error_against_the_base_that_has_no_seeds():
    against_base = Scenario(Arm(0.15, 0.6, 0.5), Arm(0.0, 0.0, 0.5))
    drawn = studies(against_base, (3, 1), 60, 1500, rng=np.random.default_rng(3))
    rate = rejections(lambda a, b: tw_p(a, b, fixed={"B"}), drawn)
    assert 0.02 < rate <= LIMIT, rate


def test_an_injected_effect_is_covered(calibration):
    drawn = studies(SCENARIOS["base"], (3, 3), 130, STUDIES, rng=np.random.default_rng(4), effect=0.05)
    low_R, high_R = calibration.CANDIDATES[OURS].bounds(drawn, 0, np.random.default_rng(0))
    covered = float(np.mean((low_R <= 0.05) & (high_R >= 0.05)))
    found = float(np.mean(low_R > 0))
    assert covered >= 0.94
    # of the reference: power .491 at 5 points with 3 seeds and 130 problems
    assert found == pytest.approx(0.491, abs=0.03)


def test_the_tables_of_the_program(calibration):
    names = list(calibration.CANDIDATES)
    cells = [
        calibration.Measured(name, scenario, S, P, 400, 0.04, 0.96, 0.98)
        for name in names
        for scenario, S, P in calibration.designs()
    ]
    assert len(cells) == 30 * len(names)
    # sqrt(.04 x .96 / 400) = .0098
    assert calibration.summary(cells).splitlines()[2].removeprefix(f"| {OURS} | ") == (
        "0.040 to 0.040 (± 0.010) | 0.040 to 0.040 | 0.040 to 0.040 | 0.960 to 0.960 | 0.980 to 0.980 | 400 |"
    )
    assert len(calibration.details(cells).splitlines()) == 2 + 30
    document = f"before\n{calibration.MARKER}\nold\n{calibration.MARKER}\nafter\n"
    assert calibration.written(document, "new") == document.replace("old", "new")
    with pytest.raises(Exception, match="1 markers <!-- calibration -->: write two of them"):
        calibration.written(calibration.MARKER, "new")


def test_programs_add_to_one_file_of_results(tmp_path, capsys):
    record, path = program("record").record, tmp_path / "results.json"
    record({"b.ratio": 123.456, "b.calls": 20000.0}, path)
    record({"a.seconds": 0.0123456, "b.ratio": 7.0}, path)
    assert json.loads(path.read_text()) == {"a.seconds": 0.0123, "b.calls": 20000, "b.ratio": 7.0}
    assert list(json.loads(path.read_text())) == ["a.seconds", "b.calls", "b.ratio"]
    assert capsys.readouterr().out.splitlines() == [
        "b.ratio  123", "b.calls  20000", "a.seconds  0.0123", "b.ratio    7",
    ]  # fmt: skip
    del sys.modules["record"]
