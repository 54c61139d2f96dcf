# Two commands do everything on a fresh Debian machine: `make demo` and `make test`.
# Setting up is idempotent; with nothing to do it costs a second.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
DEMO   ?=
BENCH  ?= append
N      ?= 300
FILE   ?= tests/slt

# A stamp is named after what was installed: a changed project or lock file installs again.
LOCK      := requirements.lock
HASH      := $(shell cat pyproject.toml $(LOCK) | sha256sum | cut -c1-12)
INSTALLED := $(VENV)/.installed-$(HASH)
TESTABLE  := $(VENV)/.testable-$(HASH)

# apt packages: installed as root or with sudo that asks nothing, else named for the user.
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo -n)
apt = { echo "installing $(1)"; \
  { $(SUDO) apt-get update -qq && \
    $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(1) >/dev/null; } \
  || { echo "could not install it: please run  apt-get install $(1)  as root and try again" >&2; exit 1; }; }

.PHONY: help setup demo check test unit fuzz faults crashes slt lint fmt lock bench clean java jars test-setup
.NOTPARALLEL:

help:
	@echo "make demo                the main job on embedded defaults; ends by itself (DEMO=forever: until Ctrl-C)"
	@echo "make check               lint, types and unit tests, in 90 seconds: before each commit"
	@echo "make test                everything: lint, types, all tests with real servers"
	@echo "make unit                the tests without a JVM"
	@echo "make fuzz                random and long tests in their full length, without a JVM (N=… histories, SEED=… repeats one)"
	@echo "make faults              the fault matrix: every pipeline against every fault; writes docs/fault-matrix.json (FAULTS='--missing', '--part 12', …)"
	@echo "make crashes             kills at every fault point, one by one; live DDL under load with 5 kills"
	@echo "make slt                 sqllogictest files against a server (FILE=… files or folders, URL=… another server, DIALECT=postgres)"
	@echo "make setup               what both of them prepare: virtual environment, Java, JVM packages"
	@echo "make lock                newest versions within the ranges of pyproject.toml into requirements.lock"
	@echo "make lint | fmt | clean  style and types | apply the style | remove what was built"
	@echo "make bench               benchmarks/append.py against its peers (BENCH=upsert, nexmark, epoch, incremental, serving: others; each says what it takes with --help)"

setup: test-setup

demo: $(INSTALLED) java
	@$(PY) -m icestream.dev.jars engine broker
	@$(PY) -m icestream.cli.classes
	$(VENV)/bin/icestream demo $(if $(filter forever,$(DEMO)),--forever)

# Two lanes side by side: one alone leaves a core idle half of the time.
test: lint test-setup
	@{ REGRESSIONS=1 $(PY) -m pytest tests/unit; unit=$$?; $(PY) -m pytest tests/services tests/recovery; exit $$((unit || $$?)); } \
	  >$(VENV)/lane.log 2>&1 & lane=$$!; \
	$(PY) -m pytest tests/spark; spark=$$?; \
	wait $$lane; rest=$$?; echo "tests/unit, tests/services, tests/recovery:"; cat $(VENV)/lane.log; exit $$((spark || rest))

check: lint unit

unit: $(TESTABLE)
	$(PY) -m pytest tests/unit -n 2

fuzz: $(TESTABLE)
	FULL_LENGTH=1 FRESH_SEEDS=1 N=$(N) $(PY) -m pytest $(addprefix tests/unit/plan/test_,maintain.py clock.py closed.py temporal_views.py) --tb=short
	FULL_LENGTH=1 $(PY) -m pytest tests/unit/plan/test_complexity.py tests/unit/server/test_service.py
	FUZZ=15 FRESH_SEEDS=1 $(PY) -m pytest tests/unit/server/test_fuzz.py

faults: test-setup
	$(PY) -m tests.faults.matrix --keep $(FAULTS); status=$$?; $(PY) docs/generate.py; exit $$status

crashes: test-setup
	FAULT_POINTS=all LIVE_DDL=30,5 $(PY) -m pytest tests/recovery --deselect tests/recovery/test_fault_matrix.py

slt: $(TESTABLE)
	$(PY) -m icestream.dev.slt --keep-going $(if $(URL),--url $(URL)) $(if $(DIALECT),--dialect $(DIALECT)) $(FILE)

lint: $(TESTABLE)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

fmt: $(TESTABLE)
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

lock:
	rm -rf $(VENV)/lock && $(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install -qq '.[test]'
	$(VENV)/lock/bin/pip freeze --exclude icestream >$(LOCK)
	rm -rf $(VENV)/lock

bench: test-setup
	$(PY) -m benchmarks.$(BENCH)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What tests need beyond the demo: test packages, all JVM packages, a PostgreSQL to start their own from,
# a C compiler for the library that fails disks and moves clocks, strace to see the order of system calls.
test-setup: $(TESTABLE) java
	@$(PY) -m icestream.dev.jars
	@$(PY) -m icestream.cli.classes
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || $(call apt,postgresql)
	@command -v cc >/dev/null || $(call apt,gcc libc6-dev)
	@command -v strace >/dev/null || $(call apt,strace)

java: $(INSTALLED)
	@$(PY) -m icestream.dev.java >/dev/null 2>&1 || { $(SUDO) apt-get update -qq; \
	  $(call apt,$$(apt-cache search --names-only '^openjdk-(17|21)-jre-headless$$' | cut -d' ' -f1 | sort | head -n 1)); }
	@$(PY) -m icestream.dev.java

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 …" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || $(call apt,python3-venv)
	@$(PYTHON) -m venv $(VENV)

$(INSTALLED): | $(VENV)/bin/pip
	@echo "installing Python packages"
	@$(PY) -m pip install -qq -c $(LOCK) -e .
	@rm -f $(VENV)/.installed-* && touch $@

$(TESTABLE): | $(INSTALLED)
	@echo "installing Python packages for tests"
	@$(PY) -m pip install -qq -c $(LOCK) -e '.[test]'
	@rm -f $(VENV)/.testable-* && touch $@
