"""The machine file: which engine serves a stage, on what, and under which Python.

It belongs to the hardware: a profile or the command line names it (``--config machine=FILE``), jobs find it in
SEEDWISE_MACHINE, and no id covers it.  Without one every stage has the transformers engine.
"""

from __future__ import annotations

import difflib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import seedwise
from seedwise.engines.settings import EngineSettings, OnTransformers, OnVllm
from seedwise.reading import content
from seedwise.study import StudyError

EXAMPLE = "workflow/machines/vllm-cpu.yaml"
ROOT = Path(__file__).parents[2]
# What an interpreter is asked: where it stands, whose code it would run, whether it has vLLM.
_QUESTION = (
    "import importlib.util, json, sys, seedwise;"
    "print(json.dumps([sys.prefix, seedwise.__file__, importlib.util.find_spec('vllm') is not None]))"
)


class Machine(BaseModel):
    """sample, resample: the engine of these stages."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    sample: EngineSettings = Field(default_factory=OnTransformers)
    resample: EngineSettings = Field(default_factory=OnTransformers)


def read(path: str | Path) -> Machine:
    """Read and check a machine file.  Raises StudyError: one line per mistake with file, key, value and remedy."""
    found = content(path, "machine", EXAMPLE)
    try:
        return Machine.model_validate(found)
    except ValidationError as error:
        raise StudyError("\n".join(f"{path}: {_line(each)}" for each in error.errors())) from None


def engine(path: Path | None, stage: str) -> EngineSettings:
    """The engine of a stage, in the Python that the file names for it.

    Where that is not this one, the process becomes that one and runs the same command from its start.
    Raises StudyError where the interpreter cannot serve: no such file, no or another seedwise, no vLLM.
    """
    if path is None:
        return OnTransformers()
    settings: OnTransformers | OnVllm = getattr(read(path), stage)
    wanted = settings.engine == "vllm"
    if settings.python is None:
        if wanted and importlib.util.find_spec("vllm") is None:
            raise StudyError(
                f"{path}: {stage}.engine: vllm: not installed in {sys.executable}: name an interpreter that has it "
                f"under {stage}.python (make env-vllm builds one), or use engine: transformers"
            )
        return settings
    python = Path(settings.python).expanduser().absolute()  # never resolved: a link is how an environment is entered
    if _prefix(python, f"{path}: {stage}.python: {settings.python!r}", wanted) != sys.prefix:
        os.execv(python, [str(python), "-m", "seedwise.cli", *sys.argv[1:]])
    return settings


def _prefix(python: Path, where: str, vllm: bool) -> str:
    """The environment of an interpreter that can run this stage."""
    if not os.access(python, os.X_OK) or python.is_dir():
        raise StudyError(f"{where}: no program there: name an interpreter, or remove the key to use this one")
    asked = subprocess.run([python, "-c", _QUESTION], capture_output=True, text=True, check=False)
    install = f"install this code into it: {python} -m pip install --no-deps --editable {ROOT}"
    if asked.returncode:
        said = (asked.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise StudyError(f"{where}: it cannot import seedwise ({said}): {install}")
    prefix, code, has_vllm = json.loads(asked.stdout)
    if not os.path.samefile(code, seedwise.__file__):
        raise StudyError(f"{where}: its seedwise is {code}, not {seedwise.__file__}: {install}")
    if vllm and not has_vllm:
        raise StudyError(f"{where}: it has no vllm: install envs/cpu-vllm.lock into it, or use engine: transformers")
    return prefix


def _line(error: Any) -> str:
    where = [str(part) for part in error["loc"] if part not in ("transformers", "vllm")]
    key, value = ".".join(where) or "machine", error["input"]
    if error["type"] == "extra_forbidden":
        return f"{key}: unknown key{_nearest(error['loc'])}"
    if error["type"].startswith("union_tag"):
        given = value.get("engine") if isinstance(value, dict) else value
        return f"{key}.engine: {given!r}: name the engine: transformers or vllm"
    return f"{key}: {value!r}: {error['msg']}"


def _nearest(location: Sequence[str | int]) -> str:
    """What an unknown key may have meant: the keys of the section it stands in."""
    section = (
        {"transformers": OnTransformers, "vllm": OnVllm}.get(str(location[-2]), Machine) if location[1:] else Machine
    )
    names = list(section.model_fields)
    close = difflib.get_close_matches(str(location[-1]), names, 1)
    if section is OnTransformers and location[-1] in OnVllm.model_fields:
        return ": only engine: vllm has it"
    return f"; did you mean {close[0]!r}?" if close else f"; the keys here are {', '.join(names)}"
