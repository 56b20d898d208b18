# shardrel: `make` alone prints what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
SENTINEL := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
# Two workers: what CI has. Torch and BLAS would each start a thread a core in every one of them.
WORKERS ?= 2
export OMP_NUM_THREADS ?= 1

help: ## this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SENTINEL) ## virtual environment with everything in it

# Torch first and by itself: its wheel for this machine is then what the second step finds installed.
$(SENTINEL): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[test,lint,train]'
	touch $@

demo: $(SENTINEL) ## one release end to end on the sources of the Python library
	$(BIN)/python -m examples.demo.story

test: $(SENTINEL) ## the tests that CI runs
	$(PYTEST) -q -n $(WORKERS) -m 'not slow'

test-long: $(SENTINEL) ## all tests, also the exhaustive ones
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[trainers]'
	$(PYTEST) -q -n $(WORKERS)

bench: $(SENTINEL) ## speed and memory against bare pyarrow; writes benchmarks/results.json
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[bench]'
	$(BIN)/python -m benchmarks.run

lint: $(SENTINEL) ## format, rules, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(SENTINEL) ## let ruff write the format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

schemas: $(SENTINEL) ## JSON Schemas of the records and the list of error codes
	$(BIN)/python schemas/generate.py

vectors: $(SENTINEL) ## fixtures, generated from the code
	$(BIN)/python fixtures/generate.py

wheel: $(SENTINEL) ## dist/shardrel-*.whl
	$(BIN)/python -m hatchling build -t wheel

s3-up: $(SENTINEL) ## a real S3 server on this machine, until it is interrupted
	$(BIN)/python -m tests.support.s3_up

clean: ## drop what make made
	rm -rf $(VENV) .venv-ministack .venv-peers .demo dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help setup demo test test-long bench lint format schemas vectors wheel s3-up clean
