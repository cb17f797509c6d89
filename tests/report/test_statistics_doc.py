"""The worked example of docs/statistics.md, recomputed; and its study section, parsed."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import yaml
from statsmodels.stats.proportion import proportions_ztest

from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.families import family
from seedwise.stats.variances import Margins
from seedwise.study import Compare

TEXT = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
EXAMPLE = TEXT[TEXT.index("## An example by hand") : TEXT.index("## The self-audit")]


def scores() -> dict[str, np.ndarray]:
    """The table of scores, method -> [S, P]."""
    rows = re.findall(r"^\| ([AB]) \| \d \| (.+) \|$", EXAMPLE, re.MULTILINE)
    return {m: np.array([[float(y) for y in row.split(" | ")] for name, row in rows if name == m]) for m in "AB"}


def stated() -> dict[str, str]:
    """The numbers of the example's blocks, as printed."""
    return dict(re.findall(r"^(\w+) = (-?[\d.]+)$", EXAMPLE, re.MULTILINE))


def computed() -> dict[str, float]:
    y = scores()
    cells = {name: {"x": score} for name, score in y.items()}
    new, these = (tw_contrast(cells, {"A": 1, "B": -1}, target=target) for target in ("E2", "E1"))
    names = ("d", "V_seed", "df_seed", "V_prob", "df_prob", "V_res", "V", "se", "df", "t", "p")
    answers = [score.sum() * 10 for score in y.values()]
    return {name: getattr(new, name) for name in names} | {
        "low": new.lo, "high": new.hi, "p_these_problems": these.p,
        "p_answers": float(proportions_ztest(answers, [120, 120])[1]),
    }  # fmt: skip


def test_every_number_of_the_example_is_the_computed_one():
    printed, found = stated(), computed()
    assert set(printed) == set(found)
    for name, text in printed.items():
        digits = -Decimal(text).as_tuple().exponent
        assert round(found[name], digits) == float(text), name


def test_the_means_and_mean_squares_of_the_prose():
    y = scores()
    for name, means in {"A": "0.4, 0.5, 0.5", "B": "0.35, 0.3, 0.4"}.items():
        assert y[name].mean(axis=1).tolist() == pytest.approx([float(mean) for mean in means.split(", ")])
        assert f"{name} {means}" in EXAMPLE
    differences = (y["A"] - y["B"]).mean(axis=0)
    assert ", ".join(f"{d:.4f}" for d in differences) in EXAMPLE
    assert f"{differences.var(ddof=1):.5f}" in EXAMPLE
    for name, e2 in {"A": "0.00667", "B": "0.00333"}.items():
        # (S - 1)(P - 1) = 6 df
        assert f"{Margins.of(y[name]).interaction / 6:.5f}" == e2
        assert f"{e2} for {name}" in EXAMPLE


def test_the_example_is_inconclusive_and_ten_times_more_answers_would_not_be():
    y = scores()
    contrast = tw_contrast({name: {"x": score} for name, score in y.items()}, {"A": 1, "B": -1})
    assert family({"A": contrast}, smallest_effect=0.02).members["A"].verdict == "inconclusive"
    answers = [score.sum() * 160 for score in y.values()]
    assert proportions_ztest(answers, [1920, 1920])[1] < 1e-5


def test_the_declaration_shown_is_one():
    (block,) = re.findall(r"```yaml\n(compare:.*?)```", TEXT, re.DOTALL)
    declared = Compare.model_validate(yaml.safe_load(block)["compare"])
    assert declared.looks == (3, 5, 7, 10)
    assert declared.secondary["hard"].metric == "pass@8"
    # every field but one is explained by this page
    assert set(Compare.model_fields) - set(yaml.safe_load(block)["compare"]) == {"across"}
