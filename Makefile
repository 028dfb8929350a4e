# Everything happens in .venv. Each step leaves a stamp there, so nothing is done twice.
# Another Python: make test PYTHON=python3.12.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP     = $(BIN)/python -m pip --disable-pip-version-check -qq
# The flow first; one alone: make bench BENCH=benchmarks/scale.py.
BENCH  ?= $(sort $(wildcard benchmarks/flow*.py)) $(sort $(filter-out benchmarks/flow%,$(wildcard benchmarks/*.py)))
# Megabytes that the wheel and what it needs may take.
LARGEST := 420
PYTEST ?= $(BIN)/pytest -n 2 --dist worksteal

# Workers share the cores already; a pool of threads in each would only get in the way.
test test-fast bench: export OMP_NUM_THREADS = 1
test test-fast bench: export MKL_NUM_THREADS = 1

.DELETE_ON_ERROR:
.PHONY: help demo test test-fast lint style format types imports bench build wheel-check browser locked advisories clean

help:
	@echo "make demo         audit a real model on real data"
	@echo "make test         run the whole test suite"
	@echo "make test-fast    run what takes four minutes at most"
	@echo "make lint         check format, style, types and import rules"
	@echo "make format       put the code in format"
	@echo "make bench        run the benchmarks"
	@echo "make build        build the wheel"
	@echo "make wheel-check  try the wheel in an empty environment"
	@echo "make advisories   report known weaknesses of the locked dependencies"
	@echo "make clean        remove what these commands made"

demo: $(VENV)/.installed
	$(BIN)/likewise demo

test: $(VENV)/.dev browser
	$(PYTEST)

test-fast: $(VENV)/.dev
	$(PYTEST) -m "not slow and not browser"

lint: style types imports

style: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports --no-logo

bench: $(VENV)/.dev
	@failed=; for script in $(BENCH); do echo "$$script"; $(BIN)/python "$$script" || failed="$$failed $$script"; done; \
	    [ -z "$$failed" ] || { echo "Missed:$$failed"; exit 1; }

# The wheel's own name carries the version, so a stamp stands for it.
build: dist/.built

dist/.built: pyproject.toml README.md LICENSE $(shell find src -type f -not -name '*.pyc') | $(VENV)/.dev
	@rm -rf dist && mkdir dist
	$(PIP) wheel --no-deps $(if $(wildcard $(VENV)/.locked),--no-build-isolation) --wheel-dir dist .
	@touch $@ && ls dist

# How long it takes and how large it is are printed; it must do without torch.
wheel-check: dist/.built
	@rm -rf $(VENV)/empty
	$(PYTHON) -m venv $(VENV)/empty
	@begin=$$(date +%s); install="$(VENV)/empty/bin/python -m pip --disable-pip-version-check -qq install --no-compile"; \
	    if [ -e $(VENV)/.locked ]; then \
	        $(BIN)/python .ci/core_lock.py requirements.lock > $(VENV)/core.lock && \
	        $$install --no-deps --require-hashes -r $(VENV)/core.lock && $$install --no-deps dist/*.whl && \
	        $(VENV)/empty/bin/python -m pip --disable-pip-version-check check; \
	    else $$install -c constraints.txt dist/*.whl; fi && \
	    echo "Installed in $$(($$(date +%s) - begin)) s, $$(du -sm $(VENV)/empty | cut -f1) MB"
	@[ "$$(du -sm $(VENV)/empty | cut -f1)" -le $(LARGEST) ] || { echo "More than $(LARGEST) MB"; exit 1; }
	cd $(VENV)/empty && bin/likewise --version && bin/python -m likewise --help
	cd $(VENV)/empty && bin/python -c 'import likewise; [getattr(likewise, name) for name in likewise.__all__]'
	cd $(VENV)/empty && bin/python -c 'from importlib.metadata import entry_points as found; found(group="likewise.studies")["paper"]'
	cd $(VENV)/empty && bin/python -c 'import importlib.util as u; assert u.find_spec("torch") is None, "torch is there"'
	cd $(VENV)/empty && bin/python $(CURDIR)/.ci/light_audit.py
	@rm -rf $(VENV)/empty

# Only the tests that open a report need these, and they skip without them.
browser:
	@if ! { command -v chromium && command -v pdftotext; } >/dev/null; then \
	    echo "Installing Chromium and pdftotext for the browser tests"; \
	    { [ "$$(id -u)" = 0 ] && apt-get -qq update && \
	      DEBIAN_FRONTEND=noninteractive apt-get -qq install -y chromium poppler-utils >/dev/null; } || \
	    echo "Chromium could not be installed; the browser tests will be skipped."; \
	fi

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("likewise needs Python 3.11 or newer, and $(PYTHON) is older. Try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing likewise into $(VENV)"
	$(PIP) install --no-compile -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing likewise and its tools into $(VENV); torch is large, this takes a minute or two"
	$(PIP) install --no-compile -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.installed

# The same with the hash of every wheel (CPython 3.11, Linux), as CI installs it.
locked: | $(BIN)/python
	@echo "Installing from requirements.lock into $(VENV)"
	$(PIP) install --no-compile --no-deps --require-hashes -r requirements.lock
	$(PIP) install --no-compile --no-deps --no-build-isolation -e .
	@touch $(VENV)/.dev $(VENV)/.installed $(VENV)/.locked

# Known weaknesses of what the lock installs: a report, since a new one is no fault of a change.
advisories: | $(BIN)/python
	@[ -x $(VENV)/advisories/bin/pip-audit ] || { $(PYTHON) -m venv $(VENV)/advisories && \
	    $(VENV)/advisories/bin/python -m pip --disable-pip-version-check -qq install pip-audit==2.10.1; }
	-$(VENV)/advisories/bin/pip-audit --disable-pip --require-hashes -r requirements.lock

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
