from __future__ import annotations

import re

import pandas as pd
import pytest
import synthetic

from seedwise.report.build import analyse, load, render, views_of
from seedwise.report.facts import Comparison, Facts, ReportError
from seedwise.report.findings import findings
from seedwise.report.layout import markdown
from seedwise.report.rendered import main_tables
from seedwise.report.results import Design, Results, design

COMPARE = Comparison("ref", "avg@n", ("a", "b", "c"), (), 0.02, 0.05)
FACTS = Facts("s", COMPARE, "c0ffee00")
DESIGNS = {("m", "G8"): Design((2,), {"x": 1}, {"x": (2,)}, 3)}
TABLES = (
    "main", "differences", "passk", "trends", "audit", "effects", "ranks", "multiverse", "strata", "curves", "costs",
    "spent", "benchmarks", "grid", "resampling", "course", "words", "forcing", "outcomes", "measures", "runs",
)  # fmt: skip
NUMBERS = (
    "difference",
    "se",
    "df",
    "t",
    "p",
    "p_adjusted",
    "low",
    "high",
    "V_seed",
    "V_prob",
    "V_res",
    "tost_p_adjusted",
)


def results(verdicts):
    """Two cells' worth of tables in which only the verdicts matter."""
    methods = ["ref", *verdicts]
    runs = pd.DataFrame(
        [
            {
                "run": f"{m}{s}",
                "model": "m",
                "method": m,
                "setting": "G8",
                "group_size": 8,
                "seed": s,
                "axes": "{}",
                "id": "0",
            }
            for m in methods
            for s in (0, 1)
        ]
    )
    counts = runs.assign(
        step=1, benchmark="x", problem="p", samples=2, correct=1, unparsed=0, timeout=0, truncated=0, tokens=1.0
    )
    means = pd.DataFrame(
        [
            {
                "model": "m",
                "setting": "G8",
                "method": m,
                "metric": "avg@2",
                "benchmark": b,
                "step": 1,
                "mean": 0.9 if m == "b" else 0.5,
                "low": 0.4,
                "high": 0.95,
                "seeds": 2,
            }
            for m in methods
            for b in ("x", None)
        ]
    )
    contrasts = pd.DataFrame(
        [
            dict.fromkeys(NUMBERS, 0.5) | {"family_low": None, "family_high": None} | {
                "model": "m", "setting": "G8", "metric": "avg@2", "benchmark": None, "method": m,
                "estimand": "new_problems", "family": "primary", "verdict": v, "flags": "", "branch": "sum",
                "p": None if v is None else 0.0,
                "p_adjusted": None if v is None else 0.0, "level": 0.05, "withheld": None,
                "reason": "one training seed" if v is None else None,
            }
            for m, v in verdicts.items()
        ]
    )  # fmt: skip
    return Results(runs, counts, means, contrasts, pd.DataFrame(), pd.DataFrame())


def test_only_superior_is_bold_never_the_largest_number():
    (view,) = main_tables(
        results({"a": "superior", "b": "inconclusive", "c": "superior-but-small"}),
        FACTS,
        DESIGNS,
    )
    strong = [(line[0].text, cell.text) for line in view.rows for cell in line if cell.strong]
    assert strong == [("a", "superior")]


def test_p_is_never_printed_as_zero_and_one_seed_prints_the_reason():
    (view,) = main_tables(results({"a": "superior", "b": None}), FACTS, DESIGNS)
    lines = {line[0].text: [cell.text for cell in line] for line in view.rows}
    assert lines["a"][-2] == "<0.001"
    assert lines["b"][-2:] == ["–", "not tested: one training seed"]


def test_tables_of_a_study(rendered):
    text = (rendered / "tables" / "main.md").read_text()
    for part in (
        "| Method | Seeds | same | longer | mixed | Macro | Difference | Adjusted p | Verdict |",
        "S = 3 training seeds per method, P = 106 problems (same 40, longer 30, mixed 36), n = 16 samples",
        "The unit of replication is a training run",
        "A seed varies the order of prompts and the sampled completions; fixed for all seeds: the initial weights",
        "4 comparisons in the declared family, Holm at 0.05",
        "Variance shares of the difference",
        "Smallest effect of interest: 2.0 points. Smallest effect this design finds with 80 % power",
        "hash 5f2c9a01",
        "The reference clip_higher was not run in this setting",
    ):
        assert part in text
    assert "0.000" not in text
    assert re.search(r"\| qae\.K0\.4 \| 3 \|.*\| \*\*superior\*\* \|", text)
    assert re.search(r"\| base \| – \|.*\| inferior \(underdispersed\) \|", text)
    numbers = pd.read_csv(rendered / "tables" / "main.csv")
    assert numbers.set_index(["setting", "method"]).loc[("G8", "qae.K0.4"), "difference"] == pytest.approx(
        0.1, abs=0.05
    )


