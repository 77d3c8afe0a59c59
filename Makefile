# What one can ask of kipwatch. `make` alone lists it.

PYTHON ?= python3
HELM ?= helm
# Docker, podman: what builds images for a release. Without one a release has none.
ENGINE ?=
# Tests also wait, for brokers and for time, so more of them run at once than there are cores.
WORKERS = $(shell echo $$(($$(nproc) * 3 / 2)))
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
BIN := .venv/bin
# What kipwatch runs with is installed first and by its digests; what only developers need comes on top.
RUNS := .venv/runs
READY := .venv/ready

# Commands that the tests call, each with the Debian package that brings it.
COMMANDS := java:default-jre-headless javac:default-jdk-headless promtool:prometheus \
	amtool:prometheus-alertmanager tcpdump:tcpdump tshark:tshark openssl:openssl \
	ip:iproute2 chromium:chromium
COMPILE_LOCK = CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --strip-extras --no-annotate \
	--no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host

# Installs Debian packages, $(1), as root. Anybody else is told $(2), and how to install them.
define INSTALL
if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends $(1); \
else \
	echo "$(strip $(2)): apt-get install --no-install-recommends" $(1); exit 2; \
fi
endef

# Otherwise each of many processes would compile each module, and pytest rewrite each assertion, anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup fetched rule site release layout compatibility demo check test clients corpus long bench lint docs lock clean packages java
.NOTPARALLEL:

help:
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile

setup: $(READY) fetched ## make .venv, fetch the pinned jars and compile into the user cache
	@$(BIN)/python -m streaming.broker.class_archive

fetched: $(RUNS)
	@$(BIN)/kipwatch prepare

demo: java $(RUNS) fetched ## the whole road on real traffic, on this machine; make demo ARGS="--keep" lets it run on
	@$(BIN)/kipwatch demo $(ARGS)

check: setup lint ## the fast loop: lint, types and the fast tests, in parallel
	KIPWATCH_EXAMPLES=0.1 $(BIN)/pytest -n auto --dist worksteal -m "not (jvm or e2e or long or slow or capture)"

