# make run    check the reference engine (installs what it needs into .venv)
# make test   formatter, linter, type checker, doctests, all tests, in parallel
# Needs Python >= 3.11 with pip and venv, and nothing else.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUN_FLAGS ?=

.PHONY: run test lint types soak sglang-env test-sglang bench clean

run: $(VENV)/.installed
	$(BIN)/slotproof run --engine reference $(RUN_FLAGS)

test: lint types
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(VENV)/.tested
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

# mypy does not follow an editable install whose folders have other names: give it the layout.
types: $(VENV)/.tested
	mkdir -p build/types/slotproof
	for part in model impl conformance; do ln -sfn ../../../$$part build/types/slotproof/$$part; done
	cd build/types && ../../$(BIN)/mypy --config-file ../../pyproject.toml \
		-p slotproof.model -p slotproof.impl -p slotproof.conformance
	cd conformance/drivers/sglang && ../../../$(BIN)/mypy --config-file ../../../pyproject.toml .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

# More than 10,000 examples on the reference engine, from a fixed list of seeds.
soak: $(VENV)/.installed
	for seed in 101 102 103 104 105 106 107 108 109 110; do \
		$(BIN)/slotproof run --examples 1008 --seed $$seed || exit $$?; done

# An environment with a real SGLang build that runs on a CPU: make sglang-env V=0.5.23
SGLANG := .envs/sglang-$(V)
sglang-env:
	test -n "$(V)" || { echo "which release? make sglang-env V=0.5.23"; exit 2; }
	$(PYTHON) -m venv $(SGLANG)
	$(SGLANG)/bin/pip install --quiet -r conformance/drivers/sglang/requirements.txt
	$(SGLANG)/bin/pip install --quiet --no-deps sglang==$(V)

# Needs `make sglang-env` for 0.5.10.post1 and 0.5.23.
test-sglang: $(VENV)/.tested
	SLOTPROOF_SGLANG=.envs $(BIN)/python -m pytest -m sglang conformance/tests

bench: $(VENV)/.installed
	$(BIN)/python bench/lockstep.py

clean:
	rm -rf $(VENV) build *.egg-info slotproof-traces
