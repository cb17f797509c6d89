"""The id of code: what changes it and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from seedwise import behaviour
from seedwise.algos.presets import preset

CREDIT = '''
"""Module docstring."""
from seedwise.algos.part import Part, scale

LIMIT = 2


def twice(x):
    """Double it."""
    return LIMIT * x  # a comment


class Uniform(Part):
    """One."""

    def __call__(self, x):
        return x


class Entropic(Part):
    """Another."""

    def __call__(self, x):
        return twice(scale(x))
'''
PART = "class Part:\n    pass\n\n\ndef scale(x):\n    return x + 1\n\n\ndef other(x):\n    return x\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "algos").mkdir()
    (tmp_path / "algos/credit.py").write_text(CREDIT)
    (tmp_path / "algos/part.py").write_text(PART)
    return tmp_path


def ids(package: Path) -> tuple[dict, dict]:
    module = "seedwise.algos.credit"
    behaviour.of_definition.cache_clear()
    return behaviour.of_definition(module, "Uniform", package), behaviour.of_definition(module, "Entropic", package)


def edit(package: Path, file: str, old: str, new: str) -> None:
    path = package / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new", "uniform", "entropic"),
    [
        ("algos/credit.py", "# a comment", "# another comment", False, False),
        ("algos/credit.py", '"""Double it."""', '"""Doubles."""', False, False),
        ("algos/credit.py", '    """Another."""\n\n', "", False, False),
        ("algos/credit.py", "return twice(scale(x))", "return twice(scale(x)) + 1", False, True),
        ("algos/credit.py", "LIMIT = 2", "LIMIT = 3", False, True),  # reached through twice
        ("algos/part.py", "return x + 1", "return x + 2", False, True),  # reached through an import
        ("algos/part.py", "def other(x):\n    return x", "def other(x):\n    return -x", False, False),
        ("algos/part.py", "class Part:\n    pass", "class Part:\n    a = 1", True, True),
    ],
)
def test_an_edit_changes_the_id_of_what_reaches_it(package, file, old, new, uniform, entropic) -> None:
    before = ids(package)
    edit(package, file, old, new)
    after = ids(package)
    assert (before[0] != after[0], before[1] != after[1]) == (uniform, entropic)


def test_the_parts_of_a_method_are_found_by_their_classes() -> None:
    found = behaviour.of_parts(preset("eapo").parts)
    assert "seedwise.algos.credit:Entropic" in found
    assert "seedwise.algos.baseline:GroupMean" in found
    assert not any(key.endswith(":Quantile") for key in found)


@pytest.mark.parametrize(
    ("stage", "within", "without"),
    [
        (
            behaviour.TRAINING,
            {"trainer.adapter", "identity"},
            {"tables", "algos.credit", "study", "trainer.tracking"},
        ),
        (behaviour.SAMPLING, {"evals.samples", "engines.transformers", "models.load"}, {"grading.pool", "trainer.run"}),
        (
            behaviour.SCORING,
            {"grading.verify", "grading.policy"},
            {"engines.transformers", "models.load", "grading.versions"},
        ),
        (behaviour.ANALYSIS, {"report.analysis", "stats.contrasts"}, {"report.figures", "report.page"}),
        (behaviour.RENDERING, {"report.figures", "report.page", "stats.contrasts"}, {"trainer.run"}),
    ],
)
def test_a_stage_counts_the_modules_it_runs_and_no_others(stage: tuple, within: set, without: set) -> None:
    found = set(behaviour.of_modules(stage))
    assert within <= found
    assert not without & found


def test_a_training_counts_no_code_of_the_grader() -> None:
    found = behaviour.of_training()
    assert {"trainer.adapter", "trainer.rollout", "identity"} <= set(found)
    assert not [module for module in found if module.startswith("grading")]


def test_rewards_count_the_code_that_judges_with_their_verifier() -> None:
    maths, gym = (set(behaviour.of_rewards(verifier)) for verifier in ("math_verify", "reasoning_gym:chain_sum"))
    assert {"grading.pool", "grading.worker", "grading.policy", "grading.verify"} <= gym
    assert maths - gym == {"grading.maths", "grading.notation", "grading.plain", "grading.spelling"}
    assert "grading.versions" not in maths
