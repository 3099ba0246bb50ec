import { execFile } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { connectPostgres } from '../shared/stores/postgres.ts';
import { checkout } from '../apps/stack/process/home.ts';
import { freePorts, isFree } from '../apps/stack/process/ports.ts';
import { loadOf } from './contenders.ts';
import { onOwnCore } from './cores.ts';
import { creditsOverspent, rateOverAdmitted } from './exact.ts';
import { mediansOf, runRounds, type Contender } from './rounds.ts';
import type { Stage } from './stage.ts';
import { CREDITS_CALLS, RATE } from './world.ts';
import { load } from './wrk.ts';

export type PeerResult = {
  name: string;
  perSecond: number;
  p50Us: number;
  p99Us: number;
  /** Calls that passed above the credits, and above the rate limit, under load. */
  credits: number;
  rate: number;
};
type Peer = { name: string; script: string; env: Record<string, string> };
type Running = { url: string; keys: string[] };

const home = join(checkout, 'bench/peers');
const MANY = 1e9;

/** Measures other ways to check keys from Node under the same load: how fast and how exact they are. */
export async function measurePeers(stage: Stage, how: { rounds: number; seconds: number }): Promise<PeerResult[]> {
  if (!existsSync(join(home, 'node_modules'))) {
    console.log('installing better-auth and rate-limiter-flexible');
    await promisify(execFile)('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: home });
  }
  const redis = (database: number) => `${stage.servers.redisUrl}/${database}`;
  const sql = connectPostgres(stage.servers.postgresUrl('postgres'), { max: 1 });
  await sql`create database better_auth`;
  await sql.end();
  const DATABASE_URL = stage.servers.postgresUrl('better_auth');
  const peers: Peer[] = [
    { name: 'rate-limiter-flexible', script: 'hand-written.ts', env: { REDIS_URL: redis(201) } },
    { name: 'better-auth, Redis', script: 'better-auth.ts', env: { STORAGE: 'redis', REDIS_URL: redis(202) } },
    { name: 'better-auth, Postgres', script: 'better-auth.ts', env: { STORAGE: 'postgres', DATABASE_URL } },
  ];

  const contenders: Contender[] = [];
  for (const peer of peers) {
    const { url, keys } = await startPeer(stage, peer, 'load', { KEYS: '100' });
    const bodies = join(stage.folder, `bodies-${peer.script}-${contenders.length}`);
    writeFileSync(bodies, keys.map((key) => `${JSON.stringify({ key })}\n`).join(''));
    contenders.push({
      name: peer.name,
      pids: { server: stage.pidOf(`${peer.name} load`) },
      load: (seconds) => load({ ...loadOf({ bodies, token: 'none' }, url), seconds }),
    });
  }
  const few = { ...how, rounds: Math.min(3, how.rounds) };
  const measured = mediansOf([await onOwnCore(stage, contenders, () => runRounds('peers', contenders, few))]);
  const results: PeerResult[] = [];
  for (const peer of peers) {
    await stage.supervisor.remove(`${peer.name} load`);
    const spent = await startPeer(stage, peer, 'credits', { KEYS: '1', REMAINING: String(CREDITS_CALLS) });
    const credits = await creditsOverspent(limited(stage, spent), CREDITS_CALLS);
    await stage.supervisor.remove(`${peer.name} credits`);
    const limitedRate = await startPeer(stage, peer, 'rate', { KEYS: '1', RATE: String(RATE) });
    const rate = await rateOverAdmitted(limited(stage, limitedRate), RATE);
    await stage.supervisor.remove(`${peer.name} rate`);
    const { perSecond, p50Us, p99Us } = measured.get(peer.name)!;
    results.push({ name: peer.name, perSecond, p50Us, p99Us, credits, rate });
  }
  return results;
}

function limited({ folder }: Stage, { url, keys }: Running) {
  return { url, token: 'none', folder, body: JSON.stringify({ key: keys[0]! }) };
}

async function startPeer(stage: Stage, peer: Peer, purpose: string, env: Record<string, string>): Promise<Running> {
  const [port = 0] = await freePorts(1);
  const keysFile = join(stage.folder, `keys-${port}`);
  await stage.supervisor.add({
    name: `${peer.name} ${purpose}`,
    port,
    command: process.execPath,
    args: [join(home, peer.script)],
    env: {
      PATH: process.env.PATH,
      PORT: String(port),
      KEYS_FILE: keysFile,
      REMAINING: String(MANY),
      ...peer.env,
      ...env,
    },
    isReady: async () => !(await isFree(port)),
    stopSignal: 'SIGTERM',
    stopWithinMs: 5_000,
  });
  return { url: `http://127.0.0.1:${port}`, keys: readFileSync(keysFile, 'utf8').trim().split('\n') };
}
