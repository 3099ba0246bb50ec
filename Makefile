# keytally on Docker Compose where an engine answers; else on this machine, with PostgreSQL, Redis and ClickHouse as real
# servers: that needs Node (18 or newer), npm and make; all else is installed on the first use.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install up down status logs demo token migrate reconcile rebuild restored bench bench-pipeline bench-rebuild test fuzz faults check
.PHONY: audit lint fmt

# The Node that the lockfile brings; the host's own where there is none for this platform.
node = $(if $(wildcard node_modules/.bin/node),node_modules/.bin/node,node)
# On the command line (make up STACK=native) or in the environment.
stack = @STACK='$(STACK)' apps/stack/stack.sh

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do \
	  printf '  make %-14s %s\n' "$$name" "$$text"; done
	@echo
	@echo '  KEYTALLY_HOME (.keytally) is where the stack keeps its data, KEYTALLY_PORT (8080) the port of the api;'
	@echo '  verify takes the next port. Docker Compose is used where an engine answers; STACK=docker or STACK=native'
	@echo '  decides it.'

up: ## start the stack, or find it running; prints addresses, a token and a first key
	$(stack) up

down: ## stop the stack and keep its data
	$(stack) down

status: ## show the processes
	$(stack) status

logs: ## follow the logs; NAME=api for one process
	$(stack) logs $(NAME)

demo: ## see the product work, within a minute
	$(stack) demo

token: ## print a full access token; TEAM=name, made when new
	$(stack) token --team '$(or $(TEAM),demo)'

migrate: ## bring the schemas of the running stack up to date
	$(stack) migrate

reconcile: ## prove the books: compare every billing record's balance with its events
	$(stack) reconcile

rebuild: ## write everything in Redis anew, from Postgres and the books
	$(stack) rebuild

restored: ## after Postgres was restored from a backup: decide for safety what changed since
	$(stack) restored

bench: install ## how fast verify is beside bare node:http and its peers, and how exact; ROUNDS=6 CHART=file.svg
	@$(node) bench/main.ts --rounds $(or $(ROUNDS),6) $(if $(CHART),--chart '$(CHART)')

bench-pipeline: install ## events per second from the outbox to the books, by both buses; EVENTS=1000000
	@$(node) bench/pipeline/main.ts --events $(or $(EVENTS),1000000)

bench-rebuild: install ## how fast an emptied Redis is filled again; KEYS=1000000
	@$(node) bench/rebuild.ts --keys $(or $(KEYS),1000000)

fuzz: install ## send anything to api and verify; MINUTES=20 SEED=1
	@FUZZ_SECONDS=$$(($(or $(MINUTES),20) * 60)) FUZZ_SEED=$(or $(SEED),1) \
	  $(node) tests/runner/main.ts api/fuzz.test --show --within $$(($(or $(MINUTES),20) * 60 + 300))

test: install ## run the tests on servers of their own; FILE=part-of-a-path for some
	@$(node) tests/runner/main.ts $(FILE)

faults: install ## break everything under load and prove the books; SEED=1-20 MINUTES=30 ONLY=part-of-a-name
	@$(node) tests/faults/main.ts --seed '$(SEED)' --minutes '$(MINUTES)' --only '$(ONLY)'

check: install ## types, linter, format
	@npm run -s check

audit: install ## ask the registry for known vulnerabilities of what is shipped
	@$(node) apps/stack/commands/audit.ts

lint: install ## the linter alone
	@npm run -s lint

fmt: install ## format all files
	@npm run -s fmt

install: ## install the npm packages of the lockfile where missing or stale
	@apps/stack/install.sh
