"""A store of samples: parts that are added, and what a study reads of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from seedwise import tables
from seedwise.engines.base import Sampling
from seedwise.evals import store
from seedwise.evals.budget import forced
from seedwise.evals.filling import fill
from seedwise.evals.samples import sample
from seedwise.evals.store import Part, StoreError, Wanted, cover, gaps, listed, read, record
from seedwise.study import Forcing

SAMPLING = Sampling(10, temperature=0.9, stop_token_ids=(1,))
FORCING = Forcing(benchmarks=("same",), continuations=2, budget=20, word="+")


def wanted(folder: Path, n: int, label: str = "same", forced: int | None = None) -> Wanted:
    return Wanted(label, folder / f"{label}-00000000", "same", (2, 4), n, forced)


@pytest.fixture
def filled(engine, tokenizer, problems_of, tmp_path: Path):
    """Fill a store at both steps; returns how many completions were drawn by label."""
    problems = problems_of(bcd="2", a="1")

    def go(*labels: Wanted, steps: tuple[int, ...] = (2, 4)) -> dict[str, int]:
        drawn: dict[str, int] = {}
        for step in steps:
            settings: dict[str, Any] = {"run": "r", "step": step, "sampling": SAMPLING, "forcing": FORCING}
            for each, part, rows in fill(engine, tokenizer, labels, {"same": problems}, **settings):
                store.write(each.folder, part, rows)
                drawn[each.label] = drawn.get(each.label, 0) + len(rows)
        return drawn

    return go


def straight(engine, tokenizer, problems_of, n: int) -> pd.DataFrame:
    """What one sampling of n draws at both steps."""
    about: dict[str, Any] = {"run": "r", "benchmark": "same", "n": n, "sampling": SAMPLING}
    frames = [sample(engine, tokenizer, problems_of(bcd="2", a="1"), step=step, **about) for step in (2, 4)]
    return pd.concat(frames, ignore_index=True)


def test_what_parts_cover() -> None:
    parts = [Part(2, 8, 12), Part(2, 0, 4), Part(4, 0, 99)]
    # 0 to 3 and 8 to 11 are there
    assert cover(parts, 2, 16) == ([(parts[1], range(4)), (parts[0], range(8, 12))], [range(4, 8), range(12, 16)])
    assert cover(parts, 2, 3) == ([(parts[1], range(3))], [])
    assert cover([], 2, 3) == ([], [range(3)])
    # of overlapping parts each sample is read once: 0 to 5 of the first, 6 and 7 of the second
    assert cover([Part(2, 0, 6), Part(2, 2, 8), Part(2, 3, 5)], 2, 99)[0] == [
        (Part(2, 0, 6), range(6)),
        (Part(2, 2, 8), range(6, 8)),
    ]


def test_names_of_parts(tmp_path: Path) -> None:
    assert Part.named(Part(40, 0, 16).file) == Part(40, 0, 16)
    for name in (".40.0-16.parquet.x", "40.0-16.parquet.x", "40.16-16.parquet", "40.parquet", "00000000.json"):
        assert Part.named(name) is None
        (tmp_path / name).touch()
    assert listed(tmp_path) == listed(tmp_path / "none") == []


def test_more_samples_draw_only_those_and_fewer_read_the_first(
    filled, engine, tokenizer, problems_of, tmp_path
) -> None:
    few, many = wanted(tmp_path, 3), wanted(tmp_path, 5)
    assert filled(few) == {"same": 2 * 2 * 3}  # steps x problems x samples
    first = read(few, record([few]))
    assert first.equals(straight(engine, tokenizer, problems_of, 3))
    bytes_before = {path: path.read_bytes() for path in few.folder.iterdir()}
    assert filled(many) == {"same": 2 * 2 * 2}
    assert filled(many) == filled(few) == {}
    assert read(many, record([many])).equals(straight(engine, tokenizer, problems_of, 5))
    assert read(few, record([few])).equals(first), "what 5 samples drew is not read"
    assert {path: path.read_bytes() for path in bytes_before} == bytes_before
    assert sorted(record([few])) == [f"same-00000000/{step}.0-3.parquet" for step in (2, 4)]
    middle = wanted(tmp_path, 4)  # drawn by nobody, and there all the same
    assert filled(middle) == {}
    assert read(middle, record([middle])).equals(straight(engine, tokenizer, problems_of, 4))


def test_a_part_that_is_gone_is_drawn_again_and_no_other(filled, tmp_path: Path) -> None:
    few, many = wanted(tmp_path, 3), wanted(tmp_path, 5)
    filled(few)
    filled(many)
    before = read(many, record([many]))
    (many.folder / "4.0-3.parquet").unlink()
    assert gaps(many, 4) == [range(3)] and gaps(many, 2) == []
    with pytest.raises(StoreError, match="same-00000000: no samples 0 to 2 of step 4"):
        record([many])
    assert filled(many) == {"same": 2 * 3}
    assert read(many, record([many])).equals(before)


def damaged(path: Path, how: str) -> None:
    rows = tables.read(tables.SAMPLES, path)
    if how == "cut short":
        path.write_bytes(path.read_bytes()[:-100])
    elif how == "one row less":
        tables.write(tables.SAMPLES, rows[1:], path)
    else:
        changed = {"another step": {"step": 9}, "another label": {"benchmark": "other"}}
        shifted = {"sample": rows["sample"] + 1} if how == "other samples" else changed[how]
        tables.write(tables.SAMPLES, rows.assign(**shifted), path)


@pytest.mark.parametrize("how", ["cut short", "one row less", "another step", "another label", "other samples"])
def test_a_damaged_part_is_never_taken_for_a_whole_one(how: str, filled, tmp_path: Path, capsys) -> None:
    few = wanted(tmp_path, 3)
    filled(few)
    recorded, before = record([few]), read(few, record([few]))
    damaged(few.folder / "2.0-3.parquet", how)
    with pytest.raises(tables.TableError, match="2.0-3.parquet: not "):
        read(few, recorded)
    assert filled(few) == {"same": 2 * 3}
    assert capsys.readouterr().out.count("2.0-3.parquet: not ") == 1
    assert read(few, record([few])).equals(before)
    assert record([few]) == recorded, "the same draws are the same bytes"


def test_a_part_with_other_texts_is_not_what_was_recorded(filled, tmp_path: Path) -> None:
    few = wanted(tmp_path, 3)
    filled(few)
    recorded, path = record([few]), few.folder / "2.0-3.parquet"
    tables.write(tables.SAMPLES, tables.read(tables.SAMPLES, path).assign(text="42"), path)
    with pytest.raises(StoreError, match="2.0-3.parquet: not the bytes that were recorded"):
        read(few, recorded)


def test_a_record_of_too_little(filled, tmp_path: Path) -> None:
    few = wanted(tmp_path, 3)
    filled(few)
    with pytest.raises(StoreError, match="no samples 0 to 2 of step 2"):
        read(few, json.loads("{}"))


def test_forced_continuations_are_labels_of_their_own(filled, engine, tokenizer, problems_of, tmp_path: Path) -> None:
    def labels(n: int, most: int = 2) -> list[Wanted]:
        return [wanted(tmp_path, n, f"same+{j}", j) for j in range(most + 1)]

    assert filled(wanted(tmp_path, 2), *labels(2)) == {"same": 8, "same+0": 8, "same+1": 8, "same+2": 8}
    about: dict[str, Any] = {"run": "r", "step": 4, "benchmark": "same", "word": "+", "continuations": 3}
    budget = Sampling(20, temperature=0.9, stop_token_ids=(1,))

    def as_at_once(n: int, j: int) -> bool:
        (each,) = [each for each in labels(n, j) if each.forced == j]
        rows = read(each, record([each]))
        found = forced(engine, tokenizer, problems_of(bcd="2", a="1"), n=n, sampling=budget, **about)[j]
        return rows[rows["step"] == 4].reset_index(drop=True).equals(found.assign(benchmark=f"same+{j}"))

    assert all(as_at_once(2, j) for j in range(3))
    # more samples: only the new ones of each label; one more continuation: only its label is added
    assert filled(*labels(3)) == {f"same+{j}": 4 for j in range(3)}
    assert filled(*labels(3, 3)) == {"same+3": 12}
    assert all(as_at_once(3, j) for j in range(4))
    (labels(3)[1].folder / "4.0-2.parquet").unlink()
    assert filled(*labels(3, 3)) == {"same+1": 4}
    assert as_at_once(3, 1)
