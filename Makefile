# The two commands of a fresh machine are `make serve` and `make test`; each installs what it needs first.
PYTHON ?= python3
VENV ?= .venv
HOST ?= 127.0.0.1
PORT ?= 8000
BUNDLES ?= bundles
RUNTIME ?= cpu# or gpu: ONNX Runtime with CUDA

PIP = $(VENV)/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: serve test lint format test-image clean

serve: $(VENV)/.serve-$(RUNTIME)  ## serve the shipped bundles (HOST=, PORT=, BUNDLES=, RUNTIME=gpu)
	READTRACE_LOG_FORMAT=$${READTRACE_LOG_FORMAT:-console} $(VENV)/bin/readtrace serve --bundles $(BUNDLES) --host $(HOST) --port $(PORT)

test: $(VENV)/.test  ## everything that .ci/run checks: lint, types, tests
	sh tests/install_programs.sh
	$(MAKE) lint
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/pytest --numprocesses auto --dist loadfile

lint: $(VENV)/.test  ## style, import rule, types
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/lint-imports --no-logo
	$(VENV)/bin/mypy

format: $(VENV)/.test  ## put the code into the project's style
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

test-image: $(VENV)/.test  ## build the container image with podman and test it (Debian, root)
	sh tests/install_programs.sh image
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/pytest -m image tests/deploy

clean:  ## remove what was installed here
	rm -rf $(VENV)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Readtrace needs Python 3.11 or newer; name one with make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.serve-%: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[$*]'
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[cpu,train,encoder,otel,dev]'
	touch $@
