# make run    check the reference engine (installs what it needs into .venv)
# make test   formatter, linter, type checker, doctests, all tests, in parallel
# Needs Python >= 3.11 with pip and venv, and nothing else.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUN_FLAGS ?=

.PHONY: run test lint types sglang-envs test-sglang bench clean

run: $(VENV)/.installed
	$(BIN)/slotproof run --engine reference $(RUN_FLAGS)

test: lint types
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(VENV)/.tested
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.tested
	$(BIN)/mypy --strict -p slotproof.model -p slotproof.impl -p slotproof.conformance

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# The CPU build of torch first: plain torch pulls gigabytes of CUDA packages.
$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

bench: $(VENV)/.installed
	$(BIN)/python bench/lockstep.py

clean:
	rm -rf $(VENV) build *.egg-info slotproof-traces
