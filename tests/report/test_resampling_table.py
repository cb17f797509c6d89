from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
import synthetic

from seedwise import tables
from seedwise.report.continuing import course_table, window_tables, word_table
from seedwise.report.layout import markdown
from seedwise.report.resampling import Resampled, course, enriched, resampling

RUN = {"run": "r", "model": "m", "method": "a", "setting": "G8", "seed": 0}


def window(problem, outcome, high, low, overlap=(2.0, 3.0), **about):
    return RUN | {
        "problem": problem, "response": 0, "outcome": outcome, "reward_high": high, "reward_low": low,
        "overlap_high": overlap[0], "overlap_low": overlap[1], "position_high": 0.4, "position_low": 0.5,
        "entropy_high": 1.0, "entropy_low": 0.1,
    } | about  # fmt: skip


def chosen(wanted=2, in_band=2, used=2, **about):
    return RUN | {
        "step": 1, "benchmark": "b", "engine": "e", "problems": 24, "wanted": wanted, "band_low": 0.1875,
        "band_high": 0.4375, "in_band": in_band, "used": used, "too_short": 3, "unreadable": 1, "alike": 0,
    } | about  # fmt: skip


def of(table, rows):
    names = [column[0] for column in table.columns]
    return pd.DataFrame(rows, columns=pd.Index(dict.fromkeys([*RUN, *names])))


def found_in(windows=(), counts=(), prefixes=(), words=()):
    return Resampled(
        of(tables.WINDOWS, windows),
        of(tables.PREFIXES, prefixes),
        of(tables.CHOSEN, counts or [chosen()]),
        of(tables.ENRICHED, words),
    )


def at(found):
    return found.set_index(["outcome", "quantity"]).loc


def test_difference_is_clustered_by_problem():
    rows = [window("p", "correct", 0.2, 0.4), window("p", "correct", 0.4, 0.6), window("q", "correct", 0.5, 0.6)]
    found = at(resampling(found_in(rows)))["correct", "reward"]
    # differences -0.2, -0.2 (p), -0.1 (q): mean -1/6; cluster sums -1/15, 1/15
    assert found["difference"] == pytest.approx(-1 / 6)
    se = math.sqrt(2 / 1 * 2 * (1 / 15) ** 2) / 3
    assert found["difference_high"] - found["difference"] == pytest.approx(12.7062047362 * se)
    assert (found["problems"], found["responses"]) == (2, 3)


def test_places_and_entropies_of_the_windows():
    rows = [window("p", "incorrect", 0, 0, position_high=0.6), window("q", "incorrect", 0, 0, position_high=0.4)]
    found = at(resampling(found_in(rows)))
    # starts 0.6 and 0.4 of the length, against 0.5
    place = found["incorrect", "position"]
    assert (place["high"], place["low"]) == (pytest.approx(0.5), 0.5)
    assert place["difference"] == pytest.approx(0.0)
    assert place["difference_high"] == pytest.approx(12.7062047362 * 0.1)  # se: sqrt(2 * 2 * 0.1 ** 2) / 2
    assert found["incorrect", "entropy_nats"]["difference"] == pytest.approx(0.9)


def test_absent_outcome_and_undefined_overlap_have_a_reason():
    found = at(resampling(found_in([window("p", "correct", 0.2, 0.4, (None, None))])))
    assert found["incorrect", "reward"]["reason"] == "no incorrect response was resampled"
    assert pd.isna(found["incorrect", "reward"]["high"])
    assert found["correct", "overlap_tokens"]["responses"] == 0
    assert "at least 2" in found["correct", "reward"]["reason"]


@pytest.mark.parametrize(
    ("in_band", "used", "reason"),
    [
        (0, 0, "no problem has a share of correct answers between 0.1875 and 0.4375"),
        (4, 0, "no response could be used: 3 too short for two windows, 1 not read back"),
    ],
)
def test_a_method_without_any_response_stands_there_with_the_reason(in_band, used, reason, tmp_path):
    found = resampling(found_in(counts=[chosen(wanted=20, in_band=in_band, used=used)]))
    assert len(found) == 2 * 4
    assert set(found["reason"]) == {reason}
    assert found[["high", "low", "difference"]].isna().all(axis=None)
    tables.write(tables.RESAMPLING, found, tmp_path / "resampling.parquet")
    text = markdown(window_tables(tables.read(tables.RESAMPLING, tmp_path / "resampling.parquet")))
    assert f"| a | m, G8 | correct | reward (%) | – | – | – | 0 | 0 | 0 of 20 problems wanted; {reason} |" in text


