"""The machine file: engines and interpreters of stages, outside every id, refused in one line where it is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import seedwise
from seedwise import machine
from seedwise.engines.settings import OnTransformers, OnVllm
from seedwise.machine import engine, read
from seedwise.study import StudyError

ROOT = Path(__file__).parents[2]
SOURCE = Path(seedwise.__file__).parents[1]


def written(folder: Path, text: str) -> Path:
    path = folder / "machine.yaml"
    path.write_text(text)
    return path


def test_without_a_file_every_stage_has_transformers():
    assert engine(None, "sample") == engine(None, "resample") == OnTransformers()


def test_a_stage_that_is_not_named_has_transformers(tmp_path):
    found = read(written(tmp_path, "sample: {engine: vllm, memory_share: 0.1, tensor_parallel: 2}\n"))
    assert found.sample == OnVllm(engine="vllm", memory_share=0.1, tensor_parallel=2)
    assert found.resample == OnTransformers()


def test_the_shipped_file_is_a_machine_file():
    assert read(ROOT / machine.EXAMPLE).sample.engine == "vllm"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sampel: {engine: vllm}", "sampel: unknown key; did you mean 'sample'?"),
        ("sample: {engine: vllm, memory: 0.5}", "sample.memory: unknown key; did you mean 'memory_share'?"),
        ("sample: {engine: vllm, x: 1}", "sample.x: unknown key; the keys here are engine, python, tensor_parallel"),
        ("sample: {engine: transformers, dtype: float32}", "sample.dtype: unknown key: only engine: vllm has it"),
        ("sample: {engine: sglang}", "sample.engine: 'sglang': name the engine: transformers or vllm"),
        ("sample: {python: /usr/bin/python3}", "sample.engine: None: name the engine: transformers or vllm"),
        ("sample: vllm", "sample: 'vllm': Input should be a valid dictionary"),
        ("resample: {engine: vllm, memory_share: 1.5}", "resample.memory_share: 1.5: Input should be less than"),
        ("sample: {engine: vllm, tensor_parallel: 0}", "sample.tensor_parallel: 0: Input should be greater than"),
        ("sample: {engine: vllm, enforce_eager: 1}", "sample.enforce_eager: 1: Input should be a valid boolean"),
        ("sample: {engine: vllm, dtype: int8}", "sample.dtype: 'int8': Input should be 'float32', 'bfloat16' or"),
        ("- sample", "a machine is a mapping of keys, this file holds list"),
        ("sample: {", "line "),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path, text: str, said: str):
    path = written(tmp_path, text)
    with pytest.raises(StudyError) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}: {said}")
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_named_with_the_option(tmp_path):
    with pytest.raises(StudyError, match="none.yaml: No such file .* --config machine=workflow/machines/vllm-cpu.yaml"):
        read(tmp_path / "none.yaml")


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "no program there: name an interpreter, or remove the key"),
        (
            "echo ModuleNotFoundError: no seedwise >&2; exit 1",
            "cannot import seedwise (ModuleNotFoundError: no seedwise)",
        ),
        ("exit 3", "cannot import seedwise (it says nothing): install this code into it: "),
        (f'echo \'["/other", "{os.__file__}", true]\'', f"its seedwise is {os.__file__}, not {seedwise.__file__}"),
        (f'echo \'["/other", "{seedwise.__file__}", false]\'', "it has no vllm: install envs/cpu-vllm.lock into it"),
    ],
)
def test_an_interpreter_that_cannot_serve_is_refused_in_one_line(tmp_path, script: str | None, said: str):
    python = tmp_path / "python" if script is None else program(tmp_path / "python", script)
    path = written(tmp_path, f"sample: {{engine: vllm, python: {python}}}\n")
    with pytest.raises(StudyError) as refused:
        engine(path, "sample")
    assert str(refused.value).startswith(f"{path}: sample.python: '{python}': ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_vllm_where_it_is_not_installed_is_refused_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(StudyError, match=r"sample.engine: vllm: not installed in .*: name an .* under sample.python"):
        engine(written(tmp_path, "sample: {engine: vllm}\n"), "sample")


def test_this_interpreter_by_its_name_runs_nothing_again(tmp_path):
    path = written(tmp_path, f"resample: {{engine: transformers, python: {sys.executable}}}\n")
    assert engine(path, "resample") == OnTransformers(python=sys.executable)


@pytest.fixture
def other(tmp_path) -> Path:
    """An environment of its own with the packages of this one, which says when its Python starts."""
    folder = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    packages = Path(sys.prefix, *site.relative_to(folder).parts)
    says = "import sys; print('started', sys.prefix, file=sys.stderr)"
    (site / "all.pth").write_text(f"{packages}\n{SOURCE}\n{says}\n")
    return folder


def command(folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """``seedwise sample`` of something that the study does not have: an error of the stage's own."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "seedwise.cli",
            "sample",
            "nothing-00000000",
            "--study",
            str(ROOT / "config/smoke.yaml"),
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(SOURCE)} | more,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_stage_runs_again_under_the_python_of_its_machine_file(tmp_path, other: Path):
    path = written(tmp_path, "sample: {engine: transformers, python: other/bin/python}\n")  # from the working directory
    done = command(tmp_path, SEEDWISE_MACHINE=str(path))
    assert done.stderr.splitlines()[0] == f"started {other}"
    # and the stage ends there as it would here
    assert "nothing-00000000: not part of study smoke" in done.stderr
    assert done.returncode == command(tmp_path).returncode == 2


@pytest.mark.parametrize("named", ["on the command line", "in a profile", "in the environment"])
def test_snakemake_refuses_a_wrong_file_before_any_job(tmp_path, named: str):
    path = written(tmp_path, "sample: {engine: sglang}\n")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text((ROOT / "config" / "smoke.yaml").read_text())
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile" / "config.yaml").write_text(f"config: [machine={path}]\n")
    how = {"on the command line": ["--config", f"machine={path}"], "in a profile": ["--workflow-profile", "profile"]}
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "-n", *how.get(named, [])],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SOURCE)} | ({} if named in how else {"SEEDWISE_MACHINE": str(path)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"{path}: sample.engine: 'sglang': name the engine" in done.stdout + done.stderr


def test_every_key_stands_in_the_documentation():
    text = (ROOT / "docs" / "engines.md").read_text()
    keys = {*machine.Machine.model_fields, *OnTransformers.model_fields, *OnVllm.model_fields}
    assert [key for key in keys if f"`{key}`" not in text] == []
