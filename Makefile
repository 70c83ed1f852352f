# Two commands for a newcomer: `make demo` and `make test`. Each makes .venv by itself, once.

.DEFAULT_GOAL := help
SHELL := /bin/sh

# The first interpreter that runs and is new enough; a version manager's shim that fails is passed over.
PYTHON ?= $(shell for each in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do \
	"$$each" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$each" && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help demo test test-matrix matrix-binaries image-base truth bench faults lint format golden docs pins build clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(STAMP) ## Boot a Postgres, play orphaned queries on it, watch them: about a minute
	@$(BIN)/pgwatchdog demo $(ARGS)

test: $(STAMP) ## Lint, types, import contracts and all tests
	@$(MAKE) --no-print-directory lint
	@$(BIN)/pytest $(ARGS)

test-matrix: matrix-binaries ## The integration tests against PostgreSQL 14 to 18, and an 18 that imitates 19
	@majors=$$(PYTHONPATH=tests $(BIN)/python -c "import support.matrix as m; print(*m.VERSIONS, m.IMITATED)") || exit 1; \
	imitated=$${majors##* }; \
	for major in $$majors; do \
		[ "$$major" = "$$imitated" ] && echo "PostgreSQL $$major, imitated by an 18" || echo "PostgreSQL $$major"; \
		PGWATCHDOG_TEST_POSTGRES=$$major $(BIN)/pytest -q tests/integration $(ARGS) || exit 1; \
	done

matrix-binaries: $(STAMP) ## Fetch the servers of the matrix into .cache, once
	@PYTHONPATH=tests $(BIN)/python -m support.matrix

image-base: $(STAMP) ## Make the base system of the image test in .cache, once; wants root and debootstrap
	@PYTHONPATH=tests $(BIN)/python -m support.base_system

truth: $(STAMP) ## Compare findings and acts with what labelled callers know; ten minutes, writes docs/truth.md
	@PYTHONPATH=tests $(BIN)/python -m truth.run

bench: $(STAMP) ## Measure the promises beside their alternatives; a quarter of an hour, writes docs/benchmarks.md
	@PYTHONPATH=tests $(BIN)/python -m bench.run $(ARGS)

faults: $(STAMP) ## Kill the daemon at 200 moments, aim 6,000 cancels at sessions that move on; some minutes
	@PGWATCHDOG_TEST_KILLS=200 PGWATCHDOG_TEST_CANCELS=5000 \
		$(BIN)/pytest -n 0 -s tests/integration/test_crash.py tests/integration/test_race.py $(ARGS)

lint: $(STAMP) ## Style, types, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache > $(VENV)/contracts.log || { cat $(VENV)/contracts.log; exit 1; }

format: $(STAMP) ## Mend the style
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

golden: $(STAMP) ## Write the golden files anew; read the difference before you commit it
	@PGWATCHDOG_GOLDEN=write $(BIN)/pytest -q tests -k golden $(ARGS)

docs: $(STAMP) ## Write the generated pages and manifests anew from the code
	@$(BIN)/python deploy/prometheus/rules.py
	@$(BIN)/python docs/generate.py
	@$(BIN)/python docs/picture.py
	@$(BIN)/python deploy/grafana/dashboard.py

# Files with hashes and without any registry's host name; needs uv, which is in the environment of the tests.
pins: $(STAMP) ## Pin all dependencies anew
	@for extra in run demo dev; do \
		flag=$$( [ $$extra = run ] || echo "--extra $$extra" ); \
		$(BIN)/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-header \
			--no-emit-index-url --upgrade $$flag pyproject.toml --output-file requirements/$$extra.txt; \
	done
	@echo 'hatchling>=1.27,<2' | $(BIN)/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 \
		--no-header --no-annotate --no-emit-index-url --upgrade - --output-file requirements/build.txt

build: $(STAMP) ## Build the wheel and the source distribution into dist/
	@$(BIN)/python -m hatchling build

clean: ## Remove the environment and everything that was built
	rm -rf $(VENV) .cache dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(STAMP): requirements/dev.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "pgwatchdog needs Python 3.11 or newer with venv (on Debian: apt-get install python3-venv)"; exit 2; }
	@echo "Making $(VENV) with $$($(PYTHON) --version) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)
