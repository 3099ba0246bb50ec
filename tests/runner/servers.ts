import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, globSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { describeFailure, StackError } from '../../apps/stack/process/errors.ts';
import { unmountBelow } from '../helpers/disk.ts';
import { readJson, replaceFile } from '../../apps/stack/process/files.ts';
import { readRecords, record, stopRecorded, writeRecords, type Recorded } from '../../apps/stack/process/leftovers.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { identify, isAlive, stopProcess, type ProcessId } from '../../apps/stack/process/processes.ts';
import { start, untilReady, yieldCores } from '../../apps/stack/process/program.ts';
import { stopOrder } from '../../apps/stack/servers/programs.ts';
import { prepareServers, type Addresses, type Servers } from '../../apps/stack/servers/servers.ts';

export interface TestServers {
  servers: Servers;
  /** Calls back with a line when a server ends. */
  onLoss: (tell: (line: string) => void) => void;
}

/** Makes the temporary folder of a run. Removes those of runs that were cut off, and stops what they left running. */
export async function makeTestFolder(): Promise<string> {
  for (const owner of globSync(join(tmpdir(), 'keytally-test-*', 'owner.json'))) {
    // Another user's folders are not ours to read or remove.
    const ours = statSync(owner, { throwIfNoEntry: false })?.uid === process.getuid?.();
    const id = ours ? readJson<ProcessId>(owner) : undefined;
    if (id && !isAlive(id)) await removeTestFolder(dirname(owner));
  }
  const folder = mkdtempSync(join(tmpdir(), 'keytally-test-'));
  // PostgreSQL may run as another user, which has to pass through.
  chmodSync(folder, 0o711);
  replaceFile(join(folder, 'owner.json'), JSON.stringify(identify(process.pid)));
  return folder;
}

/** Stops everything that runs for a test folder, including stacks that a test started in it, and removes it. */
export async function removeTestFolder(folder: string): Promise<void> {
  // Supervisors first: they would start the other processes again.
  for (const file of globSync(join(folder, '**/supervisor.json'))) {
    const id = readJson<ProcessId>(file);
    if (id) await stopProcess(id, 'SIGKILL', 1_000);
  }
  for (const file of globSync(join(folder, '**/processes.json'))) {
    const records = readRecords(dirname(file)).map((one): Recorded => ({ ...one, stopSignal: 'SIGKILL' }));
    await stopRecorded(records, []);
  }
  for (const id of findStrays(folder)) await stopProcess(id, 'SIGKILL', 1_000);
  await unmountBelow(folder);
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
}

/** Runs a program in a temporary folder, which is removed at the end, also when the program is cut off; then exits. */
export async function runInTestFolder(main: (folder: string) => Promise<void>): Promise<never> {
  const folder = await makeTestFolder();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => void removeTestFolder(folder).finally(() => process.exit(1)));
  try {
    await main(folder);
  } catch (error) {
    console.error(`keytally: ${error instanceof StackError ? describeFailure(error) : (error as Error).stack}`);
    process.exitCode = 1;
  } finally {
    await removeTestFolder(folder);
  }
  process.exit();
}

// Processes that a test started and could not stop, since it was cut off: their environment names the folder.
function findStrays(folder: string): ProcessId[] {
  return globSync('/proc/[0-9]*/environ').flatMap((file) => {
    try {
      const strayed = readFileSync(file, 'latin1').includes(`\0TEST_FOLDER=${folder}/`);
      return strayed ? (identify(Number(file.split('/')[2])) ?? []) : [];
    } catch {
      // It has ended, or belongs to another user.
      return [];
    }
  });
}

/**
 * Starts the three servers on free ports, with the migrated template database. Without `throwAway` Postgres syncs its commits; with
 * `yielding` those yield their cores that do in a stack.
 */
export async function startTestServers(
  folder: string,
  say: (line: string) => void,
  { throwAway = true, yielding = false } = {},
): Promise<TestServers> {
  const [postgres = 0, redis = 0, clickhouse = 0] = await freePorts(3);
  const servers = await prepareServers({ folder, ports: { postgres, redis, clickhouse }, throwAway, say });
  const records: Recorded[] = [];
  const listeners: ((line: string) => void)[] = [];
  await Promise.all(
    servers.programs.map(async (program) => {
      const log = join(folder, `${program.name}.log`);
      const started = await start(program, log);
      if (yielding && program.yields) yieldCores(started.pid);
      records.push(record(program, started));
      writeRecords(folder, records);
      void started.ended.then((how) => {
        for (const tell of listeners) tell(`${program.name} ${how} during the run; see ${log}`);
      });
      await untilReady(program, started, log);
    }),
  );
  await makeTemplate(folder, servers);
  return { servers, onLoss: (tell) => void listeners.push(tell) };
}

/** What a test file that needs no server finds in its environment. Each has a slot of its own. */
export function slotEnvironment(folder: string, slot: number): Record<string, string> {
  // A place for what a file writes. The run ends whatever still runs for a stack in there.
  return { TEST_SLOT: String(slot), TEST_FOLDER: join(folder, `slot-${slot}`) };
}

/** What a test file finds in its environment. */
export function testEnvironment(servers: Servers, folder: string, slot: number): Record<string, string> {
  return {
    ...slotEnvironment(folder, slot),
    ...named('TEST_', servers.addresses('')),
    ...Object.assign(
      {},
      ...stopOrder.map((program) => named(`TEST_${program.toUpperCase()}_`, servers.addresses('', program))),
    ),
  };
}

/** Addresses under the names by which tests know them. Postgres has no connection without a database. */
function named(
  prefix: string,
  { DATABASE_URL, REDIS_URL, CLICKHOUSE_URL }: Partial<Addresses>,
): Record<string, string> {
  return {
    ...(DATABASE_URL && { [`${prefix}POSTGRES_URL`]: `${DATABASE_URL}postgres` }),
    ...(REDIS_URL && { [`${prefix}REDIS_URL`]: REDIS_URL }),
    ...(CLICKHOUSE_URL && { [`${prefix}CLICKHOUSE_URL`]: CLICKHOUSE_URL }),
  };
}

// tests/helpers/world.ts copies the databases of test files from this one, which is far faster than migrating each.
async function makeTemplate(folder: string, servers: Servers): Promise<void> {
  await servers.createDatabase('keytally_template');
  const masterKey = join(folder, 'master.key');
  writeFileSync(masterKey, randomBytes(32).toString('base64'), { mode: 0o600 });
  const env = {
    ...process.env,
    ...servers.addresses('keytally_template'),
    MASTER_KEY_FILE: masterKey,
    ...servers.rolePasswords,
  };
  try {
    await promisify(execFile)(process.execPath, ['apps/api/commands/migrate.ts'], { env });
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new StackError(`the migrations failed:\n${stdout}${stderr}`);
  }
}
