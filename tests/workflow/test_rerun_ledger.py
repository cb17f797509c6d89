"""Edits held to be neutral: what the ledger equates, and what it takes to write to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from rerun_made import finish, layout_of
from study_file import STUDY, changed

from seedwise import grid
from seedwise.algos.algorithm import Algorithm
from seedwise.layout import Layout
from seedwise.reruns import RerunError, accepting, ledger, planning
from seedwise.reruns.ledger import Digests, Entry

PASS, FAIL = ["this"], ["no_such_check"]  # python -m this prints a poem and ends with 0
OLD, GONE = "a" * 64, "b" * 64
MODULE, ADDED, PART = "trainer.adapter", "trainer.watch", "seedwise.algos.baseline:Quantile"


def write(path: Path, checks: list[str], *entries: Entry) -> Path:
    content = {
        "checks": {"every": checks, "evaluation": [*checks]},
        "accepted": [entry.model_dump(mode="json") for entry in entries],
    }
    path.write_text(yaml.safe_dump(content))
    return path


def entry(name: str, **changes: tuple[str | None, str | None]) -> Entry:
    digests = {key: Digests(old=old, new=new) for key, (old, new) in changes.items()}
    return Entry(id=name, reason="r", commit=None, date=None, changes=digests)


@pytest.mark.parametrize(
    ("found", "equated", "resting"),
    [
        ({"m": "2", "n": "1"}, {"m": "1", "n": "1"}, ["one"]),  # an edit
        ({"m": "3", "n": "1"}, {"m": "1", "n": "1"}, ["two", "one"]),  # an edit of the accepted edit
        ({"m": "1", "n": "1"}, {"m": "1", "n": "1"}, []),  # going back
        ({"m": "4", "n": "1"}, {"m": "4", "n": "1"}, []),  # an edit that nobody accepted
        ({"p": "2", "q": "2"}, {"p": "1", "q": "1", "gone": "9"}, ["both"]),  # a module that is no more
        ({"p": "2", "q": "1"}, {"p": "2", "q": "1"}, []),  # half of an edit is another edit
        ({"p": "2", "q": "2", "gone": "8"}, {"p": "2", "q": "2", "gone": "8"}, []),
        ({"m": "1", "new": "5", "x": "2"}, {"m": "1", "x": "1"}, ["split"]),  # a module that is new
        ({"other": "1"}, {"other": "1"}, []),  # what only was removed is restored nowhere
    ],
)
def test_what_the_ledger_equates(found: dict, equated: dict, resting: list, tmp_path) -> None:
    place = write(
        tmp_path / "neutral.yaml",
        PASS,
        entry("two", m=("2", "3")),
        entry("one", m=("1", "2")),
        entry("both", p=("1", "2"), q=("1", "2"), gone=("9", None)),
        entry("split", new=(None, "5"), x=("1", "2")),
        entry("only", lost=("7", None)),
    )
    assert ledger.equated(found, place) == equated
    assert ledger.resting(found, place) == resting


def test_the_ledger_of_the_repository_is_read() -> None:
    checks = ledger.read().checks
    assert checks.every == ("pytest", "-q", "tests/algos/test_golden.py", "tests/contract")
    assert checks.evaluation[-3:] == ("tests/engines", "tests/evals", "tests/grading")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("checks: {every: [a], evaluation: [b]}\naccept: []\n", "accept: [^\n]*restore it from git"),
        ("accepted: []\n", "checks: [^\n]*restore it from git"),
        ("checks: [\n", "not YAML [^\n]*restore it from git"),
        (None, "No such file or directory: restore it from git"),
    ],
)
def test_a_broken_ledger_is_one_line(text: str | None, wrong: str, tmp_path) -> None:
    place = tmp_path / "neutral.yaml"
    if text is not None:
        place.write_text(text)
    with pytest.raises(RerunError) as caught:
        ledger.read(place)
    assert re.fullmatch(f"{re.escape(str(place))}: {wrong}", str(caught.value))


@pytest.fixture
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A study finished by code that was edited since: one module and Quantile changed, one module is new, one gone."""

    as_it_is = ledger.training

    def digests(algorithm: Algorithm) -> dict[str, str]:
        found = as_it_is(algorithm)
        found = {key: value for key, value in found.items() if key != ADDED} | {MODULE: OLD, "trainer.gone": GONE}
        return found | ({PART: OLD} if PART in found else {})

    with monkeypatch.context() as patch:
        patch.setattr(grid, "training_behaviour", digests)
        patch.setattr("rerun_made.ledger.training", digests)
        made = layout_of(STUDY, tmp_path)
        finish(made)
    return made


