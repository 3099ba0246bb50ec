import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { cacheFolder } from '../../apps/stack/servers/kept.ts';
import { installPackage } from '../../apps/stack/servers/packages.ts';

const run = promisify(execFile);
// Debian 12 has this version, and clients/go is written for it.
const OLDEST = 19;

/** Finds a Go, or installs Debian's; gives the environment of tests that run it. It uses no network, and keeps what it compiled. */
export async function ensureGo(say: (line: string) => void): Promise<Record<string, string>> {
  let command = await findGo();
  if (!command) {
    const missing = `the Go client is tested with Go 1.${OLDEST} or newer, which is not installed`;
    await installPackage({ what: 'Go', packages: ['golang-go'], brew: 'go', missing }, say);
    command = await findGo();
  }
  if (!command) throw new StackError(`the installed Go is older than 1.${OLDEST}, or does not start`);
  // One cache for all checkouts of a user: it begins with Go's own library, which takes a minute to compile.
  const cache = join(cacheFolder(), 'go');
  return {
    TEST_GO: command,
    GOCACHE: process.env.GOCACHE || cache,
    GOPATH: process.env.GOPATH || join(cache, 'path'),
    GOTOOLCHAIN: 'local',
    GOFLAGS: '-mod=mod',
    GOPROXY: 'off',
  };
}

async function findGo(): Promise<string | undefined> {
  for (const command of ['go', '/usr/local/go/bin/go', '/usr/lib/go/bin/go']) {
    const { stdout } = await run(command, ['version']).catch(() => ({ stdout: '' }));
    if (Number(/ go1\.(\d+)/.exec(stdout)?.[1]) >= OLDEST) return command;
  }
  return undefined;
}
