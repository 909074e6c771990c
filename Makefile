# Two commands do everything on a fresh machine with python3.11 and make:
#   make serve   install the server and start it on port 7860
#   make test    install the test tools and run the tests
PYTHON ?= python3.11
VENV ?= .venv
PORT ?= 7860
WORKERS ?= 2
PYTEST_ARGS ?=
ENV ?= serving
# An empty TASK is the environment's first.
TASK ?=

PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
# Stamps: a second call installs nothing unless the pins changed.
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
DEMO_STAMP := $(VENV)/.installed-demo
TRACES_STAMP := $(VENV)/.installed-traces

.DEFAULT_GOAL := help
.PHONY: help install dev serve test lint format bench demo fidelity screenshots traces test-demo test-traces test-browser test-image lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(RUN_STAMP): requirements.txt
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet -r requirements.txt
	$(PIP) install --quiet --no-deps -e .
	touch $@

$(DEV_STAMP): requirements-dev.txt $(RUN_STAMP)
	$(PIP) install --quiet -r requirements-dev.txt
	touch $@

# torch comes first and by itself: as a dependency of another package it would be the newest CUDA build.
$(DEMO_STAMP): requirements-demo.txt $(DEV_STAMP)
	$(PIP) install --quiet torch==2.13.0
	$(PIP) install --quiet -r requirements-demo.txt
	touch $@

$(TRACES_STAMP): requirements-traces.txt $(DEV_STAMP)
	$(PIP) install --quiet -r requirements-traces.txt
	touch $@

install: $(RUN_STAMP) ## Install the server and the CLI into .venv
dev: $(DEV_STAMP) ## Install the test and lint tools too

serve: $(RUN_STAMP) ## Start the server on port 7860 (PORT=… for another)
	PORT=$(PORT) $(PY) -m server.app

test: $(DEV_STAMP) ## Run the test suite
	$(PY) -m pytest -q -n $(WORKERS) $(PYTEST_ARGS)

lint: $(DEV_STAMP) ## Check style, formatting, types and import order
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyright
	$(VENV)/bin/lint-imports

format: $(DEV_STAMP) ## Format the code and fix what ruff can fix
	$(VENV)/bin/ruff check --fix-only .
	$(VENV)/bin/ruff format .

bench: $(DEV_STAMP) ## Measure steps per second, start-up time and memory
	$(PY) -m server.bench
	$(PY) -m inferencegym.gym.benchmark

fidelity: $(DEMO_STAMP) ## Errors of the pack and of the fast simulator, into docs/
	$(PY) -m simulator.reference.fidelity_report

screenshots: $(DEV_STAMP) ## Take the README's pictures of the page (needs Debian's chromium)
	$(PY) -m tests.dashboard.screenshots

traces: $(TRACES_STAMP) ## Rebuild the measured trace pack
	$(PY) -m simulator.packs.building.build_traces

test-traces: $(TRACES_STAMP) ## Test the trace pack builder against the kernel library
	$(PY) -m pytest -q -m traces $(PYTEST_ARGS)

demo: $(DEMO_STAMP) ## Train PPO (ENV=serving TASK=task1), draw its learning curve, compare it on held-out seeds
	$(PY) -m agents.ppo.demo --env $(ENV) --task "$(TASK)"

test-demo: $(DEMO_STAMP) ## Test training, plots and what else needs the extra demo
	$(PY) -m pytest -q -m demo $(PYTEST_ARGS)

test-browser: $(DEV_STAMP) ## Test the page in Debian's Chromium (pictures in build/pictures)
	$(PY) -m pytest -q -n $(WORKERS) -m browser $(PYTEST_ARGS)

test-image: $(DEV_STAMP) ## Perform the Dockerfile's steps in a clean environment and call the server
	$(PY) -m pytest -q -m image $(PYTEST_ARGS)

# Every requirements file is an export of uv.lock, so that all of them agree.
EXPORT := $(VENV)/bin/uv export --frozen --quiet --no-hashes --no-emit-project --no-header --no-annotate
lock: $(DEV_STAMP) ## Resolve the pins again (uv.lock and the requirements files)
	$(PIP) install --quiet uv
	$(VENV)/bin/uv lock
	$(EXPORT) -o requirements.txt > /dev/null
	$(EXPORT) --extra dev --extra gym -o requirements-dev.txt > /dev/null
	$(EXPORT) --extra demo -o requirements-demo.txt > /dev/null
	$(EXPORT) --extra traces -o requirements-traces.txt > /dev/null

clean: ## Remove the virtual environment and all caches
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
