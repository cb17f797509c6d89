"""`seedwise compare`: scores of any other system give a study's numbers, tables and page."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

from seedwise import external
from seedwise.cli import app
from seedwise.comparing import KEYS, CompareError, compare
from seedwise.external import COLUMNS
from seedwise.report.decisions import withhold
from seedwise.stats.contrasts import tw_contrast
from seedwise.stats.scores import passk

Rows = Iterable[tuple]
Golden = Callable[[str], dict]


@pytest.fixture(scope="module")
def golden(repository: Path) -> Golden:
    cases = json.loads((repository / "tests/golden/statistics.json").read_text())
    return lambda number: next(case for name, case in cases.items() if name.split()[0] == number)


def rows_of(method: str, counts: Mapping[str, list[list[int]]], n: int = 16) -> list[tuple]:
    """counts: benchmark -> [S, P] correct answers."""
    return [
        (method, seed, bench, f"p{problem}", n, correct)
        for bench, by_seed in counts.items()
        for seed, by_problem in enumerate(by_seed)
        for problem, correct in enumerate(by_problem)
    ]


def written(path: Path, rows: Rows) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    return path


def asked(path: Path, *options: str) -> dict:
    """What the command prints with --json; without the self-audit, which does not change a number."""
    command = ["compare", str(path), *options, "--json", "--simulations", "0"]
    got = CliRunner().invoke(app, command, catch_exceptions=False)
    assert got.exit_code == 0, got.output
    return json.loads(got.stdout)


def row(contrasts: list[dict], **wanted: object) -> dict:
    (found,) = (c for c in contrasts if all(c[key] == value for key, value in wanted.items()))
    return found


@pytest.fixture(scope="module")
def two_benchmarks(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Golden case G6: A with 3 seeds and B with 4, on benchmarks of 4 and 3 problems."""
    case = golden("G6")
    rows = [r for m in "AB" for r in rows_of(m, dict(zip(("b0", "b1"), case[m], strict=True)))]
    return written(tmp_path_factory.mktemp("g6") / "scores.csv", rows)


@pytest.fixture(scope="module")
def answer(two_benchmarks: Path) -> dict:
    return asked(two_benchmarks, "--reference", "B")


def test_golden_macro_over_two_benchmarks_with_3_and_4_seeds(answer: dict, golden: Golden):
    case = golden("G6")
    got = row(answer["contrasts"], estimand="new_problems", benchmark=None)
    named = {"difference": "d", "se": "se", "df": "df", "p": "p", "low": "lo", "high": "hi"}
    for key, name in named.items():
        assert got[key] == pytest.approx(case[name], abs=6e-11), key
    assert got["seeds"] == [3, 4]
    assert got["p_adjusted"] == got["p"]  # a family of one
    # p = 0.017 and the difference is 11 points
    assert got["verdict"] == "superior"


def test_on_these_problems_it_is_welch_on_the_seeds_scores(answer: dict, golden: Golden):
    case = golden("G6")
    a, b = ([np.mean([np.mean(bench[s]) for bench in case[m]]) / 16 for s in range(len(case[m][0]))] for m in "AB")
    other = stats.ttest_ind(a, b, equal_var=False)
    got = row(answer["contrasts"], estimand="fixed_problems", benchmark=None)
    assert (got["p"], got["df"]) == pytest.approx((other.pvalue, other.df), rel=1e-12)
    assert (got["p_adjusted"], got["verdict"]) == (None, None)


def test_a_contrast_has_these_keys_and_every_benchmark_its_rows(answer: dict):
    assert all(set(c) == {*KEYS, "seeds", "reason"} for c in answer["contrasts"])
    assert [(c["benchmark"], c["estimand"]) for c in answer["contrasts"]] == [
        (bench, estimand) for bench in (None, "b0", "b1") for estimand in ("new_problems", "fixed_problems")
    ]
    assert answer["metric"] == "avg@16"
    assert any("seeds of two methods are never paired" in note for note in answer["notes"])


def test_parquet_says_the_same(two_benchmarks: Path, answer: dict, tmp_path: Path):
    frame = pd.read_csv(two_benchmarks)
    frame["method"] = frame["method"].astype("category")
    frame.assign(extra=1.5).iloc[:, ::-1].to_parquet(tmp_path / "other.parquet")
    assert asked(tmp_path / "other.parquet", "--reference", "B") == answer


