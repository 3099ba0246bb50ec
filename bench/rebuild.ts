// Measures how a Redis that lost everything is filled again, with grants and open holds of a record for ten keys, and what a record
// with a long history costs then, on servers of its own: node bench/rebuild.ts [--keys N] [--events N]
import '../shared/runtime/require-node.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statfsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { StackError } from '../apps/stack/process/errors.ts';
import { checkout } from '../apps/stack/process/home.ts';
import { keytally, type Keytally } from '../clients/node/index.ts';
import { openShards } from '../shared/stores/fence.ts';
import { mapLimited } from '../shared/runtime/map-limited.ts';
import { formatCredits } from '../shared/values/credits.ts';
import { ALL_SHARDS, keyShard } from '../shared/values/key-text.ts';
import { runInTestFolder } from '../tests/runner/servers.ts';
import { keysOfRecord } from './costs/accounts.ts';
import { startPipeline } from './costs/pipeline.ts';
import { copyAccount, insertHistory, usedMicros, type LongRecord } from './history.ts';
import { number, printFigures, type Figure } from './results.ts';
import { makeStage } from './stage.ts';
import { resetPeak, showProgress, usageOf, type Usage } from './watch.ts';
import { makeWorld, type World } from './world.ts';

type Run = { tookMs: number; seen?: string | void; used: (Usage & { name: string; must: number })[] };

const LOOK_EVERY_MS = 100;
/** The most that processes may take, in MB. */
const MOST_MB = { clickhouse: 3_072, 'redis-rebuild': 4_096, 'costs-api': 512, 'costs-consumer': 512 };
// Measured: 42 bytes an event, and as much again while parts are merged.
const BYTES_PER_EVENT = 100;
const COPIES_LOOKED_AT = 500;
const AT_ONCE = 16;

const { values } = parseArgs({
  options: { keys: { type: 'string', default: '1000000' }, events: { type: 'string', default: '100000000' } },
});
const [keys, events] = [Number(values.keys), Number(values.events)];
await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  if (!(keys >= 1_000 && events >= 1_000)) throw new StackError('keys and events are 1000 or more');
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize < events * BYTES_PER_EVENT)
    throw new StackError(`${folder} has too little room: ${Math.ceil((events * BYTES_PER_EVENT) / 1e9)} GB are needed`);
  console.log(`${number(keys)} keys and a record with ${number(events)} events; starting servers`);
  const stage = await makeStage(folder);
  let record: LongRecord | undefined;
  let billingId = '';
  const world = await makeWorld(stage, 'rebuild', keys, async (client, workspaceId) => {
    const meter = { workspaceId, externalMeterId: 'long' };
    const { billing } = await client.billing.create({ ...meter, totalCredits: '9000000000' });
    const { apiKey } = await client.apiKeys.create({ ...meter, name: 'long' });
    record = { workspaceId, billingId: billing.id, keyId: apiKey.id, key: apiKey.key };
    billingId = await makeCopied(client, workspaceId);
  });
  await insertHistory(world.env, record!, events);
  const { apiUrl, url: verifyUrl, settle } = await startPipeline(stage, world);
  await settle();
  const client = keytally({ url: apiUrl, verifyUrl, token: world.token, verifyTimeoutMs: 10_000 });
  const state = await stateOf(client, billingId);
  const copies = [billingId, ...(await copyAccount(world.env, billingId, COPIES_LOOKED_AT))];

  const watched = Object.entries(MOST_MB).map(([name, must]) => ({ name, must, pid: stage.pidOf(name) }));
  const usage = () => watched.flatMap((one) => usageOf(one.pid).map((usage) => ({ ...one, ...usage })));
  const measured = async (work: () => Promise<string | void>): Promise<Run> => {
    for (const { pid } of watched) resetPeak(pid);
    const [before, began] = [usage(), performance.now()];
    const seen = await work();
    const tookMs = performance.now() - began;
    const used = usage().map((one, i) => ({ ...one, cpuSeconds: one.cpuSeconds - before[i]!.cpuSeconds }));
    // To the last micro-credit.
    const [long, wanted] = [await requireValid(client, record!.key), formatCredits(usedMicros(events))];
    if (long !== wanted) throw new StackError(`${long} used in place of ${wanted}`);
    await mapLimited(world.keys, AT_ONCE, (key) => requireValid(client, key));
    const states = await mapLimited(copies, AT_ONCE, (bid) => stateOf(client, bid));
    for (const one of states) if (one !== state) throw new StackError(`a record is ${one} in place of ${state}`);
    return { tookMs, seen, used };
  };
  const runs = {
    'emptied, and filled again by the api': await measured(() => emptied(world, client)),
    'make rebuild': await measured(() => command(world, 'rebuild')),
    'make reconcile': await measured(() => command(world, 'reconcile')),
  };
  await mapLimited(copies, AT_ONCE, (bid) => requireCaptured(client, bid));
  await stage.supervisor.stop([]);
  if (!printFigures(Object.entries(runs).flatMap(([what, run]) => figuresOf(what, run)))) process.exitCode = 1;
}

