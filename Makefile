# keytally on one machine: PostgreSQL, Redis and ClickHouse as real servers, without Docker.
# Needs Node (18 or newer), npm and make; all else is installed on the first use.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install up down status logs demo token migrate test check lint fmt

# The Node that the lockfile brings; the host's own where there is none for this platform.
node = $(if $(wildcard node_modules/.bin/node),node_modules/.bin/node,node)
# Enough for what must also work on a stack that still runs with the packages of an older lockfile.
present = $(if $(wildcard node_modules/.bin),,install)
stack = @$(node) apps/stack/main.ts

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do \
	  printf '  make %-9s %s\n' "$$name" "$$text"; done
	@echo
	@echo '  KEYTALLY_HOME (.keytally) is where the stack keeps its data, KEYTALLY_PORT (8080) the port of the api;'
	@echo '  verify takes the next port.'

up: install ## start the stack, or find it running; prints addresses, a token and a first key
	$(stack) up

down: $(present) ## stop the stack and keep its data
	$(stack) down

status: $(present) ## show the processes
	$(stack) status

logs: $(present) ## follow the logs; NAME=api for one process
	$(stack) logs $(NAME)

demo: install ## see the product work, within a minute
	$(stack) demo

token: $(present) ## print a full access token; TEAM=name, made when new
	$(stack) token --team '$(or $(TEAM),demo)'

migrate: install ## bring the schemas of the running stack up to date
	$(stack) migrate

test: install ## run the tests on servers of their own; FILE=part-of-a-path for some
	@$(node) apps/stack/test.ts $(FILE)

check: install ## types, linter, format
	@npm run -s check

lint: install ## the linter alone
	@npm run -s lint

fmt: install ## format all files
	@npm run -s fmt

install: ## install the npm packages of the lockfile where missing or stale
	@apps/stack/install.sh
