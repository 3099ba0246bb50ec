// Kafka's files, which Maven fetches once for all stacks of a user. Run directly (node apps/stack/servers/kafka-jars.ts), this
// fetches them again and writes their hashes to kafka-jars.sha256.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { StackError } from '../process/errors.ts';
import { cacheFolder } from './kept.ts';
import { installPackage } from './packages.ts';

const run = promisify(execFile);

const POM = join(import.meta.dirname, 'kafka-pom.xml');
// In the format of sha256sum. Like a lockfile: files that differ from these are not used, whatever Maven fetched.
const LOCK = join(import.meta.dirname, 'kafka-jars.sha256');
const FETCH_WITHIN_MS = 10 * 60_000;
const STALE_AFTER_MS = 60 * 60_000;

export const kafkaVersion = /<artifactId>kafka_2\.13<\/artifactId>\s*<version>(.+?)</.exec(
  readFileSync(POM, 'utf8'),
)?.[1];

/** The folder with exactly the files of this Kafka, from the cache or from Maven. */
export async function ensureKafkaJars(say: (line: string) => void): Promise<string> {
  const cache = cacheFolder();
  const lock = readFileSync(LOCK, 'utf8');
  const folder = join(cache, `kafka-${kafkaVersion}`);
  if (describeFiles(folder) === lock) return folder;

  await ensureMaven(say);
  say(`fetching Kafka ${kafkaVersion} by Maven (some 45 MB)`);
  const fresh = await fetchJars(cache);
  try {
    if (describeFiles(fresh) !== lock) {
      throw new StackError(`what Maven fetched is not the Kafka ${kafkaVersion} that ${LOCK} describes`);
    }
    // Renamed when complete, so that a download which was cut off never looks complete.
    rmSync(folder, { recursive: true, force: true });
    renameSync(fresh, folder);
  } catch (error) {
    // Another start may have put the same files there.
    if (describeFiles(folder) !== lock) throw error;
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  return folder;
}

/** Fetches all files into a new folder of the cache. */
async function fetchJars(cache: string): Promise<string> {
  mkdirSync(cache, { recursive: true });
  for (const name of readdirSync(cache).filter((name) => name.startsWith('kafka.new-'))) {
    const age = Date.now() - (statSync(join(cache, name), { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
    if (age > STALE_AFTER_MS) rmSync(join(cache, name), { recursive: true, force: true });
  }
  const fresh = mkdtempSync(join(cache, 'kafka.new-'));
  const quick = ['-B', '-q', '-ntp', '-Dstyle.color=never', '-Dmaven.wagon.rto=30000'];
  const copy = ['dependency:copy-dependencies', '-DincludeScope=runtime', `-DoutputDirectory=${fresh}`];
  try {
    await run('mvn', [...quick, '--strict-checksums', '-f', POM, ...copy], { timeout: FETCH_WITHIN_MS });
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true });
    const { stdout = '', stderr = '', message } = error as { stdout?: string; stderr?: string; message: string };
    const said = `${stdout}\n${stderr}`.split('\n').find((line) => /ERROR|error/.test(line));
    throw new StackError(
      `Kafka ${kafkaVersion} could not be fetched by Maven: ${(said ?? message).trim().slice(0, 400)}`,
    );
  }
  return fresh;
}

async function ensureMaven(say: (line: string) => void): Promise<void> {
  const works = () => run('mvn', ['-v']).then(Boolean, () => false);
  if (await works()) return;
  const missing = 'Kafka is fetched by Maven, and there is no mvn on the PATH';
  await installPackage({ what: 'Maven', packages: ['maven'], brew: 'maven', missing }, say);
  if (!(await works())) throw new StackError('Maven was installed but mvn does not run');
}

/** Every file of a folder with its SHA-256; empty when there is no such folder. */
function describeFiles(folder: string): string {
  if (!statSync(folder, { throwIfNoEntry: false })) return '';
  return readdirSync(folder)
    .toSorted()
    .map(
      (name) =>
        `${createHash('sha256')
          .update(readFileSync(join(folder, name)))
          .digest('hex')}  ${name}\n`,
    )
    .join('');
}

if (import.meta.main) {
  const cache = cacheFolder();
  const fresh = await fetchJars(cache);
  writeFileSync(LOCK, describeFiles(fresh));
  rmSync(fresh, { recursive: true });
  console.log(`wrote ${LOCK}`);
}