def test_a_family_shares_alpha_by_holm_and_others_are_descriptive(tmp_path: Path):
    rng = np.random.default_rng(5)
    theta = rng.uniform(0.2, 0.6, 40)
    gains = {"plain": 0.0, "much": 0.3, "some": 0.1, "none": 0.0}
    counts = {m: {"b": rng.binomial(16, theta + gain, (4, 40)).tolist()} for m, gain in gains.items()}
    path = written(tmp_path / "scores.csv", [r for m, c in counts.items() for r in rows_of(m, c)])
    scores = {m: {"b": np.array(c["b"]) / 16} for m, c in counts.items()}
    p = {m: tw_contrast(scores, {m: 1, "plain": -1}).p for m in ("much", "some", "none")}
    found = asked(path, "--reference", "plain", "--family", "much,some", "--alpha", "0.1", "--smallest-effect", "0.05")
    got = {m: row(found["contrasts"], method=m, estimand="new_problems", benchmark=None) for m in p}
    assert {m: got[m]["p"] for m in p} == pytest.approx(p)
    small, large = sorted((p["much"], p["some"]))
    assert sorted((got["much"]["p_adjusted"], got["some"]["p_adjusted"])) == pytest.approx(
        sorted((min(1, 2 * small), max(2 * small, large)))
    )
    assert (got["none"]["p_adjusted"], got["none"]["verdict"]) == (None, None)
    assert got["much"]["verdict"] == "superior"
    assert found["family"] == ["much", "some"]


def test_pass_at_k_as_the_metric(two_benchmarks: Path, golden: Golden):
    found = asked(two_benchmarks, "--reference", "B", "--metric", "pass@4")
    scores = {m: {f"b{i}": passk(16, np.array(counts), 4) for i, counts in enumerate(golden("G6")[m])} for m in "AB"}
    expected = tw_contrast(scores, {"A": 1, "B": -1})
    got = row(found["contrasts"], estimand="new_problems", benchmark=None)
    assert found["metric"] == "pass@4"
    assert (got["difference"], got["p"], got["p_adjusted"]) == pytest.approx((expected.d, expected.p, expected.p))


def test_one_seed_has_no_p_and_says_why(tmp_path: Path):
    path = written(
        tmp_path / "s.csv", [*rows_of("one", {"b": [[3, 5, 9]]}), *rows_of("two", {"b": [[1, 5, 8], [2, 6, 9]]})]
    )
    for contrast in asked(path, "--reference", "two")["contrasts"]:
        assert [contrast[key] for key in ("se", "df", "p", "p_adjusted", "low", "high", "verdict")] == [None] * 7
        assert contrast["reason"] == "an interval over seeds needs at least 2, got 1"
        assert contrast["seeds"] == [1, 2]
        # (3 + 5 + 9 - (1.5 + 5.5 + 8.5)) / 3 / 16
        assert contrast["difference"] == pytest.approx(1.5 / 48)


def test_no_difference_is_p_1_and_a_constant_one_is_undefined(tmp_path: Path):
    same = [[4, 8, 0, 16], [5, 7, 0, 16]]
    shifted = [[4, 4, 4, 4], [4, 4, 4, 4]]
    rows = [*rows_of("a", {"b": same}), *rows_of("twin", {"b": same})]
    rows += [*rows_of("low", {"c": shifted}), *rows_of("high", {"c": [[8] * 4] * 2})]
    path = written(tmp_path / "twins.csv", rows[:16])
    for contrast in asked(path, "--reference", "a")["contrasts"]:
        assert (contrast["difference"], contrast["p"]) == (0, 1)
    path = written(tmp_path / "shifted.csv", rows[16:])
    for contrast in asked(path, "--reference", "low")["contrasts"]:
        assert (contrast["difference"], contrast["p"], contrast["verdict"]) == (0.25, None, None)
        assert "a test is undefined" in contrast["reason"]


def test_base_is_a_method_like_any_other(two_benchmarks: Path, answer: dict, tmp_path: Path):
    text = two_benchmarks.read_text().replace("\nB,", "\nbase,")
    (tmp_path / "base.csv").write_text(text)
    found = asked(tmp_path / "base.csv", "--reference", "base")
    assert found["contrasts"] == [contrast | {"reference": "base"} for contrast in answer["contrasts"]]
    assert {external.as_written(external.told_apart(m)) for m in ("base", "base (method)", "x")} == {
        "base", "base (method)", "x"
    }  # fmt: skip
    assert len({external.told_apart(m) for m in ("base", "base (method)", "base (method) (method)")}) == 3


def test_a_withheld_verdict_says_why(two_benchmarks: Path):
    made = compare(two_benchmarks, "B", simulations=0)
    (place,) = made.designs
    contrasts = withhold(made.results.contrasts, {place: "the audit says no"})
    found = json.loads(replace(made, results=replace(made.results, contrasts=contrasts)).json())
    got = row(found["contrasts"], estimand="new_problems", benchmark=None)
    assert (got["p_adjusted"], got["verdict"], got["reason"]) == (None, None, "the audit says no")
    assert got["p"] < 0.05