function figuresOf(what: string, { tookMs, seen, used }: Run): Figure[] {
  // 40 s for 1,000,000 keys, of 100,000 records.
  const seconds = { value: tookMs / 1000, must: 10 + (3 * keys) / 100_000, aim: 10 + keys / 60_000 };
  const memory = used.map(({ name, must, peakMb: value, cpuSeconds }) => {
    const more = { aim: must / 2, lessIsBetter: true, seen: `${cpuSeconds.toFixed(1)} s of CPU` };
    return { what: `${what}, MB of ${name}`, value, must, ...more };
  });
  return [{ what: `${what}, seconds`, ...seconds, lessIsBetter: true, ...(seen && { seen }) }, ...memory];
}

/** Makes a record with four grants, of which two end, with usage, open holds and one that was captured. Gives its id. */
async function makeCopied(client: Keytally, workspaceId: string): Promise<string> {
  const of = { workspaceId, name: 'copied', kind: { records: 1, hasGrants: true } };
  const [key = ''] = await keysOfRecord(client, of, 0);
  const held = async (usage: string) =>
    (await client.verify({ key, billing: { usage, hold: { expiresIn: 86_400 } } })).hold!.id;
  for (const usage of ['0.5', '2000000.25']) await client.verify({ key, billing: { usage } });
  for (const usage of ['3', '700000']) await held(usage);
  await client.holds.capture({ holdId: await held('2'), usage: '1.5' });
  return (await client.billing.get({ workspaceId, externalMeterId: 'copied-0' })).billing.id;
}

/** What a record says of its credits, and what its open holds reserve until when. */
async function stateOf(client: Keytally, bid: string): Promise<string> {
  const { billing: of } = await client.billing.getById({ bid });
  const { holds } = await client.holds.list({ bid });
  const held = holds.map(({ credits, expiresAt }) => `${credits} until ${expiresAt}`).toSorted();
  return [of.totalCredits, of.usedCredits, of.availableCredits, of.expiredCredits, ...held].join(', ');
}

/** Empties Redis, and waits until every shard is open again; those that are answer meanwhile. Tells since when, and how many calls failed. */
async function emptied({ redis, keys }: World, client: Keytally): Promise<string> {
  const began = performance.now();
  let [firstMs, failed, calls] = [NaN, 0, 0];
  // Asynchronously: with so many keys a plain FLUSHALL would answer too late.
  await redis.node(0).client.flushall('ASYNC');
  for (let open = 0; open < ALL_SHARDS.length;) {
    await sleep(LOOK_EVERY_MS);
    const shards = await openShards(redis, 1_000);
    const key = keys.findLast((one) => shards.has(keyShard(one)!));
    if (key && calls++ === 0) firstMs = performance.now() - began;
    if (key) await requireValid(client, key).catch(() => failed++);
    open = shards.size;
    showProgress('shards open', open, ALL_SHARDS.length);
  }
  return `the first shard after ${(firstMs / 1000).toFixed(1)} s, then ${failed} of ${calls} calls failed`;
}

async function requireValid(client: Keytally, key: string): Promise<string | undefined> {
  const { status, billing } = await client.verify({ key });
  if (status !== 'VALID') throw new StackError(`a key is ${status}`);
  return billing?.usedCredits;
}

/** An open hold of a record, which came back, can be captured. */
async function requireCaptured(client: Keytally, bid: string): Promise<void> {
  const { holds } = await client.holds.list({ bid });
  await client.holds.capture({ holdId: holds[0]!.id, usage: holds[0]!.credits });
  const left = (await client.holds.list({ bid })).holds;
  if (left.length !== holds.length - 1) throw new StackError(`${bid} still has ${left.length} holds`);
}

async function command({ env }: World, name: 'rebuild' | 'reconcile'): Promise<void> {
  const path = join(checkout, `apps/api/commands/${name}.ts`);
  const [code] = (await once(spawn(process.execPath, [path], { env, stdio: 'inherit' }), 'exit')) as [number];
  if (code !== 0) throw new StackError(`${name} ended with ${code}`);
}
