import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { StackError } from '../process/errors.ts';
import { installPackage } from './packages.ts';

const run = promisify(execFile);

/** The oldest Java that runs a Kafka 4 broker. */
const OLDEST = 17;

/** Finds Java 17 or newer, or installs it if this user may; else throws with the command that would. */
export async function ensureJava(say: (line: string) => void): Promise<string> {
  const found = await findJava();
  if (found) return found;
  await installPackage(
    {
      what: 'a Java runtime',
      packages: ['openjdk-17-jre-headless', 'openjdk-21-jre-headless', 'default-jre-headless'],
      brew: 'openjdk',
      missing: `Kafka needs Java ${OLDEST} or newer, and there is none`,
    },
    say,
  );
  const installed = await findJava();
  if (!installed) throw new StackError(`a Java runtime was installed, but there is still no Java ${OLDEST} or newer`);
  return installed;
}

async function findJava(): Promise<string | undefined> {
  const home = process.env.JAVA_HOME;
  // The Java on the PATH may be older than another one that is installed.
  const candidates = [...(home ? [join(home, 'bin/java')] : []), 'java', ...globSync('/usr/lib/jvm/*/bin/java')];
  for (const candidate of candidates) {
    const told = await run(candidate, ['-version']).catch(() => undefined);
    const version = /version "(\d+)/.exec(told?.stderr ?? '')?.[1];
    if (Number(version) >= OLDEST) return candidate;
  }
  return undefined;
}
