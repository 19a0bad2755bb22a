# make demo   installs into .venv, checks every gradient and trains on the housing data shipped in the package
# make test   installs into .venv and runs the tests and the doctests
# make kernels   compiles the loops of large arrays ahead of time, for this processor: two minutes of two cores, once
# make wheel     puts them into a wheel, for all levels of x86-64
# All may be repeated: an installation is made again only when pyproject.toml has changed.
# WITH_TORCH=1 (or CI=true) also installs PyTorch and the other libraries that tests and benchmarks compare with;
# TORCH_PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu" keeps PyTorch to its small CPU build.

PYTHON ?= python3
WORKERS ?= auto
TORCH_PIP_ARGS ?=
VENV := .venv
LOWEST := $(VENV)/lowest
ON_LIBRARIES := tests/every_operator/test_operators.py::test_values \
	$(addprefix src/retrograd/,data distributions onnx ops/numpy scipy sklearn training weights) \
	$(addprefix tests/,cli/test_console.py cli/commands/test_info.py compiler/programs/test_programs.py compiler/cpu/test_regions.py core \
	autograd/test_anomaly.py autograd/test_function.py distributed distributions/test_against_scipy.py sklearn inspect/watching/test_watch.py onnx \
	ops/linear ops/math ops/numpy optim/test_minimization.py \
	kernels/loops/matrices/test_products.py kernels/loops/matrices/test_triangular.py training/test_plots.py weights)
BIN := $(VENV)/bin
# Bytecode is made of what is imported, when it is: of all that is installed it would be a third of the installation.
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := install --quiet --no-compile

# Each process begins with a part of the files, whose fixtures it alone makes, and takes of another's when it is done.
PYTEST = -m pytest -q -n $(WORKERS) --dist worksteal

COMPARE :=
ifneq ($(filter true 1,$(CI) $(WITH_TORCH)),)
COMPARE := $(VENV)/compare.stamp
endif

.PHONY: demo test slow lowest uncompiled packages lint types docs bench kernels wheel clean
.DEFAULT_GOAL := demo

demo: $(VENV)/demo.stamp
	$(BIN)/retrograd check
	$(BIN)/retrograd train housing --out runs/housing

# Hundreds of tests start a process, which imports bytecode in a quarter of a second, and source in one.
unexport PYTHONDONTWRITEBYTECODE

