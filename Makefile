# Every target sets up what it needs in .venv; a machine with Python 3.11+ is enough.
PYTHON ?= python3
SUITE  ?= first-light
BIN    := .venv/bin
PLUGINS := $(dir $(wildcard plugins/*/plugin.toml))

.PHONY: setup demo chat test check bench gpu-check plugins vectors smoke clean

setup: .venv/dev

demo: .venv/cpu
	$(BIN)/python sdk/examples/file_type_demo.py

# A language model in the terminal; without one it asks one question.
chat: .venv/chat
	$(BIN)/python sdk/examples/chat.py

# A page read by a pipeline of two models and two plugins.
demo-ocr: .venv/cpu
	$(BIN)/python sdk/examples/ocr.py

# make demo-image-classification, demo-text-recognition, demo-text-embedding, demo-voice-activity
demo-%: .venv/cpu
	$(BIN)/python sdk/examples/first_party.py $*

test: .venv/dev
	$(BIN)/pytest

smoke: .venv/dev
	$(BIN)/pytest -m "not slow" --numprocesses auto --dist loadfile

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/docs

bench: .venv/dev
	$(BIN)/python tests/bench/run.py --suite $(SUITE) $(BENCH_FLAGS)

# Proves the CUDA side where there is an NVIDIA GPU (status 2 where not); CI has none. Its packages are some 3 GB.
gpu-check:
	@$(PYTHON) -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null || \
	  { echo "nothing to check: libcuda.so.1 is missing, there is no NVIDIA driver here"; exit 2; }
	$(MAKE) .work/gpu/ready
	.work/gpu/bin/python tests/gpu/check.py

plugins: .venv/cpu
	set -e; for plugin in $(PLUGINS); do \
	  if [ -f $$plugin/fetch.py ]; then $(BIN)/python $$plugin/fetch.py; fi; $(BIN)/sandseal build $$plugin; done

# Golden data and generated documentation are written again; `git diff` then shows what changed.
vectors: .venv/dev
	$(BIN)/python tests/support/regenerate.py
	git diff --stat

clean:
	rm -rf .venv .work .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache plugins/*/build

.venv/python:
	$(PYTHON) -c 'import sys; sys.exit("Sandseal needs Python 3.11 or newer") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

.venv/cpu: .venv/python pyproject.toml constraints.txt
	@echo "installing the host, the SDK and their pinned dependencies into .venv ..."
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[cpu,sdk]'
	touch $@

.venv/chat: .venv/cpu
	@echo "installing what reads llama.cpp's files ..."
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[cpu,decoders,sdk]'
	touch $@

.venv/dev: .venv/cpu
	@echo "installing what tests and checks need ..."
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

.work/gpu/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .work/gpu
	.work/gpu/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[gpu]'
	touch $@
