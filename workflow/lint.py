"""`snakemake --lint` with one finding waived by name.

Environments here are pip locks (`envs/`), one for the whole workflow, so the lint that asks every rule for a
conda environment or a container is waived.  Every other finding is printed and fails.

Snakemake's command line accepts `--lint json` and prints plain text all the same, so its Python interface is used.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

from snakemake.api import OutputSettings, ResourceSettings, SnakemakeApi

WAIVED = "Specify a conda environment or container for each rule."


def findings(snakefile: Path) -> list[str]:
    """Every lint of the Snakefile and the files it includes, waived ones left out, as ``where: title``."""
    printed = io.StringIO()
    with SnakemakeApi(OutputSettings(quiet=None)) as api, contextlib.redirect_stdout(printed):
        workflow = api.workflow(resource_settings=ResourceSettings(cores=1), snakefile=snakefile)
        workflow.lint(json=True)
    return [
        f"{entry['for']}: {lint['title']}"
        for entries in json.loads(printed.getvalue()).values()
        for entry in entries
        for lint in entry["lints"]
        if lint["title"] != WAIVED
    ]


def main() -> None:
    """Print the findings; exit 1 when there are any."""
    found = findings(Path(sys.argv[1] if len(sys.argv) > 1 else "Snakefile"))
    print("\n".join(found) or f"no lint found (waived: {WAIVED})")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
