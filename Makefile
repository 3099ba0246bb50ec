# Runs keytally on Docker Compose where a Docker engine answers. Elsewhere it runs on this machine, with PostgreSQL, Redis
# and ClickHouse as real servers: that needs Node 18 or newer, npm and make, and installs everything else on the first use.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install up down status logs secrets digests monitor demo token revoke-team quota migrate reconcile rebuild restored backup restore audit-log-verify bench bench-rebuild
.PHONY: neighbours test test-e2e test-gateways test-browser test-clients test-kafka test-cluster test-deploy test-faults test-all mutants fuzz accounts-model simulate simulate-broken check audit sbom release lint fmt tools

# The Node that the lockfile installs; the host's own on a platform that it has none for.
node = $(if $(wildcard node_modules/.bin/node),node_modules/.bin/node,node)
# Each program starts in half the time where Node keeps what it has compiled.
export NODE_COMPILE_CACHE ?= $(CURDIR)/node_modules/.cache/node
# STACK may be set on the command line (make up STACK=native) or in the environment.
stack = @STACK='$(STACK)' apps/stack/stack.sh

help: ## list the targets
	@sed -n 's/^##@ /\t/p; s/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | while IFS= read -r line; do case $$line in \
	  "$$(printf '\t')"*) printf '\n%s\n' "$${line#?}" ;; \
	  *) printf '  make %-16s %s\n' "$${line%%"$$(printf '\t')"*}" "$${line#*"$$(printf '\t')"}" ;; esac; done
	@echo
	@echo '  The stack keeps its data in KEYTALLY_HOME (default .keytally). The api listens on KEYTALLY_PORT (default 8080),'
	@echo '  verify on the next port. make stays with the stack that is there. Without one it uses Docker Compose where a'
	@echo '  Docker engine answers. STACK=docker or STACK=native decides instead.'

##@ To run keytally

up: ## start the stack, or find it running; print addresses, a token and a line to paste
	$(stack) up

install: ## install the npm packages that keytally runs on, if they are missing or stale
	@apps/stack/install.sh

down: ## stop the stack and keep its data
	$(stack) down

status: ## show the processes
	$(stack) status

logs: ## follow the logs; NAME=api shows one process
	$(stack) logs $(NAME)

secrets: ## write the secrets of a stack on Docker Compose or Kubernetes that are missing, and start nothing
	@apps/stack/compose.sh secrets

digests: ## name each image of Dockerfile and docker-compose.yml by the digest that its registry has for its tag now
	@apps/stack/compose.sh digests

monitor: ## run Prometheus with the alerts beside the running stack; PROMETHEUS_PORT=9090
	$(stack) monitor

demo: ## fill a workspace with customers, make up last month and close it, send 20,000 verifications, compare the books; HISTORY=0 makes up none
	$(stack) demo $(HISTORY)

backup: ## write a backup of the running stack; FILE=keytally.backup
	$(stack) backup '$(FILE)'

restore: ## put a backup in the place of the stopped stack, whose data is kept; FILE=keytally.backup
	$(stack) restore '$(FILE)'

token: ## print an access token with all permissions; TEAM=name, created if new
	$(stack) token --team '$(or $(TEAM),demo)'

quota: ## show the quotas of a team, or change them; TEAM=name SET='keys=5000 workspaces=default'
	$(stack) quota --team '$(or $(TEAM),demo)' $(SET)

revoke-team: ## end everything that a team has given out: tokens, API keys, JWTs; TEAM=name
	$(stack) revoke-team --team '$(TEAM)'

migrate: ## bring the schemas of the running stack up to date
	$(stack) migrate

reconcile: ## prove the books: compare the balance of every billing record with its events
	$(stack) reconcile

audit-log-verify: ## prove that no line of the audit log was changed or removed; SINCE= or HEAD= takes a head that it printed
	$(stack) audit-log-verify $(if $(SINCE),--since '$(SINCE)') $(if $(HEAD),--head '$(HEAD)')

rebuild: ## write everything in Redis again, from Postgres and the books
	$(stack) rebuild

restored: ## after you restored Postgres from a backup: settle, on the safe side, what changed since
	$(stack) restored

##@ To work on it

bench: tools ## measure verify beside bare node:http: cost, speed, exactness; ROUNDS=6 SECONDS=3 ONLY=part-of-a-name
	@$(node) bench/main.ts --rounds $(or $(ROUNDS),6) --seconds $(or $(SECONDS),3) $(if $(ONLY),--only '$(ONLY)')

