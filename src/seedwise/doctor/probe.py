"""What a job on a compute node finds: the shared folder, the environment, a GPU.

``python -m seedwise.doctor.probe FILE`` is that job: it writes what it finds to FILE, and the file must appear here.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from seedwise.doctor import slurm
from seedwise.doctor.finding import Finding
from seedwise.doctor.profile import Place, Profile

NEEDED = ("torch", "transformers", "trl", "pandas", "snakemake")
MINUTES = 5
MEMORY_MB = 4000
APPEARS_S = 30.0
"""A network file system may show a new file late."""


def found() -> dict[str, Any]:
    """What this process can use: host, imports that failed (name -> reason), and how many GPUs torch sees."""
    broken: dict[str, str] = {}
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except (ImportError, OSError) as error:  # a library beneath it may be missing, too
            broken[name] = " ".join(str(error).split()) or type(error).__name__
    gpus = 0 if "torch" in broken else importlib.import_module("torch").cuda.device_count()
    return {"host": socket.gethostname(), "broken": broken, "gpus": gpus}


def at(place: Place, profile: Profile, folder: Path, wait_s: int) -> list[Finding]:
    """Send a job to a place and read what it wrote into ``folder``, an absolute path.

    wait_s: how long a free node is waited for.
    """
    name = f"seedwise-doctor-{uuid.uuid4().hex[:8]}"
    file = folder / f".{name}.json"
    command = ["srun", f"--job-name={name}", f"--immediate={wait_s}", f"--time={MINUTES}", f"--mem={MEMORY_MB}"]
    command += ["--nodes=1", "--ntasks=1", f"--chdir={Path.cwd()}"]
    command += [f"--partition={place.partition}"] if place.partition else []
    command += [f"--account={profile.account}"] if profile.account else []
    command += [f"--gpus={place.gpus}"] if place.gpus else []
    try:
        answer = slurm.ask(*command, sys.executable, "-m", __name__, str(file), timeout_s=wait_s + 60 * MINUTES)
        if answer.code is None:
            slurm.ask("scancel", f"--name={name}")
        return read(place, answer, _appeared(file) if answer.code == 0 else None, profile)
    finally:
        file.unlink(missing_ok=True)


def _appeared(file: Path) -> dict[str, Any] | None:
    """What the job wrote, once it can be seen here; None where it never is."""
    end = time.monotonic() + APPEARS_S
    while not file.exists():
        if time.monotonic() > end:
            return None
        os.scandir(file.parent).close()  # makes a network file system look again
        time.sleep(0.2)
    return json.loads(file.read_text())


def read(place: Place, answer: slurm.Answer, told: dict[str, Any] | None, profile: Profile) -> list[Finding]:
    """What the job's end and the file it wrote mean.  told: None where no file appeared."""
    if answer.code is None or "Unable to allocate resources" in answer.err:
        remedy = "try again later, or with a longer --wait"
        if "queued" not in answer.err and "busy" not in answer.err and answer.code is not None:
            remedy = f"correct what {profile.file} asks for there"
        why = answer.err.strip().splitlines()[-1] if answer.err.strip() else answer.why
        level = "warn" if "--wait" in remedy else "fail"
        return [Finding("node", level, f"{place}: no job was started ({why})", remedy)]
    if answer.code != 0:
        why = answer.err.strip().splitlines()[0] if answer.err.strip() else answer.why
        remedy = f"make {sys.executable} and the checkout visible on the compute nodes, at the same path"
        return [Finding("environment", "fail", f"{place}: the job failed ({why})", remedy)]
    if told is None:
        remedy = "start Snakemake in a folder on a file system that all nodes share"
        text = f"{place}: what a job writes in {Path.cwd()} is not seen here"
        return [Finding("shared folder", "fail", text, remedy)]
    findings = [Finding("shared folder", "ok", f"{place}: a job on {told['host']} wrote, and it is read here")]
    if broken := told["broken"]:
        text = "; ".join(f"{name} ({why})" for name, why in broken.items())
        remedy = "build the environment on such a node: make env"
        findings.append(Finding("environment", "fail", f"{place}: not importable: {text}", remedy))
    else:
        findings.append(Finding("environment", "ok", f"{place}: {', '.join(NEEDED)} import"))
    if place.gpus and told["gpus"] < place.gpus:
        text = f"{place}: torch sees {told['gpus']} of {place.gpus}"
        remedy = "ask for GPUs as this cluster names them (gpu_model), and install torch with CUDA: envs/README.md"
        findings.append(Finding("gpu", "fail", text, remedy))
    elif place.gpus:
        findings.append(Finding("gpu", "ok", f"{place}: torch sees {told['gpus']}"))
    return findings


def main(file: Path) -> None:
    """Write what is found, whole or not at all."""
    new = file.with_suffix(".new")
    new.write_text(json.dumps(found()) + "\n")
    new.replace(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
