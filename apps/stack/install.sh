#!/bin/sh
# Installs the npm packages of package-lock.json where they are missing or stale, and the console's pages. Node 18 or newer with its npm is enough:
# Node 26, which keytally runs on, is one of the packages.
set -eu
cd "$(dirname "$0")/../.."

stamp=node_modules/.installed-lock.json
fail() {
  echo "keytally: $1" >&2
  exit 1
}
current() { cmp -s package-lock.json "$stamp"; }

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
# npm replaces the whole folder: a running stack would lose its files.
if ls -l /proc/[0-9]*/exe 2>/dev/null | grep -qF -- "-> $(pwd -P)/node_modules/"; then
  fail 'package-lock.json has changed, and programs of this checkout still run: stop them (make down) and try again'
fi
free_mb=$(df -Pm . | awk 'NR == 2 { print $4 }')
[ "$free_mb" -ge 1500 ] || fail "the disk is full: the packages need 1500 MB here, and $free_mb MB are free"

echo 'installing the npm packages of package-lock.json (some 900 MB, with PostgreSQL and ClickHouse)'
log=$(mktemp)
trap 'rm -f "$log"' EXIT
npm ci --no-audit --no-fund --loglevel=error >"$log" 2>&1 9>&- &
npm=$!
trap 'kill "$npm" 2>/dev/null; exit 130' INT TERM
began=$(date +%s)
while kill -0 "$npm" 2>/dev/null; do
  sleep 1
  seconds=$(($(date +%s) - began))
  if [ -t 1 ]; then
    printf '\r  … %d s' "$seconds"
  elif [ $((seconds % 10)) -eq 0 ]; then
    echo "  … $seconds s"
  fi
done
[ ! -t 1 ] || printf '\r'
wait "$npm" || {
  cat "$log" >&2
  if grep -q ENOSPC "$log"; then fail 'the disk is full: free some space and try again'; fi
  fail 'npm ci failed, for the reason above'
}
# Binaries for other platforms than Linux x64 have no hash in the lockfile: say which of them are here.
node -e '
  const { packages } = JSON.parse(require("fs").readFileSync("package-lock.json", "utf8"));
  const taken = Object.keys(packages).filter((path) => /(^|\/)node_modules\//.test(path) && !packages[path].link &&
    !packages[path].integrity && require("fs").existsSync(path));
  for (const path of taken) console.error(`keytally: ${path} was installed without a hash to check`);'
cp package-lock.json "$stamp"
printf '  %-36s %5d s\n' 'npm packages' "$(($(date +%s) - began))"
build_console
