"""What else was measured: means over seeds with t intervals by hand, and the tables and the section made of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import synthetic
from scipy import stats

from seedwise import tables
from seedwise.definitions import DEFINITIONS
from seedwise.report.build import load, render
from seedwise.report.measured import NOTHING, grouped, measured_tables
from seedwise.report.measures import NO_SEEDS, NO_SPREAD, over_seeds
from seedwise.report.results import Results
from seedwise.stats.contrasts import NO_SEED_INTERVAL

VERDICTS = {"correct_samples": 30, "wrong_samples": 7, "unparsed_samples": 2, "timeout_samples": 1}


def planned(seeds: tuple[int, ...] = (0, 1, 2)) -> pd.DataFrame:
    rows = synthetic.runs(seeds, ("clip_higher", "qae.K0.4"), ())
    base = rows.iloc[0].to_dict() | {"run": "base", "method": "base", "setting": "", "seed": 0}
    return pd.concat([rows, pd.DataFrame([base])], ignore_index=True)


def measured(runs: pd.DataFrame, values: dict[str, dict], step: int = 60) -> pd.DataFrame:
    """MEASURED of one benchmark of 10 problems with 4 samples: metric -> (method, seed) -> value, or a reason."""
    rows = []
    for run in runs.to_dict("records"):
        keys = {key: run[key] for key in ("run", "model", "method", "setting", "seed")} | {"benchmark": "same"}
        for metric, given in values.items():
            value = given.get((run["method"], run["seed"]), 0.5)
            told = isinstance(value, str)
            number, reason = (None, value) if told else (value, None)
            about = {"metric": metric, "value": number, "problems": 0 if told else 10, "samples": 40, "reason": reason}
            rows.append(keys | about | {"step": 0 if run["method"] == "base" else step})
    columns = [column[0] for column in tables.MEASURED.columns]
    return pd.DataFrame(rows, columns=columns)


def results_of(runs: pd.DataFrame) -> Results:
    """Results whose places are those of RUNS."""
    counts = pd.DataFrame(columns=pd.Index([column[0] for column in tables.COUNTS.columns]))
    nothing = pd.DataFrame()
    return Results(runs, counts, nothing, nothing, nothing, nothing)


def summary_of(runs: pd.DataFrame, frame: pd.DataFrame, **changes) -> pd.DataFrame:
    found = over_seeds(frame, results_of(runs), replace(synthetic.COMPARE, **changes))
    return found.set_index(["method", "metric"])


def test_a_mean_over_seeds_with_its_t_interval() -> None:
    runs = planned()
    lengths = {("qae.K0.4", 0): 10.0, ("qae.K0.4", 1): 12.0, ("qae.K0.4", 2): 17.0, ("base", 0): 20.0}
    found = summary_of(runs, measured(runs, {"avg@n": {}, "length_tokens": lengths}))
    row = found.loc[("qae.K0.4", "length_tokens")]
    # mean 13; deviations -3, -1, 4: variance 26 / 2 = 13; standard error sqrt(13 / 3); df 2
    half = stats.t.ppf(0.975, 2) * math.sqrt(13 / 3)
    assert (row["mean"], row["sd_seed"]) == (13.0, pytest.approx(math.sqrt(13)))
    assert (row["low"], row["high"]) == (pytest.approx(13 - half), pytest.approx(13 + half))
    assert (row["seeds"], row["problems"], row["samples"], row["reason"]) == (3, 10, 4, None)
    same = found.loc[("clip_higher", "length_tokens")]
    assert (same["mean"], same["sd_seed"], same["reason"]) == (0.5, 0.0, NO_SPREAD)
    assert pd.isna(same["low"])
    base = found.loc[("base", "length_tokens")]
    assert (base["mean"], base["seeds"], base["reason"], base["setting"]) == (20.0, 0, NO_SEEDS, "G8")
    assert pd.isna(base["low"]) and pd.isna(base["sd_seed"])


def test_what_is_undefined_has_its_reason() -> None:
    runs = planned()
    why = "no incorrect sample"
    wrong = {("qae.K0.4", 0): why, ("qae.K0.4", 1): 3.0, ("qae.K0.4", 2): 5.0}
    wrong |= {("clip_higher", seed): why for seed in (0, 1, 2)}
    found = summary_of(runs, measured(runs, {"avg@n": {}, "length_tokens_incorrect": wrong}))
    row = found.loc[("qae.K0.4", "length_tokens_incorrect")]
    assert (row["mean"], row["seeds"], row["problems"]) == (4.0, 2, 0)
    assert row["reason"] == "1 of 3 seeds have none: no incorrect sample"
    none = found.loc[("clip_higher", "length_tokens_incorrect")]
    assert (pd.isna(none["mean"]), none["seeds"], none["reason"]) == (True, 0, why)
    alone = planned((0,))
    one = summary_of(alone, measured(alone, {"avg@n": {}})).loc[("qae.K0.4", "avg@n")]
    assert (one["mean"], pd.isna(one["low"]), one["reason"]) == (0.5, True, NO_SEED_INTERVAL)


def test_what_is_scored_is_what_the_study_declares() -> None:
    runs = planned((0, 1))
    steps = {20: 1.0, 40: 2.0, 60: 6.0}
    values = [{("qae.K0.4", seed): value for seed in (0, 1)} for value in steps.values()]
    frames = [measured(runs, {"avg@n": {}, "length_tokens": v}, s) for s, v in zip(steps, values, strict=True)]
    whole = pd.concat([frames[0], *(frame[frame["method"] != "base"] for frame in frames[1:])], ignore_index=True)
    key = ("qae.K0.4", "length_tokens")
    assert summary_of(runs, whole).loc[key, "mean"] == 6.0
    assert summary_of(runs, whole, checkpoint="mean_of_last_3").loc[key, "mean"] == 3.0  # (1 + 2 + 6) / 3
    # a run that stopped after its second checkpoint: its earliest stands in for the one it lacks, (1 + 1 + 2) / 3
    stopped = whole[(whole["step"] < 60) | (whole["method"] != "qae.K0.4")]
    assert summary_of(runs, stopped).loc[key, "mean"] == 2.0
    assert summary_of(runs, stopped, checkpoint="mean_of_last_3").loc[key, "mean"] == pytest.approx(4 / 3)


def table_of(values: dict[str, dict], group: str):
    runs = planned()
    frame = measured(runs, {"avg@n": {}, **values})
    results = results_of(runs)
    (view,) = grouped(measured_tables(over_seeds(frame, results, synthetic.COMPARE), results), (group,))
    return view


def test_a_table_shows_the_largest_k_and_no_single_word() -> None:
    words = {"markers_per_1000_tokens": {}, "wait_per_1000_tokens": {}}
    view = table_of({"pass@2": {}, "pass@4": {}, "best@2_shortest": {}, "majority@4": {}, **words}, "accuracy")
    headings = [name for name, _ in view.columns]
    assert headings == ["Method", "Benchmark", "S", "n", "avg@n, %", "pass@4, %", "majority@4, %", "best@2 shortest, %"]
    assert [cell.text for cell in view.rows[0]] == ["base", "same", "–", "4", "50.0", "50.0", "50.0", "50.0"]
    assert [row[0].text for row in view.rows] == ["base", "clip_higher", "qae.K0.4"]  # the reference before the others
    assert set(view.data["metric"]) == {"avg@n", "pass@2", "pass@4", "best@2_shortest", "majority@4"}
    assert not any(cell.strong or cell.kind for row in view.rows for cell in row)
    words_view = table_of(words, "responses")
    assert [name for name, _ in words_view.columns][4:] == ["markers per 1000 tokens"]


def test_verdicts_are_counted_with_their_share_and_gaps_explained() -> None:
    view = table_of({name: dict.fromkeys([("base", 0)], count) for name, count in VERDICTS.items()}, "verdicts")
    # 30 + 7 + 2 + 1 = 40
    assert [cell.whole for cell in view.rows[0]][4:] == ["30.0 (75.0 %)", "7.0 (17.5 %)", "2.0 (5.0 %)", "1.0 (2.5 %)"]
    assert any("nothing in them is tested" in note for note in view.notes)
    why = "no problem that the base solves below 0.25"
    hard = table_of(
        {"collision_rate": {(m, s): why for m in ("clip_higher", "qae.K0.4") for s in (0, 1, 2)}}, "problems"
    )
    assert hard.rows[1][4].text == "–"
    assert f"No value or no interval for all: {why}." in hard.notes


def test_the_page_has_the_section_and_the_files(rendered: Path, study, tmp_path: Path) -> None:
    page = (rendered / "report.html").read_text()
    assert 'id="measures"' in page and NOTHING in page  # this study was not measured
    assert NOTHING in (rendered / "tables" / "measures.md").read_text()
    assert (rendered / "tables" / "measures.csv").read_text().startswith("model,setting,method,benchmark,metric,mean")
    runs = study["runs"]
    frame = measured(runs, {"avg@n": {}, "length_tokens": {}, **{name: {} for name in VERDICTS}})
    (tmp_path / "analysis").mkdir()
    for file in (rendered / "analysis").iterdir():
        (tmp_path / "analysis" / file.name).write_bytes(file.read_bytes())
    text = render(tmp_path, study["metrics"].iloc[:0], synthetic.FACTS, runs=runs, measured=frame).read_text()
    assert "embedded, G8: verdicts" in text and NOTHING not in text
    written = pd.read_csv(tmp_path / "tables" / "measures.csv")
    assert set(written["metric"]) == {"avg@n", "length_tokens", *VERDICTS}
    assert "\\hline" in (tmp_path / "tables" / "measures.tex").read_text()
    assert (tmp_path / "figures" / "pass_at_k_benchmarks.pdf").exists()
    drawn = (tmp_path / "figures" / "pass_at_k_benchmarks.svg").read_text()
    assert load(tmp_path, runs).benchmarks() == list(synthetic.BENCHMARKS)
    assert all(name in drawn for name in synthetic.BENCHMARKS)


def test_every_group_of_definitions_has_a_table() -> None:
    metrics = {
        each.name.replace("<k>", "2").replace("<scorer>", "shortest").replace("<n>", "8") for each in DEFINITIONS
    }
    metrics = {metric.replace("<band>", "0-1").replace("<word>", "wait") for metric in metrics} - {"avg@n"}
    runs = planned()
    results = results_of(runs)
    views = measured_tables(
        over_seeds(
            measured(runs, {"avg@n": {}} | {metric: {} for metric in sorted(metrics)}), results, synthetic.COMPARE
        ),
        results,
    )
    assert [view.title.rpartition(": ")[2] for view in views] == [
        "verdicts",
        "accuracy",
        "difficulty and diversity of answers",
        "length and words",
    ]
