# Two commands matter: `make book` builds the site and serves it, `make test` runs every test.
# Needs only make and Python 3.11 or newer; everything else goes into .venv and book/live/node_modules.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SITE := _build/html
PAGES := $(SITE)/.built
PDF := _build/transformer-math-measured.pdf
SOURCES := _config.yml _toc.yml $(shell find book chapters mathlib -type f -not -path '*/node_modules*' -not -path '*/__pycache__*' -not -path '*/.ipynb_checkpoints*')

.PHONY: book html test lab chapters lint bench mutants pdf clean help plan test-formulas test-runs test-notebooks test-site $(addprefix part-,1 2 3 4 5)
.DEFAULT_GOAL := help
unexport PYTHONDONTWRITEBYTECODE  # else each worker compiles the library and all tests anew
.NOTPARALLEL:  # each part takes both cores

help:
	@echo "make book      build the site, serve it, print its address"
	@echo "make test      run every test"
	@echo "make lab       open copies of the chapters in JupyterLab, in lab/"
	@echo "make chapters  execute every chapter and store its outputs (ONLY=chapters/compute.ipynb for one)"
	@echo "make html      build the site into $(SITE)"
	@echo "make pdf       the book as one PDF, $(PDF)"
	@echo "make lint      style, types, spelling"
	@echo "make bench     compare with PyTorch's own implementations"
	@echo "make mutants   break the code on purpose and count what the tests notice (ONLY=\"traffic memory --sample 40\")"
	@echo "make clean     remove what was built"

# --- setting up: each stamp is older than what it was made from, or it is made again ---

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; this is $$($(PYTHON) --version). Name another: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.book: book/requirements.txt constraints.txt pyproject.toml | $(VENV)/pyvenv.cfg
	$(BIN)/pip install --quiet --disable-pip-version-check -r book/requirements.txt -c constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(VENV)/.all: requirements.txt $(VENV)/.book
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt -c constraints.txt
	@touch $@

book/live/node_modules/.installed: book/live/package-lock.json book/live/.npmrc | $(VENV)/.book
	cd book/live && "$(CURDIR)/$(BIN)/npm" ci --silent
	@touch $@

# --- the site ---

$(PAGES): $(SOURCES) $(VENV)/.book book/live/node_modules/.installed
	$(BIN)/python tools/build_site.py . --path-output . --quiet -n -W --keep-going
	$(BIN)/python tools/downloads.py $(SITE)
	@touch $@

html: $(PAGES)

book: html
	@$(BIN)/python tools/serve.py $(SITE)

$(VENV)/.pdf: constraints.txt $(VENV)/.book  # no more than printing needs: no PyTorch
	$(BIN)/pip install --quiet --disable-pip-version-check playwright pypdf -c constraints.txt
	@touch $@

pdf: html $(VENV)/.pdf
	@$(BIN)/python tools/browser.py
	$(BIN)/python tools/pdf.py $(SITE) $(PDF)

# --- notebooks ---

lab: $(VENV)/.all
	@$(BIN)/python tools/plain.py lab
	@find lab -name "*.ipynb" -exec $(BIN)/jupyter trust {} +
	$(BIN)/jupyter lab lab/contents.ipynb

chapters: $(VENV)/.all
	$(BIN)/python tools/notebooks.py $(ONLY)

# --- tests, cheapest first; plain `pytest` runs all of tests/ at once, and tests/rules holds that no test is lost here ---

RUNS := tests/parallel tests/agreement tests/launch tests/bench tests/meters tests/model  # long files first, so that all workers end alike
LONG := $(addprefix chapters/,$(addsuffix .ipynb,unequal trials/links trials/unequal trials/precision zero trials/after trials/mics inference precision mics data_parallel roofline))
NOTEBOOKS := $(LONG) $(filter-out $(LONG),$(sort $(shell find chapters -name '*.ipynb' -not -path '*/.ipynb_checkpoints/*')))

# of the parts whose rows match; `python bench/minutes.py` measures them anew
minutes = $(shell awk -F'|' '/$(1)/ { sum += $$3 } END { printf "about %d min", sum < 1 ? 1 : sum + 0.5 }' bench/results/minutes.md)

test: plan part-1 lint part-2 test-formulas part-3 test-runs part-4 test-notebooks part-5 test-site
	@echo "All tests passed."

plan:
	@echo "Five parts, $(call minutes,[.]) on two cores; the first time, installing comes before."
part-1:
	@echo "Part 1 of 5: style, types, spelling ($(call minutes,lint))"
part-2:
	@echo "Part 2 of 5: formulas, pictures, rules ($(call minutes,formulas))"
part-3:
	@echo "Part 3 of 5: real runs on several ranks ($(call minutes,runs))"
part-4:
	@echo "Part 4 of 5: every chapter runs and prints what is stored ($(call minutes,notebooks))"
part-5:
	@echo "Part 5 of 5: the site in a real browser ($(call minutes,site))"

lint: $(VENV)/.all
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

test-formulas: $(VENV)/.all book/live/node_modules/.installed  # without nbval, which takes three seconds to load; neighbours share a worker and its caches
	$(BIN)/pytest -pno:nbval --numprocesses=2 --dist=worksteal $(addprefix --ignore=,$(RUNS) tests/site)

test-runs: $(VENV)/.all  # more at a time here and below than cores, as ranks, kernels and browsers wait
	$(BIN)/pytest -pno:nbval --numprocesses=4 --dist=loadfile --no-loadscope-reorder $(RUNS)

test-notebooks: $(VENV)/.all
	OMP_NUM_THREADS=1 $(BIN)/pytest --nbval --nbval-cell-timeout=120 --numprocesses=5 --dist=loadfile --no-loadscope-reorder $(NOTEBOOKS)

test-site: html $(VENV)/.all
	@$(BIN)/python tools/browser.py
	$(BIN)/pytest -pno:nbval --numprocesses=4 --dist=loadgroup tests/site

bench: $(VENV)/.all
	$(BIN)/python bench/run.py

mutants: $(VENV)/.all
	$(BIN)/python bench/mutants.py $(ONLY)

clean:
	rm -rf _build .pytest_cache .ruff_cache .mypy_cache .hypothesis
