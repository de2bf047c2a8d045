# Every target makes what it needs in .venv; the machine has to offer Python 3.11+, make and the
# package registries. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV_DIR ?= .venv
INTERPRETER ?= $(shell scripts/interpreters | head -n 1)
BIN := $(VENV_DIR)/bin
READY := $(VENV_DIR)/.ready
CODE := resilient_ov manager observability chaos grafana
CHECKED := $(CODE) tests examples
# Documents and recordings that live beside the repository; only the external suites read them.
SHARED ?= ../shared
TURNS ?= 1000000
# Installs a second environment and runs most tests in it: a target of its own.
LOWEST := tests/architecture/test_packaging.py::test_unit_and_contract_tests_pass_on_the_lowest_versions

.PHONY: help demo docs test test-lowest chaos chaos-ci mutants bench bench-quick bench-cost bench-deadline bench-peers simulate services leaks dashboards grafana-live docs-images test-openviking test-deerflow lint format typecheck coverage clean

help: ## list the targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1|\2/p' Makefile | column -t -s '|'

$(READY): pyproject.toml
	@test -n "$(INTERPRETER)" || { scripts/interpreters; exit 1; }
	@test -x $(BIN)/python || "$(INTERPRETER)" -m venv --clear $(VENV_DIR)
	@echo "installing into $(VENV_DIR) ($$($(BIN)/python -V))"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY) ## the main job on the embedded server, explained while it runs
	$(BIN)/resilient-ov demo

test: $(READY) ## run every test with coverage; STRICT=1 fails on any skip, PYTEST_ARGS selects
	@scripts/services || echo "tests that need what is missing are skipped by name"
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest --deselect $(LOWEST) $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	@$(MAKE) --no-print-directory coverage
	@$(if $(PYTEST_ARGS),:,$(MAKE) --no-print-directory chaos-ci)

chaos: $(READY) ## every fault against the embedded server, half an hour; CHAOS_ARGS for `chaos run`
	@scripts/services || echo "Toxiproxy is needed: TOXIPROXY_URL, docker or Go"
	$(BIN)/resilient-ov chaos run --out chaos-out/$$(date +%Y%m%d-%H%M%S) $(CHAOS_ARGS)

# Without coverage: a tracer in the product's processes would be part of what is measured.
chaos-ci: $(READY) ## the chaos suite's part for every commit: short matrix, all mutants; 5 minutes
	$(BIN)/python -m pytest chaos -m ci $(CHAOS_PYTEST_ARGS)

mutants: $(READY) ## turn ten protections off, one by one, and see the checkers notice
	$(BIN)/python -m pytest chaos/tests/test_mutants.py $(CHAOS_PYTEST_ARGS)

test-lowest: $(READY) ## unit and contract tests on the lowest versions that we allow; minutes
	$(BIN)/python -m pytest $(LOWEST)

coverage: $(READY) ## judge the coverage of the last `make test` (branches; rules 100 %, rest 95 %)
	$(BIN)/coverage report --include='resilient_ov/domain/*,resilient_ov/policy/*' --fail-under=100
	$(BIN)/coverage report --omit='resilient_ov/domain/*,resilient_ov/policy/*' --fail-under=95

bench: $(READY) ## every gate, each fails above its bound; on a machine that does nothing else
	$(BIN)/python -m tests.benchmarks $(BENCH_ARGS)

bench-quick: $(READY) ## the same with few samples: a look, no verdict
	$(BIN)/python -m tests.benchmarks --quick $(BENCH_ARGS)

bench-cost: $(READY) ## CPU time that the policy and its metrics cost a successful operation
	$(BIN)/python -m tests.benchmarks.policy_cost

bench-deadline: $(READY) ## how far calls overshoot their deadline, per fault
	$(BIN)/python -m tests.benchmarks.deadline

.venv-peers/.ready: pyproject.toml
	"$(INTERPRETER)" -m venv --clear .venv-peers
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --editable . \
		openviking-sdk langchain-openviking
	@touch $@

bench-peers: $(READY) .venv-peers/.ready ## the same reads through us and others, side by side; 5 minutes
	$(BIN)/python -m tests.benchmarks.peers --python .venv-peers/bin/python

simulate: $(READY) ## simulated turns with faults, TURNS of them; a failing story names its seed
	$(BIN)/python -m tests.simulation.simulate --turns $(TURNS)

services: ## install what tests need from Debian and Go, and name what could not be had
	@scripts/services

docs: $(READY) ## the documentation as a site in build/site; fails on a broken link
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/zensical build --clean --strict

leaks: $(READY) ## 10 000 random worlds on profile namespace; `make test` plays 60 (LEAK_EXAMPLES)
	LEAK_EXAMPLES=$${LEAK_EXAMPLES:-10000} $(BIN)/python -m pytest -s \
		tests/integration/test_namespace_leaks.py $(PYTEST_ARGS)

test-openviking: $(READY) ## against a real server: VENV=<environment with openviking==0.5.2>
	$(BIN)/python -m pytest tests/external/test_openviking.py -s --timeout=900 \
		--openviking-venv='$(VENV)' --shared='$(SHARED)' $(PYTEST_ARGS)

test-deerflow: $(READY) ## in a real DeerFlow: PYTHON=<its interpreter>; installs our wheel there
	$(BIN)/python -m pytest tests/external/test_deerflow.py -s --timeout=1800 \
		--deerflow-python='$(PYTHON)' --shared='$(SHARED)' $(PYTEST_ARGS)

dashboards: $(READY) ## make dashboards, rules and provisioning anew from their code
	$(BIN)/python -m resilient_ov_grafana.generate

grafana-live: $(READY) ## dashboards and alerts on a real Prometheus while things break; 3 minutes
	$(BIN)/python -m pytest grafana/tests/test_live.py -s $(PYTEST_ARGS)

docs-images: $(READY) ## draw the dashboards of the README from a live run (matplotlib, not Grafana)
	$(BIN)/python -m grafana.tests.live.pictures docs/images

lint: $(READY) ## ruff: rules and format
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)

format: $(READY) ## ruff: fix and format
	$(BIN)/ruff check --fix $(CHECKED)
	$(BIN)/ruff format $(CHECKED)

typecheck: $(READY) ## mypy and pyright, both strict
	$(BIN)/mypy
	$(BIN)/pyright

clean: ## remove what the targets made, except .tools
	rm -rf .venv .venv-* .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
