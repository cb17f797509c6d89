#!/usr/bin/env bash
# Slurm and munge for the tests: installs Debian's packages where they are missing, after asking (with CI set: without).
set -euo pipefail

missing=()
for program in munged slurmctld slurmd sbatch; do
    PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null || missing+=("$program")
done
[ "${#missing[@]}" -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "not installed: ${missing[*]}, and this is no Debian: install Slurm and munge by hand" >&2
    exit 1
fi
if [ -z "${CI:-}" ]; then
    read -r -p "not installed: ${missing[*]}. Install the packages slurm-wlm and munge by apt-get? [y/N] " answer || answer=
    if [[ "$answer" != [yY]* ]]; then
        echo "nothing was installed: apt-get install slurm-wlm munge, then make test-slurm" >&2
        exit 1
    fi
fi
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)

# Debian starts daemons as it installs them, which the tests neither need nor want.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap '"${as_root[@]}" rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge
