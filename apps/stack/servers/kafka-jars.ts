// Kafka's files: fetched by Maven once and kept for all stacks of a user. Run by itself (node apps/stack/servers/kafka-jars.ts)
// it fetches them anew and writes down what they are.
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
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { StackError } from '../process/errors.ts';
import { installPackage } from './packages.ts';

const run = promisify(execFile);

const POM = join(import.meta.dirname, 'kafka-pom.xml');
// As sha256sum writes it. Like a lockfile: what anyone's Maven fetches is what ours fetched, or it is not used.
const LOCK = join(import.meta.dirname, 'kafka-jars.sha256');
const FETCH_WITHIN_MS = 10 * 60_000;
const STALE_AFTER_MS = 60 * 60_000;

export const kafkaVersion = /<artifactId>kafka_2\.13<\/artifactId>\s*<version>(.+?)</.exec(
  readFileSync(POM, 'utf8'),
)?.[1];

/** The folder with the files of exactly this Kafka, from the cache or else by Maven. */
export async function ensureKafkaJars(say: (line: string) => void): Promise<string> {
  const cache = process.env.KEYTALLY_CACHE || join(homedir(), '.cache/keytally');
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
    // Renamed when it is whole: a download that is cut off never looks like one that is done.
    rmSync(folder, { recursive: true, force: true });
    renameSync(fresh, folder);
  } catch (error) {
    // Another start may have put the same files there meanwhile.
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
  const cache = process.env.KEYTALLY_CACHE || join(homedir(), '.cache/keytally');
  const fresh = await fetchJars(cache);
  writeFileSync(LOCK, describeFiles(fresh));
  rmSync(fresh, { recursive: true });
  console.log(`wrote ${LOCK}`);
}
