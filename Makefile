# One command for each task of development. The README's second command makes the environment .venv-test.
PYTHON = .venv-test/bin/python
BIN = .venv-test/bin
.PHONY: help tests fast types format check benchmarks full hooks

help:            ## this list
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed -E 's/: .*##/\t/'

tests:           ## every test that .ci/run runs
	$(PYTHON) -m pytest -n 2 --dist loadfile

fast:            ## the tests that need no training and no browser: two minutes on two cores
	$(PYTHON) -m pytest -x tests/test_tree.py tests/test_text.py tests/test_tokens.py tests/test_parts.py tests/test_laws.py \
		tests/test_ngram.py tests/test_look_laws.py

full:            ## all tests, the slow ones too (.ci/full)
	.ci/full

types:           ## mypy
	$(BIN)/mypy

format:          ## format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check:           ## what .ci/run asks of the code, without tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

benchmarks:      ## list the benchmarks; BENCH=faults runs one, with OPTIONS="..."
	$(if $(BENCH),$(PYTHON) bench/$(BENCH).py $(OPTIONS),@ls bench | sed -n 's/\.py$$//p')

hooks:           ## check every commit before it is made (needs pre-commit)
	pre-commit install
