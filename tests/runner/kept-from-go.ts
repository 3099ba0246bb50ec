import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { kept } from '../../apps/stack/servers/kept.ts';

type Command = { name: string; version: string; module: string; file: string };

/** Builds a command with Go, and keeps it for all checkouts of a user. Go checks the sources against its database of checksums. */
export function keptFromGo({ name, version, module, file }: Command, say: (line: string) => void): Promise<string> {
  return kept(`${file}-${version}`, file, async (folder) => {
    say(`building ${name} (some minutes on two cores)`);
    const env = { ...process.env, GOTOOLCHAIN: 'local', GOBIN: folder, GOFLAGS: '-trimpath' };
    const build = ['install', '-ldflags', '-s -w', `${module}@${version}`];
    const running = promisify(execFile)('go', build, { env, cwd: folder, timeout: 20 * 60_000 });
    await running.catch(({ stderr, message }: { stderr?: string; message: string }) => {
      const lines = (stderr ?? '').trim().split('\n');
      const why = lines.findLast((line) => line && !line.startsWith('go: downloading')) || message;
      throw new StackError(`${name} could not be built with Go 1.24 or newer: ${why}`);
    });
  });
}
