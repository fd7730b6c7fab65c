# make run    check the reference engine (installs what it needs into .venv)
# make check  while you work: formatter, linter, type checker, doctests and the fast tests
# make test   before a commit: the same and the slow ones; of pages in a browser where there is a
#             Chromium
# make test-all  before an issue is closed: everything, part by part, with the minutes of each;
#             writes down what passed, for make test-changed; PARTS="kills fuzz" is these alone;
#             SGLANG=no and VLLM=no leave out the builds of these engines, which take a network the
#             first time
# make test-changed  what test-all does more than test, where its inputs changed since it passed,
#             but for other provers
# make fuzz   files and drivers that nobody vouches for, as long as it is told: SECONDS=600, or
#             N=100000 of each kind; KIND=logs, SEED=1; FROM=1234 N=1 is one input alone
# make mutants  the reference engine's source with one place changed, for places drawn by chance, and
#             a run by default on each: N=400, SEED=0, JOBS=2, AGAIN=yes runs those that are recorded too
# make mutant-table  docs/reference/mutants: which oracles find which mutant; SEEDS=10, JOBS=2 (hours)
# make explore  every state of small worlds of the spec; wrong-specs, spec-mutants, cvc5, tlc and smtlib
#             are more of the model's checks of itself, ARGS=--help lists the options of one
# make traces  every committed trace recorded again by its build and the code of today; environments
#             are made where they are missing; ONLY='*-retract-tail.itf.json' is these alone
# make gallery  a page for each mutant and each finding, in build/gallery (some minutes)
# make site   the documentation as a site, in build/site; it opens from disk
# Needs Python >= 3.11 with pip and venv, and nothing else.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUN_FLAGS ?=
# What an interpreter that has no slotproof installed finds it by.
PACKAGES := model:impl:conformance
# The releases that the tests drive; their environments are kept in the checkout.
SGLANG ?= 0.5.10.post1 0.5.23
VLLM ?= 0.33.0
export SLOTPROOF_ENVS ?= $(CURDIR)/.envs
export SLOTPROOF_RELEASES = $(SGLANG)
export SLOTPROOF_VLLM_RELEASES = $(VLLM)

# Tests of pages need a Chromium; `make test` says so where there is none.
CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
ifeq ($(CHROMIUM),)
BROWSER := not browser
BROWSER_SAYS := Pages were NOT tested in a browser: there is no chromium on the PATH
WITHOUT := --without browser
else
BROWSER := (browser or not browser)
BROWSER_SAYS := Pages were tested in $(CHROMIUM)
endif

# A model checker in Java looks at the spec; `make test-all` says so where there is none.
JAVA := $(shell command -v java)
ifeq ($(JAVA),)
JAVA_SAYS := TLC was NOT run: there is no java on the PATH
WITHOUT += --without tlc
else
JAVA_SAYS := TLC was run with $(JAVA)
endif

.PHONY: run check test test-all test-changed lint types prose site soak fuzz mutants mutant-table explore wrong-specs spec-mutants cvc5 tlc smtlib sglang-env sglang-envs vllm-env vllm-envs test-sglang test-vllm test-browser test-gpu traces gallery bench bench-gpu clean

run: $(VENV)/.installed
	$(BIN)/slotproof run --engine reference $(RUN_FLAGS)

ifeq ($(SGLANG),no)
BUILDS_SAYS := SGLang builds were NOT tested: SGLANG=no
WITHOUT += --without sglang
else
BUILDS_SAYS := SGLang builds are tested: $(SGLANG)
ENVIRONMENTS := sglang-envs
endif

ifeq ($(VLLM),no)
VLLM_SAYS := vLLM builds were NOT tested: VLLM=no
WITHOUT += --without vllm
else
VLLM_SAYS := vLLM builds are tested: $(VLLM)
ENVIRONMENTS += vllm-envs
endif

PYTEST := $(BIN)/python -m pytest -n auto --durations-min=1
WITHIN := not quality and not exhaustive and not sglang and not vllm
FAST := $(WITHIN) and not slow and not browser

check: lint types prose
	$(PYTEST) --durations=5 -m "$(FAST)"

test: lint types prose
	$(PYTEST) --durations=20 -m "$(WITHIN) and $(BROWSER)"
	@echo "$(BROWSER_SAYS)"
	@echo "Mutants, builds of engines, kills, interrupts, fuzz, all of the spec: make test-all, or make test-changed"

test-all: lint types prose $(ENVIRONMENTS)
	$(BIN)/python -m tests.parts $(WITHOUT) $(PARTS)
	@echo "$(BUILDS_SAYS)"
	@echo "$(VLLM_SAYS)"
	@echo "$(BROWSER_SAYS)"
	@echo "$(JAVA_SAYS)"

test-changed: $(VENV)/.tested $(ENVIRONMENTS)
	$(BIN)/python -m tests.parts --changed $(WITHOUT)
	@echo "$(BUILDS_SAYS)"
	@echo "$(VLLM_SAYS)"

