# One target for each task of a developer or a user of a clone. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# Prerequisites run in their order: several of them install packages.
.NOTPARALLEL:
BIN := .venv/bin
# The tests start hundreds of Python processes: each would compile all that it imports again.
unexport PYTHONDONTWRITEBYTECODE
export BATON_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/baton

ENGINE ?= $(firstword $(notdir $(shell command -v docker podman buildah)))
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' operator/pyproject.toml)

# Each example has its own app.py, so mypy checks them one by one.
EXAMPLES := $(sort $(dir $(wildcard manifests/examples/*/*.py)))

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-17s %s\n", $$1, $$2}'

.PHONY: setup
setup: .venv/.ready ## Make .venv with the locked dependencies; .venv/bin/baton is the command

.venv/.ready: requirements.lock consumer/pyproject.toml operator/pyproject.toml
	@echo "setup: installing the locked dependencies into .venv (a few minutes the first time)"
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Baton needs Python 3.11 or later; python3 is " + sys.version)'
	@test -x $(BIN)/python || python3 -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep -o '^uv==[0-9.]*' requirements.lock)"
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation \
		--editable ./consumer --editable ./operator
	@touch $@

# These targets build or fetch on this machine what others need, before anything runs in a pod, a container or an image build.
package-%: setup
	@$(BIN)/python -m cluster packages $*

program-%: setup
	@$(BIN)/python -m cluster programs $*

.PHONY: jar broker peers connector spark-classes images-built
jar: package-javac
	@$(BIN)/python -c 'from baton.spark import jar_file; jar_file.prepare()'

broker: package-java package-mvn
	@$(BIN)/python -c 'from tests.kafka_broker import jars; jars.place()'

peers: package-javac package-mvn
	@$(BIN)/python -c 'from tests import peers; peers.built()'

connector: package-java package-mvn
	@$(BIN)/python -c 'from tests.bench.spark import kafka; kafka.connector_jars()'

spark-classes: jar
	@$(BIN)/python -c 'from tests import local_spark; local_spark.classes()'

images-built: machine jar
	@$(BIN)/python -m cluster build-images

.PHONY: machine
machine: setup ## Install the Debian packages and build the cluster's programs into the cache, where they are missing
	@$(BIN)/python -m cluster prepare

.PHONY: cluster-up
cluster-up: $(if $(filter 0,$(NODE)),program-kube,machine) ## A real Kubernetes on this machine until `make cluster-down` (NODE=0: API server and controllers only, no root)
	@$(BIN)/python -m cluster up $(if $(filter 0,$(NODE)),--no-node)

.PHONY: cluster-install
cluster-install: machine ## Install the operator of this checkout on the cluster that `make cluster-up` left running, by helm
	@$(BIN)/python -m cluster install

.PHONY: cluster-load
cluster-load: machine jar ## Build the images of the examples, and load them into the cluster of `make cluster-up` (ONLY=redis, kafka, external or spark)
	@$(BIN)/python -m cluster load $(foreach one,$(ONLY),--only $(one))

.PHONY: cluster-down
cluster-down: setup ## Stop the cluster that `make cluster-up` of this clone left running (ALL=1: of every clone)
	@$(BIN)/python -m cluster down $(if $(filter 1,$(ALL)),--all)

PYTHON ?= python3

.PHONY: try
try: ## The demo's story in a minute, told by processes of this machine: no root, no cluster, Python 3.11 or later (PYTHON=python3.13)
	@command -v $(PYTHON) >/dev/null || { echo "make try needs Python 3.11 or later: there is no $(PYTHON)" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make try needs Python 3.11 or later, such as PYTHON=python3.13: this is " + sys.version.split()[0])'
	@exec $(PYTHON) -m demo.environment
	@exec .venv-try/bin/python -m demo laptop

.PHONY: demo
demo: machine jar ## The whole story on a real cluster, in a few minutes (KEEP=1 leaves it running)
	@$(BIN)/python -m demo

.PHONY: test
test: check machine jar broker peers connector spark-classes ## What every change must pass: static checks, unit tests, simulation, real servers on this machine (no image, no pod)
	@$(BIN)/python -m tests test

.PHONY: test-cluster
test-cluster: machine jar broker images-built ## Tests that need a node: pods, helm, images, a browser, Prometheus, autoscalers, fleets under load (as root)
	@$(BIN)/python -m tests cluster

.PHONY: test-long
test-long: machine jar broker peers connector spark-classes images-built program-keda ## Before a release: tests that take a minute or more each; builds KEDA first (a quarter of an hour, once)
	@$(BIN)/python -m tests long

.PHONY: check
check: setup ## Static checks: ruff, mypy --strict, import-linter, plain English, the site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@for example in $(EXAMPLES); do $(BIN)/mypy $$example || exit; done
	$(BIN)/lint-imports
	@$(BIN)/python -m docs.prose
	@$(MAKE) --no-print-directory docs

PAGES := README.md CONTRIBUTING.md CHANGELOG.md 'docs/*.md' 'docs/*.svg' 'docs/*.png' manifests/examples charts/baton/README.md charts/baton/files

.PHONY: docs
docs: setup ## Build the documentation into build/site; a link that leads nowhere fails
	@rm -rf build/pages build/site && mkdir -p build/pages
	@git ls-files --cached --others --exclude-standard -- $(PAGES) | while read -r page; do test ! -f "$$page" || echo "$$page"; done \
		| tar -cf - -T - | tar -xf - -C build/pages
	@$(BIN)/zensical build --strict

.PHONY: quick
quick: check program-helm ## The part of `make test` that needs no root and no servers: static checks, unit tests, simulation
	@$(BIN)/python -m tests quick

.PHONY: simulate-long
simulate-long: setup ## Random fleets in virtual time (SEEDS=100000 FROM=0); one seed shows its timeline (SEEDS=1 FROM=17)
	@$(BIN)/python -m tests.simulation --from $(or $(FROM),0) --seeds $(or $(SEEDS),100000)

.PHONY: soak
soak: machine ## Cut the network, kill and stop a fleet, its operator and Redis under load, by a seed (SEED=1 MINUTES=10)
	@BATON_SOAK_SEED=$(or $(SEED),$(shell date +%s)) BATON_SOAK_SECONDS=$$(( 60 * $(or $(MINUTES),10) )) \
		$(BIN)/pytest -s --timeout=0 tests/integration/operator/under_load/test_cuts.py -k whatever_fails

.PHONY: soak-spark
soak-spark: package-redis-server package-ps jar spark-classes ## Kill, stop and cut off two Spark drivers of a group, its executors and Redis, by seeds, and count every row (FROM=1 SEEDS=10)
	@for seed in $$(seq $(or $(FROM),1) $$(( $(or $(FROM),1) + $(or $(SEEDS),10) - 1 ))); do \
		BATON_CHAOS_SEED=$$seed $(BIN)/pytest -q -s tests/integration/spark/soak_chaos.py || exit; done

.PHONY: mutate
mutate: package-redis-server broker ## Break rules of the engine, the controller, Spark's driver, Redis and Kafka in turn, and see that some test fails
	@$(BIN)/python -m tests.mutation

.PHONY: pictures
pictures: machine ## Take the pictures of the console that the guide shows, in Chromium, of a real operator
	$(BIN)/pytest -q tests/integration/operator/console_pictures.py

.PHONY: dist
dist: jar ## Build what is released, sdists and wheels, into dist/; needs a JDK 17 for the jar that baton-consumer carries
	@rm -rf dist
	@export BATON_RELEASE=1; for name in consumer operator; do \
		$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist $$name || exit; done
	@ls -1 dist/*

.PHONY: release-check
release-check: setup program-actionlint ## What has to hold before a version is tagged: one version, dated in the changelog, nothing stale; builds wheels and chart
	@test -z "$$(git status --porcelain)" || { echo "release-check: commit or remove what git status shows" >&2; exit 1; }
	@grep -Eq '^## $(VERSION) \([0-9]{4}-[0-9]{2}-[0-9]{2}\)' CHANGELOG.md \
		|| { echo "release-check: put the date behind '## $(VERSION)' in CHANGELOG.md" >&2; exit 1; }
	@$(MAKE) --no-print-directory check generate images-built
	@test -z "$$(git status --porcelain)" || { echo "release-check: commit what make generate has written" >&2; exit 1; }
	$$($(BIN)/python -c 'from cluster.programs import ACTIONLINT; print(ACTIONLINT.path())')
	$(BIN)/pytest -q tests/unit/test_distributions.py tests/unit/test_documentation.py tests/unit/chart
	@$(MAKE) --no-print-directory dist
	@$(BIN)/python -m charts.package
	$(BIN)/pytest -q -m "not long" tests/integration/distributions tests/e2e/test_images.py
	@echo "release-check: $(VERSION) can be tagged when make test, make test-cluster and make test-long have passed: push dist/*.tgz, dist/*.whl and dist/*.tar.gz, and the image (make images)"

.PHONY: images
images: ## Build the images of operator and Spark fleet with docker, podman or buildah (ENGINE=docker)
	@test -n "$(ENGINE)" || { echo "images: install docker, podman or buildah" >&2; exit 1; }
	$(ENGINE) build -f manifests/operator/Dockerfile -t baton-operator:$(VERSION) .
	$(ENGINE) build -f manifests/examples/spark/Dockerfile -t orders-spark:1 .

.PHONY: bench-assignors
bench-assignors: peers ## Time the assignors beside Kafka's and RocketMQ's Java classes; the last line is JSON
	@nice $(BIN)/python -m tests.bench.assignors

.PHONY: bench-engine
bench-engine: $(if $(filter 0,$(shell id -u)),machine,setup) ## Time steps of the engine, small to large, and (as root) hand-offs on a cluster; the last line is JSON
	@nice $(BIN)/python -m tests.bench.engine

.PHONY: bench-consumer
bench-consumer: package-redis-server ## Time consumer and producer beside redis-py alone on a separate Redis; the last line is JSON
	@$(BIN)/python -m tests.bench.consumer

.PHONY: bench-spark
bench-spark: package-redis-server jar broker connector ## Time the Spark source beside the same reader without ownership, a Python source, the rate source, and on Kafka Spark's own; the last line is JSON
	@$(BIN)/python -m tests.bench.spark

.PHONY: bench-handoff
bench-handoff: package-redis-server program-kube broker ## Pauses, moves and duplicates of a changing fleet, on Baton and on Kafka's own groups, in a quarter of an hour; the last line is JSON
	@$(BIN)/python -m tests.bench.handoff

.PHONY: bench-scale
bench-scale: package-redis-server program-kube ## What 1,000 groups cost the operator, beside the fewest requests (CASES="cold rest" GROUPS=100 MINUTES=1); the last line is JSON
	@$(BIN)/python -m tests.bench.scale $(foreach one,$(CASES),--case $(one)) $(if $(GROUPS),--groups $(GROUPS)) $(if $(MINUTES),--minutes $(MINUTES))

.PHONY: bench-throughput
bench-throughput: broker ## Consume and commit on Kafka beside confluent-kafka with its auto-commit; the last line is JSON
	@$(BIN)/python -m tests.bench.throughput

.PHONY: generate
generate: program-helm ## Write what is generated: CRDs, manifests/install.yaml, pages of docs/
	$(BIN)/python -m baton.api.generate
	$(BIN)/python -m charts.render
	$(BIN)/python -m docs.generate

LOCK := --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-package baton-consumer

.PHONY: lock
lock: setup ## Resolve the dependencies again and write requirements.lock, and those of the images and of `make try`
	$(BIN)/uv pip compile consumer/pyproject.toml operator/pyproject.toml --group dev --quiet --upgrade --all-extras \
		$(LOCK) --output-file requirements.lock
	$(BIN)/uv pip compile operator/pyproject.toml --extra kafka --extra redis --quiet --constraint requirements.lock \
		$(LOCK) --output-file manifests/operator/requirements.lock
	$(BIN)/uv pip compile consumer/pyproject.toml --extra metrics --extra redis --extra spark --quiet --constraint requirements.lock \
		$(LOCK) --output-file manifests/examples/spark/requirements.lock
	$(BIN)/uv pip compile --group try --universal --quiet --constraint requirements.lock $(LOCK) --output-file demo/requirements.lock

.PHONY: clean
clean: ## Remove .venv and what tools left in the checkout; the cache stays
	rm -rf .venv .venv-try .venv-try.lock build .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
