// Kafka's files, which Maven fetches once for all stacks of a user.
import { hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runToEnd, StackError } from '../process/errors.ts';
import { kept } from './kept.ts';
import { ensureProgram } from './packages.ts';

const POM = join(import.meta.dirname, 'kafka-pom.xml');
// Like a lockfile: files that differ from these are not used, whatever Maven fetched. The log of a start that found others has their
// hashes.
const LOCK = join(import.meta.dirname, 'kafka-jars.sha256');
const FETCH_WITHIN_MS = 10 * 60_000;
const version = /<artifactId>kafka_2\.13<\/artifactId>\s*<version>(.+?)</.exec(readFileSync(POM, 'utf8'))?.[1];

/** The folder with exactly the files of this Kafka, from the cache or from Maven. */
export async function ensureKafkaJars(say: (line: string) => void): Promise<string> {
  const lock = readFileSync(LOCK);
  const folder = await kept(`kafka-${version}-${hash('sha256', lock).slice(0, 12)}`, '', async (fresh) => {
    const missing = 'Kafka is fetched by Maven, and there is no mvn on the PATH';
    await ensureProgram(
      { what: 'Maven', commands: ['mvn'], version: '-v', packages: ['maven'], brew: 'maven', missing },
      say,
    );
    say(`fetching Kafka ${version} by Maven (some 45 MB)`);
    await fetchJars(fresh);
    const found = describeFiles(fresh);
    if (found !== lock.toString())
      throw new StackError(`what Maven fetched is not the Kafka ${version} that ${LOCK} describes, but:\n${found}`);
  });
  return folder;
}

async function fetchJars(folder: string): Promise<void> {
  const quick = ['-B', '-q', '-ntp', '-Dstyle.color=never', '-Dmaven.wagon.rto=30000'];
  const copy = ['dependency:copy-dependencies', '-DincludeScope=runtime', `-DoutputDirectory=${folder}`];
  const args = [...quick, '--strict-checksums', '-f', POM, ...copy];
  await runToEnd(`Kafka ${version} could not be fetched by Maven`, 'mvn', args, { timeout: FETCH_WITHIN_MS });
}

function describeFiles(folder: string): string {
  const names = readdirSync(folder).toSorted();
  return names.map((name) => `${hash('sha256', readFileSync(join(folder, name)))}  ${name}\n`).join('');
}
