"""What makes planning a large study quick changes no id and no plan, and reads no file that it does not need."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rerun_made import finish, layout_of, publish, record
from study_file import STUDY, changed

from seedwise import behaviour, grid, syntax
from seedwise.identity import digest
from seedwise.layout import Layout
from seedwise.reruns import planning
from seedwise.reruns.jobs import inputs, planned

AXES = {
    "methods.again": {"preset": "qae", "K": 0.4, "init_from": "clip_higher"},
    "axes": {"train.lr": [1e-4, "1e-3"], "model.lora": [None, 4]},
    "group_size": [4, 8],
    "compare.primary.family": ["qae.K0.4", "base"],
}


def test_a_run_is_named_after_the_digest_of_its_whole_spec(tmp_path) -> None:
    layout = layout_of(changed(**AXES), tmp_path)
    assert len(layout.grid.runs) == 4 * 2 * 2 * 2 * 2  # method points, learning rates, LoRA, group sizes, seeds
    for name, run in layout.grid.runs.items():
        whole = run.model_dump(mode="json")
        spec = {key: whole[key] for key in ("base", "algorithm", "group_size", "seed", "grading", "data", "rewards")}
        spec["model"] = {key: value for key, value in whole["model"].items() if key != "template"}
        free = {"save_every", "keep_state", "keep"}
        spec["train"] = {key: value for key, value in whole["train"].items() if key not in free}
        spec["behaviour"] = grid.training_behaviour(run.algorithm)
        spec |= {"init_from": run.init_from} if run.init_from else {}
        assert name.endswith(f"-{digest(spec)[:8]}")
        endless = {key: value for key, value in spec["train"].items() if key not in ("steps", "checkpoints")}
        assert run.lineage == digest(spec | {"train": endless})


def test_ids_are_those_they_were(tmp_path, monkeypatch) -> None:
    """Under code that stands still, so that they change with the settings alone."""
    monkeypatch.setattr(behaviour, "of_modules", lambda *entries, **apart: {"module": "0" * 64})
    monkeypatch.setattr(behaviour, "of_parts", lambda parts: {"part": "1" * 64})
    found = layout_of(STUDY, tmp_path)
    ids = [name.rpartition("-")[2] for name in found.grid.runs]
    assert ids == ["84aae0c6", "7aaa8d54", "aeab1415", "414ea148", "af47f44c", "f6cd0841"]
    first = next(iter(found.grid.runs))
    continued = found.continuations(first)
    assert continued is not None
    assert (found.sampled(first).stem, found.scores(first).parent.name) == ("5618fd10", "c9a35aa5")
    assert (continued.stem, found.analysis_id, found.report_id) == ("81cbb845", "da8edaa1", "65f9c1c2")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A finished study in which a method starts from another, of two seeds each."""
    made = layout_of(changed(**{"methods.again": {"preset": "qae", "K": 0.6, "init_from": "clip_higher"}}), tmp_path)
    finish(made)
    return made


@pytest.mark.parametrize("lost", ["metrics.parquet", "spec.json", "trained.json", "scores", "record", "nothing"])
def test_the_plan_of_one_run_is_its_part_of_the_whole(layout: Layout, lost: str) -> None:
    name = next(name for name, run in layout.grid.runs.items() if run.method == "clip_higher")
    files = {"scores": layout.scores(name), "record": layout.sampled(name), "nothing": layout.file(name, "nothing")}
    files.get(lost, layout.file(name, lost)).unlink(missing_ok=True)
    layout.marker("analysis").unlink()
    layout.marker("report").unlink()
    again = Layout(layout.grid, layout.root)
    whole = planned(again)
    for subject in layout.subjects:
        assert planned(again, subject) == [job for job in whole if job.subject == subject]


def test_a_run_is_asked_for_by_those_that_start_from_it(layout: Layout) -> None:
    parent = next(name for name, run in layout.grid.runs.items() if run.method == "clip_higher")
    child = next(name for name, run in layout.grid.runs.items() if run.init_from == parent)
    for name in (parent, child):
        layout.file(name, "trained.json").unlink()
    for path in (layout.sampled(child), layout.scores(child), layout.marker("analysis"), layout.marker("report")):
        path.unlink()
    # the parent has been evaluated, so only the training of the child asks for its weights
    assert [job.stage for job in planned(layout, parent)] == ["train"]


def test_why_reads_the_specs_of_a_few_runs_like_it(tmp_path) -> None:
    layout = layout_of(changed(seeds=list(range(30))), tmp_path)
    names = list(layout.grid.runs)
    for subject in layout.grid.problems:
        record(layout.problems(subject), {})
    for name in names[1:]:
        publish(layout, name)
    # of the 29 published runs of its method the last 8 by name are read for the time of a step, and no other; why it
    # is trained is looked for among those of its seed
    read = sorted(name for name in names[1:] if name.startswith("clip_higher."))[-8:]
    for name in set(names[1:]) - set(read) - {name for name in names if ".s0-" in name}:
        layout.file(name, "spec.json").write_text("damaged")
    plan = planning.plan(layout, tmp_path / "work", only=names[0])
    estimate = plan.seconds[names[0]]
    assert (estimate.value, estimate.runs) == (4 * 2.0, 8)  # 4 steps of 2 s each
    assert plan.why["train", names[0]][0].kind == "new"


