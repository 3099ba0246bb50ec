#!/bin/sh
# The stack on Docker Compose: up | down | status | logs [NAME] | secrets | digests | monitor | token --team NAME | revoke-team --team NAME |
# quota --team NAME | migrate | reconcile | audit-log-verify [--since HEAD | --head HEAD] | rebuild | restored | demo [DAYS] |
# backup FILE | restore FILE. Needs Docker alone.
set -eu
cd "$(dirname "$0")/../.."
umask 077

# As without Docker: verify has the port after the api's.
if [ -n "${KEYTALLY_PORT:-}" ] && [ -z "${KEYTALLY_VERIFY_PORTS:-}" ]; then
  export KEYTALLY_VERIFY_PORTS=$((KEYTALLY_PORT + 1))
fi
in_api() { docker compose exec -T api "$@"; }

# Makes a secret unless it is there, whole or not at all, and so that two at once end with the same. Containers read it as users
# of their own, through a mount that keeps its mode (Compose ignores uid and mode of a secret from a file), so the folder keeps
# others out, not the file.
secret() {
  [ ! -s "secrets/$1" ] || return 0
  fresh=secrets/$1.$$.new
  printf '%s\n' "$2" >"$fresh"
  chmod 644 "$fresh"
  on_disk "$fresh"
  # Unlike mv, it leaves what another has put there.
  ln "$fresh" "secrets/$1" 2>/dev/null || [ -s "secrets/$1" ] || fail "secrets/$1 can't be written, or is empty: remove it and try again"
  rm "$fresh"
}
# Some systems have a sync that takes no names and writes everything.
on_disk() { sync "$1" 2>/dev/null || sync; }
random_hex() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
make_secrets() {
  # The first that is made: a first start that was cut off has no password yet.
  [ -s secrets/master_key ] || [ ! -s secrets/postgres_password ] ||
    fail 'secrets/master_key is missing, and another key would open nothing of what is here: put your copy there'
  mkdir -p secrets
  chmod 700 secrets
  secret master_key "$(head -c 32 /dev/urandom | base64)"
  for name in postgres redis redis_api redis_verify redis_consumer redis_relay kafka_broker kafka_relay kafka_consumer \
    clickhouse clickhouse_api clickhouse_consumer grafana api_database consumer_database webhooks_database; do
    secret "${name}_password" "$(random_hex)"
  done
  secret database_url "postgres://keytally:$(cat secrets/postgres_password)@postgres:5432/keytally"
  for role in api consumer webhooks; do
    secret "${role}_database_url" "postgres://keytally_$role:$(cat "secrets/${role}_database_password")@postgres:5432/keytally"
  done
  for role in api verify consumer relay; do
    secret "redis_${role}_url" "redis://keytally_$role:$(cat "secrets/redis_${role}_password")@redis:6379"
  done
  owner="http://keytally:$(cat secrets/clickhouse_password)@clickhouse:8123/keytally"
  secret clickhouse_url "$owner"
  for role in api consumer; do
    url="http://keytally_$role:$(cat "secrets/clickhouse_${role}_password")@clickhouse:8123/keytally"
    # A ClickHouse of your own has the users that you gave it.
    [ "$(cat secrets/clickhouse_url)" = "$owner" ] || url=$(cat secrets/clickhouse_url)
    secret "clickhouse_${role}_url" "$url"
  done
  on_disk secrets
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

# Runs a command as the schemas' owner, in a container of its own that has more secrets than those of `migrate`.
as_owner() {
  script=$1
  shift
  docker compose run --rm -T --no-deps \
    -v "$PWD/secrets/redis_api_url:/run/secrets/redis_api_url:ro" -e REDIS_URL_FILE=/run/secrets/redis_api_url \
    -v "$PWD/secrets/master_key:/run/secrets/master_key:ro" -e MASTER_KEY_FILE=/run/secrets/master_key \
    migrate node "apps/api/commands/$script.ts" "$@"
}
fail() {
  echo "keytally: $1" >&2
  exit 1
}

# Compose does not look into the files that it mounts: a variable with their checksum has it replace a server whose files have changed.
note_files() {
  for server in "$@"; do
    mounted=$(sed -n "/^  $server:\$/,/^    deploy:/s#.*\(\./[^:]*\):/.*:ro.*#\1#p" docker-compose.yml)
    # shellcheck disable=SC2086
    find $mounted -type f | LC_ALL=C sort | xargs cat | cksum | sed 's/ /-/; s/^/MOUNTED_FILES=/' >"secrets/$server.files"
  done
}
has_volume() { [ -n "$(docker volume ls -q --filter "name=^$(docker compose config | sed -n 's/^name: //p')_$1\$")" ]; }

# Writes behind the tag of each image the digest that its registry has for it now. Looks up all of them before it writes one.
pin_images() {
  edits=
  for image in $(sed -nE 's/^ *(FROM|image:) ([^ @$]+)(@[^ ]+)?( AS .+)?$/\2/p' Dockerfile docker-compose.yml | sort -u); do
    # Without --format, which asks for the configuration of every platform: registries limit what one may ask.
    digest=$(docker buildx imagetools inspect "$image" | sed -nE 's/^Digest: +(sha256:[0-9a-f]{64})$/\1/p')
    [ -n "$digest" ] || fail "no registry named a digest of $image, so nothing was changed"
    echo "$image@$digest"
    edits="${edits}s#^( *(FROM|image:) $image)(@[^ ]+)?( |\$)#\\1@$digest\\4#
"
  done
  for file in Dockerfile docker-compose.yml; do
    text=$(sed -E "$edits" "$file")
    printf '%s\n' "$text" >"$file"
  done
}

# Under its name the file is whole and on the disk, or not there. The partial file is made by one of several commands alone
# (noclobber), so that nobody else writes to it or makes the file meanwhile.
back_up() {
  [ -n "$1" ] || fail 'name the file to write: make backup FILE=keytally.backup'
  partial=$1.partial
  (set -C && : >"$partial") || fail "$partial cannot be made. If it is there, another make backup writes it, or one that was killed has left it: then remove it"
  trap 'rm -f "$partial"' EXIT
  trap 'exit 130' HUP INT TERM
  [ ! -e "$1" ] || fail "$1 is there already: name another file"
  as_owner backup >"$partial" </dev/null && on_disk "$partial" || fail 'nothing was backed up'
  mv "$partial" "$1"
  trap - EXIT
  on_disk "$(dirname "$1")"
  echo "in $1"
  echo 'The master key is not in it. Keep a copy of secrets/master_key in another place: signing keys cannot be read without it.'
}

# Volumes can't be renamed, so the old ones are never touched: only new ones are filled. Postgres and ClickHouse start alone
# until they are, so the volume of Redis or Kafka is a sign of another stack, whose usage must not reach these books.
restore() {
  [ -n "$1" ] || fail 'name the file to restore: make restore FILE=keytally.backup'
  [ -f "$1" ] || fail "there is no file $1"
  # Both go on after a restore that was cut off; whether they hold a stack, the volumes say.
  [ -z "$(docker compose --profile monitoring ps --services | grep -vx -e postgres -e clickhouse -e '')" ] ||
    fail 'the stack runs: stop it with make down, then restore again'
  project=$(docker compose config | sed -n 's/^name: //p')
  [ -z "$(docker ps -q --filter "label=com.docker.compose.project=$project" --filter label=com.docker.compose.oneoff=True)" ] ||
    fail 'another command is at work in a container of this stack: see docker ps, and restore again once it has ended'
  for volume in redis kafka; do
    ! has_volume $volume ||
      fail "the volumes of the project $project hold a stack. Restore beside it with COMPOSE_PROJECT_NAME=another-name, or remove it first: docker compose --profile monitoring down --volumes"
  done
  [ -s secrets/master_key ] || fail 'the backup has no master key, and there is none in secrets/master_key: put your copy of it there'
  make_secrets
  note_files clickhouse
  echo "checking $1"
  docker compose build --quiet migrate
  as_owner restore --check <"$1" >/dev/null || fail 'nothing was restored'
  docker compose up -d --wait postgres clickhouse
  echo 'loading it'
  as_owner restore <"$1" >/dev/null || fail 'the restore is not done. Once the reason is gone, restore the same file again'
  "$0" up
  echo "restored from $1. Lost is what was used, bought and changed after the moments above"
  "$0" reconcile
}

command=$1
shift
case $command in
up)
  echo 'starting keytally on Docker Compose'
  make_secrets
  note_files redis kafka clickhouse prometheus grafana
  # Monitoring that was started once is there after each start.
  ! has_volume prometheus || export COMPOSE_PROFILES=monitoring
  docker compose up -d --build --wait || {
    echo 'keytally: not every container got ready; see docker compose ps -a and make logs NAME=…' >&2
    exit 1
  }
  token=$(access_token)
  api=http://$(docker compose port api 8080)
  verify=http://$(docker compose port verify 8081)
  fresh=secrets/env.$$.new
  printf "export %s='%s'\n" KEYTALLY_API_URL "$api" KEYTALLY_VERIFY_URL "$verify" KEYTALLY_TOKEN "$token" >"$fresh"
  mv "$fresh" secrets/env
  printf '\n  api      %s\n  verify   %s\n  console  %s/console\n  token    %s\n\nTo load them into your shell, and make a first key:\n\n. secrets/env; . docs/api.sh; first_key\n' \
    "$api" "$verify" "$api" "$token"
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
secrets)
  make_secrets
  echo 'the secrets are in the folder secrets, which only its owner may enter'
  ;;
