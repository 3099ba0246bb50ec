#!/bin/sh
# What make runs: up | down | status | logs [NAME] | monitor | token --team NAME | revoke-team --team NAME | quota --team NAME |
# migrate | reconcile | audit-log-verify | rebuild | restored | demo [DAYS] | backup FILE | restore FILE.
# It stays with the stack that is here. Without one it uses Docker Compose where a Docker engine answers, else the stack of one
# machine. STACK=docker or STACK=native decides.
set -eu
cd "$(dirname "$0")/../.."

fail() {
  echo "keytally: $1" >&2
  exit 1
}
engine_answers() { docker info && docker compose version; } >/dev/null 2>&1
home=${KEYTALLY_HOME:-.keytally}
runs_natively() {
  pid=$(sed -n 's/.*"pid":\([0-9]*\).*/\1/p' "$home/supervisor.json" 2>/dev/null) &&
    [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null
}
# Whether it runs or not: another stack would be an empty one, on the same ports. The folder beside the home is that of a restore
# that was cut off before its last step, and beside what a link leads to, also where that is moved aside.
native_is_here() { [ -d "$home/postgres/data" ] || [ -f "$(real_home).restoring/restored.json" ]; }
# Older macOS has no readlink -f.
real_home() { readlink -f "$home" 2>/dev/null || echo "${home%/}"; }
compose_is_here() { [ -s secrets/master_key ]; }

case ${STACK:-} in
docker)
  engine_answers ||
    fail 'STACK=docker needs a Docker engine and its compose plugin, and none answers here: see docker info and docker compose version'
  ;;
native) ;;
'')
  # These commands also run on servers that the environment names.
  case $1${DATABASE_URL:+ elsewhere} in
  'token elsewhere' | 'revoke-team elsewhere' | 'quota elsewhere' | 'migrate elsewhere' | 'reconcile elsewhere' | 'audit-log-verify elsewhere' | 'rebuild elsewhere' | 'restored elsewhere') STACK=native ;;
  *)
    if runs_natively; then
      STACK=native
    elif native_is_here && compose_is_here; then
      fail "$home holds a stack of one machine, and secrets/master_key is of one on Docker Compose: set STACK=native or STACK=docker"
    elif native_is_here; then
      STACK=native
    elif engine_answers; then
      STACK=docker
    elif compose_is_here; then
      fail 'secrets/master_key is of a stack on Docker Compose, and no Docker engine answers: start it, or set STACK=native'
    else
      STACK=native
    fi
    ;;
  esac
  ;;
*) fail "STACK is docker or native, not $STACK" ;;
esac
[ "$STACK" = native ] || exec apps/stack/compose.sh "$@"

# The other commands must also work on a stack that runs with the packages of an older lockfile, so they use what is there.
case $1 in
up | migrate | demo | restore) apps/stack/install.sh ;;
*) [ -d node_modules/.bin ] || apps/stack/install.sh ;;
esac
# The Node that the lockfile installs; the host's own on a platform that it has none for.
node=node_modules/.bin/node
[ -e "$node" ] || node=node
exec "$node" apps/stack/main.ts "$@"