def test_other_tables(rendered):
    folder = rendered / "tables"
    endings = ("md", "csv", "tex")
    assert {path.name for path in folder.iterdir()} == {f"{name}.{ending}" for name in TABLES for ending in endings}
    assert "| qae | embedded, G8 | K | 0.2, 0.4, 0.6 | quadratic |" in (folder / "trends.md").read_text()
    assert "pass@8 is a secondary family" in (folder / "passk.md").read_text()
    assert "these problems" in (folder / "differences.md").read_text()
    runs = pd.read_csv(folder / "runs.csv").set_index("run")
    assert runs.loc["base", "samples"] == 106 * 16
    assert "22 runs, all evaluated." in (folder / "runs.md").read_text()


def test_missing_seed_and_missing_run_are_shown(study, tmp_path):
    lost = {"qae.K0.4.G8.s2", "eapo.log4.G8.s0", "eapo.log4.G8.s1", "eapo.log4.G8.s2"}
    analyse(
        study["runs"],
        study["counts"][~study["counts"]["run"].isin(lost)],
        None,
        synthetic.COMPARE,
        tmp_path,
        simulations=0,
    )
    results, facts = load(tmp_path, study["runs"]), Facts.of(synthetic.FACTS)
    designs = {(model, setting): design(results, facts, model, setting) for model, setting, _ in results.places()}
    text = {name: markdown(views) for name, views in views_of(results, facts, designs).items()}
    assert "| qae.K0.4 | 2 of 3 |" in text["main"]
    assert re.search(r"\| eapo\.log4 \| 0 of 3 \|.*not tested: eapo\.log4 was not evaluated", text["main"])
    assert "3 comparisons in the declared family" in text["main"]
    assert "1 declared but not tested" in text["main"]
    assert "| eapo.log4.G8.s1 | – | – | – | – | – | – | – | no scores |" in text["runs"]
    assert "No response was resampled" in text["resampling"]
    (sentence,) = (found.sentence for found in findings(results, facts, designs) if found.method == "eapo.log4")
    assert sentence.startswith("eapo.log4 was not tested against clip_higher: eapo.log4 was not evaluated")


def text_of(study, tmp_path):
    analyse(study["runs"], study["counts"], None, synthetic.COMPARE, tmp_path, simulations=0)
    results, facts = load(tmp_path, study["runs"]), Facts.of(synthetic.FACTS)
    designs = {(model, setting): design(results, facts, model, setting) for model, setting, _ in results.places()}
    return {name: markdown(views) for name, views in views_of(results, facts, designs).items()}


def test_one_seed_prints_no_p_anywhere(small_study, tmp_path):
    first = {name: frame[frame["seed"] == 0] for name, frame in small_study.items() if name in ("runs", "counts")}
    text = text_of(first, tmp_path)
    assert "S = 1 training seed per method" in text["main"]
    line = next(line for line in text["main"].splitlines() if line.startswith("| qae.K0.4"))
    assert line.endswith("| – | not tested: an interval over seeds needs at least 2, got 1 |")
    assert "superior |" not in text["main"]
    assert not re.search(r"\b0\.\d{3}\b", text["main"] + text["differences"])


def test_two_seeds_print_a_caution(small_study, tmp_path):
    two = {name: frame[frame["seed"] < 2] for name, frame in small_study.items() if name in ("runs", "counts")}
    assert "df<=2: two seeds, so the spread over seeds is hardly known." in text_of(two, tmp_path)["main"]


def test_study_in_which_every_run_failed(small_study, tmp_path):
    text = text_of(small_study | {"counts": small_study["counts"].iloc[:0]}, tmp_path)
    assert "| qae.K0.4 | 0 of 3 | – | – | – | not tested: nothing was evaluated |" in text["main"]
    assert "6 runs, 6 without scores." in text["runs"]


def test_facts_are_checked(tmp_path):
    with pytest.raises(ReportError, match="unknown key 'sudy'"):
        Facts.of(synthetic.FACTS | {"sudy": "x"})
    with pytest.raises(ReportError, match="compare_hash: missing"):
        render(tmp_path, pd.DataFrame(), {"study": "s", "compare": COMPARE})