def now(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """The study as the present code and the ledger name it."""

    def equated(algorithm: Algorithm) -> dict[str, str]:
        return ledger.equated(ledger.training(algorithm), place)

    monkeypatch.setattr(grid, "training_behaviour", equated)
    return layout_of(STUDY, tmp_path)


def test_accepted_edits_leave_every_result_in_place(before, tmp_path, monkeypatch) -> None:
    place = write(tmp_path / "neutral.yaml", PASS)
    edited = now(tmp_path, place, monkeypatch)
    assert not set(edited.grid.runs) & set(before.grid.runs)
    names = accepting.candidates(edited)
    assert names == list(edited.grid.runs)
    written = accepting.accept(edited, names, "moved, computes the same", place)
    # clip_higher has no Quantile: its edit is one entry, and what qae has beside it another
    assert [set(item.changes) for item in written] == [{MODULE, ADDED, "trainer.gone"}, {PART}]
    assert written[0].changes["trainer.gone"] == Digests(old=GONE, new=None)
    assert written[0].changes[ADDED].old is None
    after = now(tmp_path, place, monkeypatch)
    assert list(after.grid.runs) == list(before.grid.runs)
    assert planning.planned(after) == []
    qae = next(run for name, run in after.grid.runs.items() if name.startswith("qae"))
    assert ledger.resting(ledger.training(qae.algorithm), place) == [item.id for item in written]
    assert ledger.accepted([qae], place) == {item.id: "moved, computes the same" for item in written}


def test_accepting_one_run_leaves_the_others_as_they_are(before, tmp_path, monkeypatch) -> None:
    place = write(tmp_path / "neutral.yaml", PASS)
    edited = now(tmp_path, place, monkeypatch)
    clip = next(name for name in edited.grid.runs if name.startswith("clip_higher"))
    accepting.accept(edited, [clip], "why", place)
    after = now(tmp_path, place, monkeypatch)
    kept = set(after.grid.runs) & set(before.grid.runs)
    assert kept == {name for name in before.grid.runs if name.startswith("clip_higher")}


def test_the_entry_names_the_commit_and_its_date(before, tmp_path, monkeypatch) -> None:
    place = write(tmp_path / "neutral.yaml", PASS)
    edited = now(tmp_path, place, monkeypatch)
    (written, *_) = accepting.accept(edited, accepting.candidates(edited), " why ", place)
    assert written.reason == "why"
    assert (written.commit, written.date) == accepting.commit()
    assert ledger.read(place).accepted[0] == written
    assert place.read_text().startswith("# Edits held to be neutral")


def unchanged(layout: Layout, place: Path, match: str, act: Callable[[], object]) -> None:
    before = place.read_text()
    with pytest.raises(RerunError, match=match):
        act()
    assert place.read_text() == before


def test_a_failing_check_writes_nothing(before, tmp_path, monkeypatch) -> None:
    place = write(tmp_path / "neutral.yaml", FAIL)
    edited = now(tmp_path, place, monkeypatch)
    names = accepting.candidates(edited)
    match = "python -m no_such_check: exit 1: .*No module named no_such_check: the edit is not neutral"
    unchanged(edited, place, match, lambda: accepting.accept(edited, names, "why", place))


def test_an_edit_needs_a_reason(before, tmp_path, monkeypatch) -> None:
    place = write(tmp_path / "neutral.yaml", PASS)
    edited = now(tmp_path, place, monkeypatch)
    names = accepting.candidates(edited)
    unchanged(edited, place, "say why the edit", lambda: accepting.accept(edited, names, " ", place))


def test_a_changed_setting_is_no_edit(before, tmp_path, monkeypatch) -> None:
    place = write(tmp_path / "neutral.yaml", PASS)
    now(tmp_path, place, monkeypatch)
    other = layout_of(changed(**{"train.lr": 2e-4}), tmp_path)
    name = next(iter(other.grid.runs))
    assert accepting.candidates(other) == []
    match = r"in more than code: train\.lr: 0\.0001 -> 0\.0002: only edits can be accepted"
    unchanged(other, place, match, lambda: accepting.accept(other, [name], "why", place))


def test_what_is_trained_or_new_has_nothing_to_accept(tmp_path) -> None:
    place = write(tmp_path / "neutral.yaml", PASS)
    layout = layout_of(STUDY, tmp_path)
    name = next(iter(layout.grid.runs))
    unchanged(layout, place, "no earlier run", lambda: accepting.accept(layout, [name], "why", place))
    finish(layout)
    unchanged(layout, place, "nothing to accept", lambda: accepting.accept(layout, [name], "why", place))
    assert accepting.accept(layout, accepting.candidates(layout), "why", place) == []
