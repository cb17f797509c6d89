"""Files of scores: a row that makes no sense is refused by its line, a file that is none in one line."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pandas as pd
import pytest

from seedwise import external
from seedwise.cli import main
from seedwise.external import COLUMNS, ScoresError

HEADER = ",".join(COLUMNS)
GOOD = "a,0,b,p,4,1"
BAD = {
    "a,0,b,p,4": "line 3: 5 fields instead of 6",
    "a,0,b,p,4,1,9": "line 3: 7 fields instead of 6",
    ",0,b,q,4,1": "line 3: method: empty: give a name",
    "a,,b,q,4,1": "line 3: seed: empty: give a whole number",
    "a,one,b,q,4,1": "line 3: seed: 'one': give a whole number",
    "a,-1,b,q,4,1": "line 3: seed: -1: is negative",
    "a,0, ,q,4,1": "line 3: benchmark: empty",
    "a,0,b,,4,1": "line 3: problem: empty",
    "a,0,b,q,4.5,1": "line 3: samples: '4.5': give a whole number",
    "a,0,b,q,0,0": "line 3: samples: 0: give at least 1",
    "a,0,b,q,-4,1": "line 3: samples: -4: is negative",
    "a,0,b,q,9999999,1": "line 3: samples: 9999999: give at most 100000",
    "a,0,b,q,4,": "line 3: correct: empty",
    "a,0,b,q,4,-1": "line 3: correct: -1: is negative",
    "a,0,b,q,4,nan": "line 3: correct: 'nan': give a whole number",
    "a,0,b,q,4,5": "line 3: correct: 5 of 4 samples",
    "a,0,b,q,4,٣": "line 3: correct: '٣': give a whole number",
    "a,0,b,p,4,2": "line 3: method 'a', seed 0, benchmark 'b', problem 'p' stands in line 2 already",
    "a,0,macro,q,4,2": "line 3: benchmark: 'macro'",
    "\x1b[31ma,0,b,q,4,2": "line 3: method: '\\x1b[31ma': holds a character that cannot be printed",
    "m" * 41 + ",0,b,q,4,2": "line 3: method: 'mmmmmmmmmmmmmmmmmmmm'...: 41 characters: give a name of at most 40",
    'a,0,b,"q,4,2': "line 3: unexpected end of data: mend the CSV",
}


@pytest.mark.parametrize(("line", "message"), BAD.items(), ids=lambda text: text[:30])
def test_a_bad_row_is_refused_by_its_line(line: str, message: str, tmp_path: Path):
    path = tmp_path / "bad.csv"
    path.write_text(f"{HEADER}\n{GOOD}\n{line}\n")
    with pytest.raises(ScoresError) as caught:
        external.read(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"",
            "line 1: column method is missing: needed are method, seed, benchmark, problem, samples, correct, got e",
        ),
        (b"method,seed,benchmark,problem,samples\n", "line 1: column correct is missing"),
        (f"{HEADER},seed\n".encode(), "line 1: column seed stands 2 times"),
        (f"{HEADER}\n".encode(), "holds no rows"),
        (HEADER.replace(",", ";").encode(), "line 1: column method is missing"),
        (f"{HEADER}\na,0,b,\xe9,4,1".encode("latin-1"), "not UTF-8 text and not Parquet"),
        (b"PAR1 and nothing else", "Parquet"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_line(content: bytes, message: str, tmp_path: Path):
    path = tmp_path / "scores"
    path.write_bytes(content)
    with pytest.raises(ScoresError, match=re.escape(message)) as caught:
        external.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value).splitlines()) == 1


def test_lines_are_those_of_an_editor(tmp_path: Path):
    # a quoted name with a line break, an empty line, Windows line ends and a byte order mark
    path = tmp_path / "odd.csv"
    path.write_bytes(f'\ufeff{HEADER}\r\n"a\r\nb",0,b,p,4,1\r\n\r\na,0,b,p,4,9\r\n'.encode())
    with pytest.raises(ScoresError) as caught:
        external.read(path)
    first, second = str(caught.value).splitlines()
    assert "line 2: method: 'a\\r\\nb': holds" in first
    assert "line 5: correct: 9 of 4" in second


def test_rows_of_parquet_are_counted_from_1(tmp_path: Path):
    frame = pd.DataFrame([("a", 0, "b", "p", 4, 1), ("a", 1, "b", None, 4, 1)], columns=list(COLUMNS))
    frame.to_parquet(tmp_path / "s.parquet")
    with pytest.raises(ScoresError, match="row 2: problem: empty"):
        external.read(tmp_path / "s.parquet")
    frame.assign(problem=[0.5, True]).astype({"problem": float}).to_parquet(tmp_path / "s.parquet")
    with pytest.raises(ScoresError, match="row 1: problem: 0.5: give a text"):
        external.read(tmp_path / "s.parquet")
    # counts that pandas made floats of, and problems that are numbers
    frame.assign(problem=[1, 2], samples=4.0).to_parquet(tmp_path / "s.parquet")
    assert external.read(tmp_path / "s.parquet")["problem"].tolist() == ["1", "2"]


def test_the_command_prints_ten_bad_rows_and_how_many_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "bad.csv"
    path.write_text("\n".join([HEADER, *(f"a,{seed},b,p,4,5" for seed in range(13))]))
    monkeypatch.setattr(sys, "argv", ["seedwise", "compare", str(path), "--reference", "a"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.removeprefix("seedwise: ").splitlines()
    assert [line.removeprefix(f"{path}: ").split(":")[0] for line in lines] == [
        *(f"line {number}" for number in range(2, 12)),
        "and 3 more",
    ]