def test_problems_that_a_seed_lacks_are_dropped_and_counted(tmp_path: Path):
    rows = [*rows_of("a", {"b": [[3, 5, 9], [4, 4, 8]]}), *rows_of("r", {"b": [[1, 5, 7], [2, 6, 9]]})]
    whole = written(tmp_path / "whole.csv", [r for r in rows if r[3] != "p1"])
    holed = written(tmp_path / "holed.csv", [r for r in rows if r[:4] != ("a", 1, "b", "p1")])
    found = asked(holed, "--reference", "r")
    assert found["contrasts"] == asked(whole, "--reference", "r")["contrasts"]
    assert any("dropped_problems=1" in note for note in found["notes"])


def test_rows_may_have_different_numbers_of_samples(tmp_path: Path):
    rows = [*rows_of("a", {"b": [[2, 4], [3, 4]]}, n=8), *rows_of("r", {"b": [[2, 6], [3, 5]]}, n=16)]
    found = asked(written(tmp_path / "s.csv", rows), "--reference", "r")
    assert found["metric"] == "avg@n"
    # (2 + 3 + 4 + 4)/4/8 = 13/32 and (2 + 3 + 6 + 5)/4/16 = 8/32
    assert found["contrasts"][0]["difference"] == pytest.approx(5 / 32)
    with pytest.raises(CompareError, match=r"--metric: 'pass@16': with 8 samples .* use avg@n, pass@1, .*pass@8$"):
        compare(tmp_path / "s.csv", "r", metric="pass@16")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reference": "C"}, "--reference: 'C': no method of .*scores.csv; they are A, B"),
        ({"family": "A,D"}, "--family: 'D': no method of"),
        ({"family": "A,B"}, "--family: 'B': it is the reference"),
        ({"alpha": 0.7}, "--alpha: 0.7: give a number between 0 and 0.5"),
        ({"smallest_effect": 2.0}, "--smallest-effect: 2: give score units"),
        ({"smallest_effect": float("nan")}, "--smallest-effect: nan"),
        ({"metric": "pass@3"}, "--metric: 'pass@3': with 16 samples"),
    ],
)
def test_an_option_that_makes_no_sense_is_one_line(two_benchmarks: Path, options: dict, message: str):
    with pytest.raises(CompareError, match=message):
        compare(two_benchmarks, **({"reference": "B"} | options))


def test_a_folder_that_is_a_file_is_refused(two_benchmarks: Path):
    with pytest.raises(CompareError, match="--out: .*scores.csv: is a file: name a folder"):
        compare(two_benchmarks, "B", out=two_benchmarks)


def test_a_lone_method_is_refused(tmp_path: Path):
    path = written(tmp_path / "lone.csv", rows_of("a", {"b": [[1, 2], [2, 3]]}))
    with pytest.raises(CompareError, match="lone.csv: holds the method 'a' only: a comparison needs another one"):
        compare(path, "a")


EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def reported(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a report on hostile names, and what was printed."""
    case, folder = golden("G4"), tmp_path_factory.mktemp("evil")
    rows = [*rows_of(EVIL, {"<b>": case["counts_A"]}), *rows_of("=1+1", {"<b>": case["counts_B"]})]
    path = written(folder / "<i>.csv", rows)
    options = ["compare", str(path), "--reference", "=1+1", "--out", str(folder / "out")]
    got = CliRunner().invoke(app, options, catch_exceptions=False)
    assert got.exit_code == 0, got.output
    return folder, got.stdout


def test_no_text_of_the_file_reaches_the_page_as_markup(reported: tuple[Path, str]):
    page = (reported[0] / "out/report.html").read_text()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page
    assert not re.search(r"<(b|i)>", page)
    forest = (reported[0] / "out/figures/forest.svg").read_text()
    assert "&lt;script&gt;" in forest and "<script" not in forest
    assert ",=1+1" not in (reported[0] / "out/tables/main.csv").read_text()


def test_a_table_for_people_is_printed_and_the_page_named(reported: tuple[Path, str], golden: Golden):
    folder, printed = reported
    assert EVIL in printed
    assert "Of 1 declared comparison, 1 is inconclusive." in printed
    # G4: d = 0.1597, lo = -0.1071, hi = 0.4264
    assert "+16.0 [−10.7, +42.6]" in printed
    assert printed.splitlines()[-1] == f"report: {folder / 'out/report.html'}"


def test_the_same_file_gives_the_same_bytes(reported: tuple[Path, str]):
    folder, _ = reported
    compare(folder / "<i>.csv", "=1+1", out=folder / "again")
    files = [path.relative_to(folder / "out") for path in sorted((folder / "out").rglob("*")) if path.is_file()]
    assert {path.suffix for path in files} == {".parquet", ".md", ".csv", ".tex", ".svg", ".pdf", ".html"}
    assert all((folder / "out" / path).read_bytes() == (folder / "again" / path).read_bytes() for path in files)