# The library of loops is made by `make kernels`; what has changed since is compiled again before the tests. Without a
# library NumPy computes, and tests of loops are skipped.
LIBRARY := -m retrograd.kernels.build.make_library
CURRENT = $(if $(wildcard build/kernels/*.json),$(if $(wildcard $(VENV)/kernels.stamp),$(BIN)/python $(LIBRARY)))

# SLOW=1 runs the slow tests, too, in the same processes: to collect the files again takes 12 s. PART=1/4 runs a quarter
# of the cases of each test that has at least six.
SLOW ?=
PART ?=

# One BLAS thread for each test process, and one process more than processors: many tests wait for other processes.
test slow: WORKERS = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
test: export OMP_NUM_THREADS = 1
test: export OPENBLAS_NUM_THREADS = 1
test: $(VENV)/dev.stamp $(COMPARE) $(if $(SLOW),kernels)
	$(CURRENT)
	$(BIN)/python $(PYTEST) $(if $(SLOW),,-m "not slow") $(if $(PART),--part $(PART))

# What takes more than half a second, or loops: the command line from outside, the kernels. Only files that
# have such tests are collected.
slow: export OMP_NUM_THREADS = 1
slow: export OPENBLAS_NUM_THREADS = 1
slow: kernels $(VENV)/dev.stamp $(COMPARE)
	$(BIN)/python $(PYTEST) -m slow $$(grep -rl --include='test_*.py' 'mark\.slow' tests)

# The lowest versions of all dependencies that pyproject.toml declares, in an environment of their own, and the tests of
# what stands on them: the examples of the rooms that call libraries, and each third case of the tests of operators and
# of what calls a library.
lowest: export OMP_NUM_THREADS = 1
lowest: export OPENBLAS_NUM_THREADS = 1
lowest: $(VENV)/lowest.stamp
	$(LOWEST)/bin/python $(PYTEST) -m "not slow" --every 3 $(ON_LIBRARIES)

# Tests of compiled loops, as `make test` runs them in a checkout without `make kernels`: they have to pass there, or to
# say that they need the library. They are in the files that import something of kernels.
uncompiled: export OMP_NUM_THREADS = 1
uncompiled: export OPENBLAS_NUM_THREADS = 1
uncompiled: $(VENV)/dev.stamp $(COMPARE)
	$(BIN)/python $(PYTEST) -m "not slow" --without-library $(if $(PART),--part $(PART)) \
		$$(grep -rlE --include='test_*.py' '^(from|import) .*\bkernels\b' tests)

# Programs of packages that need torch, in an environment where Retrograd is installed under this name.
PACKAGES := $(VENV)/packages
packages:
	test -d $(PACKAGES) || python3 -m venv $(PACKAGES)
	$(PACKAGES)/bin/pip install -q --editable '.[bfloat16]' pytest wheel
	$(PACKAGES)/bin/retrograd torch install
	$(PACKAGES)/bin/pip install -q -r tests/packages/requirements.txt
	$(PACKAGES)/bin/python -m pytest -q -m slow tests/packages

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/dev.stamp $(VENV)/kernels.stamp  # Numba, whose decorators the loops carry
	$(BIN)/mypy

bench: kernels $(VENV)/dev.stamp $(VENV)/compare.stamp
	$(BIN)/python -m benchmarks

# Runs the programs of all pages that the tests have not run as they are, draws their pictures, builds the site in
# build/site/html, and looks at it in Chromium, if there is one. Fails on a broken link, a public name without a
# docstring, or a page that says something else than its programs print.
docs: $(VENV)/docs.stamp
	$(BIN)/python -m tools.pages.site
	$(BIN)/python $(PYTEST) tests/project/test_site_in_a_browser.py

# The loops of large arrays, compiled ahead of time: once in a checkout for this processor, where they are found from
# then on; and for a wheel for all levels of processors. Only what has changed is compiled again.
LEVELS ?= ""
kernels: $(VENV)/kernels.stamp | $(COMPARE)
	for level in $(LEVELS); do $(BIN)/python $(LIBRARY) "$$level" || exit 1; done

# RETROGRAD_WHEEL=aarch64 makes the wheel for that processor, here or elsewhere.
wheel: LEVELS = $(if $(filter aarch64,$(RETROGRAD_WHEEL)),aarch64,x86-64-v4 x86-64-v3)
wheel: kernels
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The pip of Python 3.11 takes twice the processor time of a new one for many packages.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(if $(COMPARE),$(PIP) $(INSTALL) --upgrade pip)

$(VENV)/demo.stamp: pyproject.toml | $(BIN)/python
	$(PIP) $(INSTALL) --editable '.[cli,plots,special]'
	@touch $@

ifdef COMPARE
# Each call of pip searches for all packages again, so one call installs them all.
$(VENV)/compare.stamp: pyproject.toml | $(BIN)/python
	$(PIP) $(INSTALL) $(TORCH_PIP_ARGS) --editable '.[all,dev,kernels,compare]'
	@touch $@ $(VENV)/demo.stamp

$(VENV)/dev.stamp $(VENV)/kernels.stamp: $(VENV)/compare.stamp
	@touch $@
else
$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(PIP) $(INSTALL) --editable '.[all,dev]'
	@touch $@ $(VENV)/demo.stamp

$(VENV)/kernels.stamp: pyproject.toml | $(BIN)/python
	$(PIP) $(INSTALL) --editable '.[kernels]' 'build>=1.2'
	@touch $@

$(VENV)/compare.stamp: pyproject.toml $(VENV)/dev.stamp
	$(PIP) $(INSTALL) $(TORCH_PIP_ARGS) --editable '.[compare]'
	@touch $@
endif

$(VENV)/docs.stamp: pyproject.toml | $(BIN)/python
	$(PIP) $(INSTALL) --editable '.[all,docs]'
	@touch $@

$(VENV)/lowest.stamp: pyproject.toml tools/lower_bounds.py | $(BIN)/python
	rm -rf $(LOWEST) && $(PYTHON) -m venv --without-pip $(LOWEST)
	$(BIN)/python tools/lower_bounds.py > $(LOWEST)/constraints.txt
	$(PIP) --python $(LOWEST)/bin/python $(INSTALL) --constraint $(LOWEST)/constraints.txt \
		--editable '.[all,jit]' hypothesis pytest pytest-xdist
	@touch $@
