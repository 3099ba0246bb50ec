#!/bin/sh
# The stack on Docker Compose: up | down | status | logs [NAME] | token --team NAME | migrate | reconcile |
# rebuild | restored | demo. Needs Docker alone.
set -eu
cd "$(dirname "$0")/../.."
umask 077

# As without Docker: verify has the ports after the api's.
if [ -n "${KEYTALLY_PORT:-}" ] && [ -z "${KEYTALLY_VERIFY_PORTS:-}" ]; then
  export KEYTALLY_VERIFY_PORTS="$((KEYTALLY_PORT + 1))-$((KEYTALLY_PORT + 4))"
fi
in_api() { docker compose exec -T api "$@"; }

# Makes a secret unless it is there. Containers read it as users of their own, through a mount that keeps its mode (Compose
# ignores uid and mode of a secret from a file), so the folder keeps others out, not the file.
secret() {
  [ ! -s "secrets/$1" ] || return 0
  printf '%s\n' "$2" >"secrets/$1.new"
  chmod 644 "secrets/$1.new"
  mv "secrets/$1.new" "secrets/$1"
}
random_hex() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
make_secrets() {
  mkdir -p secrets
  chmod 700 secrets
  secret master_key "$(head -c 32 /dev/urandom | base64)"
  for name in postgres redis redis_api redis_verify redis_consumer redis_relay clickhouse grafana api_database consumer_database; do
    secret "${name}_password" "$(random_hex)"
  done
  secret database_url "postgres://keytally:$(cat secrets/postgres_password)@postgres:5432/keytally"
  for role in api consumer; do
    secret "${role}_database_url" "postgres://keytally_$role:$(cat "secrets/${role}_database_password")@postgres:5432/keytally"
  done
  for role in api verify consumer relay; do
    secret "redis_${role}_url" "redis://keytally_$role:$(cat "secrets/redis_${role}_password")@redis:6379"
  done
  secret clickhouse_url "http://keytally:$(cat secrets/clickhouse_password)@clickhouse:8123/keytally"
}

# The token of the last start if it is still valid (the volumes may be new), else a new one.
access_token() {
  token=$(sed -n "s/^\(export \)\{0,1\}KEYTALLY_TOKEN='\(.*\)'$/\2/p" secrets/env 2>/dev/null || true)
  check='const token = require("fs").readFileSync(0, "utf8");
    fetch(`http://127.0.0.1:${process.env.PORT}/api/v1/workspace?limit=1`, { headers: { authorization: `Bearer ${token}` } })
      .then(({ status }) => process.exit(status === 401 ? 1 : 0), () => process.exit(1))'
  if [ -n "$token" ] && printf %s "$token" | in_api node -e "$check"; then
    echo "$token"
  else
    in_api node apps/api/commands/token.ts --team demo </dev/null
  fi
}

command=$1
shift
case $command in
up)
  echo 'starting keytally on Docker Compose'
  make_secrets
  docker compose up -d --build --wait || {
    echo 'keytally: not every container got ready; see docker compose ps -a and make logs NAME=…' >&2
    exit 1
  }
  token=$(access_token)
  api=http://$(docker compose port api 8080)
  verify=http://$(docker compose port verify 8081)
  printf "export %s='%s'\n" KEYTALLY_API_URL "$api" KEYTALLY_VERIFY_URL "$verify" KEYTALLY_TOKEN "$token" >secrets/env
  printf '\n  api      %s\n  verify   %s\n  token    %s\n\nTo load them into your shell:  . secrets/env\n' "$api" "$verify" "$token"
  ;;
down) docker compose --profile monitoring down ;;
status) docker compose --profile monitoring ps -a ;;
logs)
  # Without containers Compose would wait for some.
  if [ -z "$(docker compose --profile monitoring ps -aq)" ]; then
    echo 'keytally: there are no logs: start the stack with make up' >&2
    exit 1
  fi
  docker compose --profile monitoring logs -f --tail 100 "$@"
  ;;
token) in_api node apps/api/commands/token.ts "$@" ;;
migrate) docker compose run --rm --build migrate ;;
reconcile | rebuild | restored) in_api node "apps/api/commands/$command.ts" ;;
demo)
  # In a container beside the others, for its Node; the image lacks the demo's files.
  docker compose run --rm --no-deps -v "$PWD/apps/stack:/app/apps/stack:ro" \
    -e KEYTALLY_API_URL=http://api:8080 -e KEYTALLY_VERIFY_URL=http://verify:8081 -e KEYTALLY_TOKEN="$(access_token)" \
    api node apps/stack/main.ts demo
  ;;
*)
  echo "keytally: $command does not exist on Docker Compose" >&2
  exit 2
  ;;
esac
