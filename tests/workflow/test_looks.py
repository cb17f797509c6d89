"""Every comparison is a look: recorded once, numbered, and withheld where it was not declared."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from study_file import changed

from seedwise import tables
from seedwise.conclude import analyse, sight
from seedwise.grid import expand
from seedwise.layout import Layout
from seedwise.looks import LookError, Sight, read, record, registration
from seedwise.partial import of_what_is_there
from seedwise.reading import parse
from seedwise.stages import StageError
from seedwise.stats.sequential import spend

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
PLAIN = {"reference": "ref", "looks": None, "spending": "obf", "alpha": 0.05}
PLANNED = PLAIN | {"looks": [3, 5, 10]}


def seen(seeds: int, declaration: dict = PLANNED, scores: str | None = None, analysis: str | None = None) -> Sight:
    scores = scores or f"scores of {seeds}"
    return Sight(seeds, {"m/G8/ref": seeds}, scores, analysis or f"{scores} {registration(declaration)}", declaration)


def test_a_planned_study_goes_through_its_looks(tmp_path):
    looks = [record(tmp_path / "looks.jsonl", seen(S), NOW) for S in (3, 5, 10)]
    assert [(look.number, look.seeds, look.reason) for look in looks] == [(1, 3, None), (2, 5, None), (3, 10, None)]
    # shares of the planned 10 seeds at the looks so far
    assert looks[1].shares == (0.3, 0.5)
    assert looks[2].taken == (3, 5, 10)


def test_the_same_analysis_again_adds_nothing_and_is_the_same_look(tmp_path):
    path = tmp_path / "looks.jsonl"
    first = record(path, seen(3), NOW)
    record(path, seen(5), NOW)
    before = path.read_bytes()
    assert record(path, seen(3), datetime(2027, 1, 1, tzinfo=UTC)) == first
    assert path.read_bytes() == before


def test_new_code_on_the_same_scores_is_recorded_as_the_same_look(tmp_path):
    path = tmp_path / "looks.jsonl"
    record(path, seen(3), NOW)
    again = record(path, seen(3, analysis="other code"), NOW)
    assert (again.number, again.reason) == (1, None)
    assert [entry.look for entry in read(path)] == [1, 1]


def test_a_line_says_when_what_and_under_which_declaration(tmp_path):
    path = tmp_path / "looks.jsonl"
    record(path, seen(3), NOW)
    line = json.loads(path.read_text())
    assert line["time"] == "2026-11-30T12:00:00+00:00"
    assert line["cells"] == {"m/G8/ref": 3}
    assert (line["look"], line["declared"], line["registration"]) == (1, True, registration(PLANNED))
    assert line["declaration"]["looks"] == [3, 5, 10]


@pytest.mark.parametrize(
    ("sights", "why"),
    [
        ([seen(3, PLAIN), seen(4, PLAIN)], "look 2, and one was declared"),
        ([seen(4)], "4 seeds per method, and the declared looks are at 3, 5, 10"),
        ([seen(3), seen(3, scores="sampled again")], "a look at 3 was taken before"),
        ([seen(5), seen(3)], "a look at 5 was taken before"),
        ([seen(3, PLAIN), seen(5, PLANNED)], "compare.looks or compare.spending changed after the first look"),
        ([seen(3), seen(5, PLANNED | {"spending": "pocock"})], "compare.looks or compare.spending changed"),
    ],
)
def test_an_undeclared_look_says_why(tmp_path, sights, why):
    for one in sights:
        look = record(tmp_path / "looks.jsonl", one, NOW)
    assert look.reason is not None
    assert why in look.reason
    assert read(tmp_path / "looks.jsonl")[-1].declared is False


def test_a_skipped_look_spends_nothing_and_an_undeclared_one_does_not_count(tmp_path):
    path = tmp_path / "looks.jsonl"
    record(path, seen(4), NOW)
    look = record(path, seen(5), NOW)
    assert (look.number, look.reason, look.shares) == (2, None, (0.5,))


def test_a_changed_declaration_is_noticed_and_taken_back_is_not(tmp_path):
    path = tmp_path / "looks.jsonl"
    assert not record(path, seen(3), NOW).changed
    stricter = record(path, seen(3, PLANNED | {"alpha": 0.01}), NOW)
    assert stricter.changed
    assert stricter.first == registration(PLANNED)
    assert stricter.reason is None
    assert not record(path, seen(5), NOW).changed


def test_a_damaged_record_is_named_by_line(tmp_path):
    path = tmp_path / "looks.jsonl"
    record(path, seen(3), NOW)
    path.write_text(path.read_text() + '{"look": 2\n')
    with pytest.raises(LookError, match="looks.jsonl: line 2: not a look"):
        record(path, seen(5), NOW)


def layout(root: Path, **changes) -> Layout:
    return Layout(expand(parse(changed(**changes)), "study"), root)


def evaluated(found: Layout) -> pd.DataFrame:
    """Scores of every subject, as far as a look asks about them."""
    for name in found.subjects:
        found.scores(name).parent.mkdir(parents=True, exist_ok=True)
        found.scores(name).touch()
    return pd.DataFrame(
        [[run.model_name, run.setting, run.method, run.seed] for run in found.grid.runs.values()],
        columns=["model", "setting", "method", "seed"],
    )


def test_a_look_rests_on_the_declared_methods_only(tmp_path):
    family = {"compare.primary": {"metric": "avg@n", "family": ["qae.K0.4", "base"]}}
    few = layout(tmp_path, **family)
    before = sight(few, evaluated(few))
    more = layout(tmp_path, **family, methods={
        "clip_higher": {"preset": "clip_higher"}, "qae": {"preset": "qae", "K": [0.4, 0.6, 0.8]},
    })  # fmt: skip
    after = sight(more, evaluated(more))
    assert before.cells == {"embedded/G8/clip_higher": 2, "embedded/G8/qae.K0.4": 2}
    assert (after.scores, after.cells) == (before.scores, before.cells)
    assert after.analysis != before.analysis


def test_a_look_counts_planned_seeds_and_knows_lost_ones(tmp_path):
    found = layout(tmp_path)
    counts = evaluated(found)
    whole = sight(found, counts)
    lost = next(name for name, run in found.grid.runs.items() if run.method == "qae.K0.4")
    found.scores(lost).unlink()
    there = of_what_is_there(found)
    less = sight(there, counts.drop(index=counts.index[counts["method"] == "qae.K0.4"][0]))
    assert (less.seeds, less.cells["embedded/G8/qae.K0.4"]) == (2, 1)
    assert less.scores != whole.scores


def test_another_seed_or_another_benchmark_is_another_look(tmp_path):
    found = layout(tmp_path)
    before = sight(found, evaluated(found))
    grown = layout(tmp_path, seeds=[0, 1, 2])
    assert sight(grown, evaluated(grown)).scores != before.scores
    more = layout(tmp_path, **{"evaluate.samples": 8})
    assert sight(more, evaluated(more)).scores != before.scores


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"compare.looks": [5, 3]}, "compare.looks: .* must rise"),
        ({"compare.looks": []}, "plans no look: write null"),
        ({"compare.looks": [1, 3]}, "greater than or equal to 2"),
        ({"compare.bands": [0.5, 0.5]}, "compare.bands: .* must rise"),
        ({"compare.curves": ["entropy_nats"]}, "'entropy_nats' is not metric.summary: end it with one of final"),
        ({"compare.budget": {"steps": None}}, "compare.budget"),
        ({"compare.collapse": {"entropy_nats": {}}}, "give one of floor and drop"),
        (
            {"compare.secondary": {"more": {"metric": "avg@n", "family": ["qae.K0.4"]}}},
            "secondary.more.family: 'qae.K0.4' is in primary with avg@n already",
        ),
    ],
)
def test_a_senseless_declaration_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        parse(changed(**changes))


def finished(found: Layout, stopped: str | None = None) -> Layout:
    """Scores, metrics and completion records of every subject, as the stages before the analysis leave them."""
    rng = np.random.default_rng(5)
    for name in found.subjects:
        rows = [
            {
                "step": step, "benchmark": "same", "problem": f"p{problem}", "sample": sample,
                "correct": int(rng.random() < 0.3 + 0.05 * problem), "answer": "1", "verdict": "wrong",
                "verifier": "task", "tokens": 5, "stop": "stop",
            }
            for step in found.steps(name) for problem in range(8) for sample in range(4)
        ]  # fmt: skip
        tables.write(tables.SCORES, rows, found.scores(name))
    for name in found.grid.runs:
        logged = [{"step": step, "name": "reward", "value": rng.random(), "reason": None} for step in (1, 2, 3, 4)]
        tables.write(tables.METRICS, logged, found.run(name) / "metrics.parquet")
        why = {"step": 3, "reason": "loss is nan"} if name == stopped else None
        (found.run(name) / "trained.json").write_text(json.dumps({"stopped": why}))
    return found


def written(found: Layout) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (found.folder / "analysis").iterdir()}


def test_the_stage_records_its_look_once_and_writes_no_time(tmp_path):
    found = finished(layout(tmp_path))
    analyse(found, simulations=20)
    first, looks = written(found), found.looks.read_bytes()
    analyse(found, simulations=20)
    assert written(found) == first
    assert found.looks.read_bytes() == looks
    assert found.marker("analysis").exists()
    row = tables.read(tables.LOOK, found.folder / "analysis" / "look.parquet").iloc[0]
    assert (row["look"], row["seeds"], row["reason"]) == (1, 2, None)


def test_more_seeds_than_declared_lose_their_verdicts(tmp_path):
    analyse(finished(layout(tmp_path)), simulations=20)
    grown = finished(layout(tmp_path, seeds=[0, 1, 2]))
    analyse(grown, simulations=20)
    rows = tables.read(tables.CONTRASTS, grown.folder / "analysis" / "contrasts.parquet")
    primary = rows[rows["family"] == "primary"]
    assert primary["p"].notna().all()
    assert primary["verdict"].isna().all()
    assert set(primary["withheld"]) == {"look 2 was not declared"}


def test_declared_looks_keep_them(tmp_path):
    looks = {"compare.looks": [2, 3]}
    analyse(finished(layout(tmp_path, **looks)), simulations=20)
    grown = finished(layout(tmp_path, seeds=[0, 1, 2], **looks))
    analyse(grown, simulations=20)
    primary = tables.read(tables.CONTRASTS, grown.folder / "analysis" / "contrasts.parquet")
    primary = primary[primary["family"] == "primary"]
    assert primary["verdict"].notna().all()
    # the second look of two: what is left of 0.05/3 for each of three comparisons
    level = 3 * spend([2 / 3, 1], 0.05 / 3)[-1].nominal_p
    assert primary["level"].tolist() == pytest.approx([level] * 3)


def test_a_run_that_stopped_counts_and_is_listed(tmp_path):
    found = layout(tmp_path)
    broken = next(name for name, run in found.grid.runs.items() if run.method == "qae.K0.4")
    analyse(finished(found, stopped=broken), simulations=20)
    stops = tables.read(tables.STOPS, found.folder / "analysis" / "stops.parquet")
    assert stops[["run", "step", "reason"]].to_numpy().tolist() == [[broken, 3, "loss is nan"]]
    rows = tables.read(tables.CONTRASTS, found.folder / "analysis" / "contrasts.parquet")
    macro = rows[(rows["family"] == "primary") & (rows["method"] == "qae.K0.4")].iloc[0]
    assert macro["seeds"] == 2
    assert "stopped_early=1" in macro["flags"]
    ways = tables.read(tables.MULTIVERSE, found.folder / "analysis" / "multiverse.parquet")
    assert "without stopped runs" in set(ways["analysis"])


def test_a_lost_run_lowers_the_seeds_of_a_partial_analysis_alone(tmp_path):
    found = finished(layout(tmp_path))
    lost = next(name for name, run in found.grid.runs.items() if run.method == "qae.K0.4")
    shutil.rmtree(found.run(lost))
    with pytest.raises(StageError, match=rf"{lost}: no scores \(1 of 7 have none\): .*analyse --partial"):
        analyse(found, simulations=20)
    there = of_what_is_there(found)
    analyse(there, simulations=20)
    assert not found.marker("analysis").exists()
    rows = tables.read(tables.CONTRASTS, there.folder / "analysis" / "contrasts.parquet")
    macro = rows[(rows["family"] == "primary") & (rows["method"] == "qae.K0.4")].iloc[0]
    assert (macro["seeds"], macro["seeds_reference"]) == (1, 2)


def test_a_study_without_any_scores_says_what_to_run(tmp_path):
    with pytest.raises(StageError, match="no scores \\(7 of 7 have none\\): run snakemake"):
        analyse(layout(tmp_path), simulations=20)
