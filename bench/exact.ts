import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from './wrk.ts';

/** A key with limited credits or a rate limit, and the request that uses it. */
export type Limited = { url: string; token: string; body: string; folder: string };

const SECONDS = 3;

/** Calls with one key as often as possible; gives how many calls passed above its credits. */
export async function creditsOverspent(limited: Limited, calls: number): Promise<number> {
  return (await validCalls(limited)) - calls;
}

/** The same for a rate limit, of which one second's allowance may be used at once. */
export async function rateOverAdmitted(limited: Limited, perSecond: number): Promise<number> {
  const began = performance.now();
  const valid = await validCalls(limited);
  const seconds = (performance.now() - began) / 1000;
  return Math.max(0, valid - Math.ceil(perSecond * (seconds + 1)));
}

async function validCalls({ url, token, body, folder }: Limited): Promise<number> {
  const bodies = join(folder, 'bodies-exact');
  writeFileSync(bodies, `${body}\n`);
  return (await load({ url, bodies, token, connections: 64, seconds: SECONDS, countValid: true })).valid;
}
