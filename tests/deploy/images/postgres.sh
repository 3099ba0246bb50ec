#!/bin/sh
# Makes the database on the first start, as the real image does: until it is whole a server serves the socket alone.
set -eu
if [ "$1" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
  initdb --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --auth-host=scram-sha-256 -D "$PGDATA" >&2
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  pg_ctl -w start -o "-c listen_addresses='' -c unix_socket_directories=/var/run/postgresql" >&2
  psql -h /var/run/postgresql -U "$POSTGRES_USER" -d postgres -c "create database \"$POSTGRES_DB\"" >&2
  pg_ctl -w -m fast stop >&2
fi
[ "$1" != postgres ] || set -- "$@" -c 'listen_addresses=*' -c unix_socket_directories=/var/run/postgresql
exec "$@"