def test_planning_imports_no_table() -> None:
    program = (
        "import sys; from seedwise.cli import reruns; from seedwise.reruns import planning, status; "
        "print(sorted({'pandas', 'pyarrow', 'torch', 'scipy', 'numpy'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_bases_that_are_asked_differently_get_their_own_problems(tmp_path) -> None:
    """Rules name their inputs as text where all bases read the same, and as functions otherwise: one plan."""
    content = changed(**{"models.other": {"kind": "embedded", "template": "{compact} ="}, **{"seeds": [0]}})
    (tmp_path / "study.yaml").write_text(json.dumps(content))
    command = [sys.executable, "-m", "snakemake", "-n", "-s", str(behaviour.ROOT.parents[1] / "Snakefile")]
    command += ["--directory", str(tmp_path), "--config", "study=study.yaml"]
    shown = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(behaviour.ROOT.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    layout = layout_of(content, tmp_path)
    found = JOB.finditer(shown.stdout + shown.stderr)
    told = {file: match["input"] for match in found for file in match["output"].split(", ")}
    read = {each for file, each in told.items() if file.endswith("/trained.json")}
    assert len(read) == 2  # one model is asked otherwise than the other
    for job in planned(layout):
        if job.stage in ("train", "sample", "score", "resample"):
            read = inputs(layout, job.stage, job.subject)
            made = job.missing[0].relative_to(tmp_path)
            assert set(told[str(made)].split(", ")) == {str(path.relative_to(tmp_path)) for path in read}


JOB = re.compile(r"    input: (?P<input>.*)\n    output: (?P<output>.*)\n")


CODE = 'from seedwise.algos.part import Part\n\n\ndef one():\n    """One."""\n    return Part\n'


@pytest.fixture
def kept(tmp_path: Path, monkeypatch) -> Iterator[Path]:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for cached in (syntax._store, syntax._module_of, syntax._definitions_of):
        cached.cache_clear()
    yield tmp_path / "cache"
    for cached in (syntax._store, syntax._module_of, syntax._definitions_of):
        cached.cache_clear()


def forget() -> None:
    """As a new process."""
    for cached in (syntax._store, syntax._module_of, syntax._definitions_of):
        cached.cache_clear()


def test_code_is_parsed_once_for_all_processes(kept: Path, tmp_path, monkeypatch) -> None:
    file = tmp_path / "one.py"
    file.write_text(CODE)
    first, defined = syntax.module(file), syntax.definitions(file)
    assert first.imports == ("seedwise.algos.part", "seedwise.algos.part.Part")
    bare = "from seedwise.algos.part import Part\n\ndef one():\n    return Part\n"
    assert first.digest == digest(ast.dump(ast.parse(bare)))
    assert defined.own["one"].digest == digest(ast.dump(ast.parse(bare).body[1]))
    syntax.save()
    forget()
    monkeypatch.setattr(syntax, "tree", lambda content: pytest.fail("parsed again"))
    assert (syntax.module(file), syntax.definitions(file)) == (first, defined)


def test_an_edit_is_another_file_to_the_cache(kept: Path, tmp_path) -> None:
    file = tmp_path / "one.py"
    file.write_text(CODE)
    before = syntax.module(file)
    syntax.save()
    forget()
    file.write_text(CODE.replace("return Part", "return Park"))
    assert syntax.module(file).digest != before.digest


@pytest.mark.parametrize("content", ["", "{", '{"modules": {"a": {}}}', "[]"])
def test_a_damaged_cache_is_made_anew(kept: Path, tmp_path, content: str) -> None:
    file = tmp_path / "one.py"
    file.write_text(CODE)
    before = syntax.module(file)
    syntax.save()
    (store,) = (kept / "seedwise").iterdir()
    store.write_text(content)
    forget()
    assert syntax.module(file) == before
    syntax.save()
    assert len(json.loads(store.read_text())["modules"]) == 1


def test_without_a_place_to_keep_it_code_is_parsed(kept: Path, tmp_path) -> None:
    kept.write_text("a file where the folder would be")
    file = tmp_path / "one.py"
    file.write_text(CODE)
    assert syntax.module(file).imports
    syntax.save()
    assert kept.is_file()


def test_a_full_cache_keeps_what_is_in_use(kept: Path, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(syntax, "KEPT", 2)
    for name in ("one", "two", "three"):
        file = tmp_path / f"{name}.py"
        file.write_text(CODE.replace("one", name))
        forget()
        syntax.module(file)
        syntax.save()
    (store,) = (kept / "seedwise").iterdir()
    assert len(json.loads(store.read_text())["modules"]) == 1  # the third would be one too many