test: packages setup lint ## everything the project promises, checked
	KIPWATCH_EXAMPLES=0.25 $(BIN)/pytest -n $(WORKERS) --dist worksteal --durations 30 -m "not (jvm or e2e or long)"
	KIPWATCH_EXAMPLES=0.25 $(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder --durations 30 \
		-m "(jvm or e2e) and not long"

long: packages setup ## what takes minutes to hours, file by file, resumed: make long ARGS="soak million"
	$(BIN)/python -m tests.long_tests $(ARGS)

clients: packages setup ## every client library at every broker, captured and judged; as root, half an hour
	$(BIN)/python -m tests.clients.survey $(ARGS)
	$(BIN)/python -m tests.brokers.survey
	$(BIN)/python -m tests.clients.provoked.survey
	$(BIN)/python -m tests.clients.rediscovered.survey
	$(BIN)/python -m tests.clients.rediscovered.provoked
	$(BIN)/python -m tests.clients.upgrading.proof
	$(BIN)/python -m tests.clients.page
	$(BIN)/python -m tests.brokers.page
	$(BIN)/python -m tests.clients.provoked.page
	$(BIN)/python -m tests.clients.rediscovered.page
	$(BIN)/python -m tests.clients.upgrading.page

corpus: $(READY) ## a small capture of each case, with what kipwatch says of it, in the folder corpus
	$(BIN)/python -m tests.corpus.corpus

bench: setup ## every bench, each with a JSON object as its last line
	@for name in $$($(BIN)/python -c "from streaming.commands.bench import BENCHES; print(*BENCHES)"); do \
		$(BIN)/kipwatch bench $$name --json || exit; \
	done

lint: $(READY) ## style, types, the import contracts and commit messages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --num-workers auto
	$(BIN)/lint-imports
	$(BIN)/python -m tests.repository.commits

docs: $(READY) ## write generated files anew: dashboards, alerts, runbook, settings, file map, clients
	$(BIN)/python -m dashboards.build
	$(BIN)/python -m tests.repository.file_map
	$(BIN)/python -m tests.clients.page
	$(BIN)/python -m tests.brokers.page
	$(BIN)/python -m tests.clients.provoked.page
	$(BIN)/python -m tests.clients.rediscovered.page
	$(BIN)/python -m tests.clients.upgrading.page

site: docs ## the documentation as a site, in the folder site: open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

release: $(READY) ## wheel, Helm chart, what they are made of (SBOM), checksums in dist; images, too: make release ENGINE=docker
	@command -v $(HELM) >/dev/null || { echo "helm is missing: install it, or name it: make release HELM=PATH"; exit 2; }
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	$(HELM) package deploy/helm/kipwatch --destination dist
	cp docs/finding.schema.json requirements-run.lock dist
	$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
		--output-file dist/kipwatch.cdx.json requirements-run.lock
	$(BIN)/python deploy/release/add_jars.py dist/kipwatch.cdx.json streaming/broker/pins/*.sha256
	$(if $(ENGINE),$(call image,feeder))
	$(if $(ENGINE),$(call image,application))
	cd dist && sha256sum * > SHA256SUMS

define image
	$(ENGINE) build --build-arg PART=$(1) --file deploy/image/Dockerfile --tag kipwatch-$(1):$(VERSION) .
	$(ENGINE) save --output dist/kipwatch-$(1)-$(VERSION).tar kipwatch-$(1):$(VERSION)
endef

rule: $(READY) ## what a rule still needs, all at once: make rule RULE=kip511/connection-kept
	@[ -n "$(RULE)" ] || { echo "name the rule: make rule RULE=kip511/connection-kept"; exit 2; }
	$(BIN)/python -m dashboards.build
	$(BIN)/python -m tests.repository.file_map
	@failed=0; \
	$(BIN)/pytest -n auto --dist worksteal -m "not slow" --tb=short tests/cases tests/mutations tests/expectations/rules \
		tests/expectations/requirements tests/repository tests/streaming/state || failed=1; \
	$(BIN)/pytest --tb=short tests/mutations -k "$(RULE)" || failed=1; \
	exit $$failed

layout: $(READY) ## write the stored bytes of the state's layout anew, after a rule got new state
	$(BIN)/python -m tests.streaming.state.write_layout

compatibility: $(READY) fetched ## keep what this version stores, for the test that later ones read it
	$(BIN)/python -m tests.compatibility.write

lock: $(READY) ## write all locks anew from pyproject.toml
	$(COMPILE_LOCK) --all-extras --output-file requirements.lock pyproject.toml
	$(COMPILE_LOCK) --extra run --extra audit --build-deps-for editable --build-deps-for wheel --generate-hashes \
		--constraint requirements.lock --output-file requirements-run.lock pyproject.toml
	$(COMPILE_LOCK) --build-deps-for wheel --generate-hashes --constraint requirements.lock \
		--output-file requirements-feed.lock pyproject.toml

clean: ## remove .venv and what tools left; the jar cache stays
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist site
	find . -name __pycache__ -prune -exec rm -rf {} +

$(RUNS): requirements-run.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "kipwatch needs Python 3.11 or newer: install it, or name it: make PYTHON=python3.12"; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
		|| { echo "$(PYTHON) cannot make virtual environments: apt-get install python3-venv"; exit 2; }
	@echo "kipwatch: making .venv and installing the packages that kipwatch runs with; the largest, pyspark, has 450 MB"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --require-hashes --requirement requirements-run.lock
	$(BIN)/pip install --no-deps --no-build-isolation --editable .
	@touch $(RUNS)

$(READY): $(RUNS) requirements.lock
	@echo "kipwatch: installing the tools of contributors: tests, linters, peers of the benches"
	$(BIN)/pip install --requirement requirements.lock
	@touch $(READY)

packages:
	@PATH="$${JAVA_HOME:+$$JAVA_HOME/bin:}$$PATH"; missing=; \
	for command in $(COMMANDS); do \
		command -v "$${command%%:*}" >/dev/null || missing="$$missing $${command#*:}"; \
	done; \
	[ -n "$$missing" ] || exit 0; \
	$(call INSTALL,$$missing,the tests need more)

# As streaming/broker/jars.py, before anything is downloaded: JAVA_HOME, and then the first on PATH.
java:
	@for java in "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" java; do \
		"$$java" -version 2>&1 | grep -Eq 'version "(1[7-9]|[2-9][0-9])' && exit 0; \
	done; \
	$(call INSTALL,$(patsubst java:%,%,$(filter java:%,$(COMMANDS))),the demo needs Java 17 or newer)