bench-rebuild: tools ## measure how fast an emptied Redis is filled again, with a long history in the books; KEYS=1000000 EVENTS=100000000
	@$(node) bench/rebuild.ts --keys $(or $(KEYS),1000000) --events $(or $(EVENTS),100000000)

neighbours: tools ## let a hostile team and strangers do their worst beside a good team; SECONDS=15 ONLY=part-of-a-name
	@$(node) bench/neighbours/main.ts --seconds $(or $(SECONDS),15) --only '$(ONLY)'

fuzz: tools ## send random requests to api and verify; MINUTES=20 SEED=1
	@FUZZ_SECONDS=$$(($(or $(MINUTES),20) * 60)) FUZZ_SEED=$(or $(SEED),1) \
	  $(node) tests/runner/main.ts tests/fuzz.release --show --within $$(($(or $(MINUTES),20) * 60 + 300))

accounts-model: tools ## compare grants, holds, limits and alerts with a simple model; SEED=1 SEQUENCES=2000
	@ACCOUNTS_SEED=$(or $(SEED),$(shell date +%s)) ACCOUNTS_SEQUENCES=$(or $(SEQUENCES),2000) \
	  $(node) tests/runner/main.ts tests/accounts/model --within 3600

test: tools ## run the tests of functions, of stores, and of the contract over HTTP; FILE=part-of-a-path runs those that it names
	@$(node) tests/runner/main.ts $(FILE)

test-e2e: tools ## run the tests from end to end: one stack, one gateway, one page, Kafka, a cluster, a backup
	@$(node) tests/runner/main.ts --tiers 3 $(FILE)

test-gateways: tools ## run the tests of nginx, Caddy, HAProxy and Envoy
	@$(node) tests/runner/main.ts --tiers 3,4 tests/gateways

test-browser: tools ## run the tests of console and portal in Chromium
	@$(node) tests/runner/main.ts --tiers 3,4 chromium.test

test-clients: tools ## run the tests of the clients for Node, Go and Python
	@$(node) tests/runner/main.ts --tiers 0,1,2,3,4 clients/

test-kafka: tools ## run the tests with Kafka
	@$(node) tests/runner/main.ts --tiers 3,4 kafka.test

test-cluster: tools ## run the tests of Redis Cluster
	@$(node) tests/runner/main.ts --tiers 3,4 cluster

test-deploy: tools ## run the tests of the stack, Compose, Helm, systemd and monitoring
	@$(node) tests/runner/main.ts --tiers 3,4 apps/stack tests/compose tests/deploy tests/helm tests/forge tests/monitoring --within 7200

test-faults: tools ## run the tests that kill, empty, fill and cut off servers and programs
	@$(node) tests/runner/main.ts --tiers 3,4 tests/system apps/consumer apps/api

test-all: tools ## run all tests, as before a release
	@$(node) tests/runner/main.ts --tiers 0,1,2,3,4
	@$(node) tests/mutants/main.ts

simulate: tools ## run the whole service under faults, time and order from a seed; SEED=1-100 STEPS=200 WITHOUT=losses,jumps
	@$(node) tests/simulator/main.ts --seed '$(SEED)' --steps '$(STEPS)' --without '$(WITHOUT)'

simulate-broken: tools ## break each rule in a copy of the product, and see that the simulator notices; ONLY=part-of-a-name
	@$(node) tests/simulator/breaking.ts --only '$(ONLY)'

mutants: tools ## put faults into a copy of the product, one at a time, and see that a test notices; ONLY=part-of-a-name DAY=28
	@$(node) tests/mutants/main.ts --only '$(ONLY)' --day '$(DAY)'

check: tools ## check types, lint and format
	@npm run -s check

audit: install ## ask the registry for known vulnerabilities of the packages that are shipped
	@said=$$(npm audit --omit=dev 2>&1) && echo "$$said" || { echo "$$said" >&2; case $$said in \
	  *'audit endpoint returned an error'*) echo '****  NOT AUDITED: the registry does not report vulnerabilities' ;; *) exit 1 ;; esac; }

sbom: install ## write the bill of materials (CycloneDX) of what is shipped, into release/
	@$(node) apps/stack/release/sbom.ts

release: tools ## write a release into release/, date the changelog and tag it; VERSION=1.2.3 DRY_RUN=1 REPEAT=1
	@$(node) apps/stack/release/main.ts --version '$(VERSION)' $(if $(DRY_RUN),--dry-run) $(if $(REPEAT),--repeat)

lint: tools ## run the linter alone
	@npm run -s lint

fmt: tools ## format all files
	@npm run -s fmt

tools: ## install the npm packages of development beside those that keytally runs on
	@apps/stack/install.sh tools