def test_too_few_problems_are_marked():
    rows = [window("p", "correct", 0.2, 0.4), window("q", "correct", 0.2, 0.5)]
    counts = [chosen(wanted=20, in_band=3, used=2), chosen(wanted=20, in_band=7, used=5, run="s", seed=1)]
    found = resampling(found_in(rows, counts))
    assert json.loads(found["used"].iloc[0]) == [2, 5]
    assert json.loads(found["in_band"].iloc[0]) == [3, 7]
    assert "| 2 | 2 | 2 to 5 of 20 problems wanted in each run |" in markdown(window_tables(found))
    whole = resampling(found_in(rows, [chosen(wanted=2, used=2)]))
    assert "problems wanted" not in markdown(window_tables(whole))


def test_no_experiment_gives_empty_tables(tmp_path):
    for table, found in (
        (tables.RESAMPLING, resampling(None)),
        (tables.COURSE, course(None)),
        (tables.WORDS, enriched(None)),
    ):
        assert len(found) == 0
        tables.write(table, found, tmp_path / "t.parquet")


def test_known_effect_is_found():
    found = resampling(synthetic.resampled(synthetic.runs(), np.random.default_rng(1)))
    reward = found[(found["quantity"] == "reward") & (found["method"] == "eapo.log4")].set_index("outcome")
    assert reward.loc["correct", "difference_low"] < -0.1 < reward.loc["correct", "difference_high"] < 0
    assert reward.loc["incorrect", "difference_low"] > 0


def prefix(problem, outcome, position, reward):
    return RUN | {"problem": problem, "response": 0, "outcome": outcome, "position": position, "reward": reward}


def test_success_along_a_response_by_hand(tmp_path):
    rows = [
        prefix("p", "correct", 0.0, 0.2), prefix("p", "correct", 0.0, 0.4), prefix("q", "correct", 0.0, 0.6),
        prefix("p", "correct", 0.5, 0.9), prefix("p", "incorrect", 0.5, 0.1),
    ]  # fmt: skip
    found = course(found_in(prefixes=rows))
    by = found.set_index(["outcome", "position"]).loc
    # mean 0.4; deviations -0.2, 0 (p: -0.2) and 0.2 (q)
    start = by["correct", 0.0]
    assert start["reward"] == pytest.approx(0.4)
    assert start["high"] - 0.4 == pytest.approx(12.7062047362 * math.sqrt(2 * 2 * 0.2**2) / 3)
    assert (start["problems"], start["responses"]) == (2, 3)
    assert by["correct", 0.5]["reason"] == "an interval over problems needs at least 2, got 1"
    tables.write(tables.COURSE, found, tmp_path / "course.parquet")
    text = markdown([course_table(tables.read(tables.COURSE, tmp_path / "course.parquet"))])
    assert (
        "| a | m, G8 | 50 | 90.0 | 10.0 | 1 / 1 | 1 / 1 | an interval over problems needs at least 2, got 1 |" in text
    )
    assert "| a | m, G8 | 0 | 40.0 " in text


def word(run, outcome, tail, word, count, of, tail_words=10, words=100):
    counts = {"count": count, "of": of, "tail_words": tail_words, "words": words, "enrichment": 0.0}
    return RUN | {"run": run, "outcome": outcome, "tail": tail, "word": word} | counts


def test_words_of_several_runs_are_added_up(tmp_path):
    rows = [
        word("r", "correct", "high", "try", 4, 8), word("s", "correct", "high", "try", 2, 4, 20, 300),
        word("r", "correct", "high", "so", 0, 5), word("r", "correct", "high", "odd", 3, 4),
        word("r", "incorrect", "low", "end", 1, 9, 0, 9),
    ]  # fmt: skip
    found = enriched(found_in(words=rows))
    tables.write(tables.WORDS, found, tmp_path / "words.parquet")
    by = found.set_index(["tail", "word"]).loc
    # 6 of 30 words of the tails, 12 of 400 words: 0.2 / 0.03
    assert by["high", "try"]["enrichment"] == pytest.approx(0.2 / 0.03)
    assert by["high", "try"][["count", "of", "rank"]].tolist() == [6, 12, 1]
    assert by["high", "so"][["enrichment", "rank"]].tolist() == [0.0, 2]
    assert "odd" not in set(found["word"])  # 4 occurrences are too few
    assert pd.isna(by["low", "end"]["enrichment"])
    text = markdown([word_table(tables.read(tables.WORDS, tmp_path / "words.parquet"))])
    assert "| a | m, G8 | correct | high tenth | try 6.7 (6 of 12) |" in text
    assert "| a | m, G8 | incorrect | low tenth | none stands out |" in text
