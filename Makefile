# One word per task; each does all its own set-up, and a second run rebuilds nothing
# that has not changed.
#
#   make test       the suite, Spark's newest release with it: a few minutes
#   make test-long  what is slow: crash states and campaigns, a cluster of Spark, PySpark
#                   4.0, Spark's own Kafka source and a live broker, the kernels on every
#                   Python found, the documentation in a browser, the packages, hostile
#                   input, then kernels and parsers under sanitizers and with bounds checks on
#   make lint       style, types, spelling, and no warning from the compiler
#   make build      sdist and wheel into dist/, each tried in an empty environment; an
#                   editable install tried from several directories
#   make wheels     in dist/ also a wheel for each other Python found, and for ARM64, each
#                   tried in an empty environment
#   make fuzz       hostile input, SECONDS of it for each parser (600)
#   make sanitize   kernels, parsers and campaigns under sanitizers of addresses and sums
#   make bench      benchmarks, docs/performance.md and the table of README.md;
#                   bench-PART, as bench-java, one of them
#   make docs       docs/_build/html, and the manual page of the command in docs/_build/man
#   make demo       the main job, on log directories that brokers wrote, and on its own
#   make clean      back to what git holds
#
# PYTHON=... chooses another Python than the first that tests/packaging/pythons.sh lists
# (3.11 to 3.14).

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PRECIOUS: .venv-%/installed .venv-%/compiled .venv-spark%/installed
MAKEFLAGS += --no-print-directory
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Hundreds of processes import the same modules: Python keeps what it compiled of them.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# Python compiles what is imported; compiling all that is installed takes longer.
INSTALL := install --quiet --no-compile
PIP := pip $(INSTALL)
# PySpark is published as source. Its wheel is nearly all archives of Java, which do not
# become smaller, and is only installed.
UNCOMPRESSED := --config-settings=--build-option=--compression=stored
PYTHON ?= $(shell tests/packaging/pythons.sh | sed -n '1s/^[^ ]* //p')
OTHERS = $(shell tests/packaging/pythons.sh | awk '$$1 != "'$$($(BIN)/python -c \
	'import sys; print("%d.%d" % sys.version_info[:2])')'" { print $$1 }')
JOBS := 2
# Of tests that often wait for other threads and processes.
WAITING := 3
# Prints where an environment has its packages.
PACKAGES := python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'

