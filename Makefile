# Every step of continuous integration is a target of this file. A target makes the virtual
# environment it needs from nothing but Python and make, and keeps it until pyproject.toml
# changes. Environments hold the package as a user installs it, never the folder itself.

PYTHON ?= python3
# The oldest Python that pyproject.toml admits.
PYTHON_FLOOR ?= python3.11
# One release for every environment: the newest brings gigabytes of CUDA libraries.
TORCH ?= torch==2.13.0
# Arguments for the command of a target: make test ARGS="-k entmax -x"
ARGS ?=
# What reaches the kernels with little data: `make coverage` runs these without compiling.
KERNEL_TESTS ?= tests/test_kernels_*.py

SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
# With the folders, so that a removed file is noticed too.
SOURCES := $(shell find sklearn_softkmeans -name __pycache__ -prune -o -print)

INSTALL_bench = .
INSTALL_demo = ".[plot]"
INSTALL_doc = "$(TORCH)" pandas ".[dask,doc,onnx,plot,torch]"
INSTALL_examples = "$(TORCH)" pandas ".[dask,plot,torch]"
# dask takes any pyarrow, and that one needs NumPy 2 from some release on.
INSTALL_floors = --constraint .venv-floors/floors.txt "pyarrow<20" "$(TORCH)" ".[test]"
INSTALL_test = "$(TORCH)" ".[test]"

# "numpy>=1.26" is tested as "numpy==1.26.*".
define PRINT_FLOORS
import tomllib
with open("pyproject.toml", "rb") as file:
    for requirement in tomllib.load(file)["project"]["dependencies"]:
        print(requirement.replace(">=", "==") + ".*")
endef
export PRINT_FLOORS

# Installs share the folder build/.
.NOTPARALLEL:
.PRECIOUS: .venv-%/made .venv-%/installed
.PHONY: help demo examples claims doc test lint format coverage fuzz test-floors bench clean

help:  ## List the targets (the default)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: .venv-demo/installed  ## Run the demonstration: tables on the terminal, and demo.png
	.venv-demo/$(SCRIPTS)/python examples/demo.py $(ARGS)

examples: .venv-examples/installed  ## Run the examples that draw; their pictures go to build/examples
	.venv-examples/$(SCRIPTS)/python examples/run.py $(ARGS)

claims: .venv-demo/installed  ## Print the tables behind doc/claims.md: some minutes
	.venv-demo/$(SCRIPTS)/python examples/claims_table.py $(ARGS)

doc: .venv-doc/installed  ## Build the site, with its gallery, in build/doc: some minutes
	.venv-doc/$(SCRIPTS)/sphinx-build -W --keep-going -j auto -d build/doctrees doc build/doc $(ARGS)

test: .venv-test/installed  ## Run all tests and doctests on the installed package
	.venv-test/$(SCRIPTS)/pytest $(ARGS)

lint: .venv-lint/installed  ## Check style and formatting
	.venv-lint/$(SCRIPTS)/ruff check .
	.venv-lint/$(SCRIPTS)/ruff format --check .

format: .venv-lint/installed  ## Fix style and formatting where that is safe
	.venv-lint/$(SCRIPTS)/ruff check --fix .
	.venv-lint/$(SCRIPTS)/ruff format .

# Compiled code is invisible to coverage, so kernels are measured as plain Python; what chooses
# them runs only while they are compiled, so their cache is empty at first.
coverage: .venv-test/installed  ## All lines and branches, and 95 % of the kernels
	rm -rf build/cold
	NUMBA_CACHE_DIR="$(CURDIR)/build/cold" .venv-test/$(SCRIPTS)/pytest --cov --cov-report=
	.venv-test/$(SCRIPTS)/coverage report --omit='*/_kernels/*' --fail-under=100
	NUMBA_DISABLE_JIT=1 .venv-test/$(SCRIPTS)/pytest --cov --cov-report= $(KERNEL_TESTS)
	.venv-test/$(SCRIPTS)/coverage report --include='*/_kernels/*' --fail-under=95

fuzz: .venv-test/installed  ## Throw thousands of arbitrary inputs at the estimators
	.venv-test/$(SCRIPTS)/pytest tests/test_fuzz_inputs.py \
		--hypothesis-profile=fuzz --hypothesis-show-statistics $(ARGS)

test-floors: .venv-floors/installed  ## Run all tests on the oldest versions allowed
	.venv-floors/$(SCRIPTS)/pytest $(ARGS)

bench: .venv-bench/installed  ## Measure speed side by side with scikit-learn
	.venv-bench/$(SCRIPTS)/python benchmarks/run.py $(ARGS)

clean:  ## Remove environments and everything else that was made
	rm -rf .venv-* build dist *.egg-info demo.png doc/auto_examples doc/generated
	rm -rf .coverage .coverage.* .hypothesis .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv-%/made: pyproject.toml
	$(PYTHON) -m venv --clear $(@D)
	touch $@

.venv-floors/made: pyproject.toml
	$(PYTHON_FLOOR) -m venv --clear $(@D)
	$(@D)/$(SCRIPTS)/python -c "$$PRINT_FLOORS" > $(@D)/floors.txt
	touch $@

# build/ may still hold modules that were removed since.
.venv-%/installed: .venv-%/made $(SOURCES)
	rm -rf build
	$(@D)/$(SCRIPTS)/python -m pip install --quiet $(INSTALL_$*)
	touch $@

# Dependency groups need a recent pip.
.venv-lint/installed: .venv-lint/made
	$(@D)/$(SCRIPTS)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(@D)/$(SCRIPTS)/python -m pip install --quiet --group lint
	touch $@
