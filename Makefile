# Gyre: `make up` runs it, `make test` proves it. `make help` lists everything.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV_PYTHON = .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev up stop status clean-data test test-harnesses lint check prove

help:  ## Show this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup:  ## Install packages into .venv (seconds when nothing has changed)
	@$(PYTHON) -m gyreweb.setup

setup-dev:  ## The same, with what tests and checks need
	@$(PYTHON) -m gyreweb.setup --dev

up: setup  ## Start all; trains at the first start, or with PRESET=name, SEED=n. Ctrl-C stops. ONCE=1: to the run's end
	@$(VENV_PYTHON) -m gyreweb.supervisor up

stop:  ## Stop what `make up` started, from another terminal
	@$(VENV_PYTHON) -m gyreweb.supervisor stop

status:  ## What runs, and where
	@$(VENV_PYTHON) -m gyreweb.supervisor status || [ $$? -eq 3 ]

clean-data:  ## Delete all runs, logs and checkpoints in GYRE_HOME (asks first; YES=1 does not)
	@$(VENV_PYTHON) -m gyreweb.supervisor clean-data

test: setup-dev  ## Run the tests, JOBS=2 side by side. ARGS="-m core" those without servers; tiers: tests/tiers.py
	@.ci/tests $(ARGS)

test-harnesses: setup-dev  ## Install the harnesses and play every scene with each. ARGS="-k claude-code" picks some
	@GYRE_TEST_HARNESSES=1 $(VENV_PYTHON) -m pytest tests/harness_programs -q $(ARGS)

lint: setup-dev  ## Style, types, import rules
	@.ci/lint

check: lint  ## The same, and what tests say about the repository itself
	$(VENV_PYTHON) -m pytest tests/architecture -q

prove: setup  ## Train seeds 1 to 3 and the control to their ends and print a table (about 20 minutes on two cores)
	@$(VENV_PYTHON) -m gyreweb.prove $(ARGS)
