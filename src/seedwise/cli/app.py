"""What all commands share, and how an error reaches its reader."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

# One thread per process: jobs use cores through Snakemake.  This must stand before NumPy or torch is imported.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="One thin command per stage of the workflow, and a few for people.",
)

DEFAULT = Path("config/config.yaml")
StudyFile = Annotated[Path, typer.Option("--study", envvar="SEEDWISE_STUDY", help="study file")]
MachineFile = Annotated[
    Path | None, typer.Option("--machine", envvar="SEEDWISE_MACHINE", help="machine file: the engine of each stage")
]
AsJson = Annotated[bool, typer.Option("--json", help="one object")]


def echo(lines: Iterable[str]) -> None:
    """Print line by line."""
    for line in lines:
        typer.echo(line)


def main() -> None:
    """Entry point: an error of one of our own types is meant for the user: its text, no traceback, exit code 2."""
    try:
        app()
    except Exception as error:
        if not type(error).__module__.startswith("seedwise."):
            raise
        print(f"seedwise: {error}", file=sys.stderr)
        sys.exit(2)