# Its cache is no input of a part: beside a driver's ruff.toml it would be.
lint: export RUFF_CACHE_DIR = $(CURDIR)/$(VENV)/ruff
lint: $(VENV)/.tested
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.tested
	$(BIN)/mypy
	$(BIN)/basedpyright

prose: $(VENV)/.tested
	cd conformance && ../$(BIN)/python -m tests.prose

site: $(VENV)/.tested
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[reference]'
	touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,docs]'
	touch $@

# More than 10,000 examples on the reference engine, from a fixed list of seeds.
soak: $(VENV)/.installed
	for seed in 101 102 103 104 105 106 107 108 109 110; do \
		$(BIN)/slotproof run --examples 1008 --seed $$seed || exit $$?; done

# The inputs of the tests in conformance/tests/fuzz, on and on; what fails is in build/fuzz.
fuzz: $(VENV)/.tested
	$(BIN)/python -m tests.fuzz $(if $(KIND),--kind $(KIND)) \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(N),--inputs $(N)) \
		$(if $(SEED),--seed $(SEED)) $(if $(FROM),--start $(FROM))

# Systematic mutants of the reference engine; a survivor that is not recorded ends with status 1.
mutants: $(VENV)/.tested
	$(BIN)/python -m tests.systematic --jobs $(or $(JOBS),2) \
		$(if $(N),--sample $(N)) $(if $(SEED),--seed $(SEED)) $(if $(AGAIN),--again)

# Mutants of the reference engine by the oracles that find them, and one bug per oracle that no
# other oracle finds.
mutant-table: $(VENV)/.tested
	$(BIN)/python -m tests.mutant_table --jobs $(or $(JOBS),2) $(if $(SEEDS),--seeds $(SEEDS))

# The spec explored, its mutants, its obligations by other provers: model/tests/checks.
explore wrong-specs spec-mutants cvc5 tlc smtlib: $(VENV)/.tested
	$(BIN)/python -m tests.checks $@ $(ARGS)

# An environment of one more release: make sglang-env V=0.5.18
sglang-env: $(VENV)/.installed
	@test -n "$(V)" || { echo "which release? make sglang-env V=0.5.23"; exit 2; }
	$(BIN)/slotproof env create sglang==$(V)

sglang-envs: $(VENV)/.installed
	@for release in $(SGLANG); do $(BIN)/slotproof env create sglang==$$release || { \
		echo "make test SGLANG=no does without SGLang builds"; exit 2; }; done

vllm-env: $(VENV)/.installed
	@test -n "$(V)" || { echo "which release? make vllm-env V=0.33.0"; exit 2; }
	$(BIN)/slotproof env create vllm==$(V)

vllm-envs: $(VENV)/.installed
	@for release in $(VLLM); do $(BIN)/slotproof env create vllm==$$release || { \
		echo "make test VLLM=no does without vLLM builds"; exit 2; }; done

test-vllm: $(VENV)/.tested vllm-envs
	$(BIN)/python -m pytest -m vllm conformance/tests

test-sglang: $(VENV)/.tested sglang-envs
	$(BIN)/python -m pytest -m sglang conformance/tests

test-browser: $(VENV)/.tested
	$(BIN)/python -m pytest -m browser conformance/tests/browser

# What the pages of docs/findings show: committed, and tested by the parts sglang and vllm.
traces: $(VENV)/.tested
	$(BIN)/python -m tests.traces_again $(if $(ONLY),--only '$(ONLY)')

gallery: $(VENV)/.installed
	for mutant in $$($(BIN)/slotproof list mutants | cut -d' ' -f1); do \
		$(BIN)/slotproof run --engine reference:$$mutant --out build/gallery/traces >/dev/null; \
		test $$? = 1 || { echo "$$mutant was not found"; exit 1; }; done
	$(BIN)/slotproof show --all --out build/gallery \
		build/gallery/traces/*-seed0.itf.json docs/findings/*.itf.json

# Kernels, graphs and the reference engine on a GPU; without one it says that nothing ran.
# PY=python3 is run as it is, and nothing is installed; PYTHONPATH may bring what it lacks along.
# PYTEST_FLAGS="-n 8" is for pytest.
test-gpu: $(if $(PY),,$(VENV)/.tested)
	@PYTHONPATH=$(PACKAGES)$${PYTHONPATH:+:$$PYTHONPATH} $(or $(PY),$(BIN)/python) conformance/tests/gpu.py $(PYTEST_FLAGS)

bench: $(VENV)/.installed
	$(BIN)/python bench/lockstep.py

# On a GPU: the page audit, allocation, conformance; NAME=h200 names the files.
NAME ?= gpu
bench-gpu: $(if $(PY),,$(VENV)/.tested)
	for what in audit memory lockstep; do \
		PYTHONPATH=$(PACKAGES)$${PYTHONPATH:+:$$PYTHONPATH} $(or $(PY),$(BIN)/python) \
		bench/$$what.py --device cuda --record bench/results/$$what-$(NAME).json || exit $$?; done

clean:
	rm -rf $(VENV) build *.egg-info slotproof-traces
