# Two commands for a fresh machine: `make demo` and `make test`. Each sets itself up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPILED := .venv-compiled
RUN := configs/runs/transpose_digits.toml

.PHONY: help demo test slow fuzz cores mutants check pins results lint wheel compiled bench clean

help:
	@echo "make demo      transpose a real matrix on the patent's 128 x 64 array, with a picture"
	@echo "make test      run the tests (about ten minutes on two cores)"
	@echo "make slow      run what \`make test\` leaves out of the long sweeps (about half an hour)"
	@echo "make fuzz      damage 2,000 files of each kind that commands read (about half an hour)"
	@echo "make cores     both engines on 10,000 random chips of several cores (half an hour; goes on where it stopped)"
	@echo "make mutants   try the tests on NUMBER=120 small mistakes in WHAT=\"hw/formulas isa/lint machine\", drawn by SEED=1"
	@echo "make check     compare the cycle counts of all shipped runs with the pinned ones"
	@echo "make pins      write the counts of all shipped runs, keeping the reasons"
	@echo "make results   write docs/results, its pictures, and the figures of README.md (ten minutes)"
	@echo "make lint      ruff and mypy"
	@echo "make wheel     build the package and run it as users install it"
	@echo "make compiled  the event engine as machine code, in $(COMPILED) (needs a C compiler; four minutes)"
	@echo "make bench     the measurements of docs/performance.md"
	@echo "make clean     remove what the others made"

demo: $(VENV)/user
	$(BIN)/systolic run $(RUN) --out out/demo
	@echo "picture and figures: out/demo"

test: $(VENV)/dev
	$(BIN)/python -m pytest -m "not slow" -n auto $(PYTEST_ARGS)

slow: $(VENV)/dev
	$(BIN)/python -m pytest -m slow -n auto $(PYTEST_ARGS)

# .ci/run tries a tenth of the cases with the other slow tests.
fuzz: $(VENV)/dev
	SYSTOLIC_FUZZ_CASES=2000 $(BIN)/python -m pytest -m slow -n auto tests/fuzz/test_files.py $(PYTEST_ARGS)

cores: $(VENV)/dev
	$(BIN)/python tests/support/many_cores.py out/cores.jsonl

# `map` traces which test runs which line, once: remove out/mutation when the tree has changed.
NUMBER ?= 120
SEED ?= 1
WHAT ?= hw/formulas isa/lint machine
mutants: $(VENV)/dev
	$(BIN)/python -m tests.mutation map --jobs 2
	$(BIN)/python -m tests.mutation run --number $(NUMBER) --seed $(SEED) --results out/mutation/seed_$(SEED).jsonl $(WHAT)

check: $(VENV)/user
	$(BIN)/systolic check

pins: $(VENV)/user
	$(BIN)/systolic check --update --pins configs/pinned_cycles.toml
	$(BIN)/python tests/sweep/timing_counts.py

results: $(VENV)/user
	for script in transpose_map transpose_formats view_pictures; do $(BIN)/python docs/pictures/$$script.py || exit 1; done
	$(BIN)/python docs/results/results.py

wheel: $(VENV)/dev
	.ci/wheel $(BIN)/python

compiled: $(COMPILED)/done

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/dev
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) $(COMPILED) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/user: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/user

# The wheel is made from the source distribution, for mypyc leaves what it makes beside the sources.
$(COMPILED)/done: pyproject.toml $(shell find sim configs -name '*.py' -o -name '*.toml')
	$(PYTHON) -m venv --clear $(COMPILED)
	$(COMPILED)/bin/python -m pip install --quiet --disable-pip-version-check build
	HATCH_BUILD_HOOK_ENABLE_MYPYC=1 $(COMPILED)/bin/python -m build --outdir $(COMPILED)/dist . >/dev/null
	$(COMPILED)/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo $(COMPILED)/dist/*.whl)$(EXTRAS)"
	@touch $@
