# One word per task; each does all its own set-up, and a second run rebuilds nothing
# that has not changed.
#
#   make test       the whole suite, the kernels on every Python found, the packages,
#                   then kernels and parsers once more with bounds checks on
#   make test-all   the whole suite on every Python found
#   make lint       style, types, spelling, and no warning from the compiler
#   make build      sdist and wheel into dist/, each tried in an empty environment
#   make bench      benchmarks
#   make docs       docs/_build/html
#   make demo       the main job, on log directories that brokers wrote
#   make clean      back to what git holds
#
# PYTHON=... chooses another Python than the first that tests/packaging/pythons.sh lists.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PRECIOUS: .venv-%/installed .venv-%/compiled .venv-%/whole
MAKEFLAGS += --no-print-directory
export PIP_DISABLE_PIP_VERSION_CHECK := 1

BIN := .venv/bin
PIP := pip install --quiet
PYTHON ?= $(shell tests/packaging/pythons.sh | sed -n '1s/^[^ ]* //p')
OTHERS = $(shell tests/packaging/pythons.sh | awk '$$1 != "'$$($(BIN)/python -c \
	'import sys; print("%d.%d" % sys.version_info[:2])')'" { print $$1 }')
JOBS := 2

# What compiles the kernels and makes the pages, at the versions that the extras pin.
COMPILERS = $(shell sed -n 's/^ *"\(cython==.*\|setuptools==.*\)",/\1/p' pyproject.toml)
DOCUMENTERS = $(shell sed -n '/^docs = /p' pyproject.toml | grep -o '[a-z-]*==[0-9.]*')
KERNELS := $(wildcard kafkalog/_speedups/*.pyx kafkalog/_speedups/*.pxd kafkalog/_speedups/*.h)
SETTINGS := pyproject.toml setup.py
MODULES := $(shell find kafkalog -name '*.py' -o -name '*.pyi' -o -name '*.json')
PARSERS := $(wildcard tests/speedups tests/codecs tests/formats tests/segment tests/indexes)

.PHONY: help test test-all lint build bench docs demo clean
.PHONY: compile debug test-release test-pythons test-debug test-packages

help:
	@sed -n 's/^#   //p' Makefile

# --- set-up -------------------------------------------------------------------------

compile: .venv/compiled

.venv/installed: $(SETTINGS)
	command -v "$(PYTHON)" || { echo "needs Python 3.11 or newer with venv and headers" >&2; exit 1; }
	rm -rf .venv build/release
	"$(PYTHON)" -m venv .venv
	$(BIN)/$(PIP) $(COMPILERS)
	$(BIN)/$(PIP) --no-build-isolation --editable '.[dev]'
	touch $@

# Installing compiles all kernels; from then on, those that changed.
.venv/compiled: .venv/installed $(KERNELS)
	test -z "$$(find $(KERNELS) -newer $<)" || $(BIN)/python setup.py --quiet build_ext --inplace
	touch $@

# Another Python's environment. Its kernels lie beside ours: their names bear its tag.
# Only what kafkalog itself needs is installed, so that nothing leans on an extra.
.venv-%/installed: $(SETTINGS)
	rm -rf .venv-$*
	$$(tests/packaging/pythons.sh | sed -n 's/^$* //p') -m venv .venv-$*
	.venv-$*/bin/$(PIP) $(COMPILERS) pytest pytest-xdist hypothesis
	.venv-$*/bin/$(PIP) --no-build-isolation --editable .
	touch $@

.venv-%/compiled: .venv-%/installed $(KERNELS)
	test -z "$$(find $(KERNELS) -newer $<)" || .venv-$*/bin/python setup.py --quiet build_ext --inplace
	touch $@

.venv-%/whole: .venv-%/compiled
	.venv-$*/bin/$(PIP) --no-build-isolation --editable '.[test]'
	touch $@

# The build with bounds checks on: a tree of its own, in which every warning of the
# compiler is an error.
build/debug/settings: $(SETTINGS)
	rm -rf build/debug
	mkdir -p build/debug
	touch $@

debug: .venv/compiled build/debug/settings
	mkdir -p build/debug/kafkalog build/debug/tests
	find build/debug/kafkalog build/debug/tests -type f ! -name '*.so' -delete
	tar -cf - --exclude='*.so' --exclude=__pycache__ $(SETTINGS) LICENSE README.md kafkalog tests \
		| tar -xf - -C build/debug
	cd build/debug && CFLAGS=-Werror KAFKALOG_DEBUG=1 ../../$(BIN)/python setup.py --quiet \
		build_ext --inplace

# --- tasks --------------------------------------------------------------------------

test: test-release test-pythons build test-debug

test-release: .venv/compiled
	$(BIN)/python -m pytest -q -n $(JOBS) -m "not packaging"

test-pythons: .venv/compiled
	for version in $(OTHERS); do
		$(MAKE) .venv-$$version/compiled
		.venv-$$version/bin/python -m pytest -q -n $(JOBS) $(PARSERS)
	done

test-all: test
	for version in $(OTHERS); do
		$(MAKE) .venv-$$version/whole
		.venv-$$version/bin/python -m pytest -q -n $(JOBS) -m "not packaging" --ignore tests/test_stubs.py
	done

test-debug: debug
	cd build/debug && KAFKALOG_DEBUG=1 ../../$(BIN)/python -m pytest -q -n $(JOBS) $(PARSERS)

lint: .venv/compiled
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint kafkalog
	$(BIN)/codespell
	$(MAKE) debug

build: build/packages
	$(BIN)/python -m pytest -q tests/packaging

build/packages: .venv/compiled $(MODULES) MANIFEST.in README.md LICENSE
	rm -rf dist
	$(BIN)/python -m build --no-isolation >build/packages.log 2>&1 || { cat build/packages.log; exit 1; }
	touch $@

bench: .venv/compiled
	mkdir -p build
	$(BIN)/python -m pytest benchmarks --benchmark-json=build/benchmarks.json
	$(BIN)/python benchmarks/results.py build/benchmarks.json benchmarks/results.json

docs: .venv/documented
	$(BIN)/python -m sphinx -q -W --keep-going docs docs/_build/html

.venv/documented: .venv/compiled
	$(BIN)/$(PIP) $(DOCUMENTERS)
	touch $@

demo: .venv/compiled
	@$(BIN)/python demo/run.py

clean:
	rm -rf .venv .venv-* build dist demo-out docs/_build kafkalog.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find kafkalog tests benchmarks demo docs -name __pycache__ -prune -exec rm -rf {} +
	rm -f kafkalog/_speedups/*.so
