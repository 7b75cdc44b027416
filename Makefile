# Every target does its own set-up: a fresh clone and Python 3.11 are enough.
PYTHON ?= python3.11
VENV := .venv
CORE := .venv-core
BIN := $(VENV)/bin
# Small matrices: more BLAS threads than workers would only wait for each other.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: help setup demo test lint types unit core bench clean

help:
	@echo "make setup   install everything, extras included, into .venv (repeatable)"
	@echo "make demo    the main job on the bundled data, with its results"
	@echo "make test    lint, types and all tests, and the core once more without the extras"
	@echo "make bench   the benchmarks, each beside its peer"

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade -c constraints.txt pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[all,dev]"
	touch $@

demo: setup
	$(BIN)/kshot demo

test: lint types unit core

lint: setup
	$(BIN)/ruff format --check src tests benchmarks scripts
	$(BIN)/ruff check src tests benchmarks scripts

types: setup
	$(BIN)/mypy

unit: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

# The practitioner's installation: no torch, no JAX. The same tests; those that need an extra skip.
$(CORE)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(CORE)
	$(CORE)/bin/python -m pip install --quiet --upgrade -c constraints.txt pip
	$(CORE)/bin/python -m pip install --quiet -c constraints.txt -e . pytest pytest-xdist hypothesis psutil
	touch $@

core: $(CORE)/.ready
	$(CORE)/bin/python -m pytest -n 2 --dist worksteal -q -p no:cacheprovider -m "not slow and not train and not sample" tests

bench: setup
	for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) $(CORE) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
