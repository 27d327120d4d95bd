# make demo    from a fresh clone to a result: makes .venv, installs, opens a bundled capture
# make test    the same, then lint, types and all tests, side by side; `make suite`, `lint`, `types`: one of them
# make check-repo    checks of the repository itself: its docs, rules, benchmarks and release
# make budget    how large the repository is; fails where a number rose. LOWER=1 stores what fell, RAISE=1 all of it
# make check-chinese    has every sentence, question and page its Chinese? a release asks, `make test` does not
# make docs    writes the generated pages again
# make messages    puts sentences that are new into the Chinese catalogue, to be translated there, and takes out those that are gone
# make bench    us against other programs, on 1 M and 5 M kernels: takes long
# make bench-diagnosis    does a report, and does nsys-ai, name planted faults? installs nsys-ai in an environment of its own
# make bench-quick    are we slower than before? fails if so
# make torture    profiles broken in every way we know, for an hour; `make torture QUICK=--quick`: a minute
# make audit    does anything that a release runs on have a known vulnerability? fails where the advisories cannot be reached; AUDIT=--offline-ok does not
# make wheels    dist/: the source archives, wheels for Linux on both processors, one for everything else, and that of the programs to profile
# make release    the same from a clean dist/, installed and tried without a compiler, and the bill of materials; see docs/releasing.md
# make lock    writes again what a release runs on and is built with, by hash
# make site    build/site: the documentation as a site, with a gallery of reports; a broken link is an error
# make test-thorough    the suite with all inputs and a thousand examples of each law: takes an hour
# make test-workloads    tests of the programs to profile; installs torch, which is large
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := build/experts_loop.sqlite
QUIET := --quiet --disable-pip-version-check
BY_HASH := --require-hashes --only-binary=:all: --requirement
BARE = env PATH=/nowhere build/bare/bin/python -m pip $(QUIET)

WORKLOAD_TESTS := tests/workloads tests/capture/test_capture_torch.py tests/runbook/test_runbook_shipped.py tests/capture/test_window.py

# the tests start hundreds of interpreters: none of them compiles again what another has compiled, whatever is set here
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test lint types suite alone check-repo budget check-chinese torture audit wheels release lock site test-thorough test-workloads docs messages bench bench-diagnosis bench-quick clean

demo: $(VENV)/installed $(DEMO)
	@echo
	@$(BIN)/gpuledger report $(DEMO) --brief
	@$(BIN)/gpuledger report $(DEMO) --output=$(DEMO:.sqlite=.html) --force --quiet
	@echo
	@echo "That was $(BIN)/gpuledger report $(DEMO) --brief: a loop over experts on an H200, recorded by Nsight Systems."
	@echo "Without --brief it shows where the time went; $(BIN)/gpuledger --help has the other verbs by question."
	@$(BIN)/python -c 'import pathlib, sys; print("The page to look at, with timeline and flame graph:", pathlib.Path(sys.argv[1]).absolute().as_uri())' $(DEMO:.sqlite=.html)

test: $(VENV)/installed-dev
	$(MAKE) --no-print-directory --jobs=3 --output-sync=line lint types suite

lint: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

suite: $(VENV)/installed-dev
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 3 --dist=worksteal --cache-clear --ignore=tests/project --ignore=tests/chinese || $(MAKE) --no-print-directory alone

# What failed, without the others beside it: a test that passes now is a bug of the test, which its first failure above
# shows, and stops nobody. Three workers on two cores, as some tests wait; more threads only spin.
alone:
	$(BIN)/pytest --last-failed --last-failed-no-failures=none

check-repo: $(VENV)/installed-dev
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 3 --dist=worksteal --cache-clear tests/project || $(MAKE) --no-print-directory alone

check-chinese: $(VENV)/installed-dev
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 3 --dist=worksteal tests/chinese

budget: $(VENV)/installed-dev
	$(BIN)/python release/budget.py $(if $(RAISE),--raise) $(if $(LOWER),--lower)

test-thorough: $(VENV)/installed-dev
	OPENBLAS_NUM_THREADS=1 HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -n 3 --dist=worksteal --timeout=3600 --ignore=tests/chinese

test-workloads: $(VENV)/installed-dev
	$(BIN)/pip install $(QUIET) safetensors torch==2.13.0
	$(BIN)/pytest $(WORKLOAD_TESTS)

torture: $(VENV)/installed-dev
	PYTHONPATH=tests $(BIN)/python -m torture $(QUICK)

audit: $(VENV)/audit/bin/pip
	$(VENV)/audit/bin/pip install --quiet --disable-pip-version-check pip-audit || true  # no network: the script says so
	$(VENV)/audit/bin/python release/audit.py $(AUDIT)

$(VENV)/audit/bin/pip: | $(VENV)/bin/pip
	$(PYTHON) -m venv $(VENV)/audit

wheels: build/tools/installed
	build/tools/bin/python release/wheels.py dist

# what users do, where nothing can be compiled: no program is on the path
release: $(VENV)/installed-dev
	$(MAKE) --no-print-directory audit AUDIT=
	$(BIN)/python release/figures.py --measure
	$(MAKE) --no-print-directory check-chinese
	rm -rf dist
	$(MAKE) --no-print-directory wheels
	$(PYTHON) -m venv --clear build/bare
	$(BARE) install $(BY_HASH) release/requirements.txt
	$(BARE) install --no-deps --no-index --only-binary=:all: --pre --find-links dist gpuledger
	env PATH=/nowhere build/bare/bin/python release/try_installed.py
	build/bare/bin/python release/sbom.py > dist/gpuledger.cdx.json
	$(BARE) install --no-deps --no-index --force-reinstall dist/gpuledger-*-none-any.whl
	$(BARE) install --no-deps --no-index dist/gpuledger_workloads-*-none-any.whl
	env PATH=/nowhere build/bare/bin/python release/try_installed.py --pure

build/tools/installed: release/requirements-build.txt
	$(PYTHON) -m venv --clear build/tools
	build/tools/bin/python -m pip install $(QUIET) $(BY_HASH) $<
	touch $@

site: $(VENV)/installed-dev  # never --quiet: mkdocs counts no warning that it does not show
	$(BIN)/mkdocs build --strict --site-dir build/site

lock: | $(VENV)/bin/pip
	$(BIN)/python release/lock.py

docs: $(VENV)/installed-dev
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/what_is_said.py

messages: $(VENV)/installed-dev
	$(BIN)/python docs/messages.py

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/run.py

bench-diagnosis: $(VENV)/installed-dev
	$(BIN)/python benchmarks/run_diagnosis.py

bench-quick: $(VENV)/installed-dev
	$(BIN)/python benchmarks/run.py --quick

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

# the programs to profile without what they depend on: torch is large, and `make test-workloads` installs it
$(VENV)/installed-dev: pyproject.toml packages/workloads/pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install $(QUIET) --no-compile --editable '.[dev]'
	$(BIN)/pip install $(QUIET) --no-compile --no-deps --editable packages/workloads
	$(BIN)/python -m compileall -q -j0 -x '/tests?/' $(VENV)/lib  # on all cores, which pip does on one
	touch $@ $(VENV)/installed

build/%.sqlite: captures/nsys/%.sqlite.xz | $(VENV)/bin/pip
	mkdir -p build
	$(BIN)/python -c 'import lzma, pathlib, sys; pathlib.Path(sys.argv[2]).write_bytes(lzma.open(sys.argv[1]).read())' $< $@

clean:
	rm -rf $(VENV) build dist
