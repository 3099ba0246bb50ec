#!/bin/sh
# Starts the stack of one machine with a clock that can be moved, in the foreground.
set -eu
echo 'keytally for development: whoever reaches it can move its clock, and webhooks may call this host over plain HTTP'
[ -s "$TEST_CLOCK_FILE" ] || head -c 8 /dev/zero >"$TEST_CLOCK_FILE"
export LD_PRELOAD=/usr/local/lib/clock.so
exec node apps/stack/main.ts serve