# What compiles the kernels, at the versions that the groups pin.
COMPILERS = $(shell sed -n 's/^ *"\(cython==.*\|setuptools==.*\)",/\1/p' pyproject.toml)
KERNELS := $(wildcard kafkalog/_speedups/*.pyx kafkalog/_speedups/*.pxd kafkalog/_speedups/*.h kafkalog/storage/*.pyx)
SETTINGS := pyproject.toml setup.py
# The newest PySpark is in .venv; these are the oldest that is read from, and the newest
# whose Kafka source is published.
OLDEST := 4.0
JUDGE := 4.2.0
COPY_JARS := org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DincludeScope=runtime
NEEDS_JAVA = without=$$(tests/spark/java.sh) || { echo "left out: $@, as there is $$without"; exit 0; }
NEEDS_BROKER = $(NEEDS_JAVA); command -v mvn >/dev/null || { echo "left out: $@, as there is no Maven found"; exit 0; }
NEEDS_CHROMIUM = without=$$(tests/docs/chromium.sh) || { echo "left out: $@, as there is $$without"; exit 0; }
NEEDS_ARM64 = for needed in apt-get aarch64-linux-gnu-gcc qemu-aarch64; do command -v $$needed >/dev/null || { echo "left out: $@, as there is no $$needed found"; exit 0; }; done
NEEDS_ATHERIS = $(BIN)/python -c 'import atheris' 2>/dev/null || { echo "left out: $@, as there is no atheris for this Python"; exit 0; }
MODULES := $(shell find kafkalog pyspark_kafkalog -name '*.py' -o -name '*.pyi' -o -name '*.json')
PARSERS := tests/speedups tests/codecs tests/text tests/formats tests/messages tests/decoding tests/encoding tests/validation tests/indexes
CLEANER := tests/cleaner/test_retention_decision.py
READERS := tests/dump tests/query/test_corruption.py tests/query/test_scan_golden.py tests/values/test_schema_headers.py tests/values/test_json_values.py
# Fewer examples of property tests that the suite has run with all of them.
BRIEF := --hypothesis-profile=brief
SECONDS := 600
# Those beside Spark's own Kafka source and sink, with a broker.
WITH_CONNECTOR := bench-spark_kafka bench-spark_sink
PARTS := $(patsubst benchmarks/bench_%.py,%,$(sort $(wildcard benchmarks/bench_*.py)))
# The sanitizers' own library comes first in a process, and that of C++, which throws.
SANITIZED = KAFKALOG_SANITIZE=1 PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 \
	UBSAN_OPTIONS=print_stacktrace=1 \
	LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libstdc++.so)" \
	../../$(BIN)/python -m pytest -q -n $(JOBS)

.PHONY: help test test-long lint build wheels wheel-arm64 fuzz sanitize bench docs demo clean
.PHONY: compile debug sanitized kafka-classes measured $(PARTS:%=bench-%)
.PHONY: test-suite test-slow test-spark test-spark-slow test-spark-oldest test-interop
.PHONY: test-clients test-pythons test-docs test-fuzz test-sanitize test-debug

help:
	@sed -n 's/^#   //p' Makefile

# --- set-up -------------------------------------------------------------------------

compile: .venv/compiled

.venv/installed: $(SETTINGS)
	command -v "$(PYTHON)" || { echo "needs Python 3.11 to 3.14 with venv and headers" >&2; exit 1; }
	rm -rf .venv build/release build/lib-*
	"$(PYTHON)" -m venv .venv
	$(BIN)/$(PIP) $(COMPILERS)
	$(BIN)/python setup.py --quiet build_ext --inplace & compiling=$$!
	$(BIN)/python tests/packaging/needs.py dev | $(BIN)/$(PIP) --no-build-isolation $(UNCOMPRESSED) -r /dev/stdin
	wait $$compiling
	$(BIN)/$(PIP) --no-build-isolation --no-deps --editable .
	touch $@

# All kernels are compiled while pip installs; from then on, those that changed.
.venv/compiled: .venv/installed $(KERNELS)
	test -z "$$(find $(KERNELS) -newer $<)" || $(BIN)/python setup.py --quiet build_ext --inplace
	touch $@

# Another Python's environment. Its kernels are next to those of .venv, from the same C;
# their names have its tag. They are only tested, and so not optimized. Only what kafkalog
# itself needs is installed, so that nothing depends on an extra.
.venv-%/installed: $(SETTINGS)
	rm -rf .venv-$*
	$$(tests/packaging/pythons.sh | sed -n 's/^$* //p') -m venv .venv-$*
	.venv-$*/bin/$(PIP) $(COMPILERS) pytest pytest-xdist hypothesis
	CFLAGS=-O0 .venv-$*/bin/$(PIP) --no-build-isolation --editable .
	touch $@

.venv-%/compiled: .venv-%/installed $(KERNELS)
	test -z "$$(find $(KERNELS) -newer $<)" || CFLAGS=-O0 .venv-$*/bin/python setup.py --quiet build_ext --inplace
	touch $@

# Another PySpark on the Python of .venv, and so on its kernels. This checkout and the
# packages of .venv follow on the path; only what differs is installed.
.venv-spark%/installed: .venv/installed
	rm -rf .venv-spark$*
	$(BIN)/python -m venv --without-pip .venv-spark$*
	printf '%s\n' "$(CURDIR)" "$$($(BIN)/$(PACKAGES))" >"$$(.venv-spark$*/bin/$(PACKAGES))/checkout.pth"
	$(BIN)/pip --python .venv-spark$*/bin/python $(INSTALL) $(UNCOMPRESSED) 'pyspark==$*.*' $(JUDGES)
	touch $@

.venv-spark$(JUDGE)/installed: JUDGES = confluent-kafka

# Clients of Kafka, on the Python and the packages of .venv.
.venv-clients/installed: .venv/installed
	rm -rf .venv-clients
	$(BIN)/python -m venv --without-pip .venv-clients
	printf '%s\n' "$(CURDIR)" "$$($(BIN)/$(PACKAGES))" >"$$(.venv-clients/bin/$(PACKAGES))/checkout.pth"
	$(BIN)/python tests/packaging/needs.py clients | $(BIN)/pip --python .venv-clients/bin/python $(INSTALL) -r /dev/stdin
	touch $@

# A broker, and Spark's own Kafka source. Maven keeps what a broken connection left whole.
build/interop/%/done: tests/interop/%.pom.xml
	rm -rf build/interop/$*
	for attempt in 1 2 3; do
		! mvn -q -B -f $< $(COPY_JARS) -DoutputDirectory="$(CURDIR)/build/interop/$*" || break
	done
	test -d build/interop/$*
	touch $@

# Builds for looking closely, each in a tree of its own: with bounds checks on, where every
# warning of the compiler is an error, and under sanitizers.
build/debug/settings build/sanitize/settings: $(SETTINGS)
	rm -rf $(@D)
	mkdir -p $(@D)
	touch $@

COPY_TREE = mkdir -p $(TREE)/kafkalog $(TREE)/tests; \
	find $(TREE)/kafkalog $(TREE)/tests -type f ! -name '*.so' -delete; \
	tar -cf - --exclude='*.so' --exclude=__pycache__ $(SETTINGS) LICENSE README.md kafkalog pyspark_kafkalog tests \
		| tar -xf - -C $(TREE); \
	cd $(TREE)

debug: TREE := build/debug
debug: .venv/compiled build/debug/settings
	$(COPY_TREE)
	CFLAGS=-Werror KAFKALOG_DEBUG=1 ../../$(BIN)/python setup.py --quiet build_ext --inplace

sanitized: TREE := build/sanitize
sanitized: .venv/compiled build/sanitize/settings
	mkdir -p $(TREE)/build
	cp -a build/release $(TREE)/build
	$(COPY_TREE)
	KAFKALOG_SANITIZE=1 ../../$(BIN)/python setup.py --quiet build_ext --inplace

# --- tasks --------------------------------------------------------------------------

test: test-suite test-spark

test-long: test-slow test-spark-slow test-spark-oldest test-interop test-clients test-pythons test-docs build test-fuzz test-sanitize test-debug

SUITE := -m "not clients and not docs and not packaging and not spark and not interop and not slow" --ignore tests/interop --ignore tests/clients

test-suite: .venv/compiled
	tests/in_memory.sh $(BIN)/python -m pytest -q -n $(WAITING) $(SUITE)

test-slow: .venv/compiled
	tests/in_memory.sh $(BIN)/python -m pytest -q -n $(WAITING) --dist worksteal -m "slow and not spark" tests --ignore tests/interop --ignore tests/clients

# A session is a Java machine of its own, so a file's tests stay together.
test-spark: .venv/compiled
	$(NEEDS_JAVA)
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile -m "spark and not slow" tests/spark

# Few and long tests, with processes of their own that are killed.
test-spark-slow: .venv/compiled
	$(NEEDS_JAVA)
	$(BIN)/python -m pytest -q -n $(WAITING) --dist worksteal -m "spark and slow" tests/spark

# A file's tests stay together, and files begin in the order given, the longest first.
# Without the second option those with the most tests do, whatever they take.
IN_ORDER := --dist loadfile --no-loadscope-reorder

# What depends on PySpark's version: its data sources and sinks, its functions of Arrow
# batches, the job. The other tests of tests/spark run on the newest.
VERSIONED := $(patsubst %,tests/spark/test_%.py,functions source job sink faults stream_query job_losses workers)

test-spark-oldest: .venv/compiled
	$(NEEDS_JAVA)
	$(MAKE) .venv-spark$(OLDEST)/installed
	.venv-spark$(OLDEST)/bin/python -m pytest -q -n $(JOBS) $(IN_ORDER) -m "not slow" $(VERSIONED)

test-interop: .venv/compiled
	$(NEEDS_BROKER)
	$(MAKE) .venv-spark$(JUDGE)/installed build/interop/broker/done build/interop/connector/done build/interop/delta/done
	.venv-spark$(JUDGE)/bin/python -m pytest -q -n $(WAITING) $(IN_ORDER) -m interop tests/oracle tests/interop

# Unchanged clients on what `serve` serves.
test-clients: .venv/compiled
	$(NEEDS_BROKER)
	$(MAKE) .venv-clients/installed build/interop/broker/done
	.venv-clients/bin/python -m pytest -q -n $(JOBS) --dist loadfile -m clients tests/clients

test-pythons: .venv/compiled
	for version in $(OTHERS); do
		$(MAKE) .venv-$$version/compiled
		tests/in_memory.sh .venv-$$version/bin/python -m pytest -q -n $(JOBS) $(BRIEF) $(PARSERS)
	done

test-docs: docs
	$(NEEDS_CHROMIUM)
	$(BIN)/python -m pytest -q tests/docs

test-fuzz: .venv/compiled
	$(NEEDS_ATHERIS)
	$(BIN)/python -m tests.fuzz.run --seconds 1 --jobs $(JOBS)

fuzz: .venv/compiled
	$(BIN)/python -m tests.fuzz.run --seconds $(SECONDS) --jobs $(JOBS)

test-sanitize: sanitized
	cd build/sanitize && $(SANITIZED) $(BRIEF) tests/speedups tests/fuzz $(CLEANER)

sanitize: sanitized
	cd build/sanitize && $(SANITIZED) $(PARSERS) tests/fuzz tests/campaigns tests/query/test_corruption.py

test-debug: debug
	cd build/debug && KAFKALOG_DEBUG=1 ../../$(BIN)/python -m pytest -q -n $(JOBS) $(BRIEF) $(PARSERS) $(READERS) $(CLEANER)

lint: .venv/compiled
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint kafkalog
	$(BIN)/codespell
	$(BIN)/mypy & checking=$$!
	$(MAKE) debug
	wait $$checking

# An index takes wheels for Linux only if their tag states the oldest C library they run on.
REPAIR = export PATH="$(CURDIR)/$(BIN):$$PATH"; \
	auditwheel repair --wheel-dir dist dist/*-linux_*.whl >build/repair.log 2>&1 || { cat build/repair.log; exit 1; }; \
	rm dist/*-linux_*.whl

build: build/packages
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile tests/packaging

build/packages: .venv/releasing $(MODULES) MANIFEST.in README.md LICENSE
	rm -rf dist
	find build/lib-* -type f ! -name '*.so' -delete
	for kernel in $$(find build/lib-* kafkalog -name '*.so'); do
		source=kafkalog/$${kernel#*kafkalog/}
		test -e "$${source%%.*}.pyx" || rm "$$kernel"  # its source was removed
	done
	$(BIN)/python -m build --no-isolation --sdist --wheel >build/packages.log 2>&1 || { cat build/packages.log; exit 1; }
	$(REPAIR)
	touch $@

# Other Pythons compile the sdist.
wheels: build/packages
	for version in $(OTHERS); do
		rm -rf build/python$$version dist/*-cp$${version/./}-*
		$$(tests/packaging/pythons.sh | sed -n "s/^$$version //p") -m venv build/python$$version
		build/python$$version/bin/$(PIP) $(COMPILERS)
		build/python$$version/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist dist/*.tar.gz
		$(REPAIR)
	done
	$(MAKE) wheel-arm64
	$(BIN)/python -m pytest -q tests/packaging/test_build.py

# From the C that was compiled for this machine.
wheel-arm64: build/packages
	$(NEEDS_ARM64)
	rm -f dist/*_aarch64.whl
	tests/packaging/arm64_wheel.sh dist
	test -z "$$(ls dist | grep linux_aarch64)" || { $(REPAIR); }

# What checks archives, and the workflow that publishes them.
.venv/releasing: .venv/compiled
	$(BIN)/python tests/packaging/needs.py wheels | $(BIN)/$(PIP) -r /dev/stdin
	touch $@

# All of it takes about an hour; a part, as bench-java or bench-dump, measures what
# benchmarks/bench_java.py does, and puts that into the results there are.
bench:
	for part in $(PARTS); do $(MAKE) bench-$$part; done
	$(MAKE) measured

# Nothing stays that this machine did not measure.
measured:
	rm -f benchmarks/results.json
	$(BIN)/python benchmarks/results.py $$(find build/measured -name 'bench-*.json' -size +0) benchmarks/results.json
	$(BIN)/python benchmarks/page.py benchmarks/results.json docs/performance.md README.md

define TELL
test ! -s build/measured/$@.json || $(BIN)/python benchmarks/results.py build/measured/$@.json benchmarks/results.json
$(BIN)/python benchmarks/page.py benchmarks/results.json docs/performance.md README.md
endef

$(filter-out $(WITH_CONNECTOR),$(PARTS:%=bench-%)): bench-%: .venv/measuring
	mkdir -p build/measured
	rm -f build/measured/$@.json
	$(BIN)/python -m pytest benchmarks/bench_$*.py --benchmark-json=build/measured/$@.json
	$(TELL)

bench-dump bench-java: kafka-classes

kafka-classes:
	$(NEEDS_BROKER)
	$(MAKE) build/interop/broker/done

# Peers that are Python packages, and what draws the plots.
.venv/measuring: .venv/compiled
	$(BIN)/python tests/packaging/needs.py bench | while read -r need; do
		$(BIN)/$(PIP) "$$need" || echo "left out: $$need, which pip cannot install here"
	done
	touch $@

$(WITH_CONNECTOR): bench-%: .venv/measuring
	$(NEEDS_BROKER)
	$(MAKE) .venv-spark$(JUDGE)/installed build/interop/broker/done build/interop/connector/done
	mkdir -p build/measured
	rm -f build/measured/$@.json
	.venv-spark$(JUDGE)/bin/python -m pytest benchmarks/bench_$*.py --benchmark-json=build/measured/$@.json
	$(TELL)

docs: .venv/documented
	$(BIN)/python docs/cli_page.py
	$(BIN)/python -m sphinx -q -E -W --keep-going docs docs/_build/html
	$(BIN)/python -m sphinx -q -b man -D nb_execution_mode=off docs docs/_build/man

# What makes the pages, and what the notebook imports.
.venv/documented: .venv/compiled
	$(BIN)/python tests/packaging/needs.py docs | $(BIN)/$(PIP) -r /dev/stdin
	touch $@

demo: .venv/compiled
	@$(BIN)/python demo/run.py

clean:
	rm -rf .venv .venv-* build dist demo-out docs/_build kafkalog.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find kafkalog pyspark_kafkalog tests benchmarks demo docs -name __pycache__ -prune -exec rm -rf {} +
	rm -f kafkalog/_speedups/*.so kafkalog/storage/*.so
