import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readJson } from '../../apps/stack/process/files.ts';
import { openHome, readEnvFile, type Bus } from '../../apps/stack/process/home.ts';
import { permissions, type Caller } from '../../shared/contract/caller.ts';
import { connectClickHouse, type Books } from '../../shared/stores/clickhouse.ts';
import { mountDisk, unmountBelow, type Disk } from '../helpers/disk.ts';
import { eventually } from '../helpers/eventually.ts';
import { makeOwnStack } from '../helpers/own-stack.ts';
import { proveBooks, readBooked } from '../simulator/proofs.ts';
import { makeRandom, type Random } from '../simulator/random.ts';
import { makeWork, workKinds, type Work } from '../simulator/work.ts';
import { faults, type Fault } from './faults.ts';
import { makeFleet } from './fleet.ts';
import { signalProcessTree } from './process-tree.ts';

type Stack = Awaited<ReturnType<typeof makeOwnStack>>;

const CLIENTS = 6;
// There are more calls than in a simulation.
const SCALE = 100_000;
// Before a fault and after it.
const DEBITS = 40;
const PAUSE_MS = 20;
const CHARGED_WITHIN_MS = 3_000;
const DISK_MB = { postgres: 500, redis: 300, clickhouse: 700, kafka: 700 };
const LAST_LINES = 60;
// The stack knows whose token it is.
const caller: Caller = { tokenId: '', teamId: '', permissions: new Set(permissions), workspaceIds: undefined };

/** Tests that no fault breaks a promise on a stack with this bus. */
export function testFaults(bus: Bus): void {
  const { TEST_FOLDER = '', FAULTS_SEED, FAULTS_ONLY: only = '' } = process.env;
  const seed = Number(FAULTS_SEED || 1);
  const test = suite(`faults of processes, on ${bus}`);
  let stack: Stack;
  let redis: Redis;
  let books: Books;
  let disks: ReadonlyMap<string, Disk>;
  const works: Work[] = [];

  test.before(async () => {
    stack = await makeOwnStack(TEST_FOLDER);
    disks = await mountDisks(stack.home, bus);
    await stack.begin({ BUS: bus });
    const env = environment();
    redis = new Redis(env.REDIS_URL!, { maxRetriesPerRequest: null }).on('error', () => {});
    books = connectClickHouse(env.CLICKHOUSE_URL!);
  });
  test.after(async () => {
    redis?.disconnect();
    await books?.close();
    await stack?.run('down');
    await unmountBelow(TEST_FOLDER);
  });

  for (const [i, fault] of faults.filter(({ name }) => name.includes(only)).entries()) {
    test(`${fault.name}: what clients are answered is what they may be`, async () => {
      const random = makeRandom(seed * 1_000 + i);
      const { workspace } = (await stack.api('post', '/api/v1/workspace', { name: fault.name })).body;
      const lines: string[] = [];
      const began = Date.now();
      const say = (line: string) => void lines.push(`${String(Date.now() - began).padStart(6)}  ${line}`);
      const world = { random, say, nowMs: Date.now, passedMs: () => performance.now() };
      const { KEYTALLY_API_URL, KEYTALLY_VERIFY_URL, KEYTALLY_TOKEN } = environment();
      const fleet = makeFleet(KEYTALLY_API_URL!, KEYTALLY_VERIFY_URL!, KEYTALLY_TOKEN!, `${seed} ${fault.name}`);
      const work = makeWork(world, { caller, workspaceId: workspace.id }, fleet, SCALE);
      works.push(work);
      const debits = () => work.model.debits.filter(({ state }) => state === 'sure').length;
      const untilMore = async () => {
        const before = debits();
        await eventually('credits are debited', async () => debits() >= before + DEBITS);
      };
      const clients = startClients(work, random);
      try {
        await untilMore();
        await make(fault);
        await eventually('everything is ready again', isReady);
        await untilMore();
      } finally {
        await clients.stop();
      }
      const { length } = work.broken;
      console.log(`${fault.name}: ${clients.done()} requests, ${debits()} debits, ${length || 'no'} violations`);
      assert.equal(work.broken, [], lines.slice(-LAST_LINES).join('\n'));
    });
  }

  test('at the end the books have what clients were answered, once', async () => {
    assert.ok(works.length > 0, `no fault is named ${only}`);
    const ends = works.flatMap(({ model }) => model.holds.map(({ endsAtMs }) => endsAtMs)).filter(Number.isFinite);
    await sleep(Math.max(0, ...ends.map((endsAtMs) => endsAtMs + CHARGED_WITHIN_MS - Date.now())));
    await eventually('nothing is on its way', async () =>
      /^\d+ exact, 0 differ/m.test((await stack.run('reconcile')).out),
    );
    for (const work of works) {
      const path = '/api/v1/customer-billing/';
      await proveBooks(books, work, async (id) => (await stack.api('get', path + id)).body.billing);
      assert.equal(work.broken, []);
    }
  });

  function environment(): Record<string, string> {
    return readEnvFile(openHome({ KEYTALLY_HOME: stack.home }));
  }

  function processes(): Record<string, { pid: number }> {
    return readJson(join(stack.home, 'processes.json')) ?? {};
  }

  async function isReady(): Promise<boolean> {
    return (await stack.run('status')).code === 0;
  }

  async function make(fault: Fault): Promise<void> {
    const signal = (name: string, how: NodeJS.Signals) => signalProcessTree(processes()[name]!.pid, how);
    await fault.make({
      names: Object.keys(processes()),
      disks,
      redis,
      signal,
      async killed(name) {
        const { pid } = processes()[name]!;
        signal(name, 'SIGKILL');
        const isBack = async () => processes()[name]?.pid !== pid && (await isReady());
        await eventually(`${name} is back`, isBack);
      },
      async allKilled() {
        const { pid } = readJson<{ pid: number }>(join(stack.home, 'supervisor.json'))!;
        process.kill(pid, 'SIGKILL');
        for (const name of Object.keys(processes())) signal(name, 'SIGKILL');
        await stack.must('up', undefined, { BUS: bus });
      },
      async lost() {
        for (const work of works) {
          const booked = await readBooked(books, work.workspaceId);
          work.noteLoss(-1, (debit) => booked.of(debit).count > 0, true);
        }
      },
    });
  }
}

/** Small disks for the servers below a home, where this user may mount them. */
async function mountDisks(home: string, bus: Bus): Promise<ReadonlyMap<string, Disk>> {
  const disks = new Map<string, Disk>();
  if (process.getuid?.() !== 0 || process.platform !== 'linux') {
    console.error('****  NOT INJECTED: full disks, since only root on Linux may mount small disks');
    return disks;
  }
  mkdirSync(home, { recursive: true, mode: 0o711 });
  for (const [server, megabytes] of Object.entries(DISK_MB))
    if (server !== 'kafka' || bus === 'kafka') disks.set(server, await mountDisk(join(home, server), megabytes));
  return disks;
}

/** Clients that do one thing after the other until they are stopped. */
function startClients(work: Work, random: Random) {
  let stopped = false;
  let done = 0;
  const client = async () => {
    for (; !stopped; done++) {
      const name = random.weighted(workKinds) as keyof Work['actions'];
      await work.actions[name]().catch((error: Error) => work.breaks(String(error.stack)));
      await sleep(PAUSE_MS);
    }
  };
  const all = Array.from({ length: CLIENTS }, client);
  return {
    done: () => done,
    async stop(): Promise<void> {
      stopped = true;
      await Promise.all(all);
    },
  };
}