digests) pin_images ;;
monitor)
  note_files prometheus grafana
  docker compose --profile monitoring up -d --wait prometheus grafana
  echo "Grafana on http://$(docker compose port grafana 3000), user admin, password in secrets/grafana_password"
  ;;
backup) back_up "$1" ;;
restore) restore "$1" ;;
token | quota | revoke-team) in_api node "apps/api/commands/$command.ts" "$@" ;;
migrate) docker compose run --rm --build migrate ;;
reconcile | rebuild | audit-log-verify) in_api node "apps/api/commands/$command.ts" "$@" ;;
restored) as_owner restored </dev/null ;;
demo)
  days=${1:-}
  set --
  # Days that are made up are written as the owner of the schemas: no program of ours may write all of it.
  if [ "$days" != 0 ]; then
    set -- -v "$PWD/secrets/database_url:/run/secrets/database_url:ro" -e DATABASE_URL_FILE=/run/secrets/database_url \
      -v "$PWD/secrets/clickhouse_url:/run/secrets/clickhouse_url:ro" -e CLICKHOUSE_URL_FILE=/run/secrets/clickhouse_url
  fi
  # By its name alone: what it may do must not show in the list of processes.
  KEYTALLY_TOKEN=$(access_token)
  export KEYTALLY_TOKEN
  # In a container beside the others, for its Node; the image lacks the demo's files.
  docker compose run --rm --no-deps "$@" -v "$PWD/apps/stack:/app/apps/stack:ro" \
    -e KEYTALLY_CONSOLE_URL="http://$(docker compose port api 8080)/console" \
    -e KEYTALLY_API_URL=http://api:8080 -e KEYTALLY_VERIFY_URL=http://verify:8081 -e KEYTALLY_TOKEN \
    api node apps/stack/main.ts demo ${days:+"$days"}
  ;;
*)
  echo "keytally: $command does not exist on Docker Compose" >&2
  exit 2
  ;;
esac
