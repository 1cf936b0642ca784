# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   := $(VENV)/.demo
READY  := $(VENV)/.ready
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Exactly this version: a wider request pulls gigabytes of CUDA packages on Linux. Its files differ between the
# public index and CPU builds, so that it has no hash; everything else is installed by its hash.
TORCH  := torch==2.13.0
# One thread a process: torch with several threads on a busy machine is many times slower.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false
# Compiled modules are kept even where the surroundings forbid it: every process would compile all of them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test shuffled slow search check format bench reproduce docs site lock audit clean help

help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 10

demo: $(DEMO)    ## the whole story on the embedded corpus and model, offline
	$(BIN)/reticent demo

test: $(READY)   ## the tests (minutes); `make slow` for the long ones
	$(BIN)/python -m pytest -n 2 --dist worksteal

shuffled: $(READY) ## the tests in random order; the seed is printed, and -p randomly --randomly-seed=N repeats it
	$(BIN)/python -m pytest -n 2 --dist worksteal -p randomly

slow: $(READY)   ## the long tests, and those that need models which are not shipped
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

search: $(READY) ## the property tests with other examples than `make test` uses, ten times as many
	$(BIN)/python -m pytest -n 2 --dist worksteal -m hypothesis --hypothesis-profile search

check: $(READY)  ## formatting, lint, types, layers, generated docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/vulture
	$(BIN)/python -m pytest -q tests/test_repository.py

format: $(READY) ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## side-by-side measurements, as ratios in one run
	$(BIN)/python -m bench

reproduce: $(READY) ## the papers' figures and tables, beside the printed numbers (hours; one: python -m reproductions NAME)
	$(BIN)/python -m reproductions all --out runs/reproductions

docs: $(READY)   ## regenerate the generated pages
	$(BIN)/python scripts/write_cli_page.py
	$(BIN)/python scripts/write_api_page.py

site: $(READY)   ## the documentation as a website in build/site, every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

audit: $(READY)  ## known vulnerabilities of what is installed (asks an advisory database; skips offline)
	$(BIN)/python scripts/audit_dependencies.py

lock: $(READY)   ## renew the lock files from pyproject.toml
	$(BIN)/python scripts/renew_lock.py

clean:           ## remove the environment and caches
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Set-up runs only when a lock or the project file changed. The demo needs less than the tests; whoever has what the
# tests need has what the demo needs.
$(DEMO): requirements-demo.lock pyproject.toml
	$(call environment,requirements-demo.lock)

$(READY): requirements.lock requirements-demo.lock pyproject.toml
	$(call environment,requirements.lock)
	touch $(DEMO)

define environment
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "reticent needs Python 3.11 or later; try: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes --no-deps -r $(1)
	$(PIP) $(TORCH)
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@
endef
