#!/bin/sh
# Installs the npm packages of package-lock.json that are missing or stale, and the console's pages: those that keytally runs on, with
# `tools` also those of its development. Node 18 or newer with its npm is enough: Node 26, which keytally runs on, is one of the packages.
set -eu
cd "$(dirname "$0")/../.."

what=${1:-}
stamp=node_modules/.installed-lock.json
fail() {
  echo "keytally: $1" >&2
  exit 1
}
runs() { cmp -s package-lock.json "$stamp"; }
current() { runs && { [ -z "$what" ] || [ -e node_modules/.installed-tools ]; }; }

# The pages of the console are built from these packages, where anything that they are made of is newer than they are: whoever
# may run the stack need not be allowed to write here.
console_current() {
  [ -f apps/console/dist/index.html ] &&
    [ -z "$(find apps/console shared package-lock.json -path apps/console/dist -prune -o -newer apps/console/dist/index.html -print)" ]
}
build_console() {
  node=node_modules/.bin/node
  [ -e "$node" ] || node=node
  "$node" apps/console/build/build.ts || fail 'the pages of the console could not be built, for the reason above'
}
built_already() { current && { console_current || build_console; }; }

built_already && exit 0

[ -w . ] || fail "the packages are missing or stale, and this user may not write to $(pwd): run make install there as its owner"

# Two installations of one checkout at the same moment would spoil each other's work. The lock is here, for its owner alone: in
# a folder of all users anyone could hold it, or put a link in its place.
if command -v flock >/dev/null; then
  (umask 077 && : >>.install.lock)
  exec 9>>.install.lock
  flock -n 9 || {
    echo 'waiting for another installation in this checkout'
    flock 9
  }
  built_already && exit 0
fi

command -v node >/dev/null && command -v npm >/dev/null ||
  fail 'Node 18 or newer with npm is needed to install the packages, Node 26 among them; e.g.: apt-get install -y nodejs npm'
[ "$(node -p 'parseInt(process.versions.node) >= 18')" = true ] || fail "Node 18 or newer is needed to install the packages, Node 26 among them; this is $(node --version)"
# `npm ci` replaces the whole folder, and a running stack would lose its files; `npm install` adds what is missing to it.
if runs; then
  set -- install --no-save --include=dev
  expected=1010
elif [ -n "$what" ]; then
  set -- ci --include=dev
  expected=1010
else
  set -- ci --omit=dev
  expected=870
fi
if [ "$1" = ci ] && ls -l /proc/[0-9]*/exe 2>/dev/null | grep -qF -- "-> $(pwd -P)/node_modules/"; then
  fail 'package-lock.json has changed, and programs of this checkout still run: stop them (make down) and try again'
fi
free_mb=$(df -Pm . | awk 'NR == 2 { print $4 }')
[ "$free_mb" -ge 1500 ] || fail "the disk is full: the packages need 1500 MB here, and $free_mb MB are free"

echo "installing npm packages, PostgreSQL, ClickHouse and Node among them (some $expected MB)"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
npm "$@" --no-audit --no-fund --loglevel=error >"$log" 2>&1 9>&- &
npm=$!
trap 'kill "$npm" 2>/dev/null; exit 130' INT TERM
began=$(date +%s)
seconds=0
while kill -0 "$npm" 2>/dev/null; do
  sleep 1
  seconds=$((seconds + 1))
  [ $((seconds % 5)) -eq 0 ] || continue
  got=$(du -sm node_modules 2>/dev/null | cut -f1)
  if [ -t 1 ]; then
    printf '\r  %d of %d MB' "${got:-0}" "$expected"
  else
    echo "  ${got:-0} of $expected MB"
  fi
done
[ ! -t 1 ] || printf '\r'
wait "$npm" || {
  cat "$log" >&2
  if grep -q ENOSPC "$log"; then fail 'the disk is full: free some space and try again'; fi
  fail "npm $1 failed, for the reason above"
}
# Headers to compile against Node, of every platform: 64 MB that nothing reads.
rm -rf node_modules/node-linux-*/include node_modules/node-darwin-*/include
# npm leaves out an optional package that it could not fetch, and says nothing. Binaries for other platforms than Linux x64 have no
# hash in the lockfile: say which of them are here.
node -e '
  const { existsSync, readFileSync } = require("fs");
  const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
  const libc = process.report.getReport().header.glibcVersionRuntime ? "glibc" : "musl";
  const fits = (listed, ours) => !listed || [].concat(listed).includes(ours);
  for (const [path, one] of Object.entries(packages)) {
    if (!/(^|\/)node_modules\//.test(path) || one.link) continue;
    const ours = one.cpu && fits(one.os, process.platform) && fits(one.cpu, process.arch) && fits(one.libc, libc);
    if (existsSync(path)) {
      if (!one.integrity) console.error(`keytally: ${path} was installed without a hash to check`);
    } else if (one.optional && ours && (process.argv[1] || !one.dev)) {
      console.error(`keytally: npm could not fetch ${path}`);
      process.exitCode = 1;
    }
  }' "$what" || fail 'some packages are missing: try again'
cp package-lock.json "$stamp"
[ -z "$what" ] || : >node_modules/.installed-tools
printf '  %-36s %5d s\n' 'npm packages' "$(($(date +%s) - began))"
build_console
