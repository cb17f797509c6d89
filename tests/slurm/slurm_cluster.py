"""A Slurm cluster of one node on 127.0.0.1: its own munge, key, ports and folder, accounting off.

The machine is told to be larger than it is (``config_overrides``), so that jobs may ask for what a profile asks.
Clients find the cluster by wrappers on PATH: the executor takes SLURM_CONF out of the environment of its jobs.
"""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil

PLACE, PREFIX = Path("/tmp"), "seedwise-slurm-"
"""Where clusters have their folders: the path of a socket has at most 107 characters."""
DAEMONS = ("munged", "slurmctld", "slurmd")
CLIENTS = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo", "sacct", "sacctmgr", "sshare")
CONF = """
ClusterName=seedwise
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
PropagateResourceLimits=NONE
MinJobAge={min_job_age}
KillWait=10
InactiveLimit=0
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=200000 State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
PartitionName=gpu Nodes={host} MaxTime=INFINITE State=UP
"""


class ClusterError(RuntimeError):
    """No cluster can be started here; one line with the reason."""


def program(name: str) -> str:
    """Where an installed program lies; those of daemons are in no plain user's PATH.  Raises ClusterError."""
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"]))
    if found is None:
        raise ClusterError(f"{name}: not installed: apt-get install slurm-wlm munge, or make test-slurm, which asks")
    return found


def running() -> list[psutil.Process]:
    """The daemons of Slurm and munge that run on this machine, whosever they are."""
    every = psutil.process_iter(["name", "status"])
    alive = [process for process in every if process.info["status"] != psutil.STATUS_ZOMBIE]
    return [process for process in alive if process.info["name"] in (*DAEMONS, "slurmstepd")]


def mine(folder: Path) -> list[psutil.Process]:
    """Processes that were started with this folder in their command or environment, other than this one.

    Raises ClusterError for a folder that no cluster of ours has: what is found here is killed, and a ``.`` is found in
    nearly every process.
    """
    if not (folder.is_absolute() and folder.parent == PLACE and folder.name.startswith(PREFIX)):
        raise ClusterError(f"{folder}: not the folder of a cluster, which is {PLACE / PREFIX}*: nothing is ended")
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if process.pid != os.getpid() and any(str(folder) in word for word in words):
            found.append(process)
    return found


def free_ports(count: int) -> list[int]:
    """Ports on 127.0.0.1 that nobody listens on."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in servers]


class Cluster:
    """Started when made; ``stop`` ends every process and removes the folder."""

    def __init__(self, min_job_age: int = 600) -> None:
        if others := running():
            names = ", ".join(f"{process.name()} ({process.pid})" for process in others)
            raise ClusterError(f"{names}: a Slurm runs on this machine already, and tests start none beside it")
        programs = {name: program(name) for name in (*DAEMONS, *CLIENTS)}
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PLACE))
        self.processes: list[subprocess.Popen] = []
        try:
            self._start(programs, min_job_age)
        except BaseException:
            self.stop()
            raise

    def _start(self, programs: dict[str, str], min_job_age: int) -> None:
        folder, (controller, node) = self.folder, free_ports(2)
        for name in ("state", "spool", "bin"):
            (folder / name).mkdir()
        folder.chmod(0o755)  # munged refuses a socket where others cannot go
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        names = {"host": socket.gethostname().partition(".")[0], "user": getpass.getuser(), "folder": folder}
        conf = folder / "slurm.conf"
        conf.write_text(CONF.format(**names, controller=controller, node=node, min_job_age=min_job_age))
        for name in CLIENTS:
            wrapper = folder / "bin" / name
            wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={conf} exec {programs[name]} "$@"\n')
            wrapper.chmod(0o755)
        places = [f"--{what}={folder}/munge.{what.partition('-')[0]}" for what in ("key-file", "socket", "pid-file")]
        places += [f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"]
        self._daemon("munged", [programs["munged"], "--foreground", "--force", *places])
        self.wait((folder / "munge.socket").exists, "munged makes its socket")
        self._daemon("slurmctld", [programs["slurmctld"], "-D", "-f", str(conf)])
        self._daemon("slurmd", [programs["slurmd"], "-D", "-f", str(conf), "-N", names["host"]])
        self.wait(lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%T", check=False), "the node is idle")

    def _daemon(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.out").open("w") as out:
            self.processes.append(
                subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)
            )

    @property
    def path(self) -> str:
        """A PATH on which this cluster's clients come first."""
        return os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])

    def ask(self, *command: str, check: bool = True) -> str:
        """What a client prints."""
        program = str(self.folder / "bin" / command[0])
        done = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False, timeout=120)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def jobs(self) -> dict[str, tuple[str, str]]:
        """Slurm job -> comment (rule and wildcards) and working folder, of jobs that are not over."""
        lines = [line.split("|") for line in self.ask("squeue", "--noheader", "--format=%i|%k|%Z").splitlines()]
        return {job: (comment, folder) for job, comment, folder in lines}

    def job(self, rule: str, folder: Path) -> str:
        """The one job of a rule, from a driver in this folder, that is not over."""
        every = self.jobs().items()
        found = [job for job, (comment, at) in every if comment.startswith(f"rule_{rule}") and at == str(folder)]
        assert len(found) == 1, self.ask("squeue")
        return found[0]

    def wait(self, true: Callable[[], bool], what: str, seconds: float = 240.0) -> None:
        """Look until something is true.  Raises ClusterError with the daemons' last words when it never is."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end or any(daemon.poll() is not None for daemon in self.processes):
                raise ClusterError(f"not so after {seconds:g} s: {what}\n{''.join(self._told())}")
            time.sleep(0.1)

    def _told(self) -> Iterator[str]:
        for path in sorted(self.folder.glob("*.out")) + sorted(self.folder.glob("*.log")):
            yield f"{path.name}:\n{path.read_text(errors='replace')[-1500:]}\n"

    def stop(self) -> None:
        """End all that runs here, jobs first, and remove the folder; a second time does nothing."""
        if not self.folder.exists():
            return
        if len(self.processes) == len(DAEMONS):
            self.ask("scancel", "--signal=KILL", f"--user={getpass.getuser()}", check=False)
            self.ask("scancel", f"--user={getpass.getuser()}", check=False)
        for daemon in reversed(self.processes):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        # steps and what they started outlive the daemon of their node
        for process in mine(self.folder):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(mine(self.folder), timeout=30)  # which refuses a folder that is not a cluster's
        shutil.rmtree(self.folder)
