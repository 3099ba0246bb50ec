import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { freePorts, reservePort } from '../../apps/stack/process/ports.ts';
import { start, untilReady, type Program, type Started } from '../../apps/stack/process/program.ts';
import { ensureRedis, redisProgram } from '../../apps/stack/servers/redis.ts';
import { atEnd } from './at-end.ts';
import { eventually } from './eventually.ts';

/** One server of a test cluster. */
export type Member = { program: Program; running: Started; client: Redis; address: string; log: string };

const PRIMARIES = 3;
const SLOTS = 16_384;

// A server of a busy machine stands still for seconds, and is not to be replaced for it.
const NODE_TIMEOUT_MS = 10_000;

/** Starts three primaries, each with a replica, as a real Redis Cluster. Members i and i + 3 hold the same slots at first. */
export async function startRedisCluster(folder: string): Promise<Member[]> {
  const binary = await ensureRedis(() => {});
  const ports: number[] = [];
  while (ports.length < 2 * PRIMARIES) {
    // A member's cluster bus listens 10000 above, and must stay below the ports that Linux gives to connections.
    const [port = 0] = await freePorts(1, [], 22_700);
    if (await reservePort(port + 10_000)) ports.push(port);
  }
  const members = await Promise.all(ports.map((port) => startMember(binary, folder, port)));
  atEnd(async () => {
    for (const member of members) member.client.disconnect();
    await Promise.all(members.map(kill));
    rmSync(folder, { recursive: true, force: true });
  });
  const [first] = members as [Member];
  // Servers that meet with one epoch settle who has which, but only among primaries. A replica that keeps the epoch of its
  // primary takes no higher one in a takeover, and no other server then gives it the slots.
  for (const [i, { client }] of members.entries()) await client.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
  for (const { program } of members) await first.client.cluster('MEET', '127.0.0.1', program.port);
  for (let i = 0; i < PRIMARIES; i++) {
    const from = Math.floor((i * SLOTS) / PRIMARIES);
    const to = Math.floor(((i + 1) * SLOTS) / PRIMARIES) - 1;
    await members[i]!.client.cluster('ADDSLOTSRANGE', from, to);
  }
  for (let i = 0; i < PRIMARIES; i++) {
    const primaryId = await members[i]!.client.cluster('MYID');
    // A member can only follow one that it knows.
    await until(async () => String(await members[i + PRIMARIES]!.client.cluster('NODES')).includes(primaryId));
    await members[i + PRIMARIES]!.client.cluster('REPLICATE', primaryId);
  }
  for (const member of members)
    await until(async () => (await member.client.cluster('INFO')).includes('cluster_state:ok'));
  for (const replica of members.slice(PRIMARIES)) await until(() => isInSync(replica));
  return members;
}

/** Starts a killed member again. */
export async function restart(member: Member): Promise<void> {
  member.running = await start(member.program, member.log);
  await untilReady(member.program, member.running, member.log);
}

export async function kill(member: Member): Promise<void> {
  process.kill(member.running.pid, 'SIGKILL');
  await member.running.ended;
}

/** The servers that hold a shard. */
export async function pairOf(members: Member[], shard: number): Promise<{ primary: Member; replica: Member }> {
  const { client } = members[0]!;
  const slot = await client.cluster('KEYSLOT', keyspace.meta(shard));
  let pair: (Member | undefined)[] = [];
  await until(async () => {
    const ranges = await client.cluster('SLOTS');
    const [, , ...servers] = ranges.find(([first, last]) => first <= slot && slot <= last)!;
    pair = servers.map((server) => members.find(({ program }) => program.port === server[1]));
    // For a moment CLUSTER SLOTS leaves out a server that was started again.
    return ranges.every((range) => range.length === 4);
  });
  return { primary: pair[0]!, replica: pair[1]! };
}

/** Whether a replica is connected to its primary and up to date. */
export async function isInSync(replica: Member): Promise<boolean> {
  const info = await replica.client.info('replication');
  return /role:slave/.test(info) && /master_link_status:up/.test(info);
}

async function isPrimary(member: Member): Promise<boolean> {
  return /role:master/.test(await member.client.info('replication'));
}

/** Makes a replica the primary, if the cluster has not done so by itself. */
export async function takeOver(replica: Member): Promise<void> {
  await replica.client.cluster('FAILOVER', 'TAKEOVER').catch(async (error: unknown) => {
    if (!(await isPrimary(replica))) throw error;
  });
  await until(() => isPrimary(replica));
}

/** Waits for what a server may not be able to answer yet. */
export function until(look: () => Promise<boolean>): Promise<boolean> {
  return eventually(look.toString(), () => look().catch(() => false));
}

async function startMember(binary: string, folder: string, port: number): Promise<Member> {
  const plain = redisProgram({ binary, folder: join(folder, String(port)), port, settings: { appendfsync: 'no' } });
  const clusterArgs = ['--cluster-enabled', 'yes', '--cluster-node-timeout', String(NODE_TIMEOUT_MS)];
  const more = ['--cluster-replica-validity-factor', '0', '--repl-diskless-sync-delay', '0', '--databases', '1'];
  const program = { ...plain, args: [...plain.args, ...clusterArgs, ...more] };
  const log = join(folder, `${port}.log`);
  const running = await start(program, log);
  await untilReady(program, running, log);
  const client = new Redis(port, '127.0.0.1', { maxRetriesPerRequest: null });
  client.on('error', () => {});
  return { program, running, client, address: `127.0.0.1:${port}`, log };
}
