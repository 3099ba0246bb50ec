import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../shared/runtime/clock.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { connectRedis } from '../../shared/stores/redis.ts';
import { VERIFY_BATCH_PATH } from '../../shared/verification/operation.ts';
import { must } from '../../tests/helpers/customers.ts';
import { eventually, spawnWorld, type ProcessWorld } from '../../tests/helpers/world.ts';
import { usageOf, type Usage } from '../watch.ts';
import { keyOf, writeExports, type ExportFile } from './files.ts';

/** How the import of a file went, and the second one of the same file. */
export type FileRun = { name: string; keys: number; first: Run; second: Run };
/** A run of the command: its time, its peak of memory, and the CPU that it and the api took. */
export type Run = { seconds: number; peakMb: number; commandCpu: number; apiCpu: number };

export type Measured = {
  files: FileRun[];
  apiPeakMb: number;
  /** What Postgres and Redis have more than before. */
  postgresMb: number;
  redisMb: number;
  /** What is not as it must be. */
  wrong: string[];
};

type Options = { keys: number; atOnce: number; folder: string; say(line: string): void };

// Of each file so many keys are verified.
const VERIFIED = 1_000;
const PER_BATCH = 100;
const LOOK_EVERY_MS = 100;
const CHAINED_WITHIN_MS = 900_000;

/** Imports keys of three foreign forms, imports the same files again, and verifies some of the keys. */
export async function measureImport({ keys, atOnce, folder, say }: Options): Promise<Measured> {
  const world = await spawnWorld(['verify', 'consumer'], {
    QUOTA_KEYS: String(keys),
    QUOTA_STORED_BYTES: String(2_000 * keys),
    // By this the run finds the programs when it is cut off.
    TEST_FOLDER: process.env.TEST_FOLDER!,
  });
  try {
    const files = await writeExports(folder, keys);
    const workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'moved' }))).body.workspace.id;
    const importOne = (file: ExportFile) => runImport(world, { file, workspaceId, atOnce });
    const before = await sizes(world);
    const [runs, wrong]: [FileRun[], string[]] = [[], []];
    for (const file of files) {
      const { told, ...run } = await importOne(file);
      runs.push({ name: file.name, keys: file.keys, first: run, second: run });
      say(`${file.name}: ${told} (${run.seconds.toFixed(1)} s)`);
      if (told !== toldOf(file.keys, 0)) wrong.push(`${file.name}: ${told}`);
    }
    wrong.push(...(await wrongAnswers(world, files)));
    await eventually('every audit line is chained', () => isChained(world), CHAINED_WITHIN_MS);
    const [after, stored] = [await sizes(world), await storedIn(world)];
    for (const [i, file] of files.entries()) {
      const { told, ...run } = await importOne(file);
      runs[i]!.second = run;
      if (told !== toldOf(0, file.keys)) wrong.push(`${file.name}, again: ${told}`);
    }
    const storedThen = await storedIn(world);
    if (storedThen !== stored) wrong.push(`the second run changed ${stored} to ${storedThen}`);
    return {
      files: runs,
      apiPeakMb: usage(world.api.process.pid!).peakMb,
      postgresMb: (after.postgres - before.postgres) / 1e6,
      redisMb: (after.redis - before.redis) / 1e6,
      wrong,
    };
  } finally {
    await world.stop();
  }
}

type ImportOptions = { file: ExportFile; workspaceId: string; atOnce: number };

/** Runs the command on a file; gives the first line that it told, and what it took. */
async function runImport(world: ProcessWorld, options: ImportOptions): Promise<Run & { told: string }> {
  const { file, workspaceId, atOnce } = options;
  const env = { PATH: process.env.PATH, KEYTALLY_API_URL: world.api.url, KEYTALLY_TOKEN: world.team.token };
  const args = ['--from', file.path, '--workspace', workspaceId, '--at-once', String(atOnce)];
  const [api, began] = [usage(world.api.process.pid!), performance.now()];
  const command = spawn(process.execPath, [join(checkout, 'apps/import/main.ts'), ...args], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let [out, used] = ['', usage(0)];
  command.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  const ended = once(command, 'close').then(() => true);
  // One that has ended and is not collected yet has no memory.
  while (!(await Promise.race([ended, sleep(LOOK_EVERY_MS)]))) {
    used = usageOf(command.pid!).find(({ rssMb }) => rssMb > 0) ?? used;
  }
  return {
    told: out.split('\n').find((line) => line.includes(' keys read: ')) ?? '',
    seconds: (performance.now() - began) / 1000,
    peakMb: used.peakMb,
    commandCpu: used.cpuSeconds,
    apiCpu: usage(world.api.process.pid!).cpuSeconds - api.cpuSeconds,
  };
}

/** Verifies some keys of each file, spread over it; gives what is wrong with the answers. */
async function wrongAnswers(world: ProcessWorld, files: ExportFile[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const file of files) {
    const count = Math.min(VERIFIED, file.keys);
    const asked = Array.from({ length: count }, (_, i) => keyOf(file, Math.floor((i * file.keys) / count)));
    for (let from = 0; from < count; from += PER_BATCH) {
      const some = asked.slice(from, from + PER_BATCH);
      const results = await eventually('keys are verified', () => verified(world, some));
      for (const [i, { customerId }] of some.entries()) {
        const { status, customerId: answered } = results[i]!;
        if (status !== 'VALID' || answered !== customerId)
          wrong.push(`${file.name}: ${customerId}'s key is ${JSON.stringify(results[i])}`);
      }
    }
  }
  return wrong.slice(0, 10);
}

/** The answers for some keys; undefined while a busy machine misses the deadline of one. */
async function verified(
  world: ProcessWorld,
  some: { key: string }[],
): Promise<{ status: string; customerId: string }[] | undefined> {
  const body = { verifications: some.map(({ key }) => ({ key })) };
  const { results } = (await must(200, world.call('post', world.verify!.url + VERIFY_BATCH_PATH, body))).body;
  return results.some((one: object) => 'error' in one) ? undefined : results;
}

async function sizes({ sql, env }: ProcessWorld): Promise<{ postgres: number; redis: number }> {
  const redis = connectRedis(env.REDIS_URL!, makeLogger('bench', 'error'), systemClock);
  await redis.connected(5_000);
  const info = await redis.node(0).client.info('memory');
  await redis.close();
  const [row] = await sql<[{ bytes: number }]>`select pg_database_size(current_database()) as bytes`;
  return { postgres: row.bytes, redis: Number(/^used_memory:(\d+)/m.exec(info)?.[1]) };
}

async function isChained({ sql }: ProcessWorld): Promise<boolean> {
  const waiting = await sql`select from audit_unchained limit 1`;
  return waiting.length === 0;
}

/** Counts what an import writes. */
async function storedIn({ sql, team }: ProcessWorld): Promise<string> {
  const [row] = await sql`
    select (select count(*) from api_keys) as keys, (select count(*) from key_texts) as secrets,
           (select count(*) from audit_log) as audit_lines, (select max(id) from changes) as changes,
           (select keys from team_usage where team_id = ${team.id}) as counted`;
  return JSON.stringify(row);
}

function toldOf(imported: number, existing: number): string {
  return `${imported + existing} keys read: ${imported} imported, ${existing} imported before, 0 refused`;
}

// Elsewhere than on Linux nothing is known of a process.
function usage(pid: number): Usage {
  return usageOf(pid)[0] ?? { cpuSeconds: NaN, rssMb: NaN, peakMb: NaN };
}
