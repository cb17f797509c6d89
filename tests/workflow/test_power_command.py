"""`seedwise power`: the reference's planning table, a pilot's scores, an analysed study; mistakes are one line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from study_file import STUDY
from typer.testing import CliRunner

from seedwise import external, tables
from seedwise.cli import app
from seedwise.external import COLUMNS
from seedwise.pilot import PowerError, from_scores, from_study, only, typed
from seedwise.powering import Costs, Question, costs, numbers, power
from seedwise.powerview import drawn, sentence
from seedwise.stats.components import components_from
from seedwise.stats.planner import power_analytic

# the base components of the planner's reference table: SDs, and sqrt(0.0086), sqrt(0.13)
BASE = "seed=0.0193,interaction=0.0729,residual=0.092736,sample=0.360555"


def pilot_rows() -> list[tuple]:
    rng = np.random.default_rng(11)
    theta = {"b0": rng.uniform(0.1, 0.9, 12), "b1": rng.uniform(0.1, 0.9, 20)}
    return [
        (method, seed, bench, f"p{i}", 8, int(c))
        for method in ("x", "y", "z")
        for seed in range(3)
        for bench, chances in theta.items()
        for i, c in enumerate(rng.binomial(8, np.clip(chances + rng.normal(0, 0.05), 0, 1)))
    ]


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pilot") / "pilot.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *pilot_rows()])
    return path


def test_the_references_planning_table():
    # statistics, section 8: smallest difference (points) at S = 3, 5, 8, 10, 16; seeds for 3, 5, 8 points; ceilings
    table = {
        30: ([9.9, 7.7, 6.8, 6.5, 6.1], [None, None, 5], [0.34, 0.73]),
        130: ([7.2, 5.0, 4.1, 3.8, 3.4], [30, 5, 3], [0.91, 1.0]),
        297: ([6.9, 4.4, 3.5, 3.2, 2.6], [12, 5, 3], [1.0, 1.0]),
    }
    asked = {
        effect: power(typed(BASE), Question(effect), problems=tuple(table), samples=(32,))
        for effect in (0.03, 0.05, 0.08)
    }
    for P, (smallest, seeds, ceilings) in table.items():
        designs = [d for d in asked[0.03].designs if d.problems == P]
        assert [d.seeds for d in designs] == [3, 5, 8, 10, 16]
        assert [100 * d.smallest for d in designs] == pytest.approx(smallest, abs=0.11)
        needed = [next(each for each in found.needed if each.problems == P) for found in asked.values()]
        for got, expected in zip(needed, seeds, strict=True):
            assert got.seeds == (expected if expected is None else pytest.approx(expected, abs=1))
        assert [each.ceiling for each in needed[:2]] == pytest.approx(ceilings, abs=0.006)


def test_what_no_number_of_seeds_reaches_is_said():
    found = power(typed(BASE), Question(0.03), problems=(30,), samples=(16,))
    expected = "30 problems, 16 samples each: no number of seeds will: 30 problems cap the power at 0.34."
    assert sentence(found, found.needed[0]) == expected


def test_cost_optimal_samples_by_hand():
    # fixed = 0.02^2 + 0.1^2/100 = 0.0005; sqrt(0.36^2 * 500 / (0.01 * 0.0005))/100 = sqrt(12,960,000)/100 = 36
    pilot = typed("seed=0.02,residual=0.1,sample=0.36")
    found = power(pilot, Question(), seeds=(4,), problems=(100,), samples=(8,), costs=Costs(500, 0.01))
    assert found.needed[0].best_samples == 36
    # four seeds of 500 + 100 * 8 * 0.01
    assert found.designs[0].cost == pytest.approx(4 * 508)
    assert "cheapest at 36 samples of a problem" in sentence(found, found.needed[0])


def test_typed_components_are_standard_deviations():
    chosen = typed("seed=0.02, sample=.5").components
    assert (chosen.var_seed, chosen.var_mp, chosen.var_seed_problem, chosen.theta_var) == pytest.approx(
        (4e-4, 0, 0, 0.25)
    )
    found = power(typed(BASE), Question(), seeds=(5,), problems=(130,), samples=(16,))
    assert found.designs[0].power_cautious is None
    assert found.needed[0].reason == "components were typed: no upper limit of the seed SD"


def test_a_pilot_gives_the_moment_estimates_of_its_scores(scores: Path):
    frame = pd.DataFrame(pilot_rows(), columns=list(COLUMNS))
    cells = {
        method: {
            bench: own.pivot_table(index="seed", columns="problem", values="correct").to_numpy() / 8
            for bench, own in part.groupby("benchmark")
        }
        for method, part in frame.groupby("method")
    }
    pilot = only(scores, None, None)
    expected = components_from(cells, 8)
    assert pilot.components.var_seed == pytest.approx(expected.var_seed)
    assert pilot.components.var_seed_upper == pytest.approx(expected.var_seed_upper)
    # two benchmarks: 1 / (1/(12*4) + 1/(20*4)) = 30 problems
    assert (pilot.problems, pilot.samples) == (pytest.approx(30), 8)
    assert pilot.origin.endswith("3 methods, 3 seeds")
    design = power(pilot, Question(0.08), seeds=(12,)).designs[0]
    # at twelve seeds the noncentral t is near
    analytic = power_analytic(pilot.components, 12, 30, 8, 0.08).power
    assert design.power == pytest.approx(analytic, abs=0.03)
    assert design.power_cautious < design.power


def test_more_comparisons_and_looks_are_harder():
    pilot, sizes = typed(BASE), {"seeds": (5,), "problems": (130,), "samples": (16,)}
    alone = power(pilot, Question(0.05), **sizes)
    shared = power(pilot, Question(0.05, comparisons=4), **sizes)
    # statistics, section 8: 0.785 at S = 5, P = 130, 5 points
    assert alone.designs[0].power == pytest.approx(0.785, abs=0.015)
    assert shared.designs[0].power < alone.designs[0].power - 0.1
    # section 4.5: looks at 3, 5, 7, 10 find 5 points with 0.938, 10 seeds at once with 0.940
    looks = power(pilot, Question(0.05, looks=(3, 5, 7, 10)), **sizes).needed[0]
    assert looks.staged_power == pytest.approx(0.938, abs=0.03)
    assert 3 < looks.staged_seeds < 10


def test_a_study_is_read_where_its_analysis_lies(scores: Path, tmp_path: Path):
    _, counts = external.runs_and_counts(external.read(scores))
    several = pd.concat([counts, counts[counts["method"] != "z"].assign(setting="G4", run=lambda f: f["run"] + "4")])
    base = counts[counts["run"] == "x.s0"].assign(run="base", method="base", setting="")
    tables.write(tables.COUNTS, pd.concat([base, several]), tmp_path / "results/tiny/analysis/scores.parquet")
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(STUDY))
    pilot = from_study(tmp_path / "study.yaml", tmp_path / "results")
    assert pilot.components == from_scores(counts, "").components
    assert pilot.origin == f"{tmp_path / 'study.yaml'}, scores, unpaired seeds: 3 methods, 3 seeds"


def test_the_command_answers_in_json_and_draws(scores: Path, tmp_path: Path):
    options = ["power", str(scores), "--seeds", "5,3", "--effect", "0.05", "--figure", str(tmp_path / "deep/power.svg")]
    got = CliRunner().invoke(app, [*options, "--json"], catch_exceptions=False)
    answer = json.loads(got.stdout)
    assert [design["seeds"] for design in answer["designs"]] == [3, 5]
    assert answer["question"]["effect"] == 0.05
    assert set(answer) == {"origin", "components", "question", "designs", "needed"}
    drawing = (tmp_path / "deep/power.svg").read_text()
    assert "power at 5 points" in drawing
    again = CliRunner().invoke(app, [*options, "--json"], catch_exceptions=False)
    assert (again.stdout, (tmp_path / "deep/power.svg").read_text()) == (got.stdout, drawing)


def test_the_command_prints_a_table(scores: Path):
    got = CliRunner().invoke(app, ["power", str(scores), "--samples", "4,8"], catch_exceptions=False)
    assert got.stdout.startswith("Variances from pilot.csv, scores, unpaired seeds: 3 methods, 3 seeds.")
    assert "cautious power" in got.stdout
    assert "cost of a method" not in got.stdout
    assert "30 problems, 4 samples each: " in got.stdout


def test_the_figure_has_a_panel_for_each_number_of_samples_and_a_line_for_each_of_problems():
    found = power(typed(BASE), Question(0.05), problems=(30, 130), samples=(8, 16, 32))
    axes = drawn(found).axes
    assert [ax.get_title(loc="left") for ax in axes] == [f"{n} samples of a problem" for n in (8, 16, 32)]
    lines = {line.get_label(): line for line in axes[1].lines}
    expected = [d.power for d in found.designs if (d.problems, d.samples) == (130, 16)]
    assert list(lines["130 problems"].get_ydata()) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sed=1", "--components: 'sed': write seed=, interaction=, residual=, sample= joined by commas"),
        ("", "--components: '': write"),
        ("seed=0.1,seed=0.2", "--components: seed: stands twice"),
        ("seed=2", "--components: seed=2: give a standard deviation from 0 to 0.5, 0.02 is 2 points"),
        ("seed=-0.1", "--components: seed=-0.1: give"),
        ("seed=nan", "--components: seed=nan: give"),
        ("seed", "--components: seed=: give"),
    ],
)
def test_components_that_make_no_sense_are_one_line(text: str, message: str):
    with pytest.raises(PowerError) as caught:
        typed(text)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Question(0.0), "--effect: 0: give"),
        (Question(alpha=0.5), "--alpha: 0.5: give"),
        (Question(power=0.01), "--power: 0.01: give a number between alpha and 1"),
        (Question(comparisons=0), "--comparisons: 0: give at least 1"),
    ],
)
def test_a_question_that_makes_no_sense_is_one_line(question: Question, message: str):
    with pytest.raises(PowerError, match=message):
        power(typed(BASE), question)


def test_other_mistakes_are_one_line(scores: Path, tmp_path: Path):
    with pytest.raises(PowerError, match="--seeds: 'x': give whole numbers from 1"):
        numbers("--seeds", "3,x")
    with pytest.raises(PowerError, match="--sample-cost: None: give both costs above 0"):
        costs(1.0, None)
    with pytest.raises(PowerError, match="give one source of variances"):
        only(scores, None, BASE)
    with pytest.raises(PowerError, match="seeds: 1: a plan needs at least 2"):
        power(typed(BASE), Question(), seeds=(1,))
    with pytest.raises(PowerError, match="all variance components are 0"):
        power(typed("seed=0"), Question())
    counts = external.runs_and_counts(external.read(scores))[1]
    with pytest.raises(
        PowerError, match=r"p\.csv: a plan needs at least 2 methods with 2 seeds each: give --components"
    ):
        from_scores(counts[counts["method"] == "x"], "p.csv")
    got = CliRunner().invoke(app, ["power", "--components", BASE, "--figure", str(tmp_path / "power.png")])
    assert str(got.exception).startswith(f"--figure: {tmp_path / 'power.png'}: end the name with .svg")
