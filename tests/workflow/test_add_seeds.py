"""`seedwise add-seeds`: a look's seeds go into the file, nothing else changes, and the level is the record's own."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from scipy.stats import norm
from study_file import changed
from typer.testing import CliRunner

from seedwise import looks
from seedwise.cli import app
from seedwise.grid import expand
from seedwise.reading import load
from seedwise.seeds import SeedsError, add_seeds

PLAN = {"compare.looks": [3, 5, 7, 10], "seeds": [0, 1, 2]}


def study(folder: Path, seeds: str = "seeds: [0, 1, 2]", **changes: object) -> Path:
    """A study file whose seeds are written as given, before and after other keys."""
    content = changed(**(PLAN | changes))
    del content["seeds"]
    head, tail = yaml.safe_dump({"study": content.pop("study")}), yaml.safe_dump(content)
    path = folder / "study.yaml"
    path.write_bytes(f"# what is compared\n{head}{seeds}\n{tail}".encode())
    return path


STYLES = {
    "seeds: [0, 1, 2]": "seeds: [0, 1, 2, 3, 4]",
    "seeds: [0,1,2] # three": "seeds: [0,1,2, 3, 4] # three",
    "seeds: [ 0, 1, 2, ]": "seeds: [ 0, 1, 2, 3, 4, ]",
    "seeds: [0, 1, # two\n  2  # last\n  ]": "seeds: [0, 1, # two\n  2, 3, 4  # last\n  ]",
    "seeds:\n- 0\n- 1\n- 2": "seeds:\n- 0\n- 1\n- 2\n- 3\n- 4",
    "seeds:\n  # first\n  - 0\n  -   1\n  - 2  # last\n  # after": (
        "seeds:\n  # first\n  - 0\n  -   1\n  - 2  # last\n  - 3\n  - 4\n  # after"
    ),
    "seeds:\r\n- 0\r\n- 1\r\n- 2\r": "seeds:\r\n- 0\r\n- 1\r\n- 2\r\n- 3\r\n- 4\r",
    "'seeds': [7, 0, 3]": "'seeds': [7, 0, 3, 8, 9]",
}


@pytest.mark.parametrize(("before", "after"), STYLES.items(), ids=lambda text: repr(text)[:40])
def test_only_the_seeds_change_in_any_style(before: str, after: str, tmp_path: Path):
    path = study(tmp_path, before)
    text, old = path.read_bytes().decode(), load(path)
    path.chmod(0o640)
    done = add_seeds(path, root=tmp_path)
    assert path.read_bytes().decode() == text.replace(before, after)
    new = load(path)
    assert new.seeds == (*old.seeds, *done.new)
    assert new.model_copy(update={"seeds": old.seeds}) == old
    assert path.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in tmp_path.iterdir()] == ["study.yaml"]


def test_a_file_that_ends_with_the_list(tmp_path: Path):
    path = tmp_path / "study.yaml"
    content = changed(**PLAN)
    del content["seeds"]
    path.write_text(yaml.safe_dump(content) + "seeds:\n  - 0\n  - 1\n  - 2")
    add_seeds(path, root=tmp_path)
    assert path.read_text().endswith("seeds:\n  - 0\n  - 1\n  - 2\n  - 3\n  - 4")


def test_runs_of_earlier_seeds_stay_what_they_were(tmp_path: Path):
    path = study(tmp_path)
    before = expand(load(path)).runs
    add_seeds(path, root=tmp_path)
    after = expand(load(path)).runs
    assert before.items() <= after.items()
    assert {run.seed for name, run in after.items() if name not in before} == {3, 4}


def look(path: Path, root: Path, seeds: int, **changed: object) -> None:
    """Record a comparison of the study at so many seeds."""
    declaration = load(path).compare.model_dump(mode="json") | changed
    sight = looks.Sight(seeds, {}, f"scores{seeds}", f"analysis{seeds}", declaration)
    looks.record(root / "tiny/looks.jsonl", sight, datetime(2026, 1, 1, tzinfo=UTC))


def golden_levels(repository: Path, kind: str) -> list[float]:
    cases = json.loads((repository / "tests/golden/statistics.json").read_text())
    return next(case for name, case in cases.items() if name.split()[0] == "G17")[f"{kind}_nominal_p"]


@pytest.mark.parametrize("kind", ["obf", "pocock"])
def test_the_levels_are_those_of_the_declared_spending(kind: str, tmp_path: Path, repository: Path):
    # one comparison at alpha 0.05 with looks at 3, 5, 7, 10 seeds: golden case G17
    family = {"metric": "avg@n", "family": ["qae.K0.4"]}
    path = study(tmp_path, **{"compare.primary": family, "compare.spending": kind})
    levels = []
    for seeds in (3, 5, 7):
        look(path, tmp_path, seeds)
        levels.append(add_seeds(path, root=tmp_path).level)
    assert levels == pytest.approx(golden_levels(repository, kind)[1:], abs=6e-7)
    with pytest.raises(SeedsError, match=r"compare.looks: \[3, 5, 7, 10\]: all are used, the study has 10 seeds"):
        add_seeds(path, root=tmp_path)


def test_the_command_says_what_was_done_and_the_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = study(tmp_path, blocks=[{"methods": ["qae.K0.4"], "group_size": 4, "seeds": [0]}])
    monkeypatch.chdir(tmp_path)
    got = CliRunner().invoke(app, ["add-seeds", "study.yaml"], catch_exceptions=False)
    first, second, third = got.stdout.splitlines()
    assert first == "study.yaml: seeds 3, 4 added: 5 per method, look 2 of 4"
    # nothing was looked at before, so all that 0.05/3 spends by half the seeds: 4 (1 - Phi(z_{alpha/4} / sqrt(1/2)))
    spent = 4 * norm.sf(norm.isf(0.05 / 3 / 4) / 0.5**0.5)
    assert second == f"level of the next analysis: p <= {spent:.3g} (obf spending of 0.05, shared by 3 comparisons)"
    assert third == "blocks with seeds of their own keep them"
    assert load(path).seeds == (0, 1, 2, 3, 4)


def test_a_look_may_be_named_and_left_out(tmp_path: Path):
    path = study(tmp_path)
    done = add_seeds(path, look=3, root=tmp_path)
    assert (done.new, done.look, done.skipped) == ((3, 4, 5, 6), 3, (5,))
    assert "looks left out: at 5 seeds" in str(done)
    with pytest.raises(SeedsError, match="look 3 has 7 seeds, the study 7 already: leave out --look"):
        add_seeds(path, look=3, root=tmp_path)
    with pytest.raises(SeedsError, match="no look 5: give 1 to 4"):
        add_seeds(path, look=5, root=tmp_path)


def test_a_study_that_began_small_grows_to_its_first_look(tmp_path: Path):
    done = add_seeds(study(tmp_path, "seeds: [4]"), root=tmp_path)
    assert (done.new, done.look) == ((5, 6), 1)


def test_a_link_stays_a_link(tmp_path: Path):
    path = study(tmp_path)
    link = tmp_path / "link.yaml"
    link.symlink_to(path)
    add_seeds(link, root=tmp_path)
    assert link.is_symlink()
    assert load(path).seeds == (0, 1, 2, 3, 4)


def test_without_declared_looks_nothing_is_added(tmp_path: Path):
    path = study(tmp_path, **{"compare.looks": None})
    text = path.read_bytes()
    with pytest.raises(SeedsError, match="compare.looks: null: declare the seeds of every look before the first"):
        add_seeds(path, root=tmp_path)
    assert path.read_bytes() == text


def test_a_declaration_that_changed_after_the_first_look_is_refused(tmp_path: Path):
    path = study(tmp_path)
    look(path, tmp_path, 3, spending="pocock")
    with pytest.raises(SeedsError, match="compare.spending: obf: was pocock at the first look: take back the change"):
        add_seeds(path, root=tmp_path)
    shutil.rmtree(tmp_path / "tiny")
    look(path, tmp_path, 3, looks=[3, 6])
    with pytest.raises(SeedsError, match=r"compare.looks: \[3, 5, 7, 10\]: was \[3, 6\] at the first look"):
        add_seeds(path, root=tmp_path)


def test_seeds_taken_back_after_a_look_are_refused(tmp_path: Path):
    path = study(tmp_path)
    look(path, tmp_path, 7)
    with pytest.raises(SeedsError, match=r"holds a look at 7 seeds: give back the seeds it had"):
        add_seeds(path, root=tmp_path)


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ("x: &s [0, 1, 2]\nseeds: *s", "unknown key"),
        (
            "seeds: &s [0, 1, 2]\nblocks: [{methods: [qae.K0.4], group_size: 4, seeds: *s}]",
            "editing them would change more",
        ),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_left_alone(seeds: str, message: str, tmp_path: Path):
    path = study(tmp_path, seeds)
    text = path.read_bytes()
    with pytest.raises(ValueError, match=message) as caught:
        add_seeds(path, root=tmp_path)
    assert len(str(caught.value).splitlines()) == 1
    assert path.read_bytes() == text
    assert [file.name for file in tmp_path.iterdir()] == ["study.yaml"]
