# Two commands do everything: `make run` reproduces the paper's first column, `make test` checks the whole project.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
LABEL_STUDIO := .venv-label-studio
DOORS := .venv-doors
SPARK := .venv-spark
APT := test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends

.PHONY: run test test-doors test-spark test-label-studio kills peers figure3 theory bench docs clean

run: $(VENV)/.installed-run
	$(BIN)/osamd reproduce rotating-gaussian --out results/rotating-gaussian

figure3: $(VENV)/.installed-run
	$(BIN)/osamd reproduce figure3 --out results/figure3

theory: $(VENV)/.installed-run
	$(BIN)/osamd theory --out results/theory

# Peers get an environment of their own; one that cannot be had here is left out, and the run says so.
bench: $(VENV)/.installed-run $(BENCH)/.installed
	$(BIN)/python -m benchmarks --python $(BENCH)/bin/python --out results/bench

# The documentation site, to open from site/index.html.
docs: $(VENV)/.installed-test
	$(BIN)/mkdocs build --strict

test: $(VENV)/.installed-test peers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2 --dist loadfile -rs  # at the end: what was skipped, and why

# Three streams, two of them networks, killed sixty times on each database, on one core and on all of them.
kills: $(VENV)/.installed-test peers
	OSAMD_KILLS=60 $(BIN)/pytest tests/service/test_stream_kills.py -q -s

# The bridge against a real Label Studio server, which is large and gets an environment of its own.
test-label-studio: $(VENV)/.installed-test $(LABEL_STUDIO)/.installed
	LABEL_STUDIO=$(abspath $(LABEL_STUDIO)/bin/label-studio) $(BIN)/pytest tests/service/test_label_studio_real.py

# Keyed streams on a real local Spark, which is large, needs Java 17, and gets an environment of its own.
test-spark: $(SPARK)/.installed
	@command -v java >/dev/null || $(APT) openjdk-17-jre-headless >/dev/null 2>&1 || echo "no Java: tests on Spark are skipped"
	$(SPARK)/bin/python -m pytest tests/spark -rs

# Ray and MLflow are large and get an environment of their own, which also sees that of the tests.
test-doors: $(VENV)/.installed-test $(DOORS)/.installed
	$(DOORS)/bin/python -m pytest tests/doors tests/adapters/test_onnx.py tests/test_site.py -k 'doors or onnx or into-your-tools' -W ignore -rs  # MLflow warns of what it uses itself

# What tests of the service use where it can be had: a browser and a database. Without them those tests are skipped.
peers:
	@command -v chromium >/dev/null || $(APT) chromium >/dev/null 2>&1 || echo "no chromium: tests in a browser are skipped"
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || $(APT) postgresql >/dev/null 2>&1 || echo "no PostgreSQL: its tests are skipped"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "osamd needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-run: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[plot]"
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test]"
	@touch $@ $(VENV)/.installed-run

$(BENCH)/.installed: constraints-bench.txt
	$(PYTHON) -m venv $(BENCH)
	-grep -v '^#' constraints-bench.txt | xargs -n 1 $(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-bench.txt
	@touch $@

$(LABEL_STUDIO)/.installed:
	$(PYTHON) -m venv $(LABEL_STUDIO)
	$(LABEL_STUDIO)/bin/python -m pip install --quiet --disable-pip-version-check "label-studio>=1.20,<2"
	@touch $@

$(DOORS)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOORS)
	$(DOORS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[ray,mlflow,onnx]" mlflow psutil
	echo $(abspath $(VENV))/lib/python3.*/site-packages > $$(echo $(DOORS)/lib/python3.*/site-packages)/tests.pth
	@touch $@

$(SPARK)/.installed: pyproject.toml
	$(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[spark]" pytest hypothesis
	@touch $@

clean:
	rm -rf $(VENV) $(BENCH) $(SPARK) $(LABEL_STUDIO) $(DOORS) results site .pytest_cache .mypy_cache .ruff_cache .hypothesis
