"""`snakemake --lint` with one finding waived by name.

Environments here are pip locks (`envs/`), one for the whole workflow, so the lint that asks every rule for a
conda environment or a container is waived.  Every other finding is printed and fails.

The plain text is read: Snakemake 9.27 takes `--lint json` and prints text all the same.
"""

from __future__ import annotations

import re
import subprocess
import sys

WAIVED = "Specify a conda environment or container for each rule."


def findings(printed: str) -> list[str]:
    """Every finding in the lint's output, as ``where: what``."""
    found, where = [], ""
    for line in printed.splitlines():
        if header := re.fullmatch(r"Lints for (.+):", line):
            where = header[1]
        elif title := re.fullmatch(r" {4}\* (.+?):?", line):
            found.append(f"{where}: {title[1]}")
    return found


def main() -> None:
    """Lint the workflow of the current folder.  Exit 1 on a finding that is not waived, or when none can be read."""
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--lint"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    found = findings(done.stdout)
    remaining = [finding for finding in found if not finding.endswith(f": {WAIVED}")]
    if done.returncode and not found:
        sys.exit(done.stdout)
    print("\n".join(remaining) or f"no lint found, {len(found)} times waived: {WAIVED}")
    sys.exit(1 if remaining else 0)


if __name__ == "__main__":
    main()
