"""What a Slurm cluster says of itself, and whether the executor can follow its jobs there.

What the executor (snakemake-executor-plugin-slurm 2.6.1) does is read off its source:

- it asks ``sacct`` for the account of past jobs, whatever the settings, and submits nothing where that is missing;
- it checks a given account with ``sacctmgr`` and ``sshare``, and submits nothing where neither knows one;
- with ``slurm-status-command: squeue`` it goes back to ``sacct`` where MinJobAge is under three times its first wait;
- its waits between two questions grow to 180 s.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from seedwise.doctor.finding import Finding
from seedwise.doctor.profile import Profile

LONGEST_WAIT_S = 180
ENOUGH_S = 300
ANSWER_S = 60.0
MISSING = 127


@dataclass(frozen=True)
class Answer:
    """What a program said.  code: MISSING where it is not installed; None where it did not end in time."""

    code: int | None
    out: str = ""
    err: str = ""

    @property
    def why(self) -> str:
        """The first line of what it complained of."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        said = {MISSING: "not installed", None: "no answer in time"}.get(self.code, f"exit code {self.code}")
        return lines[0] if lines else said


def ask(*command: str, timeout_s: float = ANSWER_S) -> Answer:
    """Run a program that may not be there or may hang."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        return Answer(MISSING)
    except subprocess.TimeoutExpired:
        return Answer(None)
    return Answer(done.returncode, done.stdout, done.stderr)


def config() -> dict[str, str] | Finding:
    """The cluster's settings; a finding where it cannot be reached."""
    answer = ask("scontrol", "show", "config")
    if answer.code == MISSING:
        remedy = "run this on a login node of the cluster, or leave --profile out"
        return Finding("slurm", "fail", "scontrol is not installed", remedy)
    if answer.code != 0:
        return Finding("slurm", "fail", f"does not answer ({answer.why})", "see scontrol ping, and ask who runs it")
    return dict(re.findall(r"^(\w+)\s*=\s*(.*?)\s*$", answer.out, re.MULTILINE))


def seconds(value: str) -> int | None:
    """``300 sec``, ``5 min``: s; None where it is neither."""
    found = re.match(r"(\d+)\s*([a-z]*)", value.lower())
    unit = {"": 1, "s": 1, "m": 60, "h": 3600}.get(found[2][:1]) if found else None
    return int(found[1]) * unit if found and unit else None


def accounting(settings: dict[str, str], profile: Profile) -> Iterator[Finding]:
    """Whether the executor will learn that a job has ended, and can submit one at all."""
    answer = ask("sacct", "--noheader", "--allocations", "--format=JobIDRaw", "--name=seedwise-doctor")
    kind = settings.get("AccountingStorageType", "unknown")
    on = answer.code == 0 and not kind.endswith("/none")
    if answer.code == MISSING:
        yield Finding(
            "accounting",
            "fail",
            "sacct is not installed, which the executor asks for the account before it submits",
            "put a program named sacct on PATH that ends with 1",
        )
    elif profile.account and not on:
        text = f"slurm_account {profile.account} cannot be checked without accounting ({answer.why}), so nothing is"
        yield Finding("accounting", "fail", f"{text} submitted", f"remove slurm_account from {profile.file}")
    if profile.status == "squeue":
        yield _squeue(settings, profile, on)
    elif on:
        yield Finding("accounting", "ok", f"on ({kind}), sacct answers")
    else:
        why = "off" if kind.endswith("/none") else f"does not answer ({answer.why})"
        yield Finding(
            "accounting",
            "fail",
            f"{why}, so a job that fails is never noticed",
            f"set slurm-status-command: squeue in {profile.file}",
        )


def _squeue(settings: dict[str, str], profile: Profile, on: bool) -> Finding:
    """Whether a job that has ended stays in the queue's memory until the executor looks."""
    age = seconds(settings.get("MinJobAge", ""))
    other = f"set slurm-status-command: sacct in {profile.file}" if on else "ask who runs the cluster to raise it"
    text = f"states come from squeue, MinJobAge {'unknown' if age is None else f'{age} s'}"
    least = 3 * profile.wait_s
    if age is None or age < least:
        back = f"{text}, under 3 x slurm-init-seconds-before-status-checks: the executor goes back to sacct"
        level = "warn" if on else "fail"
        return Finding("accounting", level, back, other if on or not age else f"lower that to {max(1, age // 3)}")
    if age < LONGEST_WAIT_S:
        late = f"{text}, and the executor looks every {LONGEST_WAIT_S} s at times: a job may be forgotten before"
        return Finding("accounting", "warn", late, f"{other}, to {ENOUGH_S} s or more" if not on else other)
    return Finding("accounting", "ok", text)


def partitions(profile: Profile) -> Finding:
    """Whether the partitions that a profile names are there."""
    answer = ask("sinfo", "--noheader", "--format=%R")
    if answer.code != 0:
        return Finding("partitions", "fail", f"sinfo does not answer ({answer.why})", "see scontrol ping")
    known = sorted(set(answer.out.split()))
    wanted = [place.partition for place in profile.places if place.partition]
    if missing := [name for name in wanted if name not in known]:
        text = f"{', '.join(missing)}: not among {', '.join(known)}"
        return Finding("partitions", "fail", text, f"correct slurm_partition in {profile.file}")
    return Finding("partitions", "ok", ", ".join(wanted) or "the cluster's own choice")


def queue(profile: Profile) -> Finding:
    """Whether jobs of a driver that is gone, or of another one, are still there."""
    answer = ask("squeue", "--me", "--noheader", "--format=%i|%j")
    if answer.code != 0:
        return Finding("queue", "fail", f"squeue does not answer ({answer.why})", "see scontrol ping")
    rows = [line.partition("|") for line in answer.out.splitlines()]
    jobs = [job for job, _, name in rows if profile.prefix and name.startswith(f"{profile.prefix}_")]
    if not jobs:
        return Finding("queue", "ok", "no job of an earlier driver")
    shown = " ".join(jobs[:8]) + (" ..." if len(jobs) > 8 else "")
    return Finding(
        "queue",
        "warn",
        f"{len(jobs)} jobs of a driver of this or another study ({shown})",
        f"if it was killed, wait for them or scancel {shown} before you start Snakemake again",
    )


def reachable(profile: Profile) -> tuple[list[Finding], bool]:
    """All of the above, and whether a job can be tried."""
    found = config()
    if isinstance(found, Finding):
        return [found], False
    version, name = found.get("SLURM_VERSION", "unknown version"), found.get("ClusterName", "unknown")
    findings = [Finding("slurm", "ok", f"Slurm {version}, cluster {name}"), *accounting(found, profile)]
    where = partitions(profile)
    able = where.level != "fail" and shutil.which("srun") is not None
    return [*findings, where, queue(profile)], able
